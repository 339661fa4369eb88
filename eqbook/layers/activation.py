"""Pointwise nonlinearities."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from eqbook._checks import check_int
from eqbook.layers.layer import Layer

MOST_NODES = 256  # of a quadrature: smooth functions need fewer, and others gain little


@dataclass(frozen=True)
class Relu(Layer):
    r"""Rectified linear unit, $\sigma(u) = \max(u, 0)$."""


@dataclass(frozen=True)
class Erf(Layer):
    r"""Error function, $\sigma(u) = \frac{2}{\sqrt\pi} \int_0^u e^{-s^2} ds$."""


@dataclass(frozen=True)
class Activation(Layer):
    r"""Any nonlinearity $\sigma$ given as a function; its dual is computed by quadrature.

    For a function that is analytic but for a kink at 0, such as tanh, GELU, SELU or a leaky ReLU, the error falls
    exponentially in the number of nodes, the more slowly the larger the variance of the inputs: with 48 nodes it is
    below 1e-7 for standard deviations up to 2, and below 1e-6 for 3. A function with a kink elsewhere, such as ReLU6,
    is integrated with an error of about one over the number of nodes where inputs reach the kink; compare two numbers.

    Args:
        function: $\sigma$, acting entry by entry, differentiable by JAX, for example `jnp.tanh` or `jax.nn.gelu`.
        nodes: radii of the quadrature, see `eqbook.kernels.quadrature_dual`; time grows with their square.

    Raises:
        ValueError: if `function` is not an elementwise function of JAX arrays, or `nodes` is not an integer from 1 to
            256.
    """

    function: Callable[[Float[Array, "..."]], Float[Array, "..."]]
    nodes: int = 48

    def __post_init__(self) -> None:
        if not callable(self.function) or isinstance(self.function, type):
            raise ValueError(f"Activation: `function`: expected a function such as jnp.tanh, got {self.function!r}.")
        check_int("Activation: nodes", self.nodes, 1)
        if self.nodes > MOST_NODES:
            raise ValueError(
                f"Activation: `nodes`: expected at most {MOST_NODES}, got {self.nodes}; more only take longer."
            )
        try:
            hash(self.function)
            out = jax.eval_shape(self.function, jax.ShapeDtypeStruct((2, 3), jnp.float32))
            shape, dtype = out.shape, out.dtype
        except Exception as error:
            raise ValueError(
                f"Activation: `function`: expected an elementwise function of JAX arrays such as jnp.tanh, got "
                f"{self.function!r}, which fails on one: {type(error).__name__}."
            ) from error
        if shape != (2, 3) or not jnp.issubdtype(dtype, jnp.floating):
            raise ValueError(
                f"Activation: `function`: expected an elementwise function with real values, got {self.function!r}, "
                f"which makes {dtype}{shape} of float32(2, 3)."
            )
        if not _is_elementwise(self.function):
            raise ValueError(
                f"Activation: `function`: expected an elementwise function, got {self.function!r}, whose value at one "
                "entry depends on the others; what mixes entries is no activation."
            )


def _is_elementwise(function: Callable[[Array], Array]) -> bool:
    """Whether numbers have the same values together and each on its own."""
    with jax.ensure_compile_time_eval():  # also where a network is made inside of jit
        places = jnp.array([-1.5, 0.25, 2.0])
        try:
            alone = np.array([function(place) for place in places])
        except Exception:  # noqa: BLE001 - a function of an axis, which a number has not
            return False
        return np.allclose(np.asarray(function(places)), alone, rtol=1e-5, atol=1e-6, equal_nan=True)

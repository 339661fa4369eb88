"""Pointwise nonlinearities."""

from collections.abc import Callable
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from eqbook._checks import check_int
from eqbook._identity import numbers_in
from eqbook.layers.layer import Layer

MOST_NODES = 256  # of a quadrature: smooth functions need fewer, and others gain little


@dataclass(frozen=True)
class Relu(Layer):
    r"""Rectified linear unit, $\sigma(u) = \max(u, 0)$."""


@dataclass(frozen=True)
class Erf(Layer):
    r"""Error function, $\sigma(u) = \frac{2}{\sqrt\pi} \int_0^u e^{-s^2} ds$.

    Its dual has a closed form. On the sphere the kernels have the error of a rule, see `LiftS2`: for signals of
    standard deviation above 20 a few parts in a thousand of the NTK, and up to a fifth in the worst cases.
    """


@dataclass(frozen=True)
class Activation(Layer):
    r"""Any nonlinearity $\sigma$ given as a function; its dual is computed by quadrature.

    For a function that is analytic but for a kink at 0 and grows no faster than a power, such as tanh, GELU, SELU or a
    leaky ReLU, the error falls exponentially in the number of nodes, the more slowly the larger the variance of the
    inputs. For these four, and others that change as slowly, in float64 48 nodes leave a relative error below 1e-7 for
    standard deviations up to 2, and below 1e-6 for 3; in float32 rounding is larger. $\sigma(\beta u)$ takes as many
    nodes at a standard deviation $s$ as $\sigma$ at $\beta s$: tanh(4u) errs by 3e-5 at 2, sin(5u) by 1e-3. A function
    with a kink elsewhere, such as ReLU6, is integrated with an error of about one over the number of nodes where inputs
    reach the kink: compare two numbers. Variables are cut off at 9.5 standard deviations, which a function such as exp
    notices at standard deviations above 2. Where the nodes leave an error of more than 5 %, kernels are NaN, and `gram`
    raises an error: tanh, of inputs with a standard deviation above 64, such as pixels from 0 to 255. A function may
    jump at 0, as a step does; $\sigma'$ is then that of JAX, to which the jump does not contribute, and so is the NTK.
    Kernels of one that jumps elsewhere have no gradients in the inputs to rely on.

    Args:
        function: $\sigma$, acting entry by entry, differentiable by JAX, for example `jnp.tanh` or `jax.nn.gelu`. It is
            traced once where a program is compiled: of a value outside of it that changes later, kernels keep the
            first, as finite networks do inside of `jit`; `apply` outside of it takes the new one. Make the activation
            anew after a change, and all have the new one.
        nodes: radii of the quadrature, see `eqbook.kernels.quadrature_dual`; time grows with their square.

    Raises:
        ValueError: if `function` is not an elementwise function of JAX arrays, or `nodes` is not an integer from 1 to
            256.
    """

    function: Callable[[Float[Array, "..."]], Float[Array, "..."]]
    nodes: int = 48
    _held: tuple[float, ...] = field(init=False, repr=False)  # programs of equal layers are shared

    def __post_init__(self) -> None:
        if not callable(self.function) or isinstance(self.function, type):
            raise ValueError(f"Activation: `function`: expected a function such as jnp.tanh, got {self.function!r}.")
        object.__setattr__(self, "nodes", check_int("Activation: nodes", self.nodes, 1))
        if self.nodes > MOST_NODES:
            raise ValueError(
                f"Activation: `nodes`: expected at most {MOST_NODES}, got {self.nodes}; more only take longer."
            )
        self._try()
        try:
            held = tuple(numbers_in(self.function))
        except Exception:  # noqa: BLE001 - whatever reading an unknown object may raise
            held = ()
        object.__setattr__(self, "_held", held)

    def _try(self) -> None:
        """Raise unless the function acts entry by entry, with finite values and a derivative."""
        expected = (
            "Activation: `function`: expected an elementwise function of JAX arrays, with real values, such as "
            f"jnp.tanh, got {_name(self.function)}"
        )
        example = jax.ShapeDtypeStruct((2, 3), jnp.float32)
        try:
            hash(self.function)
            out = jax.eval_shape(self.function, example)
            shape, dtype = out.shape, out.dtype
        except Exception as error:
            raise ValueError(f"{expected}, which fails on one: {_cause(error)}") from error
        if shape != (2, 3) or not jnp.issubdtype(dtype, jnp.floating):
            raise ValueError(f"{expected}, which makes {dtype}{shape} of float32(2, 3).")
        with jax.ensure_compile_time_eval():  # also where a network is made inside of jit
            places = jnp.array([[1.5, -0.25, 2.0], [0.75, -2.0, 0.5]])
            try:
                alone = np.array([float(self.function(place.reshape(1, 1))[0, 0]) for place in places.ravel()])
                shapes = (2, 3), (1, 2, 1, 3)  # as vectors and as images come
                together = [np.asarray(self.function(places.reshape(shape)), float).ravel() for shape in shapes]
                jax.jvp(self.function, (places,), (places,))
            except Exception as error:
                raise ValueError(f"{expected}, which fails on one: {_cause(error)}") from error
        if not all(np.allclose(values, alone, rtol=1e-5, atol=1e-6, equal_nan=True) for values in together):
            raise ValueError(
                f"{expected}, whose value at one entry depends on the others; what mixes entries is no activation."
            )
        try:
            shape = jax.eval_shape(self.function, jax.ShapeDtypeStruct((), jnp.float32)).shape
        except Exception as error:
            raise ValueError(f"{expected}, which fails on a single number: {_cause(error)}") from error
        if shape != ():
            raise ValueError(f"{expected}, which makes an array of shape {shape} of a single number.")
        if not np.isfinite(alone).all():
            number = float(places.ravel()[np.flatnonzero(~np.isfinite(alone))[0]])
            raise ValueError(f"{expected}, which has no finite value at {number}; inputs have any sign.")


def _name(function: Callable) -> str:
    """The function in one line."""
    return " ".join(repr(function).split())


def _cause(error: Exception) -> str:
    """An error in one line."""
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else f"{type(error).__name__}."

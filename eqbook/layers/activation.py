"""Pointwise nonlinearities."""

from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import Array, Float

from eqbook._checks import check_int
from eqbook.layers.layer import Layer


@dataclass(frozen=True)
class Relu(Layer):
    r"""Rectified linear unit, $\sigma(u) = \max(u, 0)$."""


@dataclass(frozen=True)
class Erf(Layer):
    r"""Error function, $\sigma(u) = \frac{2}{\sqrt\pi} \int_0^u e^{-s^2} ds$."""


@dataclass(frozen=True)
class Activation(Layer):
    r"""Any nonlinearity $\sigma$ given as a function; its dual is computed by Gauss-Hermite quadrature.

    For an analytic function the error falls exponentially in the number of nodes; a function with a kink, such as a
    leaky ReLU, is integrated with an error of about one over that number.

    Args:
        function: $\sigma$, acting entry by entry, differentiable by JAX, for example `jnp.tanh` or `jax.nn.gelu`.
        nodes: quadrature nodes in each of the two dimensions.

    Raises:
        ValueError: if `function` cannot be called or `nodes` is not a positive integer.
    """

    function: Callable[[Float[Array, "..."]], Float[Array, "..."]]
    nodes: int = 48

    def __post_init__(self) -> None:
        if not callable(self.function) or isinstance(self.function, type):
            raise ValueError(f"Activation: `function`: expected a function such as jnp.tanh, got {self.function!r}.")
        check_int("Activation: nodes", self.nodes, 1)

"""The fully connected layer."""

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any

import jax

from eqbook._checks import check_int
from eqbook._shown import shown
from eqbook.layers.layer import Layer


def python_number(layer: str, name: str, value: Any) -> Any:
    """A known scalar of JAX as Python's number; anything else as it is.

    Raises:
        ValueError: naming the layer and the argument, if the value is abstract.
    """
    if isinstance(value, jax.core.Tracer):
        raise ValueError(
            f"{layer}: `{name}`: expected a known number, got {shown(value)}; layers are static, and their settings "
            "cannot be traced or differentiated: make a layer for each value, outside of `jit`."
        )
    return value.item() if isinstance(value, jax.Array) and value.ndim == 0 else value


def check_std(layer: str, name: str, value: float) -> float:
    """Return a standard deviation as a Python float if it is not negative and its square, the variance, is finite.

    A scalar of NumPy or JAX has a dtype of its own, which would win over that of the inputs: `np.sqrt(2)` is float64.

    Raises:
        ValueError: naming the layer and the argument.
    """
    value = python_number(layer, name, value)
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    try:
        std = float(value) if is_number else math.nan
    except OverflowError:  # an integer beyond all floating point numbers
        std = math.inf
    if not math.isfinite(std) or std < 0:
        raise ValueError(f"{layer}: `{name}`: expected a finite number >= 0, got {shown(value)}.")
    if math.isinf(std * std):
        raise ValueError(f"{layer}: `{name}`: expected a number with a finite square, the variance, got {value!r}.")
    return std


def check_weights(layer: Layer, outputs: str = "channels") -> None:
    """Plain Python numbers in place of a layer's number of outputs and standard deviations.

    The classes of layers are frozen: plain assignment is refused even in their own methods.

    Args:
        layer: with the attributes `W_std`, `b_std` and the next.
        outputs: name of the number of outputs.

    Raises:
        ValueError: naming the layer and the argument.
    """
    name = type(layer).__name__
    number = python_number(name, outputs, getattr(layer, outputs))
    object.__setattr__(layer, outputs, check_int(f"{name}: {outputs}", number, 1))
    for std in ("W_std", "b_std"):
        object.__setattr__(layer, std, check_std(name, std, getattr(layer, std)))


@dataclass(frozen=True)
class Dense(Layer):
    r"""Fully connected layer in NTK parametrisation, acting on the last axis.

    $z_i = \frac{\sigma_W}{\sqrt{n_{in}}} \sum_j W_{ij} x_j + \sigma_b b_i$ with $W_{ij}, b_i \sim N(0, 1)$.

    Args:
        features: number of outputs $n_{out}$. At infinite width only that of a network's last layer has a meaning.
        W_std: $\sigma_W$, standard deviation of the weights.
        b_std: $\sigma_b$, standard deviation of the bias. 0 means that the layer has no bias.

    Raises:
        ValueError: if `features` is not a positive integer or a standard deviation is negative or not finite.
    """

    features: int
    W_std: float = 1.0
    b_std: float = 0.0

    def __post_init__(self) -> None:
        check_weights(self, "features")

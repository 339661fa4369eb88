"""The convolutional layer."""

import math
from dataclasses import dataclass

from eqbook._checks import check_int
from eqbook._shown import shown
from eqbook.layers.dense import check_weights, python_number
from eqbook.layers.layer import Layer

PADDINGS = ("SAME", "VALID", "CIRCULAR")


def check_sides(layer: str, name: str, value: object) -> tuple[int, int]:
    """Return a pair of positive sizes (height, width).

    Raises:
        ValueError: naming the layer and the argument.
    """
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise ValueError(f"{layer}: `{name}`: expected two sizes (height, width), got {shown(value)}.")
    return tuple(check_int(f"{layer}: {name}", python_number(layer, name, side), 1) for side in value)


def check_padding(layer: str, value: object) -> None:
    """Raise unless a padding is one of those that there are.

    Raises:
        ValueError: naming the layer.
    """
    if not isinstance(value, str) or value not in PADDINGS:
        raise ValueError(f"{layer}: `padding`: expected one of {', '.join(PADDINGS)}, got {shown(value)}.")


@dataclass(frozen=True)
class Conv(Layer):
    r"""Convolution over pixels in NTK parametrisation.

    $z_i(t) = \frac{\sigma_W}{\sqrt{|F| n_{in}}} \sum_{y \in F} \sum_j W_{ij}(y)\, x_j(s t + y) + \sigma_b b_i$ with
    $W_{ij}(y), b_i \sim N(0, 1)$, filter positions $F$ and strides $s$.

    Args:
        channels: number of output channels.
        filter_shape: height and width of the filter.
        strides: steps of the filter.
        padding: what lies outside the image: `"SAME"` zeros, output of the input's size over the strides; `"VALID"`
            nothing, the filter stays inside; `"CIRCULAR"` the image again.
        W_std: $\sigma_W$, standard deviation of the weights.
        b_std: $\sigma_b$, standard deviation of the bias. 0 means that the layer has no bias.

    Raises:
        ValueError: if an argument is of the wrong kind.
    """

    channels: int
    filter_shape: tuple[int, int]
    strides: tuple[int, int] = (1, 1)
    padding: str = "SAME"
    W_std: float = 1.0
    b_std: float = 0.0

    def __post_init__(self) -> None:
        name = type(self).__name__
        check_weights(self)
        for sides in ("filter_shape", "strides"):
            object.__setattr__(self, sides, check_sides(name, sides, getattr(self, sides)))
        check_padding(name, self.padding)

    @property
    def fan(self) -> int:
        """Number of filter positions, $|F|$."""
        return math.prod(self.filter_shape)

"""Layers that gather pixels."""

from dataclasses import dataclass

from eqbook.layers.conv import check_sides
from eqbook.layers.layer import Layer


@dataclass(frozen=True)
class AvgPool(Layer):
    r"""Mean over windows of pixels, $z(t) = \frac{1}{|F|} \sum_{y \in F} x(s t + y)$, without padding.

    Args:
        window: height and width of the window $F$.
        strides: steps $s$ of the window; the window itself if not given.

    Raises:
        ValueError: if an argument is not a pair of positive sizes.
    """

    window: tuple[int, int]
    strides: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "window", check_sides("AvgPool", "window", self.window))
        strides = self.window if self.strides is None else self.strides
        object.__setattr__(self, "strides", check_sides("AvgPool", "strides", strides))


@dataclass(frozen=True)
class GlobalAvgPool(Layer):
    r"""Mean over all pixels, $z = \frac{1}{hw} \sum_t x(t)$."""


@dataclass(frozen=True)
class Flatten(Layer):
    r"""All pixels and channels in one vector."""

"""A body of layers on images as a list of steps, with everything resolved that is known before the data."""

from collections.abc import Sequence
from dataclasses import dataclass

from eqbook.kernels.rules import Rule, rule
from eqbook.kernels.spatial import borders
from eqbook.layers import Activation, Conv, Dense, Layer, Relu, Residual, Sequential

Interval = tuple[int, int]


@dataclass(frozen=True)
class Affine:
    r"""A layer with weights, $K' = \sigma_W^2 A(K) + \sigma_b^2$ with a mean $A$ over the filter's positions.

    Attributes:
        layer: `Dense` or `Conv`.
        low: how many pixels the filter reaches before its centre, in rows and columns.
        high: how many it reaches beyond.
        inside: rows and columns of the layer's input, counted in pixels of the image.
    """

    layer: Dense | Conv
    low: tuple[int, int] = (0, 0)
    high: tuple[int, int] = (0, 0)
    inside: tuple[Interval, Interval] = ((0, 0), (0, 0))


@dataclass(frozen=True)
class Pointwise:
    """A nonlinearity or normalisation.

    Attributes:
        rule: how it acts on kernels.
        index: its place among all pointwise steps.
        positive: whether no covariance can be negative in front of it.
    """

    rule: Rule
    index: int
    positive: bool


@dataclass(frozen=True)
class Branch:
    """A residual branch, added to its input."""

    steps: tuple


@dataclass(frozen=True)
class Program:
    """The steps of a body.

    Attributes:
        steps: `Affine`, `Pointwise` and `Branch`.
        inside: rows and columns of the output, counted in pixels of the image.
        grids: the same at each pointwise step.
    """

    steps: tuple
    inside: tuple[Interval, Interval]
    grids: tuple[tuple[Interval, Interval], ...]


class _Unknown(Exception):
    """A layer that the fast methods do not cover."""


class _Builder:
    def __init__(self, sides: tuple[int, int], strided: bool) -> None:
        self.sides, self.strided = sides, strided
        self.inside = tuple((0, side) for side in sides)
        self.positive = False  # whether no covariance can be negative here
        self.grids: list[tuple[Interval, Interval]] = []  # one for each pointwise step

    def steps(self, layers: Sequence[Layer]) -> tuple:
        return tuple(step for layer in layers for step in self.step(layer))

    def step(self, layer: Layer) -> tuple:
        if isinstance(layer, Sequential):
            return self.steps(layer.layers)
        if isinstance(layer, Dense):
            return (Affine(layer),)
        if isinstance(layer, Conv):
            return (Affine(layer) if self.strided else self.conv(layer),)
        if isinstance(layer, Residual):
            before = self.positive
            branch = Branch(self.steps(layer.branch.layers))
            self.positive &= before
            return (branch,)
        return (self.pointwise(layer),)

    def pointwise(self, layer: Layer) -> Pointwise:
        before = self.positive
        made = rule(layer, before)
        if made is None:
            raise _Unknown
        self.positive = isinstance(layer, Relu) or (before and not isinstance(layer, Activation))
        self.grids.append(self.inside)
        return Pointwise(made, len(self.grids) - 1, before)

    def conv(self, layer: Conv) -> Affine:
        sides = tuple(stop - start for start, stop in self.inside)
        if layer.strides != (1, 1) or (layer.padding == "CIRCULAR" and sides != self.sides):
            raise _Unknown
        if layer.padding != "VALID":
            low, high = zip(*borders(sides, layer.filter_shape, (1, 1), layer.padding), strict=True)
            return Affine(layer, low, high, self.inside)
        low = tuple((length - 1) // 2 for length in layer.filter_shape)
        high = tuple(length - 1 - before for length, before in zip(layer.filter_shape, low, strict=True))
        affine = Affine(layer, low, high, self.inside)
        cut = zip(self.inside, low, high, strict=True)
        self.inside = tuple((start + before, stop - beyond) for (start, stop), before, beyond in cut)
        return affine


def build(layers: Sequence[Layer], sides: tuple[int, int], strided: bool = False) -> Program | None:
    """The program of a body, or `None` if it holds a layer that the fast methods do not cover.

    Args:
        layers: the layers in front of the pooling or flattening; they fit the images.
        sides: height and width of the images.
        strided: whether the method handles strides, and does not need the geometry.
    """
    builder = _Builder(sides, strided)
    try:
        steps = builder.steps(layers)
        return Program(steps, builder.inside, tuple(builder.grids))
    except _Unknown:
        return None

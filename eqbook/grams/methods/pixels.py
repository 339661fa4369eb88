"""Networks on images that end with `Flatten`: a pixel of one input meets the same pixel of the other, and no more."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from eqbook.grams.methods.images import LANES, field_size
from eqbook.grams.methods.near import NearWalk, helps
from eqbook.grams.methods.program import Affine, Program
from eqbook.grams.methods.steps import Field, Pair, Scales, Walk, at, variances
from eqbook.kernels.spatial import borders, window_sum
from eqbook.layers import Conv

Features = tuple[Float[Array, "h w c n"], list[Scales]]


def _pad(step: Affine, field: Field) -> Field:
    """The field with the border that the filter reaches."""
    if not isinstance(step.layer, Conv):
        return field
    conv = step.layer
    pads = borders(field.shape[:2], conv.filter_shape, conv.strides, conv.padding)
    return jnp.pad(field, [*pads, (0, 0)], mode="wrap" if conv.padding == "CIRCULAR" else "constant")


def _gather(step: Affine, padded: Field) -> Field:
    """The mean over a filter's positions of a field with its border."""
    if not isinstance(step.layer, Conv):
        return padded
    conv = step.layer
    return window_sum(padded, conv.filter_shape, conv.strides, "VALID", 1) * (1 / conv.fan)


def _mean(step: Affine, field: Field) -> Field:
    """The mean over a filter's positions."""
    return _gather(step, _pad(step, field))


def near_walk(
    x1: Float[Array, "h w c pairs"],
    x2: Float[Array, "h w c pairs"],
    scales: Callable[[int], tuple[Scales, Scales]],
    ntk: bool,
    true: Bool[Array, ""],
) -> NearWalk:
    """The walk of equal pixels of images that are near each other.

    Args:
        x1: images.
        x2: images near these.
        scales: of both at a pointwise step, given its index.
        ntk: whether the NTK is asked for.
        true: the traced value `True`.
    """
    return NearWalk(_pad, _gather, scales, ntk, true, x1, x2)


@dataclass(frozen=True)
class Pixels:
    """Kernels in front of the head for pairs of images, summed over equal pixels.

    Attributes:
        program: steps of the body.
        near: whether the pairs are near each other.
    """

    program: Program
    near: bool = False
    by_rows: ClassVar[bool] = True
    width: ClassVar[int] = LANES
    apart: ClassVar[bool] = False

    def prepare(self, x: Float[Array, "n h w c"]) -> Features:
        """Images with the batch axis last, where vector units want it, and their scales."""
        x = jnp.moveaxis(x, 0, -1)
        return x, variances(self.program.steps, jnp.sum(x * x, 2) / x.shape[2], _mean)[1]

    def pairs(self, one: Features, two: Features, true: Bool[Array, ""], ntk: bool, part: None = None) -> Pair:
        """NNGP and NTK, `[pairs]`, for features with the pairs along their last axis."""
        (x1, s1), (x2, s2) = one, two

        def scales(index: int) -> tuple[Scales, Scales]:
            return s1[index], s2[index]

        if self.near:
            pair = near_walk(x1, x2, scales, ntk, true).kernels(self.program.steps)
        else:
            start = jnp.sum(x1 * x2, 2) / x1.shape[2], None
            pair = Walk(_pad, _gather, scales, ntk, true).run(self.program.steps, start)
        return at(pair, lambda field: jnp.mean(field, (0, 1)))

    def nearer(self) -> "Pixels | None":
        """For pairs that are near each other."""
        return replace(self, near=True) if helps(self.program.steps) else None

    def terms(self, shape: tuple[int, ...], pairs: int) -> int:
        """Pixels are not summed in parts."""
        return 1

    def lanes(self, shape: tuple[int, ...]) -> int:
        """One array of the recursion fits the second-level cache several times."""
        return max(1, field_size() // (shape[0] * shape[1]))

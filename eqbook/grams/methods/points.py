"""Vectors pair by pair, for the finite groups that act on them."""

from dataclasses import dataclass, replace
from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from eqbook.grams.methods.images import LANES
from eqbook.grams.methods.near import NearWalk, helps
from eqbook.grams.methods.program import Program
from eqbook.grams.methods.steps import Pair, Scales, Walk, same, variances

Features = tuple[Float[Array, "d n"], list[Scales]]
ENTRIES = 2**18  # of an array of inputs that are taken at a time


@dataclass(frozen=True)
class Points:
    """Kernels in front of the head for pairs of vectors.

    Attributes:
        program: steps of the body.
        near: whether the pairs are near each other.
    """

    program: Program
    near: bool = False
    by_rows: ClassVar[bool] = False
    width: ClassVar[int] = LANES
    apart: ClassVar[bool] = False

    def prepare(self, x: Float[Array, "n d"]) -> Features:
        """Vectors with the batch axis last, and their scales."""
        return x.T, variances(self.program.steps, jnp.mean(x * x, -1), same)[1]

    def pairs(self, one: Features, two: Features, true: Bool[Array, ""], ntk: bool, part: None = None) -> Pair:
        """NNGP and NTK, `[pairs]`, for features with the pairs along their last axis."""
        (x1, s1), (x2, s2) = one, two
        common = same, same, lambda index: (s1[index], s2[index]), ntk, true
        if self.near:
            nngp, theta = NearWalk(*common, x1, x2).kernels(self.program.steps)
        else:
            nngp, theta = Walk(*common).run(self.program.steps, (jnp.mean(x1 * x2, 0), None))
        return nngp, jnp.zeros_like(nngp) if ntk and theta is None else theta

    def nearer(self) -> "Points | None":
        """For pairs that are near each other."""
        return replace(self, near=True) if helps(self.program.steps) else None

    def terms(self, shape: tuple[int, ...], pairs: int) -> int:
        """The kernel is taken whole."""
        return 1

    def lanes(self, shape: tuple[int, ...]) -> int:
        """The inputs of these pairs fit the second-level cache."""
        return max(1, ENTRIES // shape[0])

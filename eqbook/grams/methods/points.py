"""Vectors pair by pair, for the finite groups that act on them."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from eqbook.grams.methods import near
from eqbook.grams.methods.images import LANES
from eqbook.grams.methods.program import Program
from eqbook.grams.methods.steps import Pair, Scales, Walk, same, variances

Features = tuple[Float[Array, "d n"], list[Scales], Float[Array, " n"]]
ENTRIES = 2**18  # of an array of inputs that are taken at a time


@dataclass(frozen=True)
class Points:
    """Kernels in front of the head for pairs of vectors.

    Attributes:
        program: steps of the body.
    """

    program: Program
    by_rows: ClassVar[bool] = False
    width: ClassVar[int] = LANES
    apart: ClassVar[bool] = False

    def prepare(self, x: Float[Array, "n d"]) -> Features:
        """Vectors with the batch axis last, their scales and their sizes."""
        squares = jnp.mean(x * x, -1)
        return x.T, variances(self.program.steps, squares, same)[1], near.size(squares)

    def pairs(self, one: Features, two: Features, true: Bool[Array, ""], ntk: bool, part: None = None) -> Pair:
        """NNGP and NTK, `[pairs]`, for features with the pairs along their last axis."""
        (x1, s1, size1), (x2, s2, size2) = one, two
        with_others = same, same, lambda index: (s1[index], s2[index]), ntk, true
        start = jnp.mean(x1 * x2, 0), None
        nngp, theta = Walk(*with_others).run(self.program.steps, start)
        pair = nngp, jnp.zeros_like(nngp) if ntk and theta is None else theta
        if not near.helps(self.program.steps):
            return pair
        semivariance = near.semivariance(x1, x2, size1, size2)
        walk = near.NearWalk(*with_others, (size1, size2))
        kernels = partial(walk.run, self.program.steps, (*start, semivariance))
        return near.where_near(near.is_near(semivariance), lambda: kernels()[:2], pair)

    def terms(self, shape: tuple[int, ...], pairs: int) -> int:
        """The kernel is taken whole."""
        return 1

    def lanes(self, shape: tuple[int, ...]) -> int:
        """The inputs of these pairs fit the second-level cache."""
        return max(1, ENTRIES // shape[0])

r"""Networks on the sphere and on SO(3), by the reduction of `eqbook.kernels.so3`.

The kernel of a pair is a function of the relative rotation: one matrix product gives the correlation of many pairs at
all rotations of a quadrature rule, every layer acts on it point by point, and pooling is a weighted mean. One input
with itself has a rule of its own (see `identity_points`), on which its kernel is smooth. On a finite group of rotations
all of this is a sum over its elements.
"""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from eqbook.grams import workers
from eqbook.grams.methods.images import LANES
from eqbook.grams.methods.program import Program
from eqbook.grams.methods.steps import Field, Pair, Scales, Walk, at, same, stored, variances
from eqbook.kernels.so3 import (
    identity_rule,
    rotation_points,
    rotation_rule,
    separable_correlation,
    separable_rule,
    sphere_coefficients,
)

Features = tuple[Float[Array, "coefficients channels n"], list[Scales]]


@dataclass(frozen=True)
class Sphere:
    """Kernels in front of the head for pairs of signals on the sphere, averaged over rotations.

    Attributes:
        program: steps of the body, with a dense layer in place of each layer on the sphere or on SO(3).
        bandwidth: degrees of the signals that are kept.
        size: of the quadrature rule, or the name of the group of rotations.
    """

    program: Program
    bandwidth: int
    size: int | str
    width: ClassVar[int] = LANES
    apart: ClassVar[bool] = True

    @property
    def by_rows(self) -> bool:
        """On a group a pair takes so little that picking its inputs, all their coefficients, would take longer."""
        return isinstance(self.size, str)

    def prepare(self, x: Float[Array, "n rows columns channels"]) -> Features:
        """Coefficients with the batch axis last, and the scales of the constant variances."""
        f = jnp.moveaxis(sphere_coefficients(x, self.bandwidth), 0, -1)
        norm = jnp.sum(f * f, (0, 1)) / (4 * np.pi * f.shape[1])
        return f, variances(self.program.steps, norm, same)[1]

    def pairs(self, one: Features, two: Features, true: Bool[Array, ""], ntk: bool, part: None = None) -> Pair:
        """NNGP and NTK, `[pairs]`, for features with the pairs along their last axis."""
        # Stored before they are used many times over: the inputs that were picked, and the parts of the series.
        features = stored(true, lambda inputs: self._features(*inputs), (one, two))
        return self.at_size(self.size, features, one, two, true, ntk)

    def at_size(
        self, size: int | str, features: Field, one: Features, two: Features, true: Bool[Array, ""], ntk: bool
    ) -> Pair:
        """NNGP and NTK of pairs by a rule, from the products of their coefficients, `[features, pairs]`."""
        if isinstance(size, str):
            table, weights = rotation_rule(self.bandwidth, size)
            return self._mean(at_points(features, table), one, two, true, ntk, weights)
        rule = separable_rule(self.bandwidth, size)
        start = separable_correlation(features, rule, partial(stored, true, jnp.concatenate))
        return self._mean(start, one, two, true, ntk, rule.weights[: 2 * size**2])

    def itself(self, one: Features, true: Bool[Array, ""], ntk: bool) -> Pair:
        """NNGP and NTK of each input with itself, `[pairs]`."""
        table, weights = identity_rule(self.bandwidth, self.size)
        return self._mean(at_points(self._features(one, one), table), one, one, true, ntk, weights)

    def _features(self, one: Features, two: Features) -> Float[Array, "features pairs"]:
        """Products of coefficients of one degree, as `correlation_features`, with the pairs last."""
        blocks = []
        for degree in range(self.bandwidth):
            rows = slice(degree**2, (degree + 1) ** 2)
            product = jnp.sum(one[0][rows, None] * two[0][None, rows], 2)  # [2l+1, 2l+1, pairs]
            blocks.append(product.reshape(-1, product.shape[-1]))
        return jnp.concatenate(blocks) / (4 * np.pi * one[0].shape[1])

    def _mean(self, start: Field, one: Features, two: Features, true: Array, ntk: bool, weights: np.ndarray) -> Pair:
        """The recursion from the correlation at all points, `[points, pairs]`, and the mean over them.

        The weights may be those of the first points, if they repeat.
        """
        walk = Walk(same, same, lambda index: (one[1][index], two[1][index]), ntk, true)
        pair = walk.run(self.program.steps, (start, None))
        weights = jnp.asarray(weights, start.dtype)[:, None]

        def mean(field: Field) -> Field:
            # No matrix product: on a CPU it adds thousands of numbers in one row, and loses two digits.
            return jnp.sum(weights * field.reshape(-1, *weights.shape[:1], field.shape[1]).sum(0), 0)

        return at(pair, mean)

    def nearer(self) -> None:
        """Pairs that are near each other are computed as all others."""

    def terms(self, shape: tuple[int, ...], pairs: int) -> int:
        """The kernel is taken whole."""
        return 1

    def lanes(self, shape: tuple[int, ...]) -> int:
        """One array of the recursion takes 1 MiB in float32 on a CPU, so that matrix products are large."""
        return max(1, workers.entries(2**18, 2**25) // len(rotation_points(self.size)[1]))


def at_points(features: Float[Array, "features pairs"], table: np.ndarray) -> Float[Array, "points pairs"]:
    r"""$k(R_a) = \sum_{lmn} M^l_{mn} D^l_{mn}(R_a)$, pairs last."""
    return jnp.matmul(jnp.asarray(table.T, features.dtype), features, precision="highest")

r"""Networks on the sphere with a quadrature rule for each pair, by the height of its peak.

What a nonlinearity makes of the correlation $k(R)$ of a pair is singular where $|k| = \sqrt{ab}$ behind relu, and
beyond all that a pair can reach, at $2|k| = \sqrt{(1 + 2a)(1 + 2b)}$, behind the error function. The *height* of a pair
is the largest ratio of both sides, over rotations and over all nonlinearities in front of the pooling. Below 1 the
integrand is analytic, and the error of a rule falls exponentially with its size, the faster the lower the height: often
most pairs need a small rule and few a large one.

Heights are taken at the points of the smallest rule, where they may be too low: measured for bandwidth 3 and size 4, on
noise by up to a fifth, and by almost a third for a signal of the highest degree alone with a rotated copy of itself.
Pairs are sorted by height, and a block of neighbours takes the rule that its highest one needs, so a pair may have a
larger rule than it needs, depending on the pairs beside it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from eqbook.grams import workers
from eqbook.grams.methods.program import Affine, Branch
from eqbook.grams.methods.sphere import Features, Sphere
from eqbook.grams.methods.steps import Field, Pair, at, stored
from eqbook.kernels.so3 import rotation_points, separable_correlation, separable_rule
from eqbook.layers.sphere import ByPeak as Rules


@dataclass(frozen=True)
class ByPeak(Sphere):
    """Kernels in front of the head for pairs of signals on the sphere, averaged over rotations.

    Attributes:
        rules: heights and the sizes of the rules that serve up to them.
    """

    rules: Rules

    @property
    def width(self) -> int:
        """Pairs that share a rule: on a CPU so few that fields at the points of most rules are in its cache."""
        return workers.entries(32, 8192)

    def lanes(self, shape: tuple[int, ...]) -> int:
        """Pairs that are sorted together, of which the heights are taken at once."""
        fit = workers.entries(2**20, 2**26) // len(rotation_points(self.rules[0][1])[1])
        return max(self.width, min(workers.entries(2**12, 2**18), fit))

    def pairs(self, one: Features, two: Features, true: Bool[Array, ""], ntk: bool, part: None = None) -> Pair:
        """NNGP and NTK, `[pairs]`, for features with the pairs along their last axis."""
        features = stored(true, lambda inputs: self._features(*inputs), (one, two))
        scales = one[1], two[1]
        height = jax.lax.stop_gradient(self.height(features, *scales, true))
        order = jnp.argsort(height)

        def in_order(leaf: Array) -> Array:
            return self._blocks(leaf[..., order])

        highest = in_order(height)[:, -1]
        bounds = np.array([bound for bound, _ in self.rules[:-1]])
        level = jnp.searchsorted(jnp.asarray(bounds, highest.dtype), highest)

        def by(size: int, item: Any) -> Pair:
            features, (one, two) = item
            return self.at_size(size, features, (None, one), (None, two), true, ntk)

        def kernels(job: Any) -> Pair:
            return jax.lax.switch(job[0], [partial(by, size) for _, size in self.rules], job[1])

        pair = jax.lax.map(kernels, (level, jax.tree.map(in_order, (features, scales))))

        def as_given(kernel: Array) -> Array:
            return jnp.zeros_like(height).at[order].set(kernel.ravel(), unique_indices=True)

        return at(pair, as_given)

    def itself(self, one: Features, true: Bool[Array, ""], ntk: bool) -> Pair:
        """NNGP and NTK of each input with itself, `[pairs]`, a block at a time."""
        pair = jax.lax.map(lambda block: super(ByPeak, self).itself(block, true, ntk), jax.tree.map(self._blocks, one))
        return at(pair, jnp.ravel)

    def _blocks(self, leaf: Float[Array, "... pairs"]) -> Float[Array, "blocks ... pairs"]:
        block = self.width if leaf.shape[-1] % self.width == 0 else leaf.shape[-1]
        return jnp.moveaxis(leaf.reshape(*leaf.shape[:-1], -1, block), -2, 0)

    def height(self, features: Field, one: Sequence, two: Sequence, true: Bool[Array, ""]) -> Float[Array, " pairs"]:
        """Of each pair, 0 if no nonlinearity is singular.

        Args:
            features: products of coefficients, `[features, pairs]`.
            one: scales of the first inputs at each nonlinearity.
            two: those of the second ones.
            true: the traced value `True`.
        """
        rule = separable_rule(self.bandwidth, self.rules[0][1])
        start = separable_correlation(features, rule, partial(stored, true, jnp.concatenate))
        found = [jnp.zeros(features.shape[1], features.dtype)]

        def walk(steps: Sequence, field: Field) -> Field:
            for step in steps:
                if isinstance(step, Affine):
                    field = step.layer.W_std**2 * field + step.layer.b_std**2
                elif isinstance(step, Branch):
                    field = field + walk(step.steps, field)
                else:
                    scales = one[step.index], two[step.index]
                    if step.rule.cosine is not None:
                        found.append(jnp.max(jnp.abs(step.rule.cosine(*scales, field)), 0))
                    field = step.rule.dual(*scales, field)[0]
            return field

        walk(self.program.steps, start)
        return jnp.stack(found).max(0)

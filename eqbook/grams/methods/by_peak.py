r"""Networks on the sphere with a quadrature rule for each pair, by the height of its peak.

The integrand is $\varphi(k(R))$, with the correlation $k$ of the two signals and a function $\varphi$ that is singular
where two inputs would coincide, $|k| = \sqrt{ab}$ behind relu, $2|k| = \sqrt{(1 + 2a)(1 + 2b)}$ behind the error
function. The *height* of a pair is the largest value of the ratio of both sides. Below 1 the integrand is analytic, and
the error of a rule falls like a power of its size, the faster the lower the peak: most pairs need a small rule, few a
large one. The height is taken at the points of the smallest rule, where it may be a little too low.

Pairs are sorted by height; a block of neighbours takes the rule that its highest one needs.
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
from eqbook.grams.methods.program import Affine, Branch, Pointwise
from eqbook.grams.methods.sphere import Features, Sphere
from eqbook.grams.methods.steps import Field, Pair, at, stored
from eqbook.kernels.so3 import separable_correlation, separable_rule
from eqbook.layers.sphere import ByPeak as Rules


def until_singular(steps: Sequence) -> tuple:
    """The steps up to the first nonlinearity whose dual is singular somewhere, that included; none if there is none."""
    found = []
    for step in steps:
        if isinstance(step, Branch):
            inner = until_singular(step.steps)
            if inner:
                return (*found, *inner)
        else:
            found.append(step)
            if isinstance(step, Pointwise) and step.rule.cosine is not None:
                return tuple(found)
    return ()


@dataclass(frozen=True)
class ByPeak(Sphere):
    """Kernels in front of the head for pairs of signals on the sphere, averaged over rotations.

    Attributes:
        rules: heights and the sizes of the rules that serve up to them.
    """

    rules: Rules = ()

    @property
    def width(self) -> int:
        """Pairs that share a rule: on a CPU so few that fields at all points of a large one are in its cache."""
        return workers.entries(32, 8192)

    def lanes(self, shape: tuple[int, ...]) -> int:
        """Pairs that are sorted together."""
        return workers.entries(2**12, 2**18)

    def pairs(self, one: Features, two: Features, true: Bool[Array, ""], ntk: bool, part: None = None) -> Pair:
        """NNGP and NTK, `[pairs]`, for features with the pairs along their last axis."""
        features = stored(true, lambda inputs: self._features(*inputs), (one, two))
        scales, n = (one[1], two[1]), features.shape[1]
        height = jax.lax.stop_gradient(self.height(features, *scales, true))
        order = jnp.argsort(height)
        block = n if n % self.width else self.width

        def blocks(leaf: Array) -> Array:
            """Sorted, `[blocks, ..., block]`."""
            leaf = jnp.take(leaf, order, -1)
            return jnp.moveaxis(leaf.reshape(*leaf.shape[:-1], -1, block), -2, 0)

        bounds = np.array([height for height, _ in self.rules[:-1]])
        level = jnp.searchsorted(jnp.asarray(bounds, height.dtype), blocks(height)[:, -1])

        def by(size: int, item: Any) -> Pair:
            features, (one, two) = item
            return self.at_size(size, features, (None, one), (None, two), true, ntk)

        branches = [partial(by, size) for _, size in self.rules]
        items = jax.tree.map(blocks, (features, scales))
        pair = jax.lax.map(lambda job: jax.lax.switch(job[0], branches, job[1]), (level, items))
        return at(pair, lambda kernel: jnp.zeros(n, kernel.dtype).at[order].set(kernel.ravel(), unique_indices=True))

    def height(self, features: Field, one: Any, two: Any, true: Bool[Array, ""]) -> Float[Array, " pairs"]:
        """Of the peak of each pair, 0 if no nonlinearity is singular."""
        steps = until_singular(self.program.steps)
        if not steps:
            return jnp.zeros(features.shape[1], features.dtype)
        rule = separable_rule(self.bandwidth, self.rules[0][1])
        field = separable_correlation(features, rule, partial(stored, true, jnp.concatenate))
        for step in steps[:-1]:
            if isinstance(step, Affine):
                field = step.layer.W_std**2 * field + step.layer.b_std**2
            else:
                field = step.rule.dual(one[step.index], two[step.index], field)[0]
        last = steps[-1]
        return jnp.max(jnp.abs(last.rule.cosine(one[last.index], two[last.index], field)), 0)

r"""The correlation at all points of the product rule, one angle after the other.

$D^l(\alpha, \beta, \gamma) = D^l(\alpha, \beta, 0)\, D^l(0, 0, \gamma)$, and the last factor mixes $n$ with $-n$ only:
$D^l_{mn}(\alpha, \beta, \gamma) = \cos(n\gamma)\, D^l_{mn}(\alpha, \beta, 0)
+ \sin(|n|\gamma)\, D^l_{mn}(\alpha, \beta, \tfrac{\pi}{2|n|})$. So a correlation is a Fourier series in $\gamma$ whose
$2L-1$ coefficients at each $(\alpha, \beta)$ need the features of one $|n|$ each. For L = 6 on 4,000 points this takes
150,000 products in place of the 1,144,000 of the whole table.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from eqbook.kernels.cached import cached_arrays
from eqbook.kernels.so3.rotations import rotation_points
from eqbook.kernels.so3.wigner import wigner_table


class SeparableRule(NamedTuple):
    r"""Tables of the product rule.

    `features` has for each $|n|$ the indices of its features, in the order of `wigner_table`. `tables` has for each
    $|n|$ the coefficients of cosine and sine at all $(\alpha, \beta)$, `[features, 2 * 2B * B]`, for $n = 0$ those of
    the constant, `[features, 2B * B]`. `series` has the values of $1, \cos\gamma, \sin\gamma, \cos 2\gamma, \dots$ at
    the angles $\gamma$, `[2B, 2L-1]`; `weights` those of the points, $\gamma$ slowest, `[4B^3]`.
    """

    features: tuple[np.ndarray, ...]
    tables: tuple[np.ndarray, ...]
    series: np.ndarray
    weights: np.ndarray


@cached_arrays
def separable_rule(bandwidth: int, size: int) -> SeparableRule:
    """The product rule of `rotation_points`, prepared for `separable_correlation`, in double precision.

    Args:
        bandwidth: L; the degrees below it.
        size: B.
    """
    points, weights = rotation_points(size)
    points, weights = (array.reshape(2 * size * size, 2 * size, *array.shape[1:]) for array in (points, weights))
    gamma, grid = points[0, :, 2], points[:, 0].copy()  # the same angles gamma at each (alpha, beta)
    orders = np.concatenate([np.tile(np.arange(-l, l + 1), 2 * l + 1) for l in range(bandwidth)])

    def at(angle: float) -> np.ndarray:
        grid[:, 2] = angle
        return wigner_table(bandwidth, grid)

    straight = at(0.0)
    features, tables, series = (
        [np.flatnonzero(orders == 0).astype(np.int32)],
        [straight[orders == 0]],
        [np.ones_like(gamma)],
    )
    for n in range(1, bandwidth):
        chosen = np.flatnonzero(abs(orders) == n)
        features.append(chosen.astype(np.int32))  # JAX remembers 64-bit indices when those types are off again
        tables.append(np.concatenate([straight[chosen], at(np.pi / (2 * n))[chosen]], 1))
        series += [np.cos(n * gamma), np.sin(n * gamma)]
    return SeparableRule(tuple(features), tuple(tables), np.stack(series, 1), weights.T.ravel())


def separable_correlation(
    features: Float[Array, "features pairs"],
    rule: SeparableRule,
    together: Callable[[list[Array]], Array] = jnp.concatenate,
) -> Float[Array, "points pairs"]:
    r"""$k(R_a) = \sum_{lmn} M^l_{mn} D^l_{mn}(R_a)$ at all points of the rule, for many pairs at once.

    Args:
        features: $M$, from `correlation_features`, pairs last.
        rule: from `separable_rule`.
        together: concatenates arrays. A compiler makes a product with a concatenation a sum of many thin products,
            unless the concatenation has to be stored first.

    Returns:
        Correlations in the order of `rule.weights`.
    """
    pairs = features.shape[1]
    grid = rule.tables[0].shape[1]
    parts = []
    for chosen, table in zip(rule.features, rule.tables, strict=True):
        part = jnp.matmul(jnp.asarray(table.T, features.dtype), features[chosen], precision="highest")
        parts.append(part.reshape(-1, grid * pairs))
    series = jnp.asarray(rule.series, features.dtype)
    return jnp.matmul(series, together(parts), precision="highest").reshape(-1, pairs)

r"""How a pointwise layer acts on kernels, for the fast Gram matrices: work for each input, and work for each pair.

What the recursion carries for a pair is the covariance $c = E[uv]$. In finite precision it knows the angle between
inputs that nearly coincide to the square root of a rounding. For these the recursion carries, besides, the semivariance
$\gamma = \frac12 E[(u / s - v / s')^2]$ with the sizes $s$, $s'$ of the two inputs, which keeps all digits.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from eqbook.kernels.correlation import arcsin, arcsin_slope, relu_correlation
from eqbook.kernels.duals import SNAP, safe_inverse, safe_sqrt, signed_gap, within_rounding
from eqbook.kernels.gap import relu_gap
from eqbook.kernels.quadrature import quadrature_dual
from eqbook.layers import Activation, Erf, Layer, LayerNorm, Relu

Scalar = Float[Array, "*batch"]
Scales = tuple[Scalar, ...]


@dataclass(frozen=True)
class Rule:
    r"""A pointwise layer at infinite width.

    Attributes:
        scales: from the variance $a$ of one input to the factors that its pairs need.
        dual: from the factors of both inputs and their covariance $c$ to $E[\sigma(u)\sigma(v)]$ and
            $E[\sigma'(u)\sigma'(v)]$.
        near: from the factors and sizes of both inputs and their semivariance to the same two and the semivariance of
            $\sigma(u)$ and $\sigma(v)$; `None` for a layer that loses no digits by the covariance.
        cosine: from the factors of both inputs and their covariance to the number between -1 and 1 at whose ends the
            dual may be singular; `None` for a layer whose dual is nowhere singular.
    """

    scales: Callable[[Scalar], Scales]
    dual: Callable[[Scales, Scales, Scalar], tuple[Scalar, Scalar]]
    near: Callable[[Scales, Scales, Scales, Scalar], tuple[Scalar, Scalar, Scalar]] | None = None
    cosine: Callable[[Scales, Scales, Scalar], Scalar] | None = None

    def variance(self, a: Scalar) -> Scalar:
        r"""$E[\sigma(u)^2]$ for $u \sim N(0, a)$: the dual of coinciding inputs."""
        scales = self.scales(a)
        return self.dual(scales, scales, a)[0]


def _root_scales(a: Scalar) -> Scales:
    root = safe_sqrt(a)
    return root, safe_inverse(root)


def _relu(positive: bool, one: Scales, two: Scales, c: Scalar) -> tuple[Scalar, Scalar]:
    value, derivative = relu_correlation(c * (one[1] * two[1]), c, positive)
    return (one[0] * two[0]) * value, derivative


def _erf_scales(a: Scalar) -> Scales:
    # Of two larger variances the product of these factors falls below the dtype, and the dual would be 0.
    most = 0.49 / float(jnp.finfo(jnp.result_type(a)).tiny)
    return jax.lax.rsqrt(jnp.where(a < most, 1 + 2 * a, jnp.nan)), safe_sqrt(a), a


def _erf(one: Scales, two: Scales, c: Scalar) -> tuple[Scalar, Scalar]:
    (e1, root1, a), (e2, root2, b) = one, two
    both = e1 * e2
    r = 2 * c * both  # below 2a / (1 + 2a) < 1
    # 1 - r^2 = ((1 + 2a)(1 + 2b) - 4c^2) e1^2 e2^2, where large variances cancel: by the gap, as in `duals.erf_dual`.
    size = jnp.abs(c)
    gap, scale = signed_gap(root1, root2, a, b, size)
    gap = jnp.where(within_rounding(gap, scale), 0, gap)
    # Each factor is scaled on its own: the product of two variances is beyond float32 from 1e19 on.
    rest = ((1 + 2 * (a + b)) * both + (4 * gap * both) * (scale + size)) * both
    # Scales are 0 where a pixel is outside; 0 times the slope there would not be 0 in a derivative.
    rest = jnp.where(both > 0, jnp.clip(rest, float(jnp.finfo(r.dtype).tiny), 1), 1)
    return 2 / math.pi * arcsin(r, rest), 4 / math.pi * both * arcsin_slope(r, rest)


def _cosine(one: Scales, two: Scales, c: Scalar) -> Scalar:
    r"""$c / \sqrt{ab}$, of factors whose second is the inverse root of the variance."""
    return c * (one[1] * two[1])


def _erf_cosine(one: Scales, two: Scales, c: Scalar) -> Scalar:
    r"""$2c / \sqrt{(1 + 2a)(1 + 2b)}$."""
    return 2 * c * (one[0] * two[0])


def _plain_cosine(one: Scales, two: Scales, c: Scalar) -> Scalar:
    r"""$c / \sqrt{ab}$, of factors that are the variances."""
    return c * (safe_inverse(safe_sqrt(one[0])) * safe_inverse(safe_sqrt(two[0])))


def _norm(one: Scales, two: Scales, c: Scalar) -> tuple[Scalar, Scalar]:
    both = one[1] * two[1]
    return c * both, both * jnp.ones_like(c)


def _ratio(one: Scales, two: Scales, sizes: Scales, semivariance: Scalar) -> tuple[Scalar, Scalar]:
    r"""$1 - c / \sqrt{ab}$, and $\sqrt a / s - \sqrt b / s'$."""
    lag = one[0] / sizes[0] - two[0] / sizes[1]
    gap = semivariance - 0.5 * lag * lag  # the largest possible covariance less the covariance
    # Of an input and its multiple rounding leaves a trifle: that of the roots, times their difference.
    noise = SNAP / 2 * float(jnp.finfo(gap.dtype).eps) * jnp.abs(lag) * (one[0] / sizes[0] + two[0] / sizes[1])
    # Taken away as a constant: a gap that is rounded to 0 keeps its derivatives.
    gap -= jax.lax.stop_gradient(jnp.where(gap <= noise, gap, 0))
    both = (one[1] * sizes[0]) * (two[1] * sizes[1])
    return jnp.where(both > 0, gap * both, 1), lag  # a constant 0 is orthogonal to everything, itself included


def _near_relu(
    positive: bool, one: Scales, two: Scales, sizes: Scales, semivariance: Scalar
) -> tuple[Scalar, Scalar, Scalar]:
    ratio, lag = _ratio(one, two, sizes, semivariance)
    gap, derivative = relu_gap(ratio, positive)
    scale = one[0] * two[0]
    return scale * (0.5 - gap), derivative, 0.25 * lag * lag + scale / (sizes[0] * sizes[1]) * gap


def _near_norm(one: Scales, two: Scales, sizes: Scales, semivariance: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    ratio, _ = _ratio(one, two, sizes, semivariance)
    root1, root2 = one[0] * one[1], two[0] * two[1]  # behind the layer: 1, and 0 for a constant 0
    lag = root1 / sizes[0] - root2 / sizes[1]
    scale = root1 * root2
    return scale * (1 - ratio), one[1] * two[1], 0.5 * lag * lag + scale / (sizes[0] * sizes[1]) * ratio


@lru_cache(maxsize=256)
def rule(layer: Layer, positive: bool = False) -> Rule | None:
    """The rule of a pointwise layer; `None` for any other layer.

    Equal layers have the same rule, not only an equal one: programs are compiled once for each rule.

    Args:
        layer: the layer.
        positive: whether the covariances that come in are known to be at least 0.
    """
    if isinstance(layer, Relu):
        return Rule(_root_scales, partial(_relu, positive), partial(_near_relu, positive), _cosine)
    if isinstance(layer, Erf):
        return Rule(_erf_scales, _erf, cosine=_erf_cosine)
    if isinstance(layer, LayerNorm):
        return Rule(_root_scales, _norm, _near_norm)
    if isinstance(layer, Activation):
        dual = partial(quadrature_dual, layer.function, layer.nodes)
        return Rule(lambda a: (a,), lambda one, two, c: dual(one[0], two[0], c), cosine=_plain_cosine)
    return None

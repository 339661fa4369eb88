r"""Dual activations: Gaussian expectations of a nonlinearity and of its derivative.

For $(u, v) \sim N(0, \Lambda)$ with $\Lambda = \begin{pmatrix} a & c \\ c & b \end{pmatrix}$, the dual of $\sigma$ is
the pair $E[\sigma(u) \sigma(v)]$, $E[\sigma'(u) \sigma'(v)]$. Both formulas below are written so that they keep full
relative accuracy when $u$ and $v$ coincide ($a = b = c$), where the textbook form of $E[\sigma'\sigma']$ for relu loses
half of the digits.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

Scalar = Float[Array, "*batch"]

SNAP = 8  # correlations that differ from 1 by fewer than this many roundings (half an epsilon) count as 1


@jax.custom_jvp
def safe_sqrt(x: Scalar) -> Scalar:
    """Square root of `max(x, 0)` with derivative 0, not infinity, at 0.

    Not by two branches, one to guard the other: a compiler computes `x` once for each, and where rounding makes it
    positive in one and not in the other, the root of the guard's placeholder would come out.
    """
    return jnp.sqrt(jnp.maximum(x, 0))


@safe_sqrt.defjvp
def _safe_sqrt_jvp(primals: tuple[Scalar], tangents: tuple[Scalar]) -> tuple[Scalar, Scalar]:
    root = safe_sqrt(*primals)
    return root, jnp.where(root > 0, 0.5 / jnp.where(root > 0, root, 1), 0) * tangents[0]


def safe_inverse(root: Scalar) -> Scalar:
    """1 / root, and 0 for 0."""
    positive = root > 0
    return jnp.where(positive, 1 / jnp.where(positive, root, 1), 0)


def covariance_gap(a: Scalar, b: Scalar, c: Scalar) -> tuple[Scalar, Scalar]:
    r"""$\sqrt{ab} - c$ and $\sqrt{ab}$; the first is exactly 0 for `a == b == c`, in every rounding mode.

    $\sqrt{ab} = \frac12 (a + b - (\sqrt a - \sqrt b)^2)$ turns the difference into a sum of terms, which are small
    where the variances are alike and the gap is. For unlike variances a plain difference keeps more digits.
    """
    gap, scale = signed_gap(safe_sqrt(a), safe_sqrt(b), a, b, c)
    # Not maximum(gap, 0): at gap = 0, where inputs coincide, its derivative is 1/2.
    return jnp.where(gap < 0, 0, gap), scale


def signed_gap(root_a: Scalar, root_b: Scalar, a: Scalar, b: Scalar, c: Scalar) -> tuple[Scalar, Scalar]:
    """`covariance_gap` from the roots at hand, the gap as rounding leaves it: it may be below 0."""
    scale, apart = root_a * root_b, (root_a - root_b) ** 2
    unlike = (apart > 0.5 * scale) & (scale > 0)  # one variance is more than four times the other
    # Each term is halved on its own: with c < 0 their sum is up to four times a variance.
    return jnp.where(unlike, scale - c, ((0.5 * a - 0.5 * c) + (0.5 * b - 0.5 * c)) - 0.5 * apart), scale


def within_rounding(gap: Scalar, scale: Scalar, snap: int = SNAP) -> Bool[Array, "*batch"]:
    r"""Whether a gap counts as 0: it is no more than `snap` roundings of $\sqrt{ab}$."""
    return gap <= snap / 2 * float(jnp.finfo(gap.dtype).eps) * scale


def half_angle(a: Scalar, b: Scalar, c: Scalar, snap: int = SNAP) -> tuple[Scalar, Scalar, Scalar]:
    r"""$\sqrt{2s} \sin\frac\theta2$, $\sqrt{2s} \cos\frac\theta2$ and $s = \sqrt{ab}$, for $\cos\theta = c / s$.

    The first is 0 where inputs coincide to `snap` roundings, the second where they are opposite; both where a variance
    is 0, exactly.
    """
    (gap, s), (other, _) = covariance_gap(a, b, c), covariance_gap(a, b, -c)
    near, far = (safe_sqrt(jnp.where(within_rounding(one, s, snap) | (s == 0), 0, one)) for one in (gap, other))
    return near, far, s


def relu_dual(a: Scalar, b: Scalar, c: Scalar, snap: int = 0) -> tuple[Scalar, Scalar]:
    r"""Dual of the rectified linear unit.

    With $\theta = \arccos(c / \sqrt{ab})$:
    $E[\sigma\sigma] = \frac{1}{2\pi} (\sqrt{ab} \sin\theta + (\pi - \theta) c)$,
    $E[\sigma'\sigma'] = \frac{1}{2\pi} (\pi - \theta)$.

    Args:
        a: variance of u.
        b: variance of v.
        c: covariance of u and v.
        snap: a gap $\sqrt{ab} - c$ or $\sqrt{ab} + c$ of fewer roundings than this counts as 0. Variances and
            covariances that a recursion computes each on its own differ by rounding where inputs coincide or are
            opposite, and the angle is a root of the gap.

    Returns:
        $E[\sigma(u)\sigma(v)]$ and $E[\sigma'(u)\sigma'(v)]$.

    References:
        Cho, Saul, "Kernel Methods for Deep Learning", NeurIPS 2009.
    """
    near, far, s = half_angle(a, b, c, snap)
    # No branch on near > 0: compiled, `gap` is computed more than once, each time rounded its own way, and two branches
    # that disagree on its sign would give an angle far from 0. near^2 + far^2 = 2 s, so only s = 0 needs a guard.
    half = jnp.arctan2(near, jnp.where(s > 0, far, 1))
    theta = jnp.where(s > 0, 2 * half, jnp.pi / 2)  # a constant input is orthogonal to everything, itself included
    return 0.5 * (c + (near * far - theta * c) / jnp.pi), 0.5 * (1 - theta / jnp.pi)


def erf_dual(a: Scalar, b: Scalar, c: Scalar, snap: int = 0) -> tuple[Scalar, Scalar]:
    r"""Dual of the error function.

    With $D = (1 + 2a)(1 + 2b) - 4c^2$:
    $E[\sigma\sigma] = \frac{2}{\pi} \arctan \frac{2c}{\sqrt D}$,
    $E[\sigma'\sigma'] = \frac{4}{\pi} \frac{1}{\sqrt D}$.

    Args:
        a: variance of u.
        b: variance of v.
        c: covariance of u and v.
        snap: a gap $\sqrt{ab} - |c|$ of fewer roundings than this counts as 0, as in `relu_dual`: times a large
            variance a rounding is not small beside the rest of $D$, which is $1 + 4a$ for coinciding inputs.

    Returns:
        $E[\sigma(u)\sigma(v)]$ and $E[\sigma'(u)\sigma'(v)]$. At a variance of 0 their second derivatives are
        not right.

    References:
        Williams, "Computing with Infinite Networks", NeurIPS 1996.
    """
    size = jnp.abs(c)  # D has the square of c only, and s - |c| keeps its digits also where inputs are opposite
    gap, s = signed_gap(safe_sqrt(a), safe_sqrt(b), a, b, size)
    # Taken away as a constant: a gap that is rounded to 0 keeps its derivative.
    gap = gap - jax.lax.stop_gradient(jnp.where(within_rounding(gap, s, snap), gap, 0))
    return erf_of_gaps(a, b, c, gap, s + size)


def erf_of_gaps(a: Scalar, b: Scalar, c: Scalar, low: Scalar, high: Scalar) -> tuple[Scalar, Scalar]:
    r"""`erf_dual` from two factors of $ab - c^2$, $\sqrt{ab} - c$ and $\sqrt{ab} + c$, where they are known.

    Args:
        a: variance of u.
        b: variance of v.
        c: covariance of u and v.
        low: one of the factors.
        high: the other.
    """
    # D = 1 + 2 (a + b) + 4 (ab - c^2) >= 1, so its root has a derivative everywhere. D / 4 in factors does not overflow
    # where `high` does not; where that has left the dtype, there is no dual, not one of 0.
    first = 0.25 + (0.5 * a + 0.5 * b)
    root = jnp.sqrt(first) * jnp.sqrt(1 + low * (high / first))
    root = jnp.where(jnp.isinf(root), jnp.nan, root)
    return 2 / jnp.pi * jnp.arctan2(c, root), 2 / (jnp.pi * root)

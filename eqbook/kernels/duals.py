r"""Dual activations: Gaussian expectations of a nonlinearity and of its derivative.

For $(u, v) \sim N(0, \Lambda)$ with $\Lambda = \begin{pmatrix} a & c \\ c & b \end{pmatrix}$, the dual of $\sigma$ is
the pair $E[\sigma(u) \sigma(v)]$, $E[\sigma'(u) \sigma'(v)]$. Both formulas below are written so that they keep full
relative accuracy when $u$ and $v$ coincide ($a = b = c$), where the textbook forms lose half of the digits.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

Scalar = Float[Array, "*batch"]


def safe_sqrt(x: Scalar) -> Scalar:
    """Square root of `max(x, 0)` with derivative 0, not infinity, at 0."""
    positive = x > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, x, 1)), 0)


def _gap(a: Scalar, b: Scalar, c: Scalar) -> tuple[Scalar, Scalar]:
    r"""$\sqrt{ab} - c$ and $\sqrt{ab}$; the first is exactly 0 for `a == b == c`, in every rounding mode.

    $\sqrt{ab} = \frac12 (a + b - (\sqrt a - \sqrt b)^2)$ turns the difference into a sum of small terms.
    """
    root_a, root_b = safe_sqrt(a), safe_sqrt(b)
    gap = 0.5 * ((a - c) + (b - c) - (root_a - root_b) ** 2)
    # Not maximum(gap, 0): at gap = 0, where inputs coincide, its derivative is 1/2.
    return jnp.where(gap < 0, 0, gap), root_a * root_b


def relu_dual(a: Scalar, b: Scalar, c: Scalar) -> tuple[Scalar, Scalar]:
    r"""Dual of the rectified linear unit.

    With $\theta = \arccos(c / \sqrt{ab})$:
    $E[\sigma\sigma] = \frac{1}{2\pi} (\sqrt{ab} \sin\theta + (\pi - \theta) c)$,
    $E[\sigma'\sigma'] = \frac{1}{2\pi} (\pi - \theta)$.

    Args:
        a: variance of u.
        b: variance of v.
        c: covariance of u and v.

    Returns:
        $E[\sigma(u)\sigma(v)]$ and $E[\sigma'(u)\sigma'(v)]$.

    References:
        Cho, Saul, "Kernel Methods for Deep Learning", NeurIPS 2009.
    """
    gap, s = _gap(a, b, c)
    near, far = safe_sqrt(gap), safe_sqrt(s + c)  # 2 s sin^2(theta/2) and 2 s cos^2(theta/2), up to the root
    both = (near > 0) & (far > 0)
    half = jnp.where(
        both,
        jnp.arctan2(jnp.where(both, near, 1), jnp.where(both, far, 1)),
        jnp.where(far > 0, 0, jnp.pi / 2),
    )
    theta = jnp.where(s > 0, 2 * half, jnp.pi / 2)  # a constant input is orthogonal to everything, itself included
    return 0.5 * (c + (near * far - theta * c) / jnp.pi), 0.5 * (1 - theta / jnp.pi)


def erf_dual(a: Scalar, b: Scalar, c: Scalar) -> tuple[Scalar, Scalar]:
    r"""Dual of the error function.

    With $D = (1 + 2a)(1 + 2b) - 4c^2$:
    $E[\sigma\sigma] = \frac{2}{\pi} \arctan \frac{2c}{\sqrt D}$,
    $E[\sigma'\sigma'] = \frac{4}{\pi} \frac{1}{\sqrt D}$.

    Args:
        a: variance of u.
        b: variance of v.
        c: covariance of u and v.

    Returns:
        $E[\sigma(u)\sigma(v)]$ and $E[\sigma'(u)\sigma'(v)]$.

    References:
        Williams, "Computing with Infinite Networks", NeurIPS 1996.
    """
    gap, s = _gap(a, b, c)
    # D = 1 + 2 (a + b) + 4 gap (s + c) >= 1, so its root has a derivative everywhere; factored, it does not overflow.
    first = 1 + 2 * (a + b)
    root = jnp.sqrt(first) * jnp.sqrt(1 + 4 * gap * ((s + c) / first))
    return 2 / jnp.pi * jnp.arctan2(2 * c, root), 4 / (jnp.pi * root)

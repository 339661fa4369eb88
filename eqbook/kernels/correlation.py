r"""Dual activations as functions of a correlation, for the fast Gram matrices.

`eqbook.kernels.duals` takes two variances and a covariance. Here a pair takes a square root and polynomials, which
every device vectorises: with $z = (1 - |r|)/2 \le \frac12$ for the correlation $r$, and
$\theta = \arccos |r| = 2 \arcsin \sqrt z$,

$$\theta = 2 \sqrt z\, P(z), \qquad \sin\theta - \theta\cos\theta = 2 \sqrt z\, z\, Q(z),$$

where $P$ and $Q$ are analytic on $[0, \frac12]$. Both forms keep full relative accuracy at $\theta \to 0$.
"""

import math
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from eqbook.kernels.duals import SNAP, safe_sqrt

Scalar = Float[Array, "*batch"]

TERMS = 80  # of a power series in z <= 1/2: the rest is below 2^-80
# Of P and Q, for a relative error below 2e-8 in float32 and 2e-15 in float64: a rounding, and eight.
DEGREES = {np.dtype(np.float32): (7, 6), np.dtype(np.float64): (18, 17)}


@cache
def polynomials(dtype: np.dtype) -> tuple[tuple[float, ...], tuple[float, ...]]:
    r"""Coefficients of $P(z) = \arcsin(\sqrt z) / \sqrt z$ and $Q(z) = (\sqrt{1-z} - (1-2z) P(z)) / z$, lowest first.

    Chebyshev interpolation on $[0, \frac12]$ of the two power series, of the degree that `dtype` needs.
    """
    arcsin = np.array([math.comb(2 * k, k) / (4**k * (2 * k + 1)) for k in range(TERMS)])
    root = np.cumprod([1.0] + [(k - 1.5) / k for k in range(1, TERMS)])  # sqrt(1 - z)
    twice = 2 * np.concatenate([[0.0], arcsin[:-1]])
    q = (root - arcsin + twice)[1:]
    fits = []
    for series, degree in zip((arcsin, q), DEGREES[np.dtype(dtype)], strict=True):
        points = np.polynomial.chebyshev.chebpts1(4 * degree)
        values = np.polynomial.polynomial.polyval((points + 1) / 4, series)
        in_x = np.polynomial.Chebyshev.fit((points + 1) / 4, values, degree, domain=(0, 0.5))
        fits.append(tuple(map(float, in_x.convert(kind=np.polynomial.Polynomial).coef)))
    return tuple(fits)


def horner(coefficients: tuple[float, ...], z: Scalar, factor: float = 1.0) -> Scalar:
    """A polynomial, lowest coefficient first, times a constant."""
    total = jnp.asarray(factor * coefficients[-1], z.dtype)
    for coefficient in coefficients[-2::-1]:
        total = total * z + jnp.asarray(factor * coefficient, z.dtype)
    return total


def _threshold(z: Scalar) -> float:
    """`SNAP` roundings of a correlation, for half of what it lacks to 1."""
    return SNAP / 4 * float(jnp.finfo(z.dtype).eps)


def _snapped(z: Scalar) -> Scalar:
    r"""$z$, and as good as 0 where the correlation is 1 to rounding.

    Rounding leaves the correlation of coinciding inputs a few units off 1, and the root would make $10^{-4}$ of it.
    A threshold, not a shift: a shift would move every small angle, and patches of photographs have many.
    """
    # Not 0, where the slope of the root, which a second derivative multiplies by 0, is infinite.
    return jnp.where(z <= _threshold(z), float(jnp.finfo(z.dtype).tiny), z)


def half_angle(r: Scalar) -> Scalar:
    r"""$\sin(\theta/2) = \sqrt{(1 - |r|)/2}$; as good as 0 where $|r|$ is 1 to rounding."""
    return jnp.sqrt(_snapped(0.5 - 0.5 * jnp.abs(r)))


@partial(jax.custom_jvp, nondiff_argnums=(2,))
def relu_correlation(r: Scalar, c: Scalar, positive: bool = False) -> tuple[Scalar, Scalar]:
    r"""Dual of relu for unit variances, $\frac{1}{2\pi}(\sin\theta + (\pi-\theta) r)$ and $\frac{1}{2\pi}(\pi-\theta)$.

    Args:
        r: correlation, $\cos\theta$.
        c: a number with the sign of `r`, such as the covariance; not a variable that is differentiated. A compiler
            stores the half angle, which K and K-dot share, and reads the sign from what is stored already; from `r` it
            would compute `r` once for each.
        positive: whether all correlations are known to be at least 0; `c` is not looked at then.
    """
    p, q = polynomials(np.dtype(r.dtype))
    # Both summand and sign change nothing in the root, but keep a compiler from undoing it where it is squared again.
    signed = half_angle(r) + float(jnp.finfo(r.dtype).tiny) if positive else jnp.copysign(half_angle(r), c)
    root = signed if positive else jnp.abs(signed)
    z = root * root
    rise = root * z * horner(q, z, 1 / math.pi)
    angle = root * horner(p, z, 1 / math.pi)
    if positive:
        return rise + (0.5 - z), 0.5 - angle
    negative = jnp.signbit(signed)
    return rise + jnp.where(negative, 0, 0.5 - z), jnp.where(negative, angle, 0.5 - angle)


@relu_correlation.defjvp
def _(positive: bool, primals: tuple[Scalar, Scalar], tangents: tuple[Scalar, Scalar]) -> tuple[tuple, tuple]:
    (r, c), (dr, _) = primals, tangents
    value, derivative = relu_correlation(r, c, positive)
    square = 1 - r * r
    inside = square > SNAP * jnp.finfo(r.dtype).eps
    # At |r| = 1 the derivative kernel has a kink; its slope there is taken as 0.
    slope = jnp.where(inside, 0.5 / math.pi / jnp.sqrt(jnp.where(inside, square, 1)), 0)
    return (value, derivative), (derivative * dr, slope * dr)


@jax.custom_jvp
def arcsin(r: Scalar, rest: Scalar) -> Scalar:
    r"""$\arcsin r$ by the same polynomial: $r P(r^2)$ for $r^2 \le \frac12$, else $\frac\pi2 - 2 \sqrt z P(z)$.

    Args:
        r: from -1 to 1.
        rest: $1 - r^2$, which near 1 has digits that `r` has lost. A derivative takes it for this function of `r`.
    """
    m = jnp.abs(r)
    p, _ = polynomials(np.dtype(r.dtype))
    small = r * r <= 0.5
    z = 0.5 * rest / (1 + m)  # (1 - m) / 2
    poly = horner(p, jnp.where(small, r * r, z))
    return jnp.where(small, r * poly, jnp.copysign(math.pi / 2 - 2 * safe_sqrt(z) * poly, r))


@jax.custom_jvp
def arcsin_slope(r: Scalar, rest: Scalar) -> Scalar:
    r"""$(1 - r^2)^{-1/2}$, by `rest` as in `arcsin`."""
    return jax.lax.rsqrt(rest)


@arcsin.defjvp
def _(primals: tuple[Scalar, Scalar], tangents: tuple[Scalar, Scalar]) -> tuple[Scalar, Scalar]:
    return arcsin(*primals), arcsin_slope(*primals) * tangents[0]


@arcsin_slope.defjvp
def _(primals: tuple[Scalar, Scalar], tangents: tuple[Scalar, Scalar]) -> tuple[Scalar, Scalar]:
    slope = arcsin_slope(*primals)
    return slope, primals[0] * slope**3 * tangents[0]

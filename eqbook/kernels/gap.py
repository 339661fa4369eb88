r"""The relu dual in terms of the gap $e = \sqrt{ab} - c$ between the largest possible covariance and the covariance.

Near coinciding inputs the derivative kernel depends on the angle between them, $\theta \approx \sqrt{2e / \sqrt{ab}}$,
and a covariance in finite precision knows it to the square root of a rounding only. A recursion that carries $e$ itself
keeps all digits.
"""

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from eqbook.kernels.correlation import SNAP, horner, polynomials

Scalar = Float[Array, "*batch"]


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def relu_gap(ratio: Scalar, positive: bool = False) -> tuple[Scalar, Scalar]:
    r"""Gap behind a relu and derivative kernel for unit variances, $\frac12-E[\sigma\sigma]$ and $E[\sigma'\sigma']$.

    Args:
        ratio: $e / \sqrt{ab} = 1 - \cos\theta$, from 0 (coinciding) to 2 (opposite).
        positive: whether all ratios are known to be at most 1, to rounding.
    """
    p, q = polynomials(np.dtype(ratio.dtype))
    if positive:
        z = jnp.clip(0.5 * ratio, 0, 0.5)
        root = jnp.sqrt(z)
        return z - root * z * horner(q, z, 1 / math.pi), 0.5 - root * horner(p, z, 1 / math.pi)
    obtuse = ratio > 1
    # The gap of opposite inputs is a rounding off 2, of which the root below would make 1e-4.
    opposite = ratio >= 2 - SNAP * float(jnp.finfo(ratio.dtype).eps)
    z = jnp.clip(jnp.where(obtuse, jnp.where(opposite, 0, 1 - 0.5 * ratio), 0.5 * ratio), 0, 0.5)
    root = jnp.sqrt(z)
    rise = root * z * horner(q, z, 1 / math.pi)
    angle = root * horner(p, z, 1 / math.pi)
    return jnp.where(obtuse, 0.5, z) - rise, jnp.where(obtuse, angle, 0.5 - angle)


@relu_gap.defjvp
def _(positive: bool, primals: tuple[Scalar], tangents: tuple[Scalar]) -> tuple[tuple, tuple]:
    (ratio,), (change,) = primals, tangents
    gap, derivative = relu_gap(ratio, positive)
    square = ratio * (2 - ratio)  # sin^2 of the angle
    # Variances that differ by a rounding leave a gap of its square, which means nothing.
    inside = ratio > (SNAP * float(jnp.finfo(ratio.dtype).eps)) ** 2
    inside &= square > 0
    # Where inputs coincide the derivative kernel has a kink; its slope there is taken as 0.
    slope = jnp.where(inside, -0.5 / math.pi / jnp.sqrt(jnp.where(inside, square, 1)), 0)
    return (gap, derivative), (derivative * change, slope * change)

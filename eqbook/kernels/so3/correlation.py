r"""The correlation of two signals over all rotations: all that an SO(3) network sees of a pair of inputs.

Filters that cover the sphere make the lifted kernel depend on the relative rotation only (Theorem 5.2 of the paper read
as an algorithm): $K_{R, R'}(f, f') = k(R R'^{-1})$ with
$k(R) = \frac{1}{4\pi n_{in}} \langle f, \rho(R) f' \rangle = \sum_{lmn} M^l_{mn} D^l_{mn}(R)$ and
$M^l_{mn} = \frac{1}{4\pi n_{in}} \sum_c f_{lm,c} f'_{ln,c}$. A group convolution over all of SO(3) leaves $k$ alone, a
nonlinearity acts on it point by point with the constant variances $k(e)$ of each input, and pooling is its mean.

References:
    Misof, Kessel, Gerken, "Equivariant Neural Tangent Kernels", 2025, https://arxiv.org/abs/2406.06504
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from eqbook._checks import as_float
from eqbook.kernels.cached import cached_arrays
from eqbook.kernels.so3.rotations import identity_rule, rotation_rule
from eqbook.kernels.so3.wigner import wigner_table


def correlation_features(
    f1: Float[Array, "*batch coefficients channels"], f2: Float[Array, "*batch coefficients channels"]
) -> Float[Array, "*batch features"]:
    r"""$M^l_{mn} = \frac{1}{4\pi n_{in}} \sum_c f_{lm,c} f'_{ln,c}$.

    Args:
        f1: coefficients of $f$, `[..., L^2, channels]`, from `sphere_coefficients`.
        f2: coefficients of $f'$; its batch axes broadcast against those of `f1`, so that `f1[:, None]` and `f2[None]`
            give all pairs.

    Returns:
        `[..., L(4L^2-1)/3]`, features in the order of `wigner_table`.

    Raises:
        ValueError: if the two differ in coefficients or channels, or the number of coefficients is not a square.
    """
    f1, f2 = as_float(f1, "f1"), as_float(f2, "f2")
    if f1.ndim < 2 or round(f1.shape[-2] ** 0.5) ** 2 != f1.shape[-2]:
        raise ValueError(f"`f1`: expected coefficients [..., L^2, channels], got shape {f1.shape}.")
    if f2.shape[-2:] != f1.shape[-2:]:
        raise ValueError(
            f"`f2`: expected coefficients [..., {f1.shape[-2]}, {f1.shape[-1]}] as in `f1`, got shape {f2.shape}; keep "
            "the same degrees and channels of both."
        )
    scale = 4 * np.pi * f1.shape[-1]

    def block(degree: int) -> Array:
        rows = slice(degree**2, (degree + 1) ** 2)
        products = jnp.einsum(
            "...mc,...nc->...mn", f1[..., rows, :], f2[..., rows, :], precision=jax.lax.Precision.HIGHEST
        )
        return products.reshape(*products.shape[:-2], -1)

    degrees = range(round(f1.shape[-2] ** 0.5))
    return jnp.concatenate([block(degree) for degree in degrees], -1) / scale


@cached_arrays
def self_table(bandwidth: int, size: int | str) -> Float[np.ndarray, "features points1"]:
    """Wigner matrices at `identity_points`, and in one more column at the identity itself.

    Args:
        bandwidth: of the signals.
        size: of the rule, or the name of a group.

    Returns:
        Table `[features, points + 1]`, as of `wigner_table`.
    """
    return np.concatenate([identity_rule(bandwidth, size)[0], wigner_table(bandwidth, np.zeros((1, 3)))], -1)


def correlation(
    features: Float[Array, "*batch features"], table: Float[np.ndarray, "features points"]
) -> Float[Array, "*batch points"]:
    r"""$k(R_a) = \sum_{lmn} M^l_{mn} D^l_{mn}(R_a)$.

    Args:
        features: $M$, `[..., features]`.
        table: $D$, from `rotation_rule`, `identity_rule`, `self_table` or `wigner_table`.
    """
    features = as_float(features, "features")
    return jnp.matmul(features, jnp.asarray(table, features.dtype), precision=jax.lax.Precision.HIGHEST)


def mean_over_rotations(
    values: Float[Array, "*batch points"], size: int | str, around_identity: bool = False
) -> Float[Array, "*batch"]:
    r"""$\sum_a w_a F(R_a)$ with the weights of one of the two rules of size B, or the mean over a group.

    Args:
        values: $F$ at `rotation_points`, or at `identity_points`.
        size: B, or the name of a group.
        around_identity: which of the two.
    """
    values = as_float(values, "values")
    weights = (identity_rule if around_identity else rotation_rule)(1, size)[1]
    # No matrix product: it adds thousands of numbers in one row, and loses two digits.
    return jnp.sum(values * jnp.asarray(weights, values.dtype), -1)

r"""Sets of rotations for the literal recursion, and what a convolution does to kernels at all pairs of them."""

from collections.abc import Callable
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from eqbook.kernels.so3.angles import matrix_to_angles
from eqbook.kernels.so3.rotations import rotation_points, rotation_rule

Pairs = Float[Array, "a b"]


@dataclass(frozen=True)
class Places:
    """Rotations at which feature maps are known, and how a convolution averages over them.

    Attributes:
        angles: Euler angles, `[points, 3]`.
        weights: of the mean over rotations, `[points]`, total 1.
        convolve: the mean over filter positions, from kernels at all pairs of points to the same.
    """

    angles: Float[np.ndarray, "points 3"]
    weights: Float[np.ndarray, " points"]
    convolve: Callable[[Pairs], Pairs]


def on_subgroup(rotations: Float[np.ndarray, "order 3 3"]) -> Places:
    """The elements of a finite group of rotations.

    Args:
        rotations: its matrices.

    Raises:
        ValueError: if a product is not among them.
    """
    products = np.einsum("gij,hjk->ghik", rotations, rotations)
    distances = np.abs(products[:, :, None] - rotations).max((-2, -1))  # [g, h, element]
    table = distances.argmin(-1)
    if distances.min(-1).max() > 1e-6:
        raise ValueError("`rotations`: expected a group, got a set that does not hold all products; add them.")

    def convolve(k: Pairs) -> Pairs:
        return sum(k[gh][:, gh] for gh in table.T) / len(table)

    return Places(matrix_to_angles(rotations), np.full(len(table), 1 / len(table)), convolve)


def on_rule(size: int) -> Places:
    r"""The product rule of size B, with filters of bandwidth B.

    $K'_{ab} = \sum_{l<B} (2l+1) \sum_{m m' p} D^l_{mp}(R_a) D^l_{m'p}(R_b) \sum_n \hat K^l_{mn, m'n}$ with the Fourier
    transform $\hat K$ of $K$ in both arguments, by quadrature.

    Args:
        size: B.
    """
    angles, weights = rotation_points(size)
    table, _ = rotation_rule(size, size)

    def convolve(k: Pairs) -> Pairs:
        result, start = 0, 0
        for degree in range(size):
            d = 2 * degree + 1
            D = jnp.asarray(table[start : start + d * d], k.dtype)
            analysis = D * weights
            transform = jnp.matmul(analysis, jnp.matmul(k, analysis.T, precision="highest"), precision="highest")
            contracted = jnp.einsum("mnkn->mk", transform.reshape(d, d, d, d))
            blocks = D.reshape(d, d, -1)  # [m, p, point]
            turned = jnp.einsum("mpa,mk->kpa", blocks, contracted, precision="highest")
            result = result + d * jnp.einsum("kpa,kpb->ab", turned, blocks, precision="highest")
            start += d * d
        return result

    return Places(angles, weights, convolve)

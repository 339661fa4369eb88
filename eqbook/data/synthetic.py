"""Small data sets that are computed: a function in the plane, and the cross product."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from eqbook._checks import check_finite, check_int, check_key, check_known, check_number, is_abstract


def rose(
    key: Key[Array, ""], n: int, leaves: int, scale: float = 1.0
) -> tuple[Float[Array, "n 2"], Float[Array, "n 1"]]:
    r"""Draw points $x \sim N(0, s^2 1_2)$ of the plane and return them with $|x| \cos(k \varphi)$.

    A toy for invariant regression; $\varphi$ is the angle of a point. The target is invariant under the dihedral group
    $D_k$, rotations by multiples of $2 \pi / k$ and the reflection of the second coordinate, and changes its sign under
    the rotation by $\pi / k$.

    Args:
        key: random key.
        n: number of examples.
        leaves: k.
        scale: s, standard deviation of each coordinate; another one than in training gives data out of distribution.

    Returns:
        Points, `[n, 2]`, and targets, `[n, 1]`, float32.

    Raises:
        ValueError: if `key` is none, `n`, `leaves` or `scale` is not positive, or float32 cannot hold the data.
    """
    check_key("key", key)
    scale, leaves = check_number("scale", scale, positive=True), check_int("leaves", leaves, 1)
    x = _drawn(key, check_int("n", n, 1), 2, scale)
    return _held(scale, x, jnp.hypot(x[:, :1], x[:, 1:]) * jnp.cos(leaves * jnp.arctan2(x[:, 1:], x[:, :1])))


def cross_product(key: Key[Array, ""], n: int, scale: float = 1.0) -> tuple[Float[Array, "n 6"], Float[Array, "n 3"]]:
    r"""Draw pairs of vectors $a, b \sim N(0, s^2 1_3)$ and return them with $a \times b$.

    For every rotation R, $(Ra) \times (Rb) = R (a \times b)$: the task is equivariant under SO(3), where R acts on
    inputs by the block-diagonal matrix of R and R, which `cross_product_matrices` makes. (Under reflections it gets the
    sign $\det R$.)

    Args:
        key: random key.
        n: number of examples.
        scale: s, standard deviation of each coordinate; another one than in training gives data out of distribution.

    Returns:
        Inputs $(a, b)$, `[n, 6]`, and targets $a \times b$, `[n, 3]`, float32.

    Raises:
        ValueError: if `key` is none, `n` or `scale` is not positive, or float32 cannot hold the data.
    """
    check_key("key", key)
    scale = check_number("scale", scale, positive=True)
    inputs = _drawn(key, check_int("n", n, 1), 6, scale)
    return _held(scale, inputs, jnp.cross(inputs[:, :3], inputs[:, 3:]))


def _drawn(key: Array, n: int, size: int, scale: float) -> Float[Array, "n size"]:
    with np.errstate(over="ignore"):  # of a scale beyond float32, which `_held` refuses
        return scale * jax.random.normal(key, (n, size), jnp.float32)


def _held(scale: float, inputs: Array, targets: Array) -> tuple[Array, Array]:
    """The data, if they are finite. Abstract ones (inside `jit`) pass."""
    if not is_abstract(targets) and not (jnp.isfinite(inputs).all() and jnp.isfinite(targets).all()):
        raise ValueError(f"`scale`: expected one whose data float32 can hold, got {scale:g}; take a smaller one.")
    return inputs, targets


def cross_product_matrices(rotations: Float[np.ndarray, "order 3 3"]) -> Float[np.ndarray, "order 6 6"]:
    r"""Matrices by which rotations act on pairs of vectors, $R \oplus R$, for `eqbook.groups.MatrixAction`.

    Args:
        rotations: R for each element of a group, `[order, 3, 3]`.

    Raises:
        ValueError: if the shape is another one, or a number is not finite or abstract (inside `jit`).
    """
    check_known("rotations", rotations)
    check_finite("rotations", rotations)
    rotations = np.asarray(rotations)
    if rotations.ndim != 3 or rotations.shape[1:] != (3, 3):
        raise ValueError(f"`rotations`: expected [order, 3, 3], got shape {rotations.shape}.")
    return np.kron(np.eye(2), rotations).astype(rotations.dtype)

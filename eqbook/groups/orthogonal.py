r"""Orthogonal transformations of images, drawn with the Haar measure: what a learning system may fail to notice.

An image with $d$ pixels and $c$ channels is a vector of $cd$ numbers. Four groups act on it, each orthogonal:

* `"O(3) x I"`: one orthogonal matrix for the colour vectors of all pixels;
* `"O(3)^d"`: one for each pixel, independent of the others;
* `"P(3d)"`: permutations of all $cd$ numbers;
* `"O(3d)"`: all orthogonal matrices of size $cd$.

The names are those of the paper, for $c = 3$; other numbers of channels work alike. The first group lies in the second,
the second and the third in the fourth.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Shaped

from eqbook._checks import check_finite, check_int, check_ints, check_key, check_known, check_numeric
from eqbook._shown import shown, summary
from eqbook.groups.arguments import as_array, as_floats

IMAGE_SYMMETRIES = ("identity", "O(3) x I", "O(3)^d", "P(3d)", "O(3d)")


class ImageSymmetry:
    """An orthogonal map of images `[..., h, w, c]`; axes in front are batch axes."""

    # What `rand_image_symmetry` drew the map for. One made by hand knows no more than its matrices or its order do.
    _shape: tuple[int, int, int] | None = None

    def __call__(self, x: Shaped[Array, "*batch h w c"]) -> Shaped[Array, "*batch h w c"]:
        r"""$\tau x$.

        Args:
            x: images.

        Raises:
            ValueError: if these are images of another shape than `rand_image_symmetry` was given; or, for a map made by
                hand, of other numbers of channels, pixels or entries than its matrices or its order have.
        """
        raise NotImplementedError

    def inverse(self) -> "ImageSymmetry":
        r"""$\tau^{-1}$."""
        raise NotImplementedError


def haar_orthogonal(key: jax.Array, size: int, draws: tuple[int, ...] = ()) -> Float[np.ndarray, "*draws size size"]:
    r"""Random orthogonal matrices with the Haar measure of $O(n)$.

    $Q\, \mathrm{diag}(\mathrm{sign}\, R_{ii})$ from the decomposition $QR$ of a matrix of i.i.d. $N(0, 1)$ entries. The
    signs make the decomposition unique; without them $Q$ depends on the convention of the library, and is not Haar.

    Drawn and decomposed by NumPy in float64, so that a key gives the same matrices in both precisions of JAX.

    Args:
        key: random key; not inside `jit`.
        size: $n$.
        draws: axes of independent matrices in front.

    Raises:
        ValueError: if `key` is none or abstract (inside `jit`), `size` is not a positive integer or `draws` no tuple of
            integers.

    References:
        Mezzadri, "How to Generate Random Matrices from the Classical Compact Groups", 2007,
        https://arxiv.org/abs/math-ph/0609050
    """
    check_key("key", key)
    size, draws = check_int("size", size, 1), check_ints("draws", draws, 0, "(2,)")
    q, r = np.linalg.qr(_generator(key).standard_normal((*draws, size, size)))
    return q * np.sign(np.diagonal(r, axis1=-2, axis2=-1))[..., None, :]


def rand_image_symmetry(name: str, key: jax.Array, shape: tuple[int, int, int]) -> ImageSymmetry:
    """A random element of one of the groups of `IMAGE_SYMMETRIES`, Haar distributed; uniform for permutations.

    Equal keys give equal elements, in both precisions. Different groups use different randomness of one key.

    Args:
        name: `"identity"`, `"O(3) x I"`, `"O(3)^d"`, `"P(3d)"` or `"O(3d)"`.
        key: random key; not inside `jit`.
        shape: height, width and channels of the images; the element moves no others. For `"O(3d)"` the element is a
            matrix of (height * width * channels)^2 numbers: 75 MB for 32 by 32 pixels in colour, drawn in about ten
            seconds.

    Raises:
        ValueError: if an argument is not of its kind, or `key` is abstract (inside `jit`).

    References:
        Xiao, Pennington, "Synergy and Symmetry in Deep Learning: Interactions between the Data, Model, and Inference
        Algorithm", 2022, https://arxiv.org/abs/2207.04612
    """
    if not isinstance(name, str) or name not in IMAGE_SYMMETRIES:
        raise ValueError(f"`name`: expected one of {IMAGE_SYMMETRIES}, got {shown(name)}.")
    if not isinstance(shape, tuple | list) or len(shape) != 3:
        raise ValueError(f"`shape`: expected (height, width, channels), got {shown(shape)}.")
    h, w, c = (check_int("shape", side, 1) for side in shape)
    check_key("key", key)
    check_known("key", key)
    key = jax.random.fold_in(key, IMAGE_SYMMETRIES.index(name))
    if name == "P(3d)":
        move = EntryPermutation(_generator(key).permutation(h * w * c))
    elif name == "O(3d)":
        move = EntryRotation(haar_orthogonal(key, h * w * c))
    elif name == "O(3)^d":
        move = ColourRotation(haar_orthogonal(key, c, (h, w)))
    else:
        move = ColourRotation(np.eye(c) if name == "identity" else haar_orthogonal(key, c))
    return _drawn_for((h, w, c), move)


@dataclass(frozen=True, eq=False)
class ColourRotation(ImageSymmetry):
    r"""$(\tau x)_a = R_a x_a$ for the colour vector $x_a$ of each pixel $a$.

    Args:
        matrices: $R$, `[c, c]`, the same for all pixels, or $R_a$, `[h, w, c, c]`; float64, copied. Orthogonal, to
            1e-5 in each entry of $R R^\top$.

    Raises:
        ValueError: if these are no finite square matrices, one is not orthogonal, or they are abstract (inside `jit`).
    """

    matrices: Float[np.ndarray, "*hw c c"]

    __repr__ = summary

    def __post_init__(self) -> None:
        check_known("matrices", self.matrices)
        check_finite("matrices", self.matrices)
        shape = np.shape(self.matrices)
        if len(shape) not in (2, 4) or shape[-1] != shape[-2]:
            raise ValueError(f"`matrices`: expected [c, c] or [h, w, c, c], got shape {shape}.")
        matrices = np.array(self.matrices, np.float64)  # a copy: the caller may go on to change its own
        _check_orthogonal("matrices", matrices, np.eye(shape[-1]))
        object.__setattr__(self, "matrices", matrices)

    def __call__(self, x: Float[Array, "*batch h w c"]) -> Float[Array, "*batch h w c"]:
        """The images `x`, moved; in their dtype if that is floating."""
        x = as_floats("x", x)
        _check_shape(self._shape, x)
        sides = self.matrices.shape[:-1]
        if x.ndim < 3 or x.shape[-len(sides) :] != sides:
            raise ValueError(f"`x`: expected images that end with the axes {sides}, got shape {x.shape}.")
        return jnp.einsum("...ij,...j->...i", jnp.asarray(self.matrices, x.dtype), x, precision="highest")

    def inverse(self) -> "ColourRotation":
        r"""$\tau^{-1}$."""
        return _drawn_for(self._shape, ColourRotation(self.matrices.swapaxes(-1, -2)))


@dataclass(frozen=True, eq=False)
class EntryPermutation(ImageSymmetry):
    r"""$(\tau x)_i = x_{\pi(i)}$ for the numbers of an image, pixels and channels in one row.

    Args:
        order: $\pi$, `[h * w * c]`, copied.

    Raises:
        ValueError: if it is no permutation, or abstract (inside `jit`).
    """

    order: Int[np.ndarray, " hwc"]

    __repr__ = summary

    def __post_init__(self) -> None:
        check_known("order", self.order)
        check_numeric("order", self.order)
        order = np.array(self.order)  # a copy: the caller may go on to change its own
        if order.ndim != 1 or order.dtype.kind not in "iu" or not (np.sort(order) == np.arange(order.size)).all():
            raise ValueError(f"`order`: expected each of 0 .. h * w * c - 1 once, got shape {order.shape}.")
        # 8 bits may not hold the number of entries; 64 JAX remembers, and refuses when those types are off again.
        object.__setattr__(self, "order", order.astype(np.int32))

    def __call__(self, x: Shaped[Array, "*batch h w c"]) -> Shaped[Array, "*batch h w c"]:
        """The images `x`, moved; exact in any dtype."""
        x = as_array("x", x)
        _check_shape(self._shape, x)
        return _flattened(x, len(self.order))[..., self.order].reshape(x.shape)

    def inverse(self) -> "EntryPermutation":
        r"""$\tau^{-1}$."""
        return _drawn_for(self._shape, EntryPermutation(np.argsort(self.order)))


@dataclass(frozen=True, eq=False)
class EntryRotation(ImageSymmetry):
    r"""$\tau x = R x$ for the numbers of an image, pixels and channels in one row.

    Args:
        matrix: $R$, `[h * w * c, h * w * c]`, float64. Orthogonal: $R R^\top p = p$ to 1e-5 for four random vectors
            $p$ with entries of about 1. An array of float64 is kept, not copied, since it may be large: change it no
            more.

    Raises:
        ValueError: if this is no finite square matrix, or it is not orthogonal, or abstract (inside `jit`).
    """

    matrix: Float[np.ndarray, "hwc hwc"]

    __repr__ = summary

    def __post_init__(self) -> None:
        check_known("matrix", self.matrix)
        check_finite("matrix", self.matrix)
        shape = np.shape(self.matrix)
        if len(shape) != 2 or shape[0] != shape[1]:
            raise ValueError(f"`matrix`: expected [h * w * c, h * w * c], got shape {shape}.")
        matrix = np.asarray(self.matrix, np.float64)
        # Four vectors: R R^T itself takes a second for 32 by 32 pixels in colour, and the inverse asks for it again.
        _check_orthogonal("matrix", matrix, np.random.default_rng(0).standard_normal((len(matrix), 4)))
        object.__setattr__(self, "matrix", matrix)

    def __call__(self, x: Float[Array, "*batch h w c"]) -> Float[Array, "*batch h w c"]:
        """The images `x`, moved; in their dtype if that is floating."""
        x = as_floats("x", x)
        _check_shape(self._shape, x)
        matrix = jnp.asarray(self.matrix, x.dtype)
        return jnp.matmul(_flattened(x, len(matrix)), matrix.T, precision="highest").reshape(x.shape)

    def inverse(self) -> "EntryRotation":
        r"""$\tau^{-1}$."""
        return _drawn_for(self._shape, EntryRotation(self.matrix.T))


def _generator(key: jax.Array) -> np.random.Generator:
    """NumPy's generator, seeded by the words of a key."""
    words = jax.random.key_data(key) if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) else key
    check_known("key", words)  # those of a known key are abstract inside `jit`, too
    return np.random.default_rng(np.asarray(words).tolist())


def _drawn_for(shape: tuple[int, int, int] | None, move: ImageSymmetry) -> ImageSymmetry:
    """The map itself, which from now on knows the shape of its images."""
    object.__setattr__(move, "_shape", shape)
    return move


def _check_shape(shape: tuple[int, int, int] | None, x: Shaped[Array, "*batch h w c"]) -> None:
    if shape is not None and x.shape[-3:] != shape:
        raise ValueError(f"`x`: expected images [..., h, w, c] of shape {shape}, got shape {x.shape}.")


def _check_orthogonal(name: str, R: Float[np.ndarray, "*hw c c"], probes: Float[np.ndarray, "c p"]) -> None:
    r"""Raise unless $R R^\top p = p$ for each column of `probes`.

    The tolerance is wide enough for matrices computed in float32, far below any error of a wrong one.
    """
    back = R @ (R.swapaxes(-1, -2) @ probes)
    if not np.allclose(back, np.broadcast_to(probes, back.shape), rtol=0, atol=1e-5):
        raise ValueError(
            f"`{name}`: expected orthogonal matrices, got one with R R^T different from 1; the Q of "
            "`numpy.linalg.qr` is orthogonal."
        )


def _flattened(x: Shaped[Array, "*batch h w c"], size: int) -> Shaped[Array, "*batch hwc"]:
    if x.ndim < 3 or x.shape[-3] * x.shape[-2] * x.shape[-1] != size:
        raise ValueError(f"`x`: expected images [..., h, w, c] of {size} numbers each, got shape {x.shape}.")
    return x.reshape(*x.shape[:-3], size)

r"""Convolution with filters of 3 by 3 pixels in 4/9 of the multiplications.

Four pixels of the output, a square of 2 by 2, come from a tile $d$ of 4 by 4 pixels and the filter $g$ by

$$y = A^\top \big[ (G\, g\, G^\top) \circ (B^\top d\, B) \big] A, $$

where the products in brackets are summed over channels: 16 products of matrices in place of 36, and additions (Winograd
1980; Lavin and Gray 2016, arXiv:1509.09308, section 4.1). What makes a pixel of the output contains the 9 pixels under
the filter and no other of the tile. Where those are 0 it is 0 exactly, so that a relu sees no noise there. The
transforms add few numbers and the sums over channels are shorter: for pixels of one size, and filters of one size, the
rounding error is that of the plain sum. It is relative to the largest pixel and the largest entry of the filter, not to
each product: a pixel of 1 beside one of 1e6 loses digits that the plain sum may keep, and where one is infinite the
nine around it are NaN or infinite.
"""

from collections.abc import Callable, Sequence
from numbers import Integral

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array, Float

# Bytes of what is made on the way, four times the images and the output: beyond a CPU's cache moving it takes longer
# than the multiplications that are saved.
LARGEST = 2**25


def suits(x: Float[Array, "n h w c"], W: Float[Array, "kh kw c f"], rows: int, columns: int) -> bool:
    """Whether this way is the faster one inside of a loop, as measured on a CPU with vectors of 512 bits.

    It sees the sizes of one network and one call: `vmap` multiplies them afterwards. For a batch of networks, each with
    filters of its own, this way gains by it. Inputs that are mapped one by one under shared filters may add up to more
    than is quick.

    Args:
        x: images.
        W: filters.
        rows: pixels of the output from top to bottom.
        columns: from left to right.
    """
    if jax.default_backend() != "cpu" or x.dtype != jnp.float32 or W.shape[:2] != (3, 3):
        return False
    sizes = x.shape[0], rows, columns, *W.shape[2:]
    if not all(isinstance(size, Integral) and size > 0 for size in sizes):
        return False  # nothing to compute, or an export for any size
    n, _, _, c, f = sizes
    if rows % 2 or columns % 2 or 4 * n * rows * columns * (c + f) * x.dtype.itemsize > LARGEST:
        return False
    if c <= 16 and f <= 16:  # where XLA's own convolution is slow
        return c != 3  # for three numbers in a row XLA makes slow code of the additions
    return c * f >= 16 * (c + f)  # as c f grow the products that are saved, as c + f the additions that are made


def suits_many(dtype: jnp.dtype, filter_shape: tuple[int, int], sides: tuple[int, int], c: int, f: int) -> bool:
    """Whether this way is the faster one for many networks side by side on an accelerator, as measured on an H200.

    Args:
        dtype: of images and filters.
        filter_shape: pixels of a filter.
        sides: of the output.
        c: channels of the images.
        f: channels of the output.
    """
    if not all(isinstance(size, Integral) and size > 0 for size in (*filter_shape, *sides, c, f)):
        return False  # nothing to compute, or an export for any size
    even = not (sides[0] % 2 or sides[1] % 2)
    return dtype == jnp.float32 and filter_shape == (3, 3) and even and c * f >= 16 * (c + f)


def correlate3_many(
    x: Float[Array, "m n padded_h padded_w c"], W: Float[Array, "m 3 3 c f"], precision: str | None = None
) -> Float[Array, "m n h w f"]:
    """`correlate3` of each of m networks: the axis of the networks is put where no array has to be moved for it.

    Args:
        x: images of each network with their border, two pixels more than the output on each axis.
        W: its filters.
        precision: precision of the products, as in `jax.numpy.matmul`.
    """
    (m, n), (_, _, _, c, f) = x.shape[:2], W.shape
    tiles = _tiles.bind(x.reshape(m * n, *x.shape[2:]))
    filters = _filters.bind(W.transpose(1, 2, 0, 3, 4).reshape(3, 3, m * c, f))
    a, b = tiles.shape[3:5]
    rows, filters = tiles.reshape(16, m, n * a * b, c), filters.reshape(16, m, c, f)
    products = jnp.matmul(rows, filters, precision=precision)
    z = _squares.bind(products.reshape(4, 4, m * n, a, b, f))
    return z.reshape(m, n, *z.shape[1:])


def correlate3(
    x: Float[Array, "n padded_h padded_w c"], W: Float[Array, "3 3 c f"], precision: str | None = None
) -> Float[Array, "n h w f"]:
    r"""$z_{nuvf} = \sum_{i,j,c} x_{n,\,u+i,\,v+j,\,c} W_{ijcf}$ for even sides.

    Args:
        x: images with their border, two pixels more than the output on each axis.
        W: filters.
        precision: precision of the products, as in `jax.numpy.matmul`.
    """
    tiles, filters = _tiles.bind(x), _filters.bind(W)
    n, a, b, c = tiles.shape[2:]
    rows = tiles.reshape(16, n * a * b, c)
    products = jnp.matmul(rows, filters.reshape(16, *W.shape[2:]), precision=precision)
    return _squares.bind(products.reshape(4, 4, n, a, b, W.shape[3]))


# The maps along one axis, as sums of slices: with small constant matrices XLA makes slow products of them.
def _B(v):
    return v[0], v[1] - v[2] + v[3], v[1] + v[2] - v[0], -v[3]


def _B_transposed(d):
    return d[0] - d[2], d[1] + d[2], d[2] - d[1], d[1] - d[3]


def _A(y):
    return y[0], y[0] + y[1], y[0] - y[1], -y[1]


def _A_transposed(m):
    return m[0] + m[1] + m[2], m[1] - m[2] - m[3]


def _G(g):
    half, middle = (g[0] + g[2]) / 2, g[1] / 2
    return g[0], half + middle, half - middle, g[2]


def _G_transposed(u):
    half = (u[1] + u[2]) / 2
    return u[0] + half, (u[1] - u[2]) / 2, u[3] + half


def _cut(x: Array) -> Array:
    """Tiles of 4 by 4 pixels, transformed: `[n, 2 a + 2, 2 b + 2, c]` to `[4, 4, n, a, b, c]`."""
    n, h, w, c = x.shape
    x = x.reshape(n, h // 2, 2, w, c)
    even, odd = x[:, :, 0], x[:, :, 1]
    x = jnp.stack(_B_transposed((even[:, :-1], odd[:, :-1], even[:, 1:], odd[:, 1:])))
    x = x.reshape(*x.shape[:3], w // 2, 2, c)
    even, odd = x[..., 0, :], x[..., 1, :]
    tiles = even[..., :-1, :], odd[..., :-1, :], even[..., 1:, :], odd[..., 1:, :]
    return jnp.stack(_B_transposed(tiles), 1)


def _overlap(v: Array) -> Array:
    """The transpose of `_cut`: what belongs to one pixel is added up."""

    def joined(parts: Sequence[Array], axis: int) -> Array:
        first, second, third, fourth = _B(parts)

        def between(low: Array, high: Array) -> Array:
            sides = [(0, 0, 0)] * low.ndim
            here, before = ([*sides[:axis], side, *sides[axis + 1 :]] for side in ((0, 1, 0), (1, 0, 0)))
            zero = jnp.zeros((), low.dtype)
            return jax.lax.pad(low, zero, here) + jax.lax.pad(high, zero, before)

        return jnp.stack([between(first, third), between(second, fourth)], axis + 1)

    _, _, n, a, b, c = v.shape
    x = joined([v[:, k] for k in range(4)], 3).reshape(4, n, a, 2 * b + 2, c)
    return joined(list(x), 1).reshape(n, 2 * a + 2, 2 * b + 2, c)


def _collect(m: Array) -> Array:
    """Squares of 2 by 2 pixels from what was multiplied: `[4, 4, n, a, b, f]` to `[n, 2 a, 2 b, f]`."""
    _, _, n, a, b, f = m.shape
    m = jnp.stack(_A_transposed(m), 2)  # [4, n, 2, a, b, f]
    return jnp.stack(_A_transposed(m), 4).transpose(0, 2, 1, 3, 4, 5).reshape(n, 2 * a, 2 * b, f)


def _distribute(y: Array) -> Array:
    """The transpose of `_collect`."""
    n, h, w, f = y.shape
    y = y.reshape(n, h // 2, 2, w, f)
    y = jnp.stack(_A((y[:, :, 0], y[:, :, 1]))).reshape(4, n, h // 2, w // 2, 2, f)
    return jnp.stack(_A((y[..., 0, :], y[..., 1, :])), 1)


def _transform(W: Array) -> Array:
    """`[3, 3, c, f]` to `[4, 4, c, f]`."""
    W = jnp.stack(_G(W))
    return jnp.stack(_G([W[:, k] for k in range(3)]), 1)


def _return(u: Array) -> Array:
    """The transpose of `_transform`."""
    u = jnp.stack(_G_transposed([u[:, k] for k in range(4)]), 1)
    return jnp.stack(_G_transposed(u))


def refuse_varying(*arrays: jax.core.ShapedArray) -> None:
    """Raise where `shard_map` gives a derivative other values on each device than its function: no rule covers it."""
    if any(array.manual_axis_type.varying for array in arrays):
        raise ValueError(
            "A convolution of arrays that are equal on all devices is differentiated along a direction that differs "
            "by device. Make its images or filters differ by device too: `jax.lax.pcast(x, axis, to='varying')`."
        )


def _pair(name: str, forward: Callable, backward: Callable, places: tuple[int, int]) -> tuple[Primitive, Primitive]:
    """Primitives of two linear maps, each the transpose of the other, which JAX would derive as many slow paddings.

    Args:
        name: of the first.
        forward: the map.
        backward: its transpose.
        places: an axis of its argument along which nothing is mixed, and where it is in the result.
    """
    made = Primitive(f"eqbook_winograd_{name}"), Primitive(f"eqbook_winograd_{name}_transposed")
    for one, other, function, (before, after) in zip(made, made[::-1], (forward, backward), (places, places[::-1])):
        _register(one, other, function, before, after)
    return made


def _register(one: Primitive, other: Primitive, function: Callable, before: int, after: int) -> None:
    """The rules of a linear map with the transpose `other`."""

    def shape(x):
        refuse_varying(x)
        found = jax.eval_shape(function, jax.ShapeDtypeStruct(x.shape, x.dtype))
        return jax.core.ShapedArray(found.shape, found.dtype)

    def batched(arguments, axes):
        x = jnp.moveaxis(arguments[0], axes[0], before)
        size, each = x.shape[before : before + 2]
        z = one.bind(x.reshape(*x.shape[:before], size * each, *x.shape[before + 2 :]))
        return z.reshape(*z.shape[:after], size, each, *z.shape[after + 1 :]), after

    one.def_abstract_eval(shape)
    one.def_impl(jax.jit(function))
    mlir.register_lowering(one, mlir.lower_fun(function, multiple_results=False))
    ad.deflinear2(one, lambda ct, _: (other.bind(ct),))
    batching.primitive_batchers[one] = batched


_tiles, _ = _pair("tiles", _cut, _overlap, (0, 2))
_squares, _ = _pair("squares", _collect, _distribute, (2, 0))
_filters, _ = _pair("filters", _transform, _return, (2, 2))

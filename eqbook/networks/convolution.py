"""A convolution that is quick inside of loops and for many networks at once, derivatives included.

`jax.lax.conv_general_dilated` alone is slow there on the CPU, for four reasons. Its derivatives are convolutions with
other orders of axes, for which XLA has no fast code inside of a loop; a batch of filters, which `vmap` over networks
makes, turns it into a grouped convolution; few channels it gathers number by number; and for a filter that is larger
than its image XLA has no fast code either. Here filters of 3 by 3 pixels go to `eqbook.networks.winograd` where that is
quicker, on an accelerator those of many networks. The others are a primitive whose derivatives are convolutions of the
same kind, with the axes brought into order first; a batch of filters makes it a matrix product, as do few channels and
an array whose type names devices; and a small image is given its border first.
"""

import itertools
from functools import partial
from numbers import Integral

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jax.sharding import AxisType
from jaxtyping import Array, Float

from eqbook.networks import winograd

# Entries of an output, mostly of a derivative in a filter, up to which an accelerator makes it for one channel of the
# input, here one image, at a time and adds these up: few entries of long sums would keep few of its processors busy.
FEW = 4096

Border = tuple[tuple[int, int], tuple[int, int]]


def correlate(
    x: Float[Array, "n h w c"], W: Float[Array, "kh kw c f"], border: Border, precision: str | None = None
) -> Float[Array, "n h2 w2 f"]:
    r"""$z_{nuvf} = \sum_{i,j,c} x_{n,\,u+i-a,\,v+j-a',\,c} W_{ijcf}$, zero outside of the image.

    Linear in each argument, and differentiable to any order in both modes. The way is chosen by the shapes and by the
    machine that traces: a program that is lowered for another one computes the same in the way of this.

    Args:
        x: images.
        W: filters.
        border: zeros added before and after the rows, $(a, b)$, and the columns, $(a', b')$.
        precision: precision of the products, as in `jax.numpy.matmul`.

    Raises:
        ValueError: if images and filters differ in channels.
    """
    if x.shape[3] != W.shape[2]:
        raise ValueError(f"`W`: expected filters for {x.shape[3]} channels, those of the images, got {W.shape[2]}.")
    dtype = jnp.promote_types(x.dtype, W.dtype)
    x, W = jnp.asarray(x, dtype), jnp.asarray(W, dtype)
    if _spread(x) or _spread(W):
        return _product(x, W, border, precision)
    rows, columns = (side + sum(sides) - k + 1 for side, sides, k in zip(x.shape[1:3], border, W.shape))
    if winograd.suits(x, W, rows, columns):
        return winograd.correlate3(_padded(x, border), W, precision)
    return _correlate.bind(x, W, border=border, precision=precision, adjoint=False)


def _spread(x: Array) -> bool:
    """Whether the type of an array says how it lies on several devices: JAX's own operations have rules for that."""
    kind = jax.typeof(x)
    explicit = any(axis == AxisType.Explicit for axis in kind.sharding.mesh.axis_types)
    return explicit or bool(kind.manual_axis_type.varying)


def _forward(x, W, border, adjoint):
    """What is correlated with what: the derivative in the images (`adjoint`) is a correlation, with another border."""
    if not adjoint:
        return x, W, border
    back = tuple((k - 1 - before, k - 1 - after) for k, (before, after) in zip(W.shape[:2], border))
    return x, W[::-1, ::-1].transpose(0, 1, 3, 2), back


def _shape(x, W, *, border, precision, adjoint):
    winograd.refuse_varying(x, W)
    (n, h, w, _), (kh, kw, *channels), sign = x.shape, W.shape, -1 if adjoint else 1
    sides = (h + sign * (sum(border[0]) - kh + 1), w + sign * (sum(border[1]) - kw + 1))
    return jax.core.ShapedArray((n, *sides, channels[0 if adjoint else 1]), x.dtype)


def _compute(x, W, *, border, precision, adjoint):
    x, W, border = _forward(x, W, border, adjoint)
    # XLA has fast convolutions on the CPU for no other dtype.
    if x.dtype != jnp.float32 or _is_narrow(x, W, border):
        return _product(x, W, border, precision)
    if W.shape[0] > x.shape[1] or W.shape[1] > x.shape[2]:
        # Measured on two cores, filters of 5 pixels on images of 4: 650 ms, and 19 ms with the border written out.
        x, border = jax.lax.optimization_barrier(_padded(x, border)), ((0, 0), (0, 0))
    axes = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(x, W, (1, 1), border, dimension_numbers=axes, precision=precision)


def _is_narrow(x, W, border):
    """Whether products of matrices are the faster way.

    They are on a CPU, for at most 16 channels of the output and at most 4 of the input, or more than of the output (as
    a derivative in images has), filters of at most 25 pixels, no more than the output has, and copies that fit a cache.

    XLA gathers what a filter sees number by number where few channels follow each other. In a loop on two cores, 64
    images of 32 by 32 pixels, from 3 to 16 channels, take it 2.1 ms, and 0.9 ms this way; derivatives in the images 4.2
    ms, and 0.9 ms. What does not fit into a cache gains nothing: 1,024 of these images take 50 ms either way.
    """
    (_, h, w, _), (kh, kw, c, f) = x.shape, W.shape
    if jax.default_backend() != "cpu" or not all(isinstance(size, Integral) for size in (*x.shape, *W.shape)):
        return False  # the latter in an export for any size
    pixels = (h + sum(border[0]) - kh + 1) * (w + sum(border[1]) - kw + 1)
    made = x.shape[0] * pixels * kh * kw * min(c, f) * x.dtype.itemsize  # bytes of the copies
    return f <= 16 and (c <= 4 or c > f) and kh * kw <= min(25, pixels) and made <= winograd.LARGEST


def _padded(x, border):
    # Not `jnp.pad`: the border of a derivative is negative where an image is smaller than half a filter.
    return jax.lax.pad(x, jnp.zeros((), x.dtype), [(*sides, 0) for sides in ((0, 0), *border, (0, 0))])


def _product(x, W, border, precision, adjoint=False):
    """The same as products of matrices, in the order that makes the smallest arrays."""
    x, W, border = _forward(x, W, border, adjoint)
    kh, kw, c, f = W.shape
    padded = _padded(x, border)
    n, h, w, _ = padded.shape
    h2, w2 = h - kh + 1, w - kw + 1
    if kh * kw > h2 * w2:  # a filter as large as the image, as the derivative in the filter has it
        plain = not (_spread(x) or _spread(W)) and 0 not in (*x.shape, *W.shape)
        if plain and jax.default_backend() != "cpu":
            # An accelerator reads the filter once, not for each pixel of the output.
            images = padded.transpose(3, 1, 2, 0)
            patches = jnp.stack([images[:, i : i + kh, j : j + kw] for i in range(h2) for j in range(w2)], 3)
            rows, columns = patches.reshape(c, kh * kw, -1), W.transpose(2, 0, 1, 3).reshape(c, kh * kw, f)
            entries = h2 * w2 * n * f
            if not (isinstance(entries, Integral) and entries <= FEW):  # of an export for any size nothing is known
                rows, columns = (z.reshape(1, -1, z.shape[2]) for z in (rows, columns))
            values = jnp.matmul(rows.swapaxes(1, 2), columns, precision=precision).sum(0)
            return values.reshape(h2, w2, n, f).transpose(2, 0, 1, 3)
        seen = [padded[:, i : i + kh, j : j + kw] for i, j in itertools.product(range(h2), range(w2))]
        values = [jnp.einsum("nhwc,hwcf->nf", one, W, precision=precision) for one in seen]
        return jnp.stack(values, 1).reshape(n, h2, w2, f)
    if c > f:  # each pixel times each entry of the filter, then what belongs to one output is added up
        parts = jnp.matmul(padded, W.transpose(2, 0, 1, 3).reshape(c, -1), precision=precision)
        parts = parts.reshape(n, h, w, kh, kw, f)
        return sum(parts[:, i : i + h2, j : j + w2, i, j] for i, j in itertools.product(range(kh), range(kw)))
    # Shift along rows, then along columns: kh + kw copies in place of kh * kw. The last axis then runs over (j, i, c).
    rows = jnp.concatenate([padded[:, i : i + h2] for i in range(kh)], -1)
    patches = jnp.concatenate([rows[:, :, j : j + w2] for j in range(kw)], -1)
    return jnp.matmul(patches, W.transpose(1, 0, 2, 3).reshape(-1, f), precision=precision)


def _transposed_in_x(ct, x, W, *, border, precision, adjoint):
    return _correlate.bind(ct, W, border=border, precision=precision, adjoint=not adjoint)


def _transposed_in_W(ct, x, W, *, border, precision, adjoint):
    if adjoint:  # what was the derivative of the output takes the place of the output
        x, ct = ct, x
    # Channels take the place of images, and images that of channels.
    x, ct = x.transpose(3, 1, 2, 0), ct.transpose(1, 2, 0, 3)
    return _correlate.bind(x, ct, border=border, precision=precision, adjoint=False).transpose(1, 2, 0, 3)


def _of_many(
    x: Float[Array, "m n h w c"], W: Float[Array, "m kh kw c f"], border: Border, precision: str | None, adjoint: bool
) -> Float[Array, "m n h2 w2 f"] | None:
    """Each network's images and filters by `winograd`, on an accelerator; `None` where that is not the faster way."""
    n, h, w = x.shape[1:4]
    kh, kw, c, f = W.shape[1:]
    if adjoint:
        if not winograd.suits_many(x.dtype, (kh, kw), (h, w), c, f):
            return None
        # By the transposed maps: the derivative in the filter needs one of them, too.
        of_images = partial(winograd.correlate3_many, W=W, precision=precision)
        (z,) = jax.linear_transpose(of_images, jax.ShapeDtypeStruct((x.shape[0], n, h + 2, w + 2, c), x.dtype))(x)
        return jax.vmap(partial(_padded, border=tuple((-before, -after) for before, after in border)))(z)
    padded = jax.vmap(partial(_padded, border=border))(x)
    h, w = padded.shape[2:4]
    if winograd.suits_many(x.dtype, (kh, kw), (h - kh + 1, w - kw + 1), c, f):
        return winograd.correlate3_many(padded, W, precision)
    if winograd.suits_many(x.dtype, (h - kh + 1, w - kw + 1), (kh, kw), n, f):
        # The derivative in the filter: images stand in the place of channels, and the filter in that of the output.
        images, slope = padded.transpose(0, 4, 2, 3, 1), W.transpose(0, 3, 1, 2, 4)
        of_filter = partial(winograd.correlate3_many, images, precision=precision)
        (z,) = jax.linear_transpose(of_filter, jax.ShapeDtypeStruct((W.shape[0], 3, 3, n, f), W.dtype))(slope)
        return z.transpose(0, 3, 1, 2, 4)
    return None


def _batched(arguments, axes, *, border, precision, adjoint):
    if None not in axes and jax.default_backend() != "cpu":
        x, W = (jnp.moveaxis(array, axis, 0) for array, axis in zip(arguments, axes))
        z = _of_many(x, W, border, precision, adjoint)
        if z is not None:
            return z, 0
    x, W = arguments
    if axes[1] is not None:
        one = partial(_product, border=border, precision=precision, adjoint=adjoint)
        return jax.vmap(one, in_axes=axes)(x, W), 0
    x = jnp.moveaxis(x, axes[0], 0)  # [batch, n, h, w, c]: more images
    z = _correlate.bind(x.reshape(-1, *x.shape[2:]), W, border=border, precision=precision, adjoint=adjoint)
    return z.reshape(*x.shape[:2], *z.shape[1:]), 0


_correlate = Primitive("eqbook_correlate")
_correlate.def_abstract_eval(_shape)
_correlate.def_impl(jax.jit(_compute, static_argnames=("border", "precision", "adjoint")))
mlir.register_lowering(_correlate, mlir.lower_fun(_compute, multiple_results=False))
ad.defbilinear(_correlate, _transposed_in_x, _transposed_in_W)
batching.primitive_batchers[_correlate] = _batched

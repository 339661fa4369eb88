"""Convolution and pooling that stay quick when many networks are trained at once."""

from collections.abc import Callable

import flax.linen as nn
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from eqbook._checks import as_float, check_int, check_odd
from eqbook.networks.convolution import correlate


class PatchConv(nn.Module):
    r"""Convolution as a matrix product of patches: `flax.linen.Conv` with stride 1 and zero padding, to rounding.

    $z_{uvf} = b_f + \sum_{i,j,c} x_{u+i-k/2,\,v+j-k/2,\,c} W_{ijcf}$.

    A member axis added by `vmap` turns `flax.linen.Conv` into a grouped convolution, and inside a loop over steps XLA
    has no fast code for its derivatives on the CPU: both are slow there. For many members this one is a product of
    patches of the image with the filters, and in a loop it is a convolution with derivatives that XLA computes quickly
    or, with few channels, products of matrices (`eqbook.networks.convolution`). Filters of 3 by 3 pixels on images with
    even sides are applied with 4/9 of the multiplications where that is quicker, on a CPU and for many members on an
    accelerator (`eqbook.networks.winograd`). Parameters have the names, shapes and initial law of `flax.linen.Conv`, so
    the two can exchange them.

    Args:
        features: channels of the output.
        kernel_size: odd side $k$ of the square filter.
        use_bias: whether to add $b$, which starts at 0.
        kernel_init: law of the initial filters, `[k, k, channels, features]`.
        precision: precision of the product, as in `jax.numpy.matmul`.

    Raises:
        ValueError: when it is called, if `kernel_size` is not an odd positive integer, or the input has fewer axes than
            one image `[h, w, c]`.
    """

    features: int
    kernel_size: int = 3
    use_bias: bool = True
    kernel_init: Callable = nn.initializers.lecun_normal()
    precision: str | None = None

    @nn.compact
    def __call__(self, x: Float[Array, "*batch h w c"]) -> Float[Array, "*batch h w features"]:
        k = check_odd("kernel_size", self.kernel_size)
        if np.ndim(x) < 3:
            raise ValueError(f"`x`: expected images [..., height, width, channels], got shape {np.shape(x)}.")
        x = as_float(x)
        W = self.param("kernel", self.kernel_init, (k, k, x.shape[-1], self.features), x.dtype)
        border = ((k // 2, k // 2), (k // 2, k // 2))
        z = correlate(x.reshape(-1, *x.shape[-3:]), W, border, self.precision)
        z = z.reshape(*x.shape[:-1], self.features)
        if self.use_bias:
            z = z + self.param("bias", nn.initializers.zeros, (self.features,), x.dtype)
        return z


def mean_pool(x: Float[Array, "*batch h w c"], size: int = 2) -> Float[Array, "*batch h2 w2 c"]:
    r"""Mean over disjoint squares of `size` by `size` pixels.

    It commutes with rotations by 90 degrees and reflections, up to the rounding of a sum in another order. The maximum
    does so as well, but its gradient where two pixels tie does not.

    Args:
        x: images, `[..., h, w, c]`.
        size: side of a square; divides `h` and `w`.

    Raises:
        ValueError: if the squares do not tile the image.
    """
    check_int("size", size, 1)
    if np.ndim(x) < 3 or np.shape(x)[-3] % size or np.shape(x)[-2] % size:
        raise ValueError(
            f"`x`: expected images [..., height, width, channels] with sides divisible by {size}, "
            f"got shape {np.shape(x)}."
        )
    x = as_float(x)  # a sum of bytes would overflow
    # In 16 bits a sum over a large square would stand still, or be infinite where the mean is not.
    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    if size > 4:  # a program of so many slices takes long to compile
        *batch, h, w, c = x.shape
        squares = wide.reshape(*batch, h // size, size, w // size, size, c)
        return squares.mean((-4, -2)).astype(x.dtype)
    # A sum of strided slices: on the CPU about twice as fast as a mean over reshaped axes, gradient included.
    corners = [wide[..., i::size, j::size, :] for i in range(size) for j in range(size)]
    return (sum(corners[1:], corners[0]) / size**2).astype(x.dtype)

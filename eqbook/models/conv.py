"""A convolution with a stride that is quick for many networks at once and on a CPU."""

from collections.abc import Callable

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from eqbook._checks import as_float, check_int, check_odd
from eqbook.networks.convolution import correlate

# Not `lecun_normal`, the default of Flax: that law is cut off at two standard deviations, so rotations change it.
gaussian = nn.initializers.variance_scaling(1.0, "fan_in", "normal")


class StridedConv(nn.Module):
    r"""Convolution with stride $s$ and zero padding, without a bias.

    $z_{uvf} = \sum_{i,j,c} x_{su+i-\lfloor k/2 \rfloor,\,sv+j-\lfloor k/2 \rfloor,\,c} W_{ijcf}$: `flax.linen.Conv`
    with `strides=s`, `padding=k // 2` and `use_bias=False`, to rounding, and with the same parameter.

    Squares of $s \times s$ pixels become channels, so that the stride becomes 1 and `PatchConv`'s product can be used;
    that one has derivatives that are quick in a loop and for many members, see `eqbook.networks.PatchConv`.

    Args:
        features: channels of the output.
        kernel_size: odd side $k$ of the square filter.
        strides: stride $s$ in both directions.
        kernel_init: law of the initial filters, `[k, k, channels, features]`; Gaussian, so that a rotation of the
            channels of the input does not change it.
    """

    features: int
    kernel_size: int = 3
    strides: int = 1
    kernel_init: Callable = gaussian

    @nn.compact
    def __call__(self, x: Float[Array, "n h w c"]) -> Float[Array, "n h2 w2 features"]:
        k, s = check_odd("kernel_size", self.kernel_size), check_int("strides", self.strides, 1)
        if np.ndim(x) != 4:
            raise ValueError(f"`x`: expected images [n, height, width, channels], got shape {np.shape(x)}.")
        x = as_float(x)
        W = self.param("kernel", self.kernel_init, (k, k, x.shape[-1], self.features), x.dtype)
        return strided_correlate(x, W, s)


def strided_correlate(x: Float[Array, "n h w c"], W: Float[Array, "k k c f"], s: int) -> Float[Array, "n h2 w2 f"]:
    """The sum of `StridedConv`.

    Args:
        x: images.
        W: filters with an odd side.
        s: stride.
    """
    (n, h, w, c), (k, _, _, f) = x.shape, W.shape
    before = k // 2
    if s == 1:
        return correlate(x, W, ((before, before), (before, before)))
    h2, w2 = ((side + 2 * before - k) // s + 1 for side in (h, w))
    K = -(-k // s)  # side of the filter in squares
    sides = [(before, (out - 1 + K) * s - side - before, 0) for out, side in ((h2, h), (w2, w))]
    # The border behind is negative where the last pixels are seen by no filter.
    x = jax.lax.pad(x, jnp.zeros((), x.dtype), [(0, 0, 0), *sides, (0, 0, 0)])
    x = x.reshape(n, h2 - 1 + K, s, w2 - 1 + K, s, c).transpose(0, 1, 3, 2, 4, 5).reshape(n, h2 - 1 + K, w2 - 1 + K, -1)
    W = jnp.pad(W, ((0, K * s - k), (0, K * s - k), (0, 0), (0, 0)))
    W = W.reshape(K, s, K, s, c, f).transpose(0, 2, 1, 3, 4, 5).reshape(K, K, -1, f)
    return correlate(x, W, ((0, 0), (0, 0)))

"""Flax modules of the layers; the formulas are those of `eqbook.layers`."""

import itertools
import math
from collections.abc import Callable

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from eqbook.kernels.spatial import borders
from eqbook.layers import Layer, Sequential
from eqbook.layers.domain import naming
from eqbook.networks.convolution import correlate


def standard_normal(module: nn.Module, name: str, shape: tuple[int, ...], x: Array) -> Array:
    """A parameter of i.i.d. N(0, 1) entries, with the dtype of the data."""
    return module.param(name, nn.initializers.normal(1.0), shape, x.dtype)


def product(
    x: Float[Array, "*batch n_in"], W: Float[Array, "n_in n_out"], factor: float = 1.0
) -> Float[Array, "*batch n_out"]:
    r"""$c \sum_i x_{\ldots i} W_{io}$ for a factor $c$.

    "highest": on recent GPUs a float32 product otherwise runs with 10 bits of mantissa. On a CPU, XLA makes the
    derivative in $W$ as a product with the transpose of the larger factor, which it copies column by column: for 512
    examples of 1024 units and 16 outputs that takes 13 times as long as the product itself. A number other than 1 that
    is multiplied with the transpose of $W$ keeps it from exchanging the two.
    """
    if W.shape[0] <= W.shape[1] or jax.default_backend() != "cpu":
        return factor * jnp.matmul(x, W, precision="highest")
    return jnp.einsum("...i,oi->...o", x, factor * W.T, precision="highest")


def patches(
    x: Float[Array, "n h w c"], window: tuple[int, int], strides: tuple[int, int], padding: str
) -> Float[Array, "n h2 w2 features"]:
    """What a filter sees at each of its places, in one axis of size height * width * channels."""
    pads = borders(x.shape[1:3], window, strides, padding)
    padded = jnp.pad(x, [(0, 0), *pads, (0, 0)], mode="wrap" if padding == "CIRCULAR" else "constant")
    rows, columns = [side - length + 1 for side, length in zip(padded.shape[1:3], window, strict=True)]
    down, right = strides
    cuts = itertools.product(*map(range, window))
    return jnp.concatenate([padded[:, i : i + rows : down, j : j + columns : right] for i, j in cuts], -1)


def convolve(
    x: Float[Array, "n h w c"], W: Float[Array, "kh kw c f"], strides: tuple[int, int], padding: str
) -> Float[Array, "n h2 w2 f"]:
    r"""$z_{nuvf} = \sum_{i,j,c} x_{n,\,su+i-a,\,s'v+j-a',\,c} W_{ijcf}$ with the borders of `padding`.

    "highest": on recent GPUs a float32 product otherwise runs with 10 bits of mantissa.
    """
    window = W.shape[:2]
    if strides != (1, 1):
        return jnp.matmul(patches(x, window, strides, padding), W.reshape(-1, W.shape[-1]), precision="highest")
    pads = borders(x.shape[1:3], window, strides, padding)
    if padding == "CIRCULAR":
        x, pads = jnp.pad(x, [(0, 0), *pads, (0, 0)], mode="wrap"), [(0, 0), (0, 0)]
    return correlate(x, W, tuple(pads), "highest")


class DenseModule(nn.Module):
    """Finite fully connected layer."""

    features: int
    W_std: float
    b_std: float

    @nn.compact
    def __call__(self, x: Float[Array, "*batch n_in"]) -> Float[Array, "*batch n_out"]:
        W = standard_normal(self, "W", (x.shape[-1], self.features), x)
        z = product(x, W, self.W_std / math.sqrt(x.shape[-1]))
        return z if self.b_std == 0 else z + self.b_std * standard_normal(self, "b", (self.features,), x)


class ConvModule(nn.Module):
    """Finite convolutional layer."""

    channels: int
    filter_shape: tuple[int, int]
    strides: tuple[int, int]
    padding: str
    W_std: float
    b_std: float

    @nn.compact
    def __call__(self, x: Float[Array, "n h w c"]) -> Float[Array, "n h2 w2 channels"]:
        W = standard_normal(self, "W", (*self.filter_shape, x.shape[-1], self.channels), x)
        z = convolve(x, W, self.strides, self.padding)
        z = self.W_std / math.sqrt(math.prod(W.shape[:3])) * z
        return z if self.b_std == 0 else z + self.b_std * standard_normal(self, "b", (self.channels,), x)


class LocallyConnectedModule(nn.Module):
    """Finite locally connected layer; the first two axes of its parameters are the places of the output."""

    channels: int
    filter_shape: tuple[int, int]
    strides: tuple[int, int]
    padding: str
    W_std: float
    b_std: float

    @nn.compact
    def __call__(self, x: Float[Array, "n h w c"]) -> Float[Array, "n h2 w2 channels"]:
        seen = patches(x, self.filter_shape, self.strides, self.padding)
        places, terms = seen.shape[1:3], seen.shape[3]
        W = standard_normal(self, "W", (*places, *self.filter_shape, x.shape[-1], self.channels), x)
        W = W.reshape(*places, terms, self.channels)
        z = self.W_std / math.sqrt(terms) * jnp.einsum("nhwf,hwfc->nhwc", seen, W, precision="highest")
        return z if self.b_std == 0 else z + self.b_std * standard_normal(self, "b", (*places, self.channels), x)


class Pointwise(nn.Module):
    """A function of the data without parameters: a nonlinearity, a pooling, a normalisation."""

    function: Callable

    def __call__(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        return self.function(x)


class SequentialModule(nn.Module):
    """Modules one after the other, their parameters named after their place.

    Attributes:
        layers: the modules.
        specs: their layers, for error messages.
    """

    layers: tuple[nn.Module, ...]
    specs: tuple[Layer, ...]

    def __call__(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        for position, (layer, spec) in enumerate(zip(self.layers, self.specs, strict=True)):
            # The error of a network inside this one names its own layers.
            with naming(f"layer {position}" if isinstance(spec, Sequential) else f"layer {position}: {spec}"):
                x = layer(x)
        return x


class ResidualModule(nn.Module):
    """A branch added to its input."""

    branch: nn.Module

    def __call__(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        z = self.branch(x)
        if z.shape != x.shape:
            raise ValueError(f"expected a branch with outputs {x.shape} like its input, got {z.shape}.")
        return x + z


def average_pool(x: Float[Array, "n h w c"], window: tuple[int, int], strides: tuple[int, int]) -> Array:
    """Mean over windows of pixels, without padding."""
    borders(x.shape[1:3], window, strides, "VALID")
    # In 16 bits a sum over a large window would stand still: bfloat16 knows no integer between 256 and 258.
    wide = jnp.promote_types(x.dtype, jnp.float32)
    return nn.avg_pool(x.astype(wide), window, strides, "VALID").astype(x.dtype)


def normalise_channels(x: Float[Array, "... c"]) -> Float[Array, "... c"]:
    """Subtract the mean over channels and divide by their standard deviation, by 1 where that is 0 in the dtype."""
    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))  # squares leave float16 at 256 and below 2e-4
    centred = wide - jnp.mean(wide, axis=-1, keepdims=True)
    variance = jnp.mean(centred**2, axis=-1, keepdims=True)
    variance = jnp.where(jnp.isinf(variance), jnp.nan, variance)  # not 0 of all channels where the squares overflow
    return (centred / jnp.sqrt(jnp.where(variance == 0, 1, variance))).astype(x.dtype)

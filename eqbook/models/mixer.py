"""MLP-Mixers: patches of an image as rows of a table, mixed along columns and along rows."""

import flax.linen as nn
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from eqbook._checks import as_float, check_int, check_rectangular
from eqbook.models.conv import gaussian

# blocks, hidden features, hidden units of the token mixing and of the channel mixing
SIZES = {
    "S/32": (8, 512, 256, 2048),
    "S/16": (8, 512, 256, 2048),
    "B/32": (12, 768, 384, 3072),
    "B/16": (12, 768, 384, 3072),
    "L/32": (24, 1024, 512, 4096),
    "L/16": (24, 1024, 512, 4096),
}


class MixerBlock(nn.Module):
    r"""$u = x + (M_1\, \mathrm{norm}(x)^\top)^\top$, $y = u + M_2\, \mathrm{norm}(u)$, with two perceptrons.

    $M_1$ acts on the column of each feature, over the patches; $M_2$ on the row of each patch, over the features. Both
    are dense, gelu, dense. The norm is over the features of a patch.

    Args:
        token_units: hidden units of $M_1$.
        channel_units: hidden units of $M_2$.
    """

    token_units: int
    channel_units: int

    @nn.compact
    def __call__(self, x: Float[Array, "n patches features"]) -> Float[Array, "n patches features"]:
        y = jnp.swapaxes(nn.LayerNorm()(x), 1, 2)
        y = nn.gelu(nn.Dense(self.token_units, kernel_init=gaussian, name="token_in")(y))
        y = nn.Dense(x.shape[1], kernel_init=gaussian, name="token_out")(y)
        x = x + jnp.swapaxes(y, 1, 2)
        y = nn.LayerNorm()(x)
        y = nn.gelu(nn.Dense(self.channel_units, kernel_init=gaussian, name="channel_in")(y))
        return x + nn.Dense(x.shape[2], kernel_init=gaussian, name="channel_out")(y)


class MLPMixer(nn.Module):
    r"""An MLP-Mixer: linear map of each patch, blocks, norm, mean over patches, dense layer.

    The image is cut into disjoint patches of $p \times p$ pixels. The first layer, `embed`, maps the $c p^2$ numbers of
    each patch, rows of pixels first and the $c$ colours last, by one matrix, and adds a bias. The read-out starts at 0.

    Args:
        patch: side $p$ of a patch; divides the image's.
        blocks: number of blocks, each a `MixerBlock`.
        features: features of a patch.
        token_units: hidden units of the token mixing.
        channel_units: hidden units of the channel mixing.
        classes: number of outputs.

    Raises:
        ValueError: if patches do not tile the image, when the network is used.

    References:
        Tolstikhin, Houlsby, Kolesnikov, Beyer, Zhai, et al., "MLP-Mixer: An all-MLP Architecture for Vision", 2021,
        https://arxiv.org/abs/2105.01601
    """

    patch: int
    blocks: int
    features: int
    token_units: int
    channel_units: int
    classes: int = 1000

    @nn.compact
    def __call__(self, x: Float[Array, "n h w c"]) -> Float[Array, "n classes"]:
        patch = check_int("patch", self.patch, 1)
        x = nn.Dense(self.features, kernel_init=gaussian, name="embed")(patches(x, patch))
        for _ in range(self.blocks):
            x = MixerBlock(self.token_units, self.channel_units)(x)
        x = jnp.mean(nn.LayerNorm()(x), axis=1)
        return nn.Dense(self.classes, kernel_init=nn.initializers.zeros, name="head")(x)


def patches(x: Float[Array, "n h w c"], p: int) -> Float[Array, "n patches ppc"]:
    """Images cut into disjoint patches, each a row of numbers.

    Args:
        x: images.
        p: side of a patch in pixels.

    Raises:
        ValueError: if the patches do not tile the image, or `p` is no positive integer.
    """
    p = check_int("p", p, 1)
    check_rectangular("x", x)
    if np.ndim(x) != 4 or np.shape(x)[1] % p or np.shape(x)[2] % p:
        raise ValueError(
            f"`x`: expected images [n, height, width, channels] with sides divisible by {p}, got shape {np.shape(x)}."
        )
    x = as_float(x)
    n, h, w, c = x.shape
    return x.reshape(n, h // p, p, w // p, p, c).transpose(0, 1, 3, 2, 4, 5).reshape(n, h // p * (w // p), p * p * c)


def mixer(size: str, *, patch: int | None = None, classes: int = 1000) -> MLPMixer:
    """An MLP-Mixer of standard size.

    Args:
        size: `"S/32"`, `"S/16"`, `"B/32"`, `"B/16"`, `"L/32"` or `"L/16"`: a size and the side of a patch.
        patch: another side of a patch, for images that are smaller than those of ImageNet.
        classes: number of outputs.

    Raises:
        ValueError: for another size, or a side that is no positive integer.
    """
    if not isinstance(size, str) or size not in SIZES:
        raise ValueError(f"`size`: expected one of {', '.join(SIZES)}, got {size!r}; else use `MLPMixer`.")
    side = int(size.split("/")[1]) if patch is None else check_int("patch", patch, 1)
    return MLPMixer(side, *SIZES[size], classes)

"""Residual networks of 18 to 200 layers, and small ones of the same kind."""

from math import gcd
from typing import Literal

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float

from eqbook._checks import check_ints
from eqbook.models.conv import StridedConv, gaussian

BLOCKS = {
    18: (2, 2, 2, 2),
    34: (3, 4, 6, 3),
    50: (3, 4, 6, 3),
    101: (3, 4, 23, 3),
    152: (3, 8, 36, 3),
    200: (3, 24, 36, 3),
}
STEMS = ("imagenet", "cifar")


class ResidualBlock(nn.Module):
    r"""$y = \mathrm{relu}(P x + F(x))$, with two convolutions in $F$, or three of which two are $1 \times 1$.

    $F$ is conv, norm, relu, conv, norm; the last scale starts at 0, so that a block starts as $\mathrm{relu}(P x)$. $P$
    is the identity if the shapes agree, else a convolution of $1 \times 1$ pixels and a norm. The stride of a
    bottleneck is in its convolution of $3 \times 3$ pixels.

    Args:
        features: channels $N$ between the convolutions; $y$ has as many, or $4N$ with a bottleneck.
        strides: stride of the block.
        bottleneck: whether $F$ is $1 \times 1$, $3 \times 3$, $1 \times 1$ in place of twice $3 \times 3$.
    """

    features: int
    strides: int = 1
    bottleneck: bool = False

    @nn.compact
    def __call__(self, x: Float[Array, "n h w c"]) -> Float[Array, "n h2 w2 c2"]:
        if self.bottleneck:
            layers = ((self.features, 1, 1), (self.features, 3, self.strides), (4 * self.features, 1, 1))
        else:
            layers = ((self.features, 3, self.strides), (self.features, 3, 1))
        y = x
        for features, size, strides in layers[:-1]:
            y = nn.relu(_norm(StridedConv(features, size, strides)(y)))
        features, size, strides = layers[-1]
        y = _norm(StridedConv(features, size, strides)(y), scale_init=nn.initializers.zeros)
        if x.shape != y.shape:
            # Not a strided convolution: of 1 x 1 pixels it would read pixels that it does not use.
            x = _norm(StridedConv(y.shape[-1], 1)(x[:, :: self.strides, :: self.strides]))
        return nn.relu(x + y)


class ResNet(nn.Module):
    r"""A residual network: stem, four stages of blocks, mean over places, dense layer.

    Stage $i$ has `blocks[i]` blocks of $2^i N$ features, and halves the image in its first block but for $i = 0$.

    The norm is a group norm, in groups of $\gcd(16, c)$ of $c$ channels, where the networks of the references have a
    batch norm. A batch norm keeps running averages beside the parameters, and makes the output for one training
    example depend on the others of its batch. A group norm has as many parameters, so that the counts are those of the
    references.

    Args:
        blocks: blocks of each stage.
        features: $N$, channels of the first stage.
        bottleneck: whether the blocks are bottlenecks.
        stem: `"imagenet"`, $7 \times 7$ with stride 2 and the maximum over $3 \times 3$ with stride 2; or `"cifar"`,
            $3 \times 3$ with stride 1.
        classes: number of outputs.

    Raises:
        ValueError: if `stem` is not one of them, or `blocks` no tuple, when the network is used.

    References:
        He, Zhang, Ren, Sun, "Deep Residual Learning for Image Recognition", 2016, https://arxiv.org/abs/1512.03385
        Wu, He, "Group Normalization", 2018, https://arxiv.org/abs/1803.08494
    """

    blocks: tuple[int, ...]
    features: int = 64
    bottleneck: bool = False
    stem: Literal["imagenet", "cifar"] = "imagenet"
    classes: int = 1000

    @nn.compact
    def __call__(self, x: Float[Array, "n h w c"]) -> Float[Array, "n classes"]:
        if self.stem not in STEMS:
            raise ValueError(f"`stem`: expected one of {', '.join(STEMS)}, got {self.stem!r}.")
        check_ints("blocks", self.blocks, 0, "(2, 2, 2, 2)")
        large = self.stem == "imagenet"
        x = StridedConv(self.features, 7 if large else 3, 2 if large else 1, name="stem")(x)
        x = nn.relu(_norm(x))
        if large:
            x = nn.max_pool(x, (3, 3), (2, 2), ((1, 1), (1, 1)))
        for stage, blocks in enumerate(self.blocks):
            for block in range(blocks):
                strides = 2 if stage > 0 and block == 0 else 1
                x = ResidualBlock(2**stage * self.features, strides, self.bottleneck)(x)
        return nn.Dense(self.classes, kernel_init=gaussian, name="head")(jnp.mean(x, axis=(1, 2)))


def resnet(depth: int, *, stem: Literal["imagenet", "cifar"] = "imagenet", classes: int = 1000) -> ResNet:
    """A residual network of standard size.

    Args:
        depth: 18 or 34 (two convolutions in a block), 50, 101, 152 or 200 (bottlenecks).
        stem: as for `ResNet`.
        classes: number of outputs.

    Raises:
        ValueError: for another depth.

    References:
        He, Zhang, Ren, Sun, "Identity Mappings in Deep Residual Networks", 2016, https://arxiv.org/abs/1603.05027
        (depth 200)
    """
    if depth not in tuple(BLOCKS):
        raise ValueError(f"`depth`: expected one of {', '.join(map(str, BLOCKS))}, got {depth!r}; else use `ResNet`.")
    return ResNet(BLOCKS[depth], bottleneck=depth >= 50, stem=stem, classes=classes)


def _norm(x: Array, **options) -> Array:
    """A group norm; a function, so that the layers of a network are numbered in their order."""
    return nn.GroupNorm(num_groups=x.shape[-1] // gcd(16, x.shape[-1]), **options)(x)

"""Flax modules of the layers on groups; the formulas are those of `eqbook.layers.groups`.

On the plane a filter turned by r is applied as the filter itself to the image turned back by r: what r does to pixels
is a permutation, so that equivariance is exact. The result is turned forward again, to the pixels of the image.
"""

import math

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float

from eqbook.groups.actions import ImageAction
from eqbook.layers.groups import GroupConv, Lift, check_square
from eqbook.networks.layers import patches, standard_normal


def weigh(module: nn.Module, x: Float[Array, "*batch features"], filter_shape: tuple[int, ...]) -> Array:
    r"""$z_i = \frac{\sigma_W}{\sqrt{m}} \sum_k x_k W_{ki} + \sigma_b b_i$ over the $m$ entries $k$ of a filter.

    Args:
        module: module of a layer with `channels`, `W_std`, `b_std`; it gets the parameters `W` and `b`.
        x: what each output sees, all entries in the last axis, in the order of `filter_shape`.
        filter_shape: axes of `W` in front of the output channels.
    """
    layer = module.layer
    W = standard_normal(module, "W", (*filter_shape, layer.channels), x)
    z = jnp.matmul(x, W.reshape(-1, layer.channels), precision="highest")
    z = layer.W_std / math.sqrt(x.shape[-1]) * z
    return z if layer.b_std == 0 else z + layer.b_std * standard_normal(module, "b", (layer.channels,), x)


def turned_patches(layer: Lift | GroupConv, seen: Float[Array, "n g q h w c"]) -> Float[Array, "g n h2 w2 features"]:
    """What the filter of each group element sees at each pixel, in the frame of that element.

    Args:
        layer: layer on the plane.
        seen: the images that enter at each element r, one for each q of the filter: a feature map at r q.

    Returns:
        Entries of one filter in the last axis, `q * fh * fw * c` of them.
    """
    action, inverse = ImageAction(layer.group), layer.group.inverse
    frames = jnp.stack([action(inverse[r], seen[:, r]) for r in layer.group.elements])  # [g, n, q, h, w, c]
    flat = patches(frames.reshape(-1, *frames.shape[3:]), layer.filter_shape, (1, 1), layer.padding)
    split = jnp.moveaxis(flat.reshape(*frames.shape[:3], *flat.shape[1:]), 2, 4)  # [g, n, h2, w2, q, fh * fw * c]
    return split.reshape(*split.shape[:4], -1)


def turned_forward(layer: Lift | GroupConv, z: Float[Array, "g n h w c"]) -> Float[Array, "n g h w c"]:
    """Outputs in the frames of the group elements, moved to the pixels of the image."""
    action = ImageAction(layer.group)
    return jnp.stack([action(r, z[r]) for r in layer.group.elements], axis=1)


class LiftModule(nn.Module):
    """Finite lifting convolution."""

    layer: Lift

    @nn.compact
    def __call__(self, x: Float[Array, "n ..."]) -> Float[Array, "n g ..."]:
        layer = self.layer
        if layer.planar:
            check_square(x.shape[1:3])
            n, *image = x.shape
            seen = turned_patches(layer, jnp.broadcast_to(x[:, None, None], (n, layer.group.order, 1, *image)))
            return turned_forward(layer, weigh(self, seen, (*layer.filter_shape, x.shape[-1])))
        support = jnp.asarray(layer.coordinates(x.shape[-1]))
        inverse = layer.group.inverse
        moved = jnp.stack([layer.action(inverse[g], x) for g in layer.group.elements], axis=1)  # [n, g, d]
        return weigh(self, moved[..., support], (len(support),))


class GroupConvModule(nn.Module):
    """Finite group convolution."""

    layer: GroupConv

    @nn.compact
    def __call__(self, x: Float[Array, "n g ..."]) -> Float[Array, "n g ..."]:
        layer, c = self.layer, x.shape[-1]
        elements = jnp.asarray(layer.elements)
        table = jnp.asarray(layer.group.table)[:, elements]  # table[g, k] = g s_k
        if not layer.planar:
            neighbours = x[:, table]  # [n, g, s, c]
            return weigh(self, neighbours.reshape(*x.shape[:2], -1), (len(elements), c))
        check_square(x.shape[2:4])
        seen = turned_patches(layer, x[:, table])
        return turned_forward(layer, weigh(self, seen, (len(elements), *layer.filter_shape, c)))


def group_mean(x: Float[Array, "n g ... c"]) -> Float[Array, "n c"]:
    """Mean over the group, and over pixels if there are any."""
    return jnp.mean(x, axis=tuple(range(1, x.ndim - 1)))

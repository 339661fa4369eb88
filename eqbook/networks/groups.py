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
from eqbook.networks.layers import convolve, product, standard_normal


def weigh(module: nn.Module, x: Float[Array, "*batch features"], filter_shape: tuple[int, ...]) -> Array:
    r"""$z_i = \frac{\sigma_W}{\sqrt{m}} \sum_k x_k W_{ki} + \sigma_b b_i$ over the $m$ entries $k$ of a filter.

    Args:
        module: module of a layer with `channels`, `W_std`, `b_std`; it gets the parameters `W` and `b`.
        x: what each output sees, all entries in the last axis, in the order of `filter_shape`.
        filter_shape: axes of `W` in front of the output channels.
    """
    W = standard_normal(module, "W", (*filter_shape, module.layer.channels), x)
    factor = module.layer.W_std / math.sqrt(x.shape[-1])
    return with_bias(module, product(x, W.reshape(-1, module.layer.channels), factor))


def with_bias(module: nn.Module, z: Float[Array, "*batch channels"]) -> Array:
    """The bias added, if there is one."""
    layer = module.layer
    return z if layer.b_std == 0 else z + layer.b_std * standard_normal(module, "b", (layer.channels,), z)


def convolve_frames(module: nn.Module, seen: Float[Array, "n g q h w c"], axes: tuple[int, ...]) -> Array:
    """What the filter of each group element makes of the images, at the pixels of the images, `[n, g, h2, w2, f]`.

    Args:
        module: module of a layer on the plane.
        seen: the images that enter at each element r, one for each q of the filter: a feature map at r q.
        axes: axes of `W` in front of those of a filter for pixels: `()` or `(q,)`.
    """
    layer, (n, g, q, h, w, c) = module.layer, seen.shape
    action, inverse = ImageAction(layer.group), layer.group.inverse
    W = standard_normal(module, "W", (*axes, *layer.filter_shape, c, layer.channels), seen)
    W = jnp.moveaxis(W.reshape(q, *layer.filter_shape, c, -1), 0, 2)  # [fh, fw, q, c, f]
    # The filter stays, and the image is turned into its frame, and the result forward again.
    frames = jnp.stack([action(inverse[r], seen[:, r]) for r in layer.group.elements])  # [g, n, q, h, w, c]
    frames = jnp.moveaxis(frames, 2, 4).reshape(g * n, h, w, q * c)
    z = convolve(frames, W.reshape(*layer.filter_shape, q * c, -1), (1, 1), layer.padding)
    z = z.reshape(g, n, *z.shape[1:])
    turned = jnp.stack([action(r, z[r]) for r in layer.group.elements], axis=1)
    return with_bias(module, layer.W_std / math.sqrt(q * math.prod(layer.filter_shape) * c) * turned)


class LiftModule(nn.Module):
    """Finite lifting convolution."""

    layer: Lift

    @nn.compact
    def __call__(self, x: Float[Array, "n ..."]) -> Float[Array, "n g ..."]:
        layer = self.layer
        if layer.planar:
            check_square(x.shape[1:3])
            n, *image = x.shape
            return convolve_frames(self, jnp.broadcast_to(x[:, None, None], (n, layer.group.order, 1, *image)), ())
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
        return convolve_frames(self, x[:, table], (len(elements),))


def group_mean(x: Float[Array, "n g ... c"]) -> Float[Array, "n c"]:
    """Mean over the group, and over pixels if there are any."""
    return jnp.mean(x, axis=tuple(range(1, x.ndim - 1)))

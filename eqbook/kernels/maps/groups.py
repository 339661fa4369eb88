r"""Layers on groups, by the double-index recursion: slow, literal, and therefore the oracle of the fast paths.

$K_{gg'}(f, f')$ is the covariance of the feature map of $f$ at $g$ with that of $f'$ at $g'$.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from eqbook.groups.actions import Action, ImageAction
from eqbook.groups.augmentation import orbit
from eqbook.kernels.maps.pooling import linear_map
from eqbook.kernels.maps.weights import weight_map
from eqbook.kernels.recursion import kernel_map
from eqbook.kernels.spatial import mean_of_all, window_sum
from eqbook.kernels.state import PairKernel
from eqbook.layers import GroupConv, GroupPool, Lift, output_domain
from eqbook.layers.domain import naming
from eqbook.layers.groups import check_square


@kernel_map.register
def _(layer: Lift, k: PairKernel) -> PairKernel:
    output_domain(layer, k.domain)
    with naming(layer):
        if layer.planar:
            check_square(k.nngp.shape[:2])
            return weight_map(layer, k, lambda c: _lift_plane(layer, c), layout="group pixel pairs", group=layer.group)
        if k.layout != "coordinate pairs":
            raise ValueError(
                "expected the network's input; after another layer coordinates are channels: put it first."
            )
        support = jnp.asarray(layer.coordinates(len(k.nngp)))
        return weight_map(
            layer, k, lambda c: _lift_vectors(layer.action, support, c), layout="group", group=layer.group
        )


@kernel_map.register
def _(layer: GroupConv, k: PairKernel) -> PairKernel:
    output_domain(layer, k.domain)
    with naming(layer):
        return weight_map(layer, k, lambda c: _convolve(layer, c))


@kernel_map.register
def _(layer: GroupPool, k: PairKernel) -> PairKernel:
    r"""$K = \frac{1}{|G|^2} \sum_{g, g'} K_{gg'}$, and the same mean over pairs of pixels."""
    output_domain(layer, k.domain)
    return linear_map(k, mean_of_all, layout="vector", group=None)


def _lift_vectors(action: Action, support: Array, k: Float[Array, "d d"]) -> Float[Array, "g g"]:
    r"""$\frac{1}{|S|} \sum_{s \in S} (\rho(g)^{-1} f)(s)\, (\rho(g')^{-1} f')(s)$ from the products $f(s) f'(s')$."""
    inverse = action.group.inverse
    columns = orbit(action, k)[inverse]  # [g', s, s']: the second input moved by the inverse of g'
    both = orbit(action, columns.swapaxes(-1, -2))[inverse]  # [g, g', s', s]
    return jnp.mean(jnp.diagonal(both, axis1=-2, axis2=-1)[..., support], axis=-1)


def _lift_plane(layer: Lift, k: Float[Array, "h w h w"]) -> Float[Array, "g h w g h w"]:
    r"""$\frac{1}{|F|} \sum_{y \in F} K(t + r y, t' + r' y)$."""
    order = layer.group.order
    sides = k.shape[:2]
    copies = jnp.broadcast_to(k[None, :, :, None], (order, *sides, order, *sides))
    return _turned_window(layer, copies)


def _convolve(layer: GroupConv, k: Float[Array, "..."]) -> Float[Array, "..."]:
    r"""$\frac{1}{|S|} \sum_{s \in S} K_{gs, g's}$; on the plane also the mean over the turned windows."""
    moved = [layer.group.table[:, s] for s in layer.elements]  # g s for every g
    if not layer.planar:
        return sum(k[gs][:, gs] for gs in moved) / len(moved)
    check_square(k.shape[1:3])
    return _turned_window(layer, sum(k[gs][:, :, :, gs] for gs in moved) / len(moved))


def _turned_window(layer: Lift | GroupConv, k: Float[Array, "g h w g h w"]) -> Float[Array, "g h w g h w"]:
    r"""$\frac{1}{|F|} \sum_{y \in F} K_{rr'}(t + r y, t' + r' y)$, as a plain window in the frames of $r$ and $r'$."""
    action, inverse = ImageAction(layer.group), layer.group.inverse
    frames = jnp.moveaxis(_turn_both(action, k, inverse), 3, 1)  # [r, r', h, w, h, w]

    def window(block: Array) -> Array:
        return window_sum(block, layer.filter_shape, (1, 1), layer.padding) / layer.fan

    return _turn_both(action, jnp.moveaxis(jax.vmap(jax.vmap(window))(frames), 1, 3), layer.group.elements)


def _turn_both(action: ImageAction, k: Float[Array, "g h w g h w"], turns: object) -> Float[Array, "g h w g h w"]:
    """Turn the image of `k` at the element r by `turns[r]`, for the first input and then for the second."""
    for _ in range(2):
        flat = k.reshape(*k.shape[:3], -1)  # what belongs to the other input are channels here
        turned = jnp.stack([action(turns[r], flat[r]) for r in action.group.elements])
        k = turned.reshape(k.shape).transpose(3, 4, 5, 0, 1, 2)
    return k

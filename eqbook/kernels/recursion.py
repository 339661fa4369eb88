"""The recursion through a network: from the kernels of one pair of inputs to those of its outputs.

The maps of single layers live in `eqbook.kernels.maps`, one module for each kind of layer.
"""

from functools import singledispatch

import jax.numpy as jnp
from jaxtyping import Array, Float

from eqbook._checks import as_float
from eqbook.kernels.so3.correlation import correlation_features
from eqbook.kernels.so3.sphere import sphere_coefficients
from eqbook.kernels.state import Layout, PairKernel
from eqbook.layers import (
    Activation,
    AvgPool,
    Conv,
    Dense,
    Erf,
    Flatten,
    GlobalAvgPool,
    GroupConv,
    GroupPool,
    Layer,
    LayerNorm,
    Lift,
    LiftS2,
    LocallyConnected,
    Relu,
    Residual,
    Sequential,
    SO3Conv,
    SO3Pool,
)
from eqbook.layers.domain import OnRotations, naming

# Layers that need, and leave, kernels at equal pixels only.
UNMIXED = (
    Activation, Conv, Dense, Erf, Flatten, GroupConv, GroupPool, LayerNorm, LiftS2, LocallyConnected, Relu, SO3Conv,
    SO3Pool,
)  # fmt: skip


@singledispatch
def kernel_map(layer: Layer, k: PairKernel) -> PairKernel:
    """Kernels of a layer's output from those of its input, for one pair of inputs.

    Args:
        layer: any layer.
        k: kernels of its input.

    Raises:
        ValueError: if the layer has no infinite-width limit, or cannot stand in this place.
    """
    raise ValueError(f"no infinite-width limit is known for {type(layer).__name__}.")


@kernel_map.register
def _(layer: Sequential, k: PairKernel) -> PairKernel:
    for position, inner in enumerate(layer.layers):
        with naming(f"layer {position}"):
            k = kernel_map(inner, k)
    return k


def pools(layer: Layer) -> bool:
    """Whether a network has a layer that mixes pixels of one input, so that all pairs of pixels matter.

    Pooling does; so does a filter that is turned, for one input by one rotation and for the other by another. A layer
    of another kind than the package's may: all pairs are right for every layer, equal pixels are fewer.
    """
    if isinstance(layer, Sequential | Residual):
        return any(map(pools, _inner(layer)))
    return layer.planar if isinstance(layer, Lift) else not isinstance(layer, UNMIXED)


def signed(layer: Layer) -> bool:
    """Whether a nonlinearity other than relu, or a layer of another kind, may have negative covariances behind it."""
    if isinstance(layer, Sequential | Residual):
        return any(map(signed, _inner(layer)))
    return isinstance(layer, Erf | Activation) or not isinstance(layer, (*UNMIXED, AvgPool, GlobalAvgPool, Lift))


def _inner(layer: Sequential | Residual) -> tuple[Layer, ...]:
    return layer.layers if isinstance(layer, Sequential) else layer.branch.layers


def _first(layer: Layer) -> Layer:
    return _first(layer.layers[0]) if isinstance(layer, Sequential) else layer


def _start_layout(net: Layer, axes: int) -> Layout:
    if axes == 3 and isinstance(_first(net), LiftS2):
        return "harmonics"
    if axes > 1:
        return "pixel pairs" if pools(net) else "pixels"
    return "coordinate pairs" if isinstance(_first(net), Lift) else "vector"


def input_kernel(net: Layer, x1: Float[Array, "..."], x2: Float[Array, "..."]) -> PairKernel:
    r"""Kernels of the inputs, in the layout from which the recursion through `net` starts.

    $K^0(x, x') = \frac1d \sum_i x_i x'_i$; for images the mean over channels at each pair of pixels; for vectors that
    a group moves the product at each pair of coordinates; for signals on the sphere products of their harmonic
    coefficients. $\Theta^0 = 0$: an input has no parameters.

    Args:
        net: the network.
        x1: one input, `[d]` or `[h, w, channels]`.
        x2: another, of the same shape, or the same object, which networks on the sphere integrate more accurately.

    Raises:
        ValueError: if the inputs have other shapes, or on the sphere do not live on its grid.
    """
    coincident = x1 is x2
    x1, x2 = as_float(x1, "x1"), as_float(x2, "x2")
    if x1.ndim not in (1, 3) or not x1.size:
        raise ValueError(
            f"`x1`: expected one vector [d] or image [h, w, channels], got shape {x1.shape}; use `gram` for a batch."
        )
    if x2.shape != x1.shape:
        raise ValueError(f"`x2`: expected an input of shape {x1.shape} as in `x1`, got shape {x2.shape}.")
    layout = _start_layout(net, x1.ndim)
    if layout == "harmonics":
        with naming(f"layer 0: {_first(net)}"):
            f1, f2 = (sphere_coefficients(x[None])[0] for x in (x1, x2))
        nngp = correlation_features(f1, f2)
        variances = (correlation_features(f, f) for f in (f1, f2))
        return PairKernel(nngp, jnp.zeros_like(nngp), *variances, layout, coincident=coincident, signed=signed(net))
    products = {
        "vector": "c,c->",
        "pixels": "hwc,hwc->hw",
        "pixel pairs": "hwc,yxc->hwyx",
        "coordinate pairs": "i,j->ij",
    }
    terms = 1 if layout == "coordinate pairs" else x1.shape[-1]

    def covariance(x: Array, y: Array) -> Array:
        return jnp.einsum(products[layout], x, y, precision="highest") / terms

    nngp = covariance(x1, x2)
    return PairKernel(nngp, jnp.zeros_like(nngp), covariance(x1, x1), covariance(x2, x2), layout)


def pair_kernel(net: Layer, x1: Float[Array, "..."], x2: Float[Array, "..."]) -> PairKernel:
    r"""NNGP and NTK of a network at one pair of inputs.

    Args:
        net: the network, most often a `Sequential`.
        x1: one input, `[d]` or `[h, w, channels]`.
        x2: another, of the same shape, or the same object, which networks on the sphere integrate more accurately.

    Raises:
        ValueError: if a layer cannot stand in its place, the output still has pixels or lies on a group, or the inputs
            have other shapes.

    References:
        Jacot, Gabriel, Hongler, "Neural Tangent Kernel: Convergence and Generalization in Neural Networks", 2018,
        https://arxiv.org/abs/1806.07572
    """
    k = kernel_map(net, input_kernel(net, x1, x2))
    layers = getattr(net, "layers", (net,))
    with naming(f"layer {len(layers) - 1}: {layers[-1]}"):
        _check_end(k)
    return k


def _check_end(k: PairKernel) -> None:
    """Raise unless the network's output is a vector."""
    if k.group is not None:
        raise ValueError(
            "the network's output is still a feature map on the group; end it with GroupPool(), and Dense."
        )
    if isinstance(k.domain, OnRotations):
        raise ValueError("the network's output is still a feature map on SO(3); end it with SO3Pool(), and Dense.")
    if k.layout != "vector":
        raise ValueError("the network's output still has pixels; end it with Flatten() or GlobalAvgPool(), and Dense.")

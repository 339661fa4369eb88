"""The kernel map of each layer, and the recursion through a network."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial, singledispatch

import jax.numpy as jnp
from jaxtyping import Array, Float

from eqbook._checks import as_float
from eqbook.kernels.duals import erf_dual, relu_dual, safe_sqrt
from eqbook.kernels.quadrature import quadrature_dual
from eqbook.kernels.spatial import pool_mean, same_pixel, window_sum
from eqbook.kernels.state import Layout, PairKernel
from eqbook.layers import (
    Activation,
    AvgPool,
    Conv,
    Dense,
    Erf,
    Flatten,
    GlobalAvgPool,
    Layer,
    LayerNorm,
    Relu,
    Residual,
    Sequential,
)


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


def _weights(layer: Dense | Conv, k: PairKernel, gather: Callable[[Array], Array]) -> PairKernel:
    r"""$K' = \sigma_W^2 A(K) + \sigma_b^2$; the layer's own parameters add $K'$ to the NTK of the earlier ones."""

    def affine(covariance: Array) -> Array:
        return layer.W_std**2 * gather(covariance) + layer.b_std**2

    nngp = affine(k.nngp)
    return replace(
        k,
        nngp=nngp,
        ntk=nngp + layer.W_std**2 * gather(k.ntk),
        self1=affine(k.self1),
        self2=affine(k.self2),
        is_gaussian=True,
    )


def _linear(k: PairKernel, gather: Callable[[Array], Array], layout: Layout | None = None) -> PairKernel:
    """A linear layer without parameters: the same sum for every array. It keeps a Gaussian process Gaussian."""
    arrays = {name: gather(getattr(k, name)) for name in ("nngp", "ntk", "self1", "self2")}
    return replace(k, **arrays, layout=layout or k.layout)


def _need_pixels(layer: Layer, k: PairKernel) -> None:
    if k.layout == "vector":
        raise ValueError(f"{layer} needs images, and its input is a batch of vectors.")


@kernel_map.register
def _(layer: Dense, k: PairKernel) -> PairKernel:
    return _weights(layer, k, lambda covariance: covariance)


@kernel_map.register
def _(layer: Conv, k: PairKernel) -> PairKernel:
    _need_pixels(layer, k)
    sides = (layer.filter_shape, layer.strides, layer.padding)
    return _weights(layer, k, lambda covariance: window_sum(covariance, *sides) / layer.fan)


@kernel_map.register
def _(layer: AvgPool, k: PairKernel) -> PairKernel:
    _need_pixels(layer, k)
    return _linear(k, lambda covariance: pool_mean(covariance, layer.window, layer.strides))


@kernel_map.register
def _(layer: GlobalAvgPool, k: PairKernel) -> PairKernel:
    _need_pixels(layer, k)
    return _linear(k, jnp.mean, "vector")


@kernel_map.register
def _(layer: Flatten, k: PairKernel) -> PairKernel:
    """Pixels become features, and a kernel is a mean over features: the mean of equal pixels."""
    if k.layout == "vector":
        return k
    return _linear(k, lambda covariance: jnp.mean(same_pixel(covariance)), "vector")


def _variances(k: PairKernel) -> tuple[Array, Array]:
    """Variances of both inputs, shaped to broadcast against `nngp`."""
    if k.layout != "pixel pairs":
        return k.self1, k.self2
    return same_pixel(k.self1)[:, :, None, None], same_pixel(k.self2)


def _need_gaussian(layer: Layer, k: PairKernel) -> None:
    if not k.is_gaussian:
        raise ValueError(
            f"{layer} needs a Gaussian input, so it must follow a layer with weights such as Dense; "
            "it follows the network's input or another nonlinearity."
        )


def _pointwise(layer: Layer, dual: Callable, k: PairKernel) -> PairKernel:
    r"""$K' = E[\sigma(u)\sigma(v)]$, $\Theta' = \Theta E[\sigma'(u)\sigma'(v)]$: no parameters, nothing is added."""
    _need_gaussian(layer, k)
    nngp, derivative = dual(*_variances(k), k.nngp)
    self1, self2 = (
        dual(*_variances(replace(k, self1=covariance, self2=covariance)), covariance)[0]
        for covariance in (k.self1, k.self2)
    )
    return replace(k, nngp=nngp, ntk=k.ntk * derivative, self1=self1, self2=self2, is_gaussian=False)


@kernel_map.register
def _(layer: Relu, k: PairKernel) -> PairKernel:
    return _pointwise(layer, relu_dual, k)


@kernel_map.register
def _(layer: Erf, k: PairKernel) -> PairKernel:
    return _pointwise(layer, erf_dual, k)


@kernel_map.register
def _(layer: Activation, k: PairKernel) -> PairKernel:
    return _pointwise(layer, partial(quadrature_dual, layer.function, layer.nodes), k)


@kernel_map.register
def _(layer: LayerNorm, k: PairKernel) -> PairKernel:
    """At infinite width the mean over channels is 0 and their variance is that of each: divide by both roots."""
    _need_gaussian(layer, k)

    def normalise(covariance: Array, var1: Array, var2: Array) -> Array:
        scale = safe_sqrt(var1) * safe_sqrt(var2)
        return jnp.where(scale > 0, covariance / jnp.where(scale > 0, scale, 1), 0)

    variances = _variances(k)
    self1, self2 = (
        normalise(covariance, *_variances(replace(k, self1=covariance, self2=covariance)))
        for covariance in (k.self1, k.self2)
    )
    return replace(k, nngp=normalise(k.nngp, *variances), ntk=normalise(k.ntk, *variances), self1=self1, self2=self2)


@kernel_map.register
def _(layer: Residual, k: PairKernel) -> PairKernel:
    """The branch ends with fresh weights, so its output is uncorrelated with its input: the kernels add."""
    branch = kernel_map(layer.branch, k)
    if not branch.is_gaussian:
        raise ValueError(f"{layer}: expected a branch whose last layer has weights, got {layer.branch.layers[-1]}.")
    if (branch.layout, branch.nngp.shape) != (k.layout, k.nngp.shape):
        raise ValueError(f"{layer}: expected a branch that keeps the image's shape; use stride 1 and no pooling in it.")
    sums = {name: getattr(k, name) + getattr(branch, name) for name in ("nngp", "ntk", "self1", "self2")}
    return replace(k, **sums)


@kernel_map.register
def _(layer: Sequential, k: PairKernel) -> PairKernel:
    for position, inner in enumerate(layer.layers):
        try:
            k = kernel_map(inner, k)
        except ValueError as error:
            raise ValueError(f"layer {position}: {error}") from None
    return k


def pools(layer: Layer) -> bool:
    """Whether a network has a layer that mixes pixels of one input, so that all pairs of pixels matter."""
    inner = layer.branch.layers if isinstance(layer, Residual) else getattr(layer, "layers", ())
    return isinstance(layer, AvgPool | GlobalAvgPool) or any(map(pools, inner))


def pair_kernel(net: Layer, x1: Float[Array, "..."], x2: Float[Array, "..."]) -> PairKernel:
    r"""NNGP and NTK of a network at one pair of inputs.

    The recursion starts from $K^0(x, x') = \frac1d \sum_i x_i x'_i$, for images from the mean over channels at each
    pair of pixels, and from $\Theta^0 = 0$: an input has no parameters.

    Args:
        net: the network, most often a `Sequential`.
        x1: one input, `[d]` or `[h, w, channels]`.
        x2: another, of the same shape.

    Raises:
        ValueError: if a layer cannot stand in its place, or the output still has pixels.

    References:
        Jacot, Gabriel, Hongler, "Neural Tangent Kernel: Convergence and Generalization in Neural Networks", 2018,
        https://arxiv.org/abs/1806.07572
    """
    x1, x2 = as_float(x1), as_float(x2)
    layout = "vector" if x1.ndim == 1 else "pixel pairs" if pools(net) else "pixels"
    product = {"vector": "c,c->", "pixels": "hwc,hwc->hw", "pixel pairs": "hwc,yxc->hwyx"}[layout]

    def covariance(x: Array, y: Array) -> Array:
        return jnp.einsum(product, x, y, precision="highest") / x.shape[-1]

    nngp = covariance(x1, x2)
    k = kernel_map(net, PairKernel(nngp, jnp.zeros_like(nngp), covariance(x1, x1), covariance(x2, x2), layout))
    if k.layout != "vector":
        raise ValueError("the network's output still has pixels; end it with Flatten() or GlobalAvgPool(), and Dense.")
    return k

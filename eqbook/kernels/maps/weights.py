"""Layers with weights: dense, convolutional and locally connected."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from jaxtyping import Array

from eqbook.kernels.recursion import kernel_map
from eqbook.kernels.spatial import only_same_pixel, window_sum
from eqbook.kernels.state import PairKernel
from eqbook.layers import Conv, Dense, Layer, LocallyConnected, output_domain
from eqbook.layers.domain import naming


def weight_map(layer: Layer, k: PairKernel, gather: Callable[[Array], Array], **fields: Any) -> PairKernel:
    r"""$K' = \sigma_W^2 A(K) + \sigma_b^2$, $\Theta' = K' + \sigma_W^2 A(\Theta)$.

    The gradient with respect to the layer's own parameters contributes $K'$, the earlier ones what is left of $\Theta$.

    Args:
        layer: layer with `W_std` and `b_std`.
        k: kernels of its input.
        gather: the mean $A$ over the positions of one filter.
        **fields: other fields of the result, such as `layout`.
    """

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
        mixed=False,
        wide=True,
        **fields,
    )


@kernel_map.register
def _(layer: Dense, k: PairKernel) -> PairKernel:
    return weight_map(layer, k, lambda covariance: covariance)


@kernel_map.register
def _(layer: Conv, k: PairKernel) -> PairKernel:
    return _window_map(layer, k)


@kernel_map.register
def _(layer: LocallyConnected, k: PairKernel) -> PairKernel:
    r"""$K'(t, t') = \delta_{tt'}$ times that of the convolution: places share neither weights nor biases."""
    k = _window_map(layer, k)
    return replace(k, **{name: only_same_pixel(getattr(k, name)) for name in ("nngp", "ntk", "self1", "self2")})


def _window_map(layer: Conv | LocallyConnected, k: PairKernel) -> PairKernel:
    output_domain(layer, k.domain)
    sides = (layer.filter_shape, layer.strides, layer.padding)
    with naming(layer):
        return weight_map(layer, k, lambda covariance: window_sum(covariance, *sides) / layer.fan)

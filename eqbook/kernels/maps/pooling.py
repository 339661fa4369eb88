"""Linear layers without parameters, which gather pixels."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from jaxtyping import Array

from eqbook.kernels.recursion import kernel_map
from eqbook.kernels.spatial import mean_of_all, pool_mean, same_pixel
from eqbook.kernels.state import PairKernel
from eqbook.layers import AvgPool, Flatten, GlobalAvgPool, output_domain
from eqbook.layers.domain import naming


def linear_map(k: PairKernel, gather: Callable[[Array], Array], **fields: Any) -> PairKernel:
    """The same sum for every array. It keeps a Gaussian process Gaussian.

    Args:
        k: kernels of the layer's input.
        gather: the sum.
        **fields: other fields of the result, such as `layout`.
    """
    arrays = {name: gather(getattr(k, name)) for name in ("nngp", "ntk", "self1", "self2")}
    return replace(k, **arrays, **fields)


def _check_pairs(layer: AvgPool | GlobalAvgPool, k: PairKernel) -> None:
    if k.layout == "pixels":
        raise ValueError(
            f"{layer}: expected kernels at all pairs of pixels, got those at equal pixels; start from `input_kernel` "
            "of a network that has this layer."
        )


@kernel_map.register
def _(layer: AvgPool, k: PairKernel) -> PairKernel:
    output_domain(layer, k.domain)
    _check_pairs(layer, k)
    with naming(layer):
        return linear_map(k, lambda covariance: pool_mean(covariance, layer.window, layer.strides))


@kernel_map.register
def _(layer: GlobalAvgPool, k: PairKernel) -> PairKernel:
    output_domain(layer, k.domain)
    _check_pairs(layer, k)
    return linear_map(k, mean_of_all, layout="vector")


@kernel_map.register
def _(layer: Flatten, k: PairKernel) -> PairKernel:
    """Pixels become features, and a kernel is a mean over features: the mean of equal pixels."""
    output_domain(layer, k.domain)
    if k.domain == "vectors":
        return k
    several = math.prod(k.nngp.shape) > 1
    return linear_map(k, lambda covariance: mean_of_all(same_pixel(covariance)), layout="vector", mixed=several)

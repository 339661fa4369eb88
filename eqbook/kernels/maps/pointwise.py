"""Layers that act at every place on its own: nonlinearities and normalisation."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import jax.numpy as jnp
from jaxtyping import Array

from eqbook.kernels.duals import SNAP, erf_dual, relu_dual, safe_sqrt
from eqbook.kernels.quadrature import quadrature_dual
from eqbook.kernels.recursion import kernel_map
from eqbook.kernels.spatial import same_pixel
from eqbook.kernels.state import PairKernel
from eqbook.layers import Activation, Erf, Layer, LayerNorm, Relu


def variances(k: PairKernel) -> tuple[Array, Array]:
    """Variances of both inputs at every place, shaped to broadcast against `nngp`."""
    if k.layout == "pixel pairs":
        return same_pixel(k.self1)[:, :, None, None], same_pixel(k.self2)
    if k.layout == "group":
        return jnp.diagonal(k.self1)[:, None], jnp.diagonal(k.self2)
    if k.layout == "group pixel pairs":
        var1, var2 = (jnp.einsum("ghwghw->ghw", covariance) for covariance in (k.self1, k.self2))
        return var1[..., None, None, None], var2
    if k.layout == "rotations":
        return k.self1[..., -1:], k.self2[..., -1:]
    return k.self1, k.self2


def need_gaussian(layer: Layer, k: PairKernel) -> None:
    """Raise unless the layer's input is a Gaussian process.

    Raises:
        ValueError: naming the layer.
    """
    if not k.is_gaussian:
        raise ValueError(
            f"{layer} needs a Gaussian input, so it must follow a layer with weights such as Dense; "
            "it follows the network's input or another nonlinearity."
        )


def pointwise_map(layer: Layer, dual: Callable, k: PairKernel) -> PairKernel:
    r"""$K' = E[\sigma(u)\sigma(v)]$, $\Theta' = \Theta E[\sigma'(u)\sigma'(v)]$: no parameters, nothing is added."""
    need_gaussian(layer, k)
    if k.mixed:
        raise ValueError(
            f"{layer} needs features of one law, and got those of different pixels from Flatten; put it in front of "
            "Flatten, where it computes the same, or a Dense layer between the two."
        )
    nngp, derivative = dual(*variances(k), k.nngp)
    self1, self2 = (
        dual(*variances(replace(k, self1=covariance, self2=covariance)), covariance)[0]
        for covariance in (k.self1, k.self2)
    )
    return replace(k, nngp=nngp, ntk=k.ntk * derivative, self1=self1, self2=self2, is_gaussian=False)


@kernel_map.register
def _(layer: Relu, k: PairKernel) -> PairKernel:
    return pointwise_map(layer, partial(relu_dual, snap=SNAP), k)


@kernel_map.register
def _(layer: Erf, k: PairKernel) -> PairKernel:
    return pointwise_map(layer, partial(erf_dual, snap=SNAP), k)


@kernel_map.register
def _(layer: Activation, k: PairKernel) -> PairKernel:
    return pointwise_map(layer, partial(quadrature_dual, layer.function, layer.nodes), k)


@kernel_map.register
def _(layer: LayerNorm, k: PairKernel) -> PairKernel:
    """At infinite width the mean over channels is 0 and their variance is that of each: divide by both roots."""
    need_gaussian(layer, k)

    def normalise(covariance: Array, var1: Array, var2: Array) -> Array:
        scale = safe_sqrt(var1) * safe_sqrt(var2)
        scale = jnp.where(jnp.isinf(scale), jnp.nan, scale)  # what has left the dtype is no finite kernel
        return jnp.where(scale == 0, 0, covariance / jnp.where(scale == 0, 1, scale))

    both = variances(k)
    self1, self2 = (
        normalise(covariance, *variances(replace(k, self1=covariance, self2=covariance)))
        for covariance in (k.self1, k.self2)
    )
    return replace(k, nngp=normalise(k.nngp, *both), ntk=normalise(k.ntk, *both), self1=self1, self2=self2)

"""The kernel map of each layer, and the recursion through a network."""

from dataclasses import replace
from functools import singledispatch

import jax.numpy as jnp
from jaxtyping import Array, Float

from eqbook._checks import as_float
from eqbook.kernels.duals import erf_dual, relu_dual
from eqbook.kernels.state import PairKernel
from eqbook.layers import Dense, Erf, Layer, Relu, Sequential


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
def _(layer: Dense, k: PairKernel) -> PairKernel:
    r"""$K' = \sigma_W^2 K + \sigma_b^2$; the layer's own parameters add $K'$ to the NTK of the earlier ones."""

    def affine(covariance: Float[Array, ""]) -> Float[Array, ""]:
        return layer.W_std**2 * covariance + layer.b_std**2

    nngp = affine(k.nngp)
    return PairKernel(
        nngp=nngp,
        ntk=nngp + layer.W_std**2 * k.ntk,
        var1=affine(k.var1),
        var2=affine(k.var2),
        is_gaussian=True,
    )


def _pointwise(layer: Layer, dual, k: PairKernel) -> PairKernel:
    r"""$K' = E[\sigma(u)\sigma(v)]$, $\Theta' = \Theta E[\sigma'(u)\sigma'(v)]$: no parameters, nothing is added."""
    if not k.is_gaussian:
        raise ValueError(
            f"{layer} needs a Gaussian input, so it must follow a layer with weights such as Dense; "
            "it follows the network's input or another nonlinearity."
        )
    nngp, derivative = dual(k.var1, k.var2, k.nngp)
    var1, var2 = dual(k.var1, k.var1, k.var1)[0], dual(k.var2, k.var2, k.var2)[0]
    return replace(k, nngp=nngp, ntk=k.ntk * derivative, var1=var1, var2=var2, is_gaussian=False)


@kernel_map.register
def _(layer: Relu, k: PairKernel) -> PairKernel:
    return _pointwise(layer, relu_dual, k)


@kernel_map.register
def _(layer: Erf, k: PairKernel) -> PairKernel:
    return _pointwise(layer, erf_dual, k)


@kernel_map.register
def _(layer: Sequential, k: PairKernel) -> PairKernel:
    for position, inner in enumerate(layer.layers):
        try:
            k = kernel_map(inner, k)
        except ValueError as error:
            raise ValueError(f"layer {position}: {error}") from None
    return k


def pair_kernel(net: Layer, x1: Float[Array, " d"], x2: Float[Array, " d"]) -> PairKernel:
    r"""NNGP and NTK of a network at one pair of inputs.

    The recursion starts from $K^0(x, x') = \frac1d \sum_i x_i x'_i$ and $\Theta^0 = 0$: an input has no parameters.

    Args:
        net: the network, most often a `Sequential`.
        x1: one input, `[d]`.
        x2: another, `[d]`.

    Raises:
        ValueError: if a layer cannot stand in its place.

    References:
        Jacot, Gabriel, Hongler, "Neural Tangent Kernel: Convergence and Generalization in Neural Networks", 2018,
        https://arxiv.org/abs/1806.07572
    """

    x1, x2 = as_float(x1), as_float(x2)

    def covariance(x, y):
        return jnp.dot(x, y, precision="highest") / x.shape[0]

    start = PairKernel(
        nngp=covariance(x1, x2),
        ntk=jnp.zeros((), x1.dtype),
        var1=covariance(x1, x1),
        var2=covariance(x2, x2),
    )
    return kernel_map(net, start)

"""Layers that a user adds, as the docstring of `eqbook.layers` says."""

from dataclasses import dataclass

import jax
import numpy as np
import pytest
from flax import linen as nn

import eqbook as eq
from eqbook.kernels.recursion import input_kernel, kernel_map, signed
from eqbook.layers import Layer
from eqbook.networks import to_flax


@dataclass(frozen=True)
class OwnPool(Layer):
    """The mean over all pixels, once more."""


@dataclass(frozen=True)
class Half(Layer):
    """Multiply by one half."""


@kernel_map.register
def _(layer: OwnPool, k: eq.kernels.PairKernel) -> eq.kernels.PairKernel:
    return kernel_map(eq.GlobalAvgPool(), k)


@to_flax.register
def _(layer: OwnPool) -> nn.Module:
    return to_flax(eq.GlobalAvgPool())


@kernel_map.register
def _(layer: Half, k: eq.kernels.PairKernel) -> eq.kernels.PairKernel:
    return jax.tree.map(lambda covariance: covariance / 4, k)


@pytest.mark.parametrize("method", ["auto", "literal"])
def test_a_pooling_of_another_kind_sees_all_pairs_of_pixels(method, x64):
    x = np.random.default_rng(0).normal(size=(3, 4, 4, 2))
    ours, own = (
        eq.gram(eq.Sequential(eq.Conv(1, (3, 3)), eq.Relu(), pool, eq.Dense(1)), x, method=method)
        for pool in (eq.GlobalAvgPool(), OwnPool())
    )
    for kind in ("nngp", "ntk"):
        np.testing.assert_allclose(getattr(own, kind), getattr(ours, kind), rtol=1e-12)


def test_a_layer_of_another_kind_stands_in_front_of_a_flattening_too(x64):
    x = np.random.default_rng(1).normal(size=(2, 3, 3, 1))
    last = eq.Flatten(), eq.Dense(1)
    plain, own = (
        eq.gram(eq.Sequential(eq.Conv(1, (3, 3), W_std=s), *half, *last), x).ntk
        for s, half in ((0.5, ()), (1.0, (Half(),)))
    )
    np.testing.assert_allclose(own, plain, rtol=1e-12)


def test_pooling_refuses_kernels_at_equal_pixels():
    x = np.ones((3, 3, 1))
    k = input_kernel(eq.Sequential(eq.Conv(1, (3, 3)), eq.Flatten()), x, x)
    for pool in (eq.GlobalAvgPool(), eq.AvgPool((3, 3))):
        with pytest.raises(ValueError, match="expected kernels at all pairs of pixels"):
            kernel_map(pool, k)


def test_an_unknown_nonlinearity_may_have_negative_covariances():
    assert signed(eq.Sequential(eq.Residual(Half()))) and not signed(eq.Sequential(eq.Relu(), eq.GlobalAvgPool()))

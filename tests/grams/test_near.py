"""Inputs that nearly coincide, up to a factor: a relu depends on an angle of which float32 loses the digits first."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest
from literal import literal_gram
from numbers_drawn import normal

import eqbook as eq
from eqbook.grams.methods import near

KINDS = ("nngp", "ntk")
Relu, Norm, OUT = eq.Relu(), eq.LayerNorm(), eq.Dense(1)
C4, D3 = eq.cyclic(4), eq.dihedral(3)


def conv(padding="SAME", b_std=0.0):
    return eq.Conv(4, (3, 3), (1, 1), padding, 1.3, b_std)


BRANCH = eq.Residual(Relu, conv(b_std=0.2))
NETS = {
    "flat": (conv(), Relu, conv(), Relu, conv("CIRCULAR"), Relu, eq.Flatten(), OUT),
    "flat-bias": (conv(b_std=0.3), BRANCH, Relu, conv("VALID", 0.2), Relu, eq.Flatten(), OUT),
    "flat-norm": (conv(b_std=0.3), Norm, Relu, conv(), Norm, BRANCH, Relu, eq.Flatten(), OUT),
    "pooled": (conv(b_std=0.2), Relu, conv(), Relu, eq.GlobalAvgPool(), OUT),
    "pooled-valid": (conv("VALID"), Relu, conv(b_std=0.1), Norm, Relu, conv("VALID"), eq.GlobalAvgPool(), OUT),
    "pooled-circular": (conv("CIRCULAR"), Relu, conv("CIRCULAR"), BRANCH, Relu, eq.GlobalAvgPool()),
    "local-pool": (conv("VALID", 0.2), Relu, conv(), Relu, eq.AvgPool((3, 2), (1, 2)), eq.Flatten(), OUT),
    "local-pool-of-all": (conv(), Relu, conv(), Relu, eq.AvgPool((6, 6)), eq.Flatten(), OUT),
    "C4": (eq.Lift(C4, 4, (3, 3), b_std=0.2), Relu, eq.GroupConv(C4, 4, (3, 3)), Relu, eq.GroupPool(), OUT),
    "D3": (eq.Lift(D3, 4, b_std=0.2), Relu, eq.GroupConv(D3, 4), Relu, eq.GroupPool(), OUT),
}


def neighbours(name):
    """Two inputs, and noisy copies of them times a factor."""
    x = normal(3, (2, D3.order) if name == "D3" else (2, 6, 6, 2), "float32")
    noise = normal(4, x.shape, "float32")
    moved = [factor * (x + step * noise) for factor, step in itertools.product((1, 1.37), (1e-5, 1e-3, 0.1))]
    return jnp.concatenate([x, *moved]).astype("float32")


@pytest.mark.every(10)
@pytest.mark.parametrize("name", NETS)
def test_float32_is_within_1e_6_of_float64(name, x64):
    net, x = eq.Sequential(*NETS[name]), neighbours(name)
    low, high = eq.gram(net, x), eq.gram(net, x.astype("float64"))
    for kind in KINDS:
        np.testing.assert_allclose(getattr(low, kind), getattr(high, kind), rtol=1e-6)


@pytest.mark.every(5)
@pytest.mark.parametrize("name", NETS)
def test_equals_the_literal_recursion(name, x64):
    """Which in double precision knows every angle to the root of eight roundings."""
    net, x = eq.Sequential(*NETS[name]), neighbours(name).astype("float64")
    fast, literal = eq.gram(net, x), literal_gram(net, x, x)
    for kind in KINDS:
        np.testing.assert_allclose(getattr(fast, kind), getattr(literal, kind), rtol=np.sqrt(8 * np.finfo(float).eps))


@pytest.mark.every(4)
@pytest.mark.parametrize("name", ["pooled", "local-pool", "flat-bias", "C4"])
def test_one_pair_alone(name, x64):
    """Cores share the terms of a single pair: only one of them has the displacement 0."""
    net, x = eq.Sequential(*NETS[name]), neighbours(name)
    matrix = eq.gram(net, x.astype("float64"))
    for place in (2, 5, 8, 11):  # copies of both inputs, also of multiples
        alone = eq.gram(net, x[place % 2][None], x[place][None])
        for kind in KINDS:
            np.testing.assert_allclose(getattr(alone, kind)[0, 0], getattr(matrix, kind)[place % 2, place], rtol=1e-6)


def test_no_pair_is_near(x64):
    """Inputs that coincide are not, nor are those at right angles, opposite ones and an input of zeros."""

    def found(x1, x2, symmetric):
        return near.pairs(near.ask(x1, x2, symmetric, None), x1, x2, None)

    x = normal(3, (3, 6, 6, 2), "float32")
    x = jnp.concatenate([x, -x[:1], x[1:2], 0 * x[:1]])
    for symmetric in (True, False):
        assert [len(k) for k in found(x, x, symmetric)] == [0, 0]
    i, j = found(x, x * (1 + 1e-3 * normal(5, x.shape, "float32")), False)
    assert sorted(zip(i.tolist(), j.tolist(), strict=True)) == [(0, 0), (1, 1), (1, 4), (2, 2), (3, 3), (4, 1), (4, 4)]


@pytest.mark.parametrize("shape", [(1, 1, 1), (64, 64, 64), (65, 3, 200), (130, 70, 1)])
def test_the_product_in_blocks_is_the_product(shape):
    n1, n2, d = shape
    rng = np.random.default_rng(0)
    one, two = rng.integers(-8, 8, (n1, d)), rng.integers(-8, 8, (d, n2))
    for dtype in (np.float32, np.float64):  # small integers are added without rounding
        found = near._on_one_core(one.astype(dtype), two.astype(dtype))
        assert found.dtype == dtype and np.array_equal(found, one @ two)

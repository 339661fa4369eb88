"""Derivatives of Gram matrices in their inputs where roots and absolute values have kinks, against differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import eqbook as eq

PLANAR = dict(group=eq.cyclic(4), channels=4, filter_shape=(3, 3))
ACTIVATIONS = {"erf": eq.Erf(), "tanh": eq.Activation(jnp.tanh)}


def differences(f, x, step=2e-3):
    """Central differences of fourth order, one column for each entry of `x`."""
    x = np.asarray(x)
    found = []
    for i in range(x.size):
        e = np.zeros(x.size)
        e[i] = step
        e = e.reshape(x.shape)
        found.append((8 * (f(x + e) - f(x - e)) - (f(x + 2 * e) - f(x - 2 * e))) / (12 * step))
    return np.stack(found, -1)


def entry(net, kind, other):
    return lambda x: getattr(eq.gram(net, jnp.asarray(x)[None], jnp.asarray(other)[None]), kind)[0, 0]


def check(f, x):
    expected = differences(lambda z: np.asarray(f(z)), x)
    found = np.asarray(jax.grad(f)(jnp.asarray(x))).ravel()
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-7 * np.abs(expected).max())
    assert np.abs(expected).max() > 1e-3


@pytest.mark.every(2)
@pytest.mark.parametrize("kind", ["nngp", "ntk"])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_at_inputs_that_are_zero_equal_or_opposite(name, kind, x64):
    """A zero has the covariance 0, or -0.0, with everything, and no direction."""
    net = eq.Sequential(eq.Dense(4), ACTIVATIONS[name], eq.Dense(4), ACTIVATIONS[name], eq.Dense(1))
    x = np.random.default_rng(0).normal(size=2)
    for at in (np.zeros(2), x, -x, 2 * x):
        check(entry(net, kind, x), at)


@pytest.mark.every(3)
@pytest.mark.parametrize(
    "layers",
    [
        (eq.Conv(4, (1, 1)), eq.Erf(), eq.Flatten()),
        (eq.Conv(4, (3, 3)), eq.Erf(), eq.GlobalAvgPool()),
        (eq.Lift(**PLANAR), eq.Erf(), eq.GroupConv(**PLANAR), eq.Erf(), eq.GroupPool()),
    ],
    ids=["flatten", "pool", "group"],
)
def test_at_a_blank_picture(layers, x64):
    net = eq.Sequential(*layers, eq.Dense(1))
    other = np.random.default_rng(1).normal(size=(3, 3, 1)) - 1
    for kind in ("nngp", "ntk"):
        check(entry(net, kind, other), np.zeros((3, 3, 1)))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind"), [("erf", "nngp"), ("erf", "ntk"), ("tanh", "nngp")])
def test_covariance_of_gradients(name, kind, x64):
    """The mixed second derivative at equal inputs: the law of a network's gradient."""
    net = eq.Sequential(eq.Dense(4, b_std=0.4), ACTIVATIONS[name], eq.Dense(4), ACTIVATIONS[name], eq.Dense(1))
    x = np.random.default_rng(0).normal(size=2)
    first = jax.grad(lambda a, b: entry(net, kind, b)(a))
    found = jax.jacfwd(first, 1)(jnp.asarray(x), jnp.asarray(x))
    expected = differences(lambda b: np.asarray(first(jnp.asarray(x), jnp.asarray(b))), x)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())


JUMPS = {
    "step": lambda u: jnp.where(u > 0, 1.0, 0.0),
    "sign": jnp.sign,
    "both": lambda u: u + jnp.sign(u),
}


@pytest.mark.every(6)
@pytest.mark.parametrize("name", JUMPS)
@pytest.mark.parametrize(
    "layers",
    [(eq.Dense(4, b_std=0.3),), (eq.Lift(eq.cyclic(2), 1, b_std=0.3),)],
    ids=["dense", "group"],
)
def test_covariance_of_functions_that_jump_at_0(layers, name, x64):
    """Their derivative is no function: the theorem that the slope of K is K-dot asks for all of it."""
    end = eq.GroupPool() if isinstance(layers[0], eq.Lift) else eq.Dense(1)
    net = eq.Sequential(*layers, eq.Activation(JUMPS[name], 12), end)
    x, other = np.array([0.5, -1.0]), np.array([1.2, 0.4])
    check(entry(net, "nngp", other), x)
    assert np.isfinite(jax.grad(entry(net, "nngp", other))(jnp.asarray(other))).all()


@pytest.mark.slow
def test_a_jump_is_seen_in_units_of_the_function(x64):
    x, other = jnp.array([0.5, -1.0]), np.array([1.2, 0.4])
    gradients = [
        jax.grad(entry(eq.Sequential(eq.Dense(4), eq.Activation(function, 12), eq.Dense(1)), "nngp", other))(x)
        for function in (jnp.sign, lambda u: 1e-8 * jnp.sign(u))
    ]
    np.testing.assert_allclose(1e16 * gradients[1], gradients[0], rtol=1e-6)
    assert np.abs(gradients[0]).min() > 1e-3


@pytest.mark.parametrize("kind", ["nngp", "ntk"])
@pytest.mark.parametrize("factor", [1, -1, 2])
@pytest.mark.parametrize("ends", ["flat", *(pytest.param(name, marks=pytest.mark.slow) for name in ("pool", "group"))])
def test_second_derivatives_of_relu_at_parallel_inputs(ends, factor, kind, x64):
    """A kernel without bias is homogeneous in each input: along the input its gradient stays the same."""
    conv, relu = eq.Conv(4, (3, 3), W_std=1.3), eq.Relu()
    layers = {
        "flat": (conv, relu, conv, relu, eq.Flatten()),
        "pool": (conv, relu, conv, relu, eq.GlobalAvgPool()),
        "group": (eq.Lift(**PLANAR), relu, eq.GroupConv(**PLANAR), relu, eq.GroupPool()),
    }
    x = np.random.default_rng(6).normal(size=(4, 4, 1))
    f = entry(eq.Sequential(*layers[ends]), kind, factor * x)
    gradient, change = jax.jvp(jax.grad(f), (jnp.asarray(x),), (jnp.asarray(x),))
    assert np.abs(gradient).max() > 1e-3 or (ends, factor) == ("flat", -1)
    np.testing.assert_allclose(change, 0, atol=1e-9)


@pytest.mark.every(2)
@pytest.mark.parametrize("end", [(eq.GlobalAvgPool(),), (eq.AvgPool((1, 2)), eq.Flatten())], ids=["pool", "windows"])
def test_of_erf_behind_a_filter_that_shrinks_pictures(end, x64):
    """Pixels that a layer's output lacks have no part in a gradient."""
    net = eq.Sequential(eq.Conv(4, (2, 1), padding="VALID"), eq.Erf(), *end)
    x, other = np.random.default_rng(7).normal(size=(2, 3, 2, 1))
    for kind in ("nngp", "ntk"):
        check(entry(net, kind, other), x)

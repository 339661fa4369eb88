"""The product of data and weights, whose derivative in the weights takes a way of its own on a CPU."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from eqbook.networks.layers import product
from eqbook.testing import tolerance

SHAPES = [((7,), 7, 3), ((5,), 3, 7), ((2, 3), 6, 2), ((4,), 5, 1), ((0,), 4, 2), ((), 4, 2)]


def draw(batch, n_in, n_out):
    rng = np.random.default_rng(n_in)
    return jnp.asarray(rng.normal(size=(*batch, n_in))), jnp.asarray(rng.normal(size=(n_in, n_out)))


@pytest.mark.parametrize("shapes", SHAPES)
def test_values_and_derivatives_are_those_of_a_product(shapes):
    with jax.enable_x64(True):
        x, W = draw(*shapes)
        g = jnp.cos(jnp.arange(x.size // shapes[1] * shapes[2])).reshape(*shapes[0], shapes[2])
        close = dict(rtol=1e-12, atol=tolerance(jnp.float64, 10))
        value, back = jax.vjp(product, x, W)
        np.testing.assert_allclose(value, np.asarray(x) @ np.asarray(W), **close)
        for one, other in zip(back(g), (g @ W.T, jnp.einsum("...i,...o->io", x, g))):
            np.testing.assert_allclose(one, other, **close)
        _, tangent = jax.jvp(product, (x, W), (2 * x, 3 * W))
        np.testing.assert_allclose(tangent, 5 * value, **close)
        np.testing.assert_allclose(product(x, W, 0.3), 0.3 * value, **close)


@pytest.mark.parametrize("dtypes", [(jnp.float32, jnp.float64), (jnp.bfloat16, jnp.float32)])
def test_types_are_promoted(dtypes):
    with jax.enable_x64(True):
        x, W = (z.astype(dtype) for z, dtype in zip(draw((3,), 4, 2), dtypes))
        found = product(x, W)
        assert found.dtype == dtypes[1]
        np.testing.assert_allclose(found, x.astype(W.dtype) @ W, rtol=1e-6)


def test_differentiates_twice_in_both_modes():
    with jax.enable_x64(True):
        check_grads(lambda x, W: jnp.sin(product(x, W)), draw((3,), 4, 2), order=2)


@pytest.mark.parametrize("axes", [(0, 0), (0, None), (None, 0)])
def test_maps_over_networks(axes):
    with jax.enable_x64(True):
        x, W = draw((3,), 4, 2)
        many = [jnp.stack([z, 2 * z]) if axis == 0 else z for z, axis in zip((x, W), axes)]
        found = jax.vmap(jax.grad(lambda x, W: (product(x, W) ** 2).sum(), argnums=(0, 1)), axes)(*many)
        expected = jax.vmap(jax.grad(lambda x, W: ((x @ W) ** 2).sum(), argnums=(0, 1)), axes)(*many)
        for one, other in zip(found, expected):
            np.testing.assert_allclose(one, other, rtol=1e-12)


@pytest.mark.parametrize("axis", [0, 1])
def test_maps_over_networks_within_networks(axis):
    """Whose examples may lie along any axis."""
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.normal(size=(2, 5, 3, 6) if axis else (2, 3, 5, 6)), jnp.float32)
    W = jnp.asarray(rng.normal(size=(2, 6, 4)), jnp.float32)

    def loss(multiply):
        def of_one(x, W):
            return (jax.vmap(lambda z: multiply(z, W), axis, axis)(x) ** 2).sum()

        return jax.jit(jax.vmap(jax.grad(of_one, argnums=(0, 1))))(x, W)

    for one, other in zip(loss(lambda z, W: product(z, W, 0.5)), loss(lambda z, W: 0.5 * (z @ W))):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="the way of a CPU")
def test_no_product_begins_with_the_larger_factor_transposed():
    """Of `dot(H, D)` over the examples XLA makes a copy of H, column by column; `dot(D, H)` copies the smaller D."""
    H, W = jnp.ones((64, 48)), jnp.ones((48, 4))

    def ours(H, W):
        return product(H, W, 0.5)

    def of_the_weights(function):
        step = jax.jit(jax.grad(lambda W: (function(H, W) ** 2).sum()))
        text = step.lower(W).compile().as_text()
        return [line for line in text.splitlines() if " dot(" in line and "f32[48,4]" in line.split(" dot(")[0]]

    assert of_the_weights(lambda H, W: H @ W), "what the barrier is for"
    assert not of_the_weights(ours)

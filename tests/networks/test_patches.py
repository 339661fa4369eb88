"""`PatchConv` against `flax.linen.Conv`, and what makes both layers fit for an invariant ensemble."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numbers_drawn import normal, quick_key

from eqbook.networks import PatchConv, mean_pool
from eqbook.testing import relative_error, tolerance


@pytest.mark.parametrize("size", [1, 3, 5])
def test_equals_flax_conv(dtype, size):
    x = normal(0, (4, 6, 8, 3), dtype)
    ours, theirs = PatchConv(5, size), nn.Conv(5, (size, size), param_dtype=dtype, precision="highest")
    params = ours.init(quick_key(1), x)
    reference = jax.eval_shape(theirs.init, quick_key(1), x)
    assert jax.tree.map(jnp.shape, params) == jax.tree.map(jnp.shape, reference)
    params["params"]["bias"] = jnp.arange(5, dtype=dtype)

    def value_and_gradient(module):
        loss = lambda p: jnp.sum(jnp.sin(module.apply(p, x)))  # noqa: E731
        value, gradient = jax.jit(lambda p: (module.apply(p, x), jax.grad(loss)(p)))(params)
        return value, gradient["params"]

    terms = size * size * 3
    (z, mine), (expected, other) = map(value_and_gradient, (ours, theirs))
    assert relative_error(z, expected) < tolerance(dtype, terms)
    for name in ("kernel", "bias"):
        assert relative_error(mine[name], other[name]) < tolerance(dtype, terms * 4 * 6 * 8)


def test_initial_law_is_that_of_flax_conv():
    x = jnp.zeros((1, 4, 4, 2))
    same_name = {
        "ours": PatchConv(7).init(jax.random.key(3), x),
        "theirs": nn.Conv(7, (3, 3)).init(jax.random.key(3), x),
    }
    np.testing.assert_array_equal(*[params["params"]["kernel"] for params in same_name.values()])


def test_bytes_are_numbers():
    x = np.full((1, 4, 4, 1), 200, np.uint8)
    np.testing.assert_array_equal(mean_pool(x), np.full((1, 2, 2, 1), 200))
    conv = PatchConv(2)
    params = conv.init(quick_key(0), x)
    np.testing.assert_array_equal(conv.apply(params, x), conv.apply(params, x.astype(np.float32)))


@pytest.mark.parametrize("narrow", [jnp.float16, jnp.bfloat16])
def test_a_mean_in_16_bits_is_that_of_wider_numbers(narrow):
    """A sum of 1024 ones stops at 256 in bfloat16, and four of 2e4 are infinite in float16."""
    for value, side in ((1.0, 32), (2e4, 2)):
        x = jnp.full((1, 32, 32, 1), value, narrow)
        pooled = mean_pool(x, side)
        assert pooled.dtype == narrow
        np.testing.assert_array_equal(pooled, x[:, ::side, ::side])


def test_without_bias_there_is_none():
    assert list(PatchConv(2, use_bias=False).init(quick_key(0), jnp.zeros((1, 4, 4, 1)))["params"]) == ["kernel"]


def test_rotating_image_and_filter_rotates_the_output(x64):
    x = normal(0, (2, 6, 6, 3))
    conv = PatchConv(4)
    params = conv.init(quick_key(1), x)
    turned = {"params": {**params["params"], "kernel": jnp.rot90(params["params"]["kernel"])}}
    moved = conv.apply(turned, jnp.rot90(x, axes=(1, 2)))
    assert relative_error(moved, jnp.rot90(conv.apply(params, x), axes=(1, 2))) < tolerance(jnp.float64, 27)


@pytest.mark.every(2)
@pytest.mark.parametrize("size", [1, 2, 4, 5, 20])
def test_mean_pool_is_the_mean_and_commutes_with_rotation(size):
    x = normal(0, (2, 3, 20, 40, 3))
    expected = np.stack(
        [[x[..., i : i + size, j : j + size, :].mean((-3, -2)) for j in range(0, 40, size)] for i in range(0, 20, size)]
    ).transpose(2, 3, 0, 1, 4)
    assert relative_error(mean_pool(x, size), expected) < tolerance(jnp.float32, size**2)
    turned = mean_pool(jnp.rot90(x, axes=(2, 3)), size)
    assert relative_error(turned, jnp.rot90(mean_pool(x, size), axes=(2, 3))) < tolerance(jnp.float32, size**2)


@pytest.mark.parametrize(
    ("module", "shape", "argument"),
    [
        (PatchConv(2, 2), (1, 4, 4, 1), "kernel_size"),
        (PatchConv(2, 0), (1, 4, 4, 1), "kernel_size"),
        (PatchConv(2), (4, 4), "x"),
    ],
)
def test_bad_convolution(module, shape, argument):
    with pytest.raises(ValueError, match=f"`{argument}`"):
        module.init(jax.random.key(0), jnp.zeros(shape))


@pytest.mark.parametrize(("shape", "size"), [((1, 5, 4, 1), 2), ((4, 4), 2), ((1, 4, 4, 1), 0)])
def test_bad_pooling(shape, size):
    with pytest.raises(ValueError, match="`x`|`size`"):
        mean_pool(jnp.zeros(shape), size)

"""Finite networks on images: their formulas by hand, and their kernels by Monte Carlo."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from monte_carlo import assert_agrees
from registry import IMAGE_NETWORKS

import eqbook as eq
from eqbook.testing import normal_parameters

X = np.random.default_rng(0).normal(size=(2, 5, 5, 2))


@pytest.mark.parametrize("name", IMAGE_NETWORKS)
def test_shapes_and_dtype(name, dtype):
    net = IMAGE_NETWORKS[name]
    y = jax.eval_shape(lambda x: net.apply(net.init(jax.random.key(0), x.shape), x), jnp.asarray(X, dtype))
    assert y.shape == (2, 1) and y.dtype == dtype


@pytest.mark.every(5)
@pytest.mark.parametrize("name", IMAGE_NETWORKS)
def test_monte_carlo_agrees_with_the_infinite_width_kernel(name, x64):
    assert_agrees(IMAGE_NETWORKS[name], X, count=768, widths=(12, 24))


@pytest.mark.parametrize("padding", ["SAME", "VALID", "CIRCULAR"])
def test_convolution_by_hand(padding, x64):
    """Sums over filter positions, written out, on an image padded by hand."""
    net = eq.Sequential(eq.Conv(3, (3, 2), (2, 1), padding, W_std=1.3, b_std=0.7))
    x = X[:, :4]
    params = normal_parameters(net, x.shape, 3)
    (W,), (b,) = [[leaf for leaf in jax.tree.leaves(params) if leaf.ndim == n] for n in (4, 1)]
    border = {"VALID": [(0, 0), (0, 0)]}.get(padding, [(0, 1), (0, 1)])  # 4 rows by 2: one more below; 5 columns: right
    padded = np.pad(x, [(0, 0), *border, (0, 0)], mode="wrap" if padding == "CIRCULAR" else "constant")
    rows, columns = (padded.shape[1] - 3) // 2 + 1, padded.shape[2] - 1
    expected = np.zeros((2, rows, columns, 3))
    for r in range(rows):
        for c in range(columns):
            patch = padded[:, 2 * r : 2 * r + 3, c : c + 2]
            expected[:, r, c] = 1.3 / np.sqrt(3 * 2 * 2) * np.einsum("nijc,ijcf->nf", patch, W) + 0.7 * b
    np.testing.assert_allclose(net.apply(params, x), expected, rtol=1e-12)


@pytest.mark.parametrize("padding", ["SAME", "VALID", "CIRCULAR"])
def test_locally_connected_by_hand(padding, x64):
    """A convolution with a filter and a bias of its own at each place of the output; with equal ones, `Conv`."""
    layer = eq.LocallyConnected(3, (3, 2), (2, 1), padding, W_std=1.3, b_std=0.7)
    local, x = eq.Sequential(layer), X[:, :4]
    params = normal_parameters(local, x.shape, 3)
    (W,), (b,) = [[leaf for leaf in jax.tree.leaves(params) if leaf.ndim == n] for n in (6, 3)]
    conv = eq.Sequential(layer.shared)
    tree = normal_parameters(conv, x.shape, 3)
    names = {4: W, 1: b}
    y = local.apply(params, x)
    for r in range(y.shape[1]):
        for c in range(y.shape[2]):
            here = jax.tree.map(lambda leaf: names[leaf.ndim][r, c], tree)  # noqa: B023
            np.testing.assert_allclose(y[:, r, c], conv.apply(here, x)[:, r, c], rtol=1e-12)
    assert not np.allclose(W[0, 0], W[0, 1]) and not np.allclose(b[0, 0], b[0, 1])


def test_pooling_and_norm_by_hand(x64):
    apply = lambda layer: eq.Sequential(layer).apply({}, X)  # noqa: E731
    np.testing.assert_allclose(apply(eq.GlobalAvgPool()), X.mean((1, 2)), rtol=1e-13)
    np.testing.assert_allclose(apply(eq.Flatten()), X.reshape(2, -1))
    np.testing.assert_allclose(apply(eq.AvgPool((2, 2)))[:, 1, 1], X[:, 2:4, 2:4].mean((1, 2)), rtol=1e-13)
    np.testing.assert_allclose(apply(eq.AvgPool((2, 2), (1, 1)))[:, 1, 1], X[:, 1:3, 1:3].mean((1, 2)), rtol=1e-13)
    normed = apply(eq.LayerNorm())
    np.testing.assert_allclose(normed.mean(-1), 0, atol=1e-13)
    np.testing.assert_allclose(normed.std(-1), 1, rtol=1e-13)
    assert not apply(eq.Residual(eq.LayerNorm()))[0, 0, 0, 0] == X[0, 0, 0, 0]


@pytest.mark.parametrize("narrow", [jnp.float16, jnp.bfloat16])
@pytest.mark.parametrize("size", [1e-4, 1.0, 3e4])
def test_norm_in_16_bits_is_that_of_wider_numbers(narrow, size):
    """Squares in float16 are infinite from 256 on, and 0 below 2e-4."""
    normed = eq.Sequential(eq.LayerNorm()).apply({}, jnp.array([[[[size, -size]]]], narrow))
    assert normed.dtype == narrow
    np.testing.assert_array_equal(normed[0, 0, 0], [1, -1])


def test_norm_of_what_overflows_is_nan():
    """Squares in float32 are infinite from 2e19 on: channels divided by that would all be 0."""
    normed = eq.Sequential(eq.LayerNorm()).apply({}, jnp.array([[1e30, -1e30], [1e18, -1e18]], jnp.float32))
    assert jnp.isnan(normed[0]).all()
    np.testing.assert_array_equal(normed[1], [1, -1])


def test_norm_of_equal_channels_is_0():
    norm = lambda x: eq.Sequential(eq.LayerNorm()).apply({}, x)  # noqa: E731
    x = jnp.array([[3.0, 3.0], [0.0, 0.0]])
    assert (norm(x) == 0).all() and jnp.isfinite(jax.grad(lambda x: norm(x)[0, 0])(x)).all()


def test_bad_input():
    net = eq.Sequential(eq.Conv(2, (6, 5), padding="VALID"))
    with pytest.raises(ValueError, match=r"layer 0: Conv\(.*: expected images of at least \(6, 5\) pixels"):
        net.init(jax.random.key(0), X.shape)
    with pytest.raises(ValueError, match=r"layer 0: Residual\(.*: expected a branch with outputs"):
        eq.Sequential(eq.Residual(eq.Conv(3, (1, 1)))).init(jax.random.key(0), X.shape)

"""The finite network of every spec: its shapes, its parametrisation, and its kernels by Monte Carlo."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from monte_carlo import assert_agrees, widen
from numbers_drawn import normal, quick_key
from registry import GROUP_NETWORKS, IMAGE_NETWORKS, NETWORKS

import eqbook as eq
from eqbook.networks import module
from eqbook.testing import normal_parameters, relative_error, tolerance

X = np.random.default_rng(0).normal(size=(3, 4))


@pytest.fixture(params=NETWORKS, ids=list(NETWORKS))
def net(request):
    return NETWORKS[request.param]


def test_shapes_and_dtype(net, dtype):
    y = jax.eval_shape(lambda x: net.apply(net.init(jax.random.key(0), x.shape), x), jnp.asarray(X, dtype))
    assert y.shape == (3, 1) and y.dtype == dtype


def test_dense_by_hand(x64):
    net = eq.Sequential(eq.Dense(5, W_std=1.3, b_std=0.7))
    params = normal_parameters(net, X.shape, 3)
    (W,), (b,) = [[leaf for leaf in jax.tree.leaves(params) if leaf.ndim == n] for n in (2, 1)]
    np.testing.assert_allclose(net.apply(params, X), 1.3 / np.sqrt(4) * X @ W + 0.7 * b, rtol=1e-14)


@pytest.mark.every(2)
@pytest.mark.parametrize(
    "nets, name", [(NETWORKS, "deep"), (IMAGE_NETWORKS, "residual"), (GROUP_NETWORKS, "C3-on-itself")]
)
def test_parameters_are_standard_normal(nets, name, x64):
    """Mean 0 and variance 1 to 5 standard errors, in every parameter array, and no two arrays alike."""
    net = widen(getattr(nets[name], "net", nets[name]), 32)
    shape = {"deep": (1, 4), "residual": (1, 4, 4, 2), "C3-on-itself": (1, 3)}[name]
    leaves = [np.ravel(leaf) for leaf in jax.tree.leaves(net.init(jax.random.key(0), shape))]
    for leaf in leaves:
        assert abs(leaf.mean()) < 5 / np.sqrt(leaf.size)
        assert abs((leaf**2).mean() - 1) < 5 * np.sqrt(2 / leaf.size)
    assert len({leaf[0] for leaf in leaves}) == len(leaves)


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
def test_parameters_drawn_in_one_program_are_those_drawn_one_by_one(impl):
    """Bit for bit, whatever the compiler makes of the program: seeds mean the same networks everywhere."""
    net, key = eq.Sequential(eq.Dense(33, b_std=0.1), eq.Relu(), eq.Dense(2)), jax.random.key(3, impl=impl)
    found, expected = net.init(key, X.shape), module._draw(net, key, jnp.zeros((1, X.shape[1])))
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for a, b, c in zip(*map(jax.tree.leaves, (found, expected, jax.jit(lambda k: net.init(k, X.shape))(key)))):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(a, c)
        assert np.unique(a).size == a.size


def test_no_bias_means_no_parameter():
    assert len(jax.tree.leaves(NETWORKS["relu"].init(quick_key(0), X.shape))) == 2


@pytest.mark.every(3)
def test_monte_carlo_agrees_with_the_infinite_width_kernel(net, x64):
    assert_agrees(net, X, count=1536)


def test_empirical_ntk_of_a_linear_network_by_hand(x64):
    """f = W_std / sqrt(d) W x: gradient W_std x / sqrt(d), so the NTK is W_std^2 <x, x'> / d at any parameters."""
    net = eq.Sequential(eq.Dense(3, W_std=1.5))
    params = normal_parameters(net, X.shape, 3)
    k = eq.empirical_kernels(net, params, X, X[:2])
    np.testing.assert_allclose(k.ntk, 1.5**2 * X @ X[:2].T / 4, rtol=1e-13)
    f = np.asarray(net.apply(params, X))
    np.testing.assert_allclose(k.nngp, f @ f[:2].T / 3, rtol=1e-13)


def test_empirical_kernels_take_flax_modules(x64):
    import flax.linen as nn

    module = nn.Dense(2)
    params = module.init(quick_key(0), X)
    np.testing.assert_allclose(eq.empirical_kernels(module, params, X).ntk, X @ X.T + 1, rtol=1e-6)


@pytest.mark.slow
def test_empirical_kernels_cost_as_much_for_each_input():
    """Twice the inputs, twice the operations; the products of gradients are few beside those of the convolutions."""
    net = eq.Sequential(eq.Conv(4, (3, 3)), eq.Relu(), eq.Conv(4, (3, 3)), eq.Relu(), eq.GlobalAvgPool(), eq.Dense(2))
    x = normal(0, (8, 12, 12, 1))
    params = normal_parameters(net, x.shape, 3)
    run = jax.jit(lambda x: eq.empirical_kernels(net, params, x).ntk)
    few, many = (run.lower(x[:n]).compile().cost_analysis()["flops"] for n in (4, 8))
    assert many < 2.2 * few
    jacobian = jax.tree.leaves(jax.jacrev(net.apply)(params, x))
    whole = jnp.concatenate([leaf.reshape(8, 2, -1) for leaf in jacobian], -1)
    expected = np.einsum("iop,jop->ij", whole, whole) / 2
    assert relative_error(run(x), expected) < tolerance(np.float32, 2 * whole.shape[-1])


def test_inputs_of_all_kinds_give_the_same_outputs():
    """Integers, lists and NumPy's float64 with 64-bit types off, without a warning."""
    net = NETWORKS["relu-bias"]
    params = net.init(quick_key(0), [3, 4])
    images = np.arange(12, dtype=np.uint8).reshape(3, 4)
    expected = net.apply(params, jnp.asarray(images, jnp.float32))
    for x in (images, images.tolist(), images.astype(np.float64)):
        np.testing.assert_array_equal(net.apply(params, x), expected)
        assert eq.empirical_kernels(net, params, x).ntk.shape == (3, 3)


def test_empirical_kernels_take_integers_for_what_they_are():
    """A module may count with them; those that JAX would wrap around are refused."""
    import flax.linen as nn

    class Words(nn.Module):
        @nn.compact
        def __call__(self, x):
            return nn.Dense(2)(nn.Embed(5, 3)(x).sum(axis=1))

    module, words = Words(), np.array([[0, 1], [1, 0], [2, 4]])
    ntk = eq.empirical_kernels(module, module.init(quick_key(0), words), words).ntk
    np.testing.assert_allclose(ntk[0], ntk[1], rtol=1e-6)
    net, few = NETWORKS["relu"], np.ones((1, 4), np.int64)
    for arguments, name in (((few * 3_000_000_000,), "x1"), ((few, few * 3_000_000_000), "x2")):
        with pytest.raises(ValueError, match=f"`{name}`: expected integers between -2147483648 and 2147483647"):
            eq.empirical_kernels(net, normal_parameters(net, (1, 4), 3), *arguments)


@pytest.mark.parametrize("shape", [3, (3, 2.5), (3, None), (3, 0), np.ones(4)], ids=str)
def test_bad_shape(shape):
    with pytest.raises(ValueError, match=r"`input_shape`: expected the shape of a batch .* it is `x.shape`"):
        NETWORKS["relu"].init(jax.random.key(0), shape)


def test_bad_input():
    net = NETWORKS["relu"]
    params = normal_parameters(net, X.shape, 3)
    with pytest.raises(
        ValueError, match=r"`input_shape`: expected the shape of a batch \(n, ...features\), got \(4,\)"
    ):
        net.init(jax.random.key(0), (4,))
    with pytest.raises(ValueError, match=r"`x2`: expected examples of shape \(4,\)"):
        eq.empirical_kernels(net, params, X, X[:, :3])
    with pytest.raises(ValueError, match="`x1`: expected finite numbers"):
        eq.empirical_kernels(net, params, X * np.nan)
    with pytest.raises(ValueError, match="`x1`: expected at least one example"):
        eq.empirical_kernels(net, params, X[:0])
    with pytest.raises(ValueError, match="`x1`: expected numbers that stay finite in float32"):
        eq.empirical_kernels(net, params, np.full((2, 4), 1e30, np.float32))


def test_a_network_without_parameters_has_no_tangent_kernel():
    k = eq.empirical_kernels(eq.Sequential(eq.Flatten()), {}, jnp.asarray(X, jnp.float32))
    np.testing.assert_array_equal(k.ntk, np.zeros((3, 3)))
    np.testing.assert_allclose(k.nngp, X @ X.T / 4, rtol=1e-5)

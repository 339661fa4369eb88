"""Bounds for continuous groups: by hand, attained, and above what they bound."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from registry import planar_matrices

import eqbook as eq
from eqbook.metrics import (
    continuous_group_bound,
    continuous_group_constant,
    cyclic_covering_radius,
    kernel_distance,
    rkhs_norm,
)
from eqbook.testing import relative_error, tolerance

NET = eq.Sequential(eq.Dense(64, W_std=1.5, b_std=0.4), eq.Erf(), eq.Dense(1))
RELU = eq.Sequential(eq.Dense(64, b_std=0.3), eq.Relu(), eq.Dense(1, b_std=0.1))
TIMES = (0.3, 5.0, np.inf)
N = 4  # C_4 in the plane


def rotated(x, angle):
    c, s = np.cos(angle), np.sin(angle)
    return x @ np.array([[c, s], [-s, c]])


def augmented(n=3, outputs=1):
    """Random points and invariant targets, augmented by C_4."""
    rng = np.random.default_rng(0)
    action = eq.groups.MatrixAction(eq.cyclic(N), planar_matrices(N, False))
    trivial = eq.groups.TrivialAction(eq.cyclic(N))
    return eq.groups.augment(action, rng.normal(size=(n, 2)), trivial, rng.normal(size=(n, outputs)))


def law_of(net, x, y):
    gram = eq.gram(net, x)
    return eq.EnsembleLaw(gram.ntk, gram.nngp, y)


def test_distance_by_hand(x64):
    x1, x2 = np.random.default_rng(1).normal(size=(2, 3, 2))
    one, two, cross = (eq.gram(NET, a, b).ntk for a, b in ((x1, x1), (x2, x2), (x1, x2)))
    expected = np.sqrt(np.diag(one) + np.diag(two) - 2 * np.diag(cross))
    np.testing.assert_allclose(kernel_distance(NET, x1, x2), expected, rtol=1e-10)
    np.testing.assert_allclose(kernel_distance(NET, x1, x1), 0, atol=np.sqrt(tolerance(np.float64) * np.max(one)))


def test_distance_is_that_of_gradients(x64):
    """Root mean square over initialisations: Monte Carlo of networks of one width, whose mean NTK is exact."""
    x = jnp.array([[0.3, -1.0], [0.8, 0.4]])

    def squared(key):
        params = NET.init(key, x.shape)
        gradients = jax.jacrev(lambda p: NET.apply(p, x)[:, 0])(params)
        return sum(jnp.sum((leaf[0] - leaf[1]) ** 2) for leaf in jax.tree.leaves(gradients))

    samples = jax.lax.map(squared, jax.random.split(jax.random.key(0), 2000))
    exact = kernel_distance(NET, x[:1], x[1:])[0] ** 2
    assert abs(eq.testing.monte_carlo_z(samples, exact)) < 4


def test_norm_by_hand(x64):
    x, y = augmented(outputs=2)
    theta = np.asarray(eq.gram(NET, x).ntk)
    values, vectors = np.linalg.eigh(theta)
    for t in (0.7, 20.0):
        a = vectors @ np.diag((1 - np.exp(-values * t)) / values) @ vectors.T @ np.asarray(y)
        expected = np.sqrt(np.diag(a.T @ theta @ a))
        np.testing.assert_allclose(rkhs_norm(law_of(NET, x, y), t), expected, rtol=1e-9)
    np.testing.assert_array_equal(rkhs_norm(law_of(NET, x, y), 0.0), 0)
    # At the end of training the mean interpolates: Y^T Theta^-1 Y.
    end = np.sqrt(np.diag(np.asarray(y).T @ np.linalg.solve(theta, np.asarray(y))))
    np.testing.assert_allclose(rkhs_norm(law_of(NET, x, y), np.inf), end, rtol=1e-7)


@pytest.mark.parametrize("size", [1e-37, 1e-25, 3.0, 1e20, 1e37])
def test_norm_whose_square_leaves_the_dtype(size):
    """The squares of these would be 0 or infinite in float32; each output has a size of its own."""
    law = eq.EnsembleLaw(np.eye(2), y=np.array([[size, 3.0, 0.0], [0.0, 4.0, 0.0]]))
    np.testing.assert_allclose(rkhs_norm(law, np.inf), [size, 5, 0], rtol=1e-6)
    net, (x1, x2) = eq.Sequential(eq.Dense(1)), np.array([[[1.0, 0.0]], [[0.0, 1.0]]])
    bound = continuous_group_bound(net, law, np.inf, x1, x2)  # their distance is 1
    np.testing.assert_allclose(bound, [[size, 5, 0]], rtol=1e-6)


@pytest.mark.every(2)
@pytest.mark.parametrize("net", [NET, RELU], ids=["erf", "relu"])
@pytest.mark.parametrize("t", TIMES)
def test_kernel_bound_holds_over_the_circle(net, t, x64):
    """Bound on the change from the nearest element of C_4, which is that from the input itself."""
    x, y = augmented(outputs=2)
    law = law_of(net, x, y)
    point = np.array([[0.7, 1.1], [-2.0, 0.1]])
    mean = lambda z: np.asarray(law.mean(eq.gram(net, z, x).ntk, t))  # noqa: E731
    largest = 0.0
    for angle in np.linspace(0.0, 2 * np.pi, 25):
        nearest = np.round(angle / (2 * np.pi / N)) * 2 * np.pi / N
        change = np.abs(mean(rotated(point, angle)) - mean(point))
        bound = continuous_group_bound(net, law, t, rotated(point, angle), rotated(point, nearest))
        scale = np.abs(mean(point)).max()
        assert (change <= bound + 1e-7 * scale).all()  # both are 0 on C_4, to the root of rounding
        largest = max(largest, (change / np.maximum(bound, 1e-7 * scale)).max())
    assert largest > 0.01  # of the order of what it bounds


def test_kernel_bound_is_attained(x64):
    """Targets 1 and -1 at two inputs of equal norm: the mean is a multiple of the difference of their kernels."""
    x = np.array([[1.0, 0.2], [-0.2, 1.0]])
    for t in (0.4, np.inf):
        law = law_of(NET, x, np.array([[1.0], [-1.0]]))
        change = np.diff(law.train_mean(t), axis=0)
        bound = continuous_group_bound(NET, law, t, x[:1], x[1:])
        assert relative_error(np.abs(change), bound) < 1e3 * tolerance(np.float64)


def test_constant_of_a_linear_network_by_hand(x64):
    r"""f = sigma_W W x / sqrt(2): the gradient is sigma_W x / sqrt(2), its Lipschitz constant sigma_W / sqrt(2)."""
    net = eq.Sequential(eq.Dense(1, W_std=1.3, b_std=0.5))
    x, _ = augmented(n=1)
    law = law_of(net, x[:2], np.array([[1.0], [-2.0]]))
    point = np.array([[0.6, -0.8]])
    constant, error = continuous_group_constant(net, jax.random.key(0), law, 0.7, point, x[:2], x, members=2)
    a = np.asarray(law.mean(np.eye(2), 0.7))
    assert a[0] > 0 > a[1]
    norms = np.linalg.norm(x[:2], axis=1)
    gradient = np.sqrt(1.3**2 / 2 * np.sum(point**2) + 0.5**2)  # weights and bias of the layer together
    np.testing.assert_allclose(constant, [gradient * 1.3 / np.sqrt(2) * (norms @ np.abs(a))], rtol=1e-12)
    np.testing.assert_allclose(error, 0, atol=1e-12)


def test_constants_of_two_layers_by_hand(x64):
    """Linear in both layers: gradients v x^T and W x, with Lipschitz constants |v| and |W| up to the scales."""
    net = eq.Sequential(eq.Dense(5, W_std=1.3), eq.Dense(1, W_std=0.8))
    x, y = augmented(n=1)
    law = law_of(net, x[:2], y[:2])
    point = np.array([[0.6, -0.8]])
    constant, _ = continuous_group_constant(net, jax.random.key(0), law, 0.7, point, x[:2], x, members=3)
    products = []
    for key in jax.random.split(jax.random.key(0), 3):
        W, v = sorted(jax.tree.leaves(net.init(key, (1, 2))), key=lambda leaf: leaf.shape[0])
        scale = 1.3 * 0.8 / np.sqrt(2 * 5)
        first = scale * np.linalg.norm(v) * np.linalg.norm(point) * scale * np.linalg.norm(v)
        second = scale * np.linalg.norm(point @ W) * scale * np.linalg.norm(W, 2)
        products.append(first + second)
    weight = np.linalg.norm(x[:2], axis=1) @ np.abs(law.mean(np.eye(2), 0.7))
    np.testing.assert_allclose(constant, [np.mean(products) * weight], rtol=1e-10)


def test_lemma_holds_and_the_kernel_bound_is_sharper(x64):
    x, y = augmented()
    law = law_of(NET, x, y)
    point = np.array([[0.7, 1.1]])
    angles = np.linspace(-np.pi / N, np.pi / N, 5)
    region = np.concatenate([rotated(np.asarray(x), angle) for angle in angles])
    epsilon = cyclic_covering_radius(N)
    for t in TIMES[:2]:
        constant, error = continuous_group_constant(NET, jax.random.key(0), law, t, point, x, region, members=12)
        mean = lambda z: np.asarray(law.mean(eq.gram(NET, z, x).ntk, t))  # noqa: B023, E731
        change = max(np.abs(mean(rotated(point, angle)) - mean(point)).max() for angle in angles)
        sharp = max(float(continuous_group_bound(NET, law, t, rotated(point, angle), point)[0, 0]) for angle in angles)
        assert change <= sharp < epsilon * float(constant[0, 0] - 4 * error[0, 0])


def test_constant_vanishes_at_the_start(x64):
    x, y = augmented(n=1)
    law = law_of(NET, x, y)
    constant, _ = continuous_group_constant(NET, jax.random.key(0), law, 0.0, x[:1], x, x, members=2)
    np.testing.assert_array_equal(constant, 0)


X, Y = (np.asarray(z) for z in augmented(n=1))
POINT = X[:1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda law: kernel_distance(NET, X, X[:2]), "`x2`: expected 4 inputs"),
        (lambda law: kernel_distance(NET, X[0], X[0]), "`x1`: expected a batch"),
        (lambda law: kernel_distance(NET, X, X[:, :1]), "`x2`: expected examples of shape"),
        (lambda law: rkhs_norm(law, -1.0), "`t`: expected a training time"),
        (
            lambda law: continuous_group_constant(NET, jax.random.key(0), law, 1.0, POINT, X[:2], X),
            "`x_train`: expected the 4 training inputs",
        ),
        (
            lambda law: continuous_group_constant(NET, jax.random.key(0), law, 1.0, POINT, X, X[:, :1]),
            "`region`: expected examples of shape",
        ),
        (
            lambda law: continuous_group_constant(NET, jax.random.key(0), law, 1.0, POINT, X, X, members=1),
            "`members`: expected an integer",
        ),
        (
            lambda law: continuous_group_constant(
                eq.Sequential(eq.Dense(2)), jax.random.key(0), law, 1.0, POINT, X, X, members=2
            ),
            "`net`: expected one output",
        ),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call(law_of(NET, X, Y))


ONE_LAYER = eq.Sequential(eq.Dense(1))


def test_distances_of_close_inputs_in_double_precision():
    """The kernel of one layer is the product of its inputs over their number: in single precision all digits cancel."""
    law = eq.EnsembleLaw(np.eye(2), y=np.array([[3.0], [4.0]]))
    for x1, x2 in (
        (np.array([[1e4, 0.0]]), np.array([[1e4, 1.0]])),
        ([[1e4, 0.0]], [[1e4, 1.0]]),
        (np.array([[1e4, 0.0]], np.float32), np.array([[1e4, 1.0]])),
        (np.array([[1e4, 0.0]]), np.array([[1e4, 1.0]], np.float32)),
    ):
        found = kernel_distance(ONE_LAYER, x1, x2)
        assert found.dtype == jnp.result_type(float)
        np.testing.assert_allclose(found, [np.sqrt(0.5)], rtol=1e-6)
        np.testing.assert_allclose(
            continuous_group_bound(ONE_LAYER, law, np.inf, x1, x2), [[5 * np.sqrt(0.5)]], rtol=1e-6
        )
    for unit in (1e-30, 1e30):
        found = kernel_distance(ONE_LAYER, [[unit, 0.0]], [[0.0, unit]])
        np.testing.assert_allclose(found, [unit], rtol=1e-6)
    inside = jax.jit(lambda a: a * kernel_distance(ONE_LAYER, np.array([[1e4, 0.0]]), np.array([[1e4, 1.0]])))(1.0)
    np.testing.assert_allclose(inside, [np.sqrt(0.5)], rtol=1e-6)


def test_distances_of_abstract_inputs():
    for call in (
        lambda a: kernel_distance(NET, [[a, 1.0]], [[0.5, 2.0]]),
        lambda a: kernel_distance(NET, a * jnp.ones((1, 2)), np.array([[0.5, 2.0]])),
    ):
        np.testing.assert_allclose(jax.jit(call)(0.3), call(0.3), rtol=1e-4)


def test_results_that_leave_the_dtype():
    large = eq.EnsembleLaw(np.eye(2), y=np.full((2, 1), 1e30))
    with pytest.raises(ValueError, match="`x1`, `x2` and `law`: expected numbers that stay finite in float32"):
        continuous_group_bound(ONE_LAYER, large, np.inf, [[1e19, 0.0]], [[0.0, 1e19]])
    with pytest.raises(ValueError, match="`x1` and `x2`: expected numbers that stay finite in float32"):
        kernel_distance(ONE_LAYER, [[1e100, 0.0]], [[0.0, 1e100]])
    with pytest.raises(ValueError, match="`x1`: expected inputs whose kernels are finite numbers of float64"):
        kernel_distance(ONE_LAYER, [[1e200, 2.0]], [[0.0, 1.0]])
    arguments = dict(net=ONE_LAYER, key=jax.random.key(0), t=1.0, x=[[1.0, 2.0]], members=2)
    for changes, message in (
        (dict(law=large, x_train=1e10 * np.eye(2), region=np.eye(2)), "`x`, `x_train`, `region` and `law`: expected"),
        (dict(law=large, x_train=np.eye(2), region=1e200 * np.eye(2)), "`region`: expected numbers that stay finite"),
        (dict(law=large, x_train=np.eye(2), region=np.eye(2), x=[[3e38, 3e38]]), "`x` and `region`: expected numbers"),
    ):
        with pytest.raises(ValueError, match=message):
            continuous_group_constant(**arguments | changes)


def test_constant_whose_squares_leave_the_dtype():
    """The norm of a training input is a number where its square is none. Members are counted in 8 bits."""
    net, law, x = eq.Sequential(eq.Dense(3), eq.Dense(1)), eq.EnsembleLaw(np.eye(2), y=np.ones((2, 1))), [[1.0, 2.0]]
    one, small, large = (
        np.array(continuous_group_constant(net, jax.random.key(0), law, 1.0, x, size * np.eye(2), x, members))
        for size, members in ((1.0, 3), (1e-25, np.int8(3)), (1e25, np.int8(3)))
    )
    assert (one > 0).all()
    np.testing.assert_allclose(small, 1e-25 * one, rtol=1e-5)
    np.testing.assert_allclose(large, 1e25 * one, rtol=1e-5)

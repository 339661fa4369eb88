"""SO(3): conventions against independent oracles, quadrature, and the reduction against the literal recursion."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special as sp
from registry import SPHERE_NETWORKS

import eqbook as eq
from eqbook.testing import monte_carlo_z, tolerance

pytest.importorskip("e3nn_jax", reason="the so3 extra")

from eqbook.kernels import PairKernel, kernel_map, pair_kernel, relu_dual, so3  # noqa: E402
from eqbook.kernels.recursion import input_kernel  # noqa: E402
from eqbook.kernels.so3.literal import literal_kernel  # noqa: E402
from eqbook.kernels.so3.places import on_rule, on_subgroup  # noqa: E402

RNG = np.random.default_rng(0)
ANGLES = RNG.uniform(-np.pi, np.pi, (5, 3))
RELU = eq.Sequential(eq.LiftS2(8), eq.Relu(), eq.SO3Conv(8), eq.Relu(), eq.SO3Pool())


def signals(n, bandwidth, channels, seed=0):
    """Noise of unit variance, band-limited, with its coefficients."""
    rng = np.random.default_rng(seed)
    f = rng.normal(size=(n, bandwidth**2, channels)) * np.sqrt(4 * np.pi) / bandwidth
    return f, np.asarray(so3.sphere_signal(f))


def points(n):
    theta, phi = np.arccos(RNG.uniform(-1, 1, n)), RNG.uniform(0, 2 * np.pi, n)
    return theta, phi, np.stack([np.sin(theta) * np.cos(phi), np.sin(theta) * np.sin(phi), np.cos(theta)], -1)


@pytest.fixture(params=SPHERE_NETWORKS, ids=list(SPHERE_NETWORKS))
def net(request):
    return SPHERE_NETWORKS[request.param]


# Conventions.


def test_harmonics_equal_scipy():
    theta, phi, x = points(20)
    Y = so3.spherical_harmonics(9, theta, phi)
    for l in range(9):
        for m in range(-l, l + 1):
            y = sp.sph_harm_y(l, abs(m), theta, phi) * (-1) ** m  # without the Condon-Shortley sign
            expected = y.real if m == 0 else np.sqrt(2) * (y.real if m > 0 else y.imag)
            np.testing.assert_allclose(Y[:, l * l + l + m], expected, atol=1e-13)
    np.testing.assert_allclose(Y[:, 1:4], np.sqrt(3 / (4 * np.pi)) * x[:, [1, 2, 0]], atol=1e-14)


def test_wigner_matrices_rotate_functions():
    """Y(R x) = D(R) Y(x) at points rotated by hand, and D is a homomorphism."""
    theta, phi, x = points(20)
    Y = so3.spherical_harmonics(9, theta, phi)
    rotations = so3.angles_to_matrix(ANGLES)
    for R, angles in zip(rotations, ANGLES, strict=True):
        moved = x @ R.T
        Y_moved = so3.spherical_harmonics(9, np.arccos(moved[:, 2]), np.arctan2(moved[:, 1], moved[:, 0]))
        for l in range(9):
            D = so3.wigner_matrix(l, angles[None])[0]
            block = slice(l * l, (l + 1) ** 2)
            np.testing.assert_allclose(Y_moved[:, block], Y[:, block] @ D.T, atol=1e-13)
            np.testing.assert_allclose(D @ D.T, np.eye(2 * l + 1), atol=1e-13)
    product = so3.matrix_to_angles(rotations[0] @ rotations[1])
    first, second, both = so3.wigner_matrix(6, np.stack([ANGLES[0], ANGLES[1], product]))
    np.testing.assert_allclose(first @ second, both, atol=1e-13)


def test_rotations_by_hand():
    """Angles and matrices by scipy, and angles back from matrices, also where beta is 0 or pi."""
    from scipy.spatial.transform import Rotation

    special = np.array([[0.3, 0, 0.4], [0.3, np.pi, 0.4], [0, 0, 0], [1, np.pi / 2, 0]])
    for angles in (*ANGLES, *special):
        R = so3.angles_to_matrix(angles)
        np.testing.assert_allclose(R, Rotation.from_euler("ZYZ", angles).as_matrix(), atol=1e-14)
        np.testing.assert_allclose(so3.angles_to_matrix(so3.matrix_to_angles(R)), R, atol=1e-14)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("from_pole", [0.0, 1e-11, 1e-7, 1e-3, 0.3])
@pytest.mark.parametrize("upside_down", [False, True])
def test_angles_of_products_that_nearly_keep_the_axis(dtype, from_pole, upside_down):
    """Rounding leaves alpha and gamma errors of their own; alpha + gamma, or alpha - gamma, is still known."""
    rng = np.random.default_rng(0)
    beta = np.pi - from_pole if upside_down else from_pole
    for _ in range(20):
        turn = so3.angles_to_matrix(rng.uniform(-3, 3, 3)).astype(dtype)
        R = turn @ (turn.T @ so3.angles_to_matrix([rng.uniform(-3, 3), beta, rng.uniform(-3, 3)]).astype(dtype))
        angles = so3.matrix_to_angles(R)
        assert (np.abs(angles) <= np.pi * (1 + 1e-15)).all() and angles[1] >= 0
        np.testing.assert_allclose(so3.angles_to_matrix(angles), R, atol=8 * np.finfo(dtype).eps)


def test_e3nn_in_its_own_axes(x64):
    """Its y, z, x are x, y, z turned: polar axis y. Its D and harmonics, computed in double precision, are ours."""
    import e3nn_jax as e3nn

    theta, phi, x = points(6)
    Y = so3.spherical_harmonics(6, theta, phi)
    for l in (1, 4):
        theirs = e3nn.Irrep(l, 1).D_from_angles(*(jnp.asarray(a) for a in ANGLES.T))
        np.testing.assert_allclose(so3.wigner_matrix(l, ANGLES), theirs, atol=1e-12)
        turned = e3nn.IrrepsArray("1o", jnp.asarray(x[:, [1, 2, 0]]))
        y = e3nn.spherical_harmonics(l, turned, normalize=True, normalization="integral").array
        np.testing.assert_allclose(Y[:, l * l : (l + 1) ** 2], y, atol=1e-12)


def test_signals_and_coefficients(x64):
    for L in (1, 2, 5):
        f, x = signals(2, L, 3)
        assert x.shape == (2, 2 * L, 2 * L - 1, 3)
        np.testing.assert_allclose(so3.sphere_coefficients(x), f, atol=1e-13)
        np.testing.assert_allclose(so3.sphere_coefficients(x, 1), f[:, :1], atol=1e-13)
        assert so3.sphere_weights(L).sum() == pytest.approx(4 * np.pi, rel=1e-14)


def test_rotated_signal(x64):
    """(rho(R) f)(x) = f(R^-1 x) for f(x) = x_0 + 2 x_1 x_2, sampled by hand."""

    def f(x):
        return x[..., 0] + 2 * x[..., 1] * x[..., 2]

    theta, phi = so3.sphere_grid(3)
    x = np.stack([np.sin(theta) * np.cos(phi), np.sin(theta) * np.sin(phi), np.cos(theta)], -1)
    R = so3.angles_to_matrix(ANGLES[0])
    coefficients = so3.sphere_coefficients(f(x).reshape(1, 6, 5, 1))
    rotated = so3.sphere_signal(so3.rotate_coefficients(ANGLES[0], coefficients))
    np.testing.assert_allclose(rotated.ravel(), f(x @ R), atol=1e-13)  # rows x R are R^-1 x


# Quadrature.


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_product_rule_is_exact_below_2b(size):
    angles, weights = so3.rotation_points(size)
    assert len(angles) == 4 * size**3
    means = so3.wigner_table(2 * size + 1, angles) @ weights
    below = so3.feature_count(2 * size)
    np.testing.assert_allclose(means[:below], np.eye(1, below)[0], atol=1e-14)
    assert np.abs(means[below:]).max() > 0.1  # and not at 2B


@pytest.mark.parametrize(
    "rule, args",
    [
        (so3.rotation_points, (2,)),
        (so3.identity_points, (2,)),
        (so3.rotation_rule, (2, 2)),
        (so3.identity_rule, (2, 2)),
        (so3.separable_rule, (2, 2)),
        (so3.self_table, (2, 2)),
        (so3.sphere_grid, (2,)),
        (so3.sphere_weights, (2,)),
    ],
)
def test_rules_are_read_only(rule, args):
    """All callers get the same arrays: one that scaled its weights would scale those of all kernels after it."""
    assert all(one is two for one, two in zip(jax.tree.leaves(rule(*args)), jax.tree.leaves(rule(*args)), strict=True))
    for array in jax.tree.leaves(rule(*args)):
        with pytest.raises(ValueError, match="read-only"):
            array *= 2


def test_product_rule_is_its_own_inverse():
    R = so3.angles_to_matrix(so3.rotation_points(3)[0])
    distance = np.abs(R[:, None] - R.swapaxes(1, 2)[None]).max((2, 3))
    np.testing.assert_allclose(distance.min(0), 0, atol=1e-14)


def test_identity_rule():
    """Symmetric functions of low degree, and one with the kink of a relu at the identity, |omega|, in closed form."""
    angles, weights = so3.identity_points(4)
    table = so3.wigner_table(5, angles)
    R = so3.angles_to_matrix(angles)
    symmetric = (table + so3.wigner_table(5, so3.matrix_to_angles(R.swapaxes(1, 2)))) / 2
    np.testing.assert_allclose(symmetric @ weights, np.eye(1, len(table))[0], atol=1e-9)
    omega = np.arccos(np.clip((np.trace(R, axis1=1, axis2=2) - 1) / 2, -1, 1))
    assert weights @ omega == pytest.approx(np.pi / 2 + 2 / np.pi, rel=1e-9)


jitted = jax.jit(pair_kernel, static_argnums=0)


def ntk_at(features, table, weights):
    """NTK of lift, relu, convolution, relu, pool from the correlation of one pair (its own, own', cross)."""
    a, b = ((f @ so3.wigner_table(round((0.75 * f.size) ** (1 / 3)), np.zeros((1, 3))))[0] for f in features[:2])
    k = jnp.asarray(features[2]) @ table
    k1, d1 = relu_dual(a, b, k)
    _, d2 = relu_dual(a / 2, b / 2, k1)
    return ((k * d1 + k1) * d2) @ weights


@pytest.mark.every(2)
@pytest.mark.parametrize("bandwidth, channels", [(4, 1), (6, 3)])
def test_default_quadrature_has_converged(bandwidth, channels, x64):
    """Band-limited noise: within 1e-5 of rules of more than three times the points, on the diagonal and off it."""
    n = 4
    f, _ = signals(n, bandwidth, channels, seed=1)
    size = so3.default_quadrature(bandwidth)

    def gram_at(around, across):
        def entry(i, j):
            pairs = ((f[i], f[i]), (f[j], f[j]), (f[i], f[j]))
            features = [np.asarray(so3.correlation_features(*pair)) for pair in pairs]
            return ntk_at(features, *(around if i == j else across))

        return np.array([[entry(min(i, j), max(i, j)) for j in range(n)] for i in range(n)])

    ours = gram_at(so3.identity_rule(bandwidth, size), so3.rotation_rule(bandwidth, size))
    fine = gram_at(so3.identity_rule(bandwidth, size + 5), so3.rotation_rule(bandwidth, size + 5))
    scale = np.sqrt(np.outer(np.diag(fine), np.diag(fine)))
    assert np.max(np.abs(ours - fine) / scale) < 1e-5


@pytest.mark.slow
def test_a_symmetric_signal_needs_a_larger_rule(x64):
    """As the docstring says: rotations about its axis keep it, and its kink fills a circle of them."""
    colatitude = (2 * np.arange(8) + 1) * np.pi / 16
    profile = np.cos(colatitude) + 0.5 * np.cos(2 * colatitude) - 0.3 * np.cos(3 * colatitude)
    x = np.broadcast_to(profile[:, None, None], (8, 7, 1))[None]

    def ntk(size):
        layers = (eq.LiftS2(1, quadrature=size), eq.Relu(), eq.SO3Conv(1), eq.Relu(), eq.SO3Pool())
        return float(eq.gram(eq.Sequential(*layers), x).ntk[0, 0])

    default, middle, fine = map(ntk, (None, 30, 40))
    assert -5e-4 < default / fine - 1 < -1e-5
    assert abs(middle / fine - 1) < 2e-5


def test_quadrature_converges(x64):
    """Exponentially: with each three steps in the size of the rule by more than a factor of ten."""
    f, _ = signals(2, 4, 2)
    features = [so3.correlation_features(*pair) for pair in ((f[0], f[0]), (f[1], f[1]), (f[0], f[1]))]

    def ntk(size):
        return ntk_at(features, *so3.rotation_rule(4, size))

    reference = ntk(16)
    errors = [abs(ntk(size) / reference - 1) for size in (4, 7, 10, 13)]
    assert all(b < a / 10 for a, b in zip(errors, errors[1:], strict=False)), errors


# The reduction against the literal recursion.


def octahedral_group():
    """The 24 signed permutation matrices of determinant 1."""
    units = [np.eye(3)[list(p)] for p in ((0, 1, 2), (1, 2, 0), (2, 0, 1), (0, 2, 1), (2, 1, 0), (1, 0, 2))]
    signs = [np.diag(s) for s in np.array(np.meshgrid(*[[1, -1]] * 3)).reshape(3, -1).T]
    all_of_them = np.array([s @ u for u in units for s in signs])
    return all_of_them[np.linalg.det(all_of_them) > 0]


def reduced(net, x1, x2, places):
    """The reduction with the same points for everything, pooling by hand."""
    end = next(i for i, layer in enumerate(net.layers) if isinstance(layer, eq.SO3Pool))
    first, middle, head = net.layers[0], net.layers[1:end], net.layers[end + 1 :]
    bandwidth = first.bandwidth or len(x1) // 2
    table = so3.wigner_table(bandwidth, places.angles)
    both = np.concatenate([table, so3.wigner_table(bandwidth, np.zeros((1, 3)))], -1)
    start = input_kernel(net, x1, x2)

    def at(features, table):
        return first.W_std**2 * so3.correlation(features[: len(table)], table) + first.b_std**2

    nngp = at(start.nngp, table)
    own = (at(start.self1, both), at(start.self2, both))
    k = PairKernel(nngp, nngp, *own, layout="rotations", is_gaussian=True, quadrature=1, wide=True)
    k = kernel_map(eq.Sequential(*middle), k) if middle else k
    arrays = (k.nngp, k.ntk, k.self1[:-1], k.self2[:-1])
    return kernel_map(eq.Sequential(*head), PairKernel(*(a @ places.weights for a in arrays)))


@pytest.mark.every(2)
def test_equals_the_literal_recursion_on_a_subgroup(net, x64):
    """On a group of rotations both are exact: the collapse onto relative rotations is an identity."""
    _, x = signals(2, 3, 2)
    places = on_subgroup(octahedral_group())
    assert len(places.weights) == 24
    literal_at = jax.jit(lambda a, b: literal_kernel(net, a, b, places))
    reduced_at = jax.jit(lambda a, b: reduced(net, a, b, places))
    for pair in (x, x[[0, 0]]):
        literal, ours = literal_at(*pair), reduced_at(*pair)
        # Where inputs coincide, the recursion's sums hide it from the dual: half of the digits of the derivative.
        bound = 1e-12 if pair is x else 1e-7
        np.testing.assert_allclose([ours.nngp, ours.ntk], [literal.nngp, literal.ntk], rtol=bound)


def test_linear_network_equals_the_literal_recursion(x64):
    """Nothing is above the band: every rule is exact."""
    net = SPHERE_NETWORKS["sphere-linear"]
    _, x = signals(2, 3, 2)
    ours = jitted(net, *x)
    for size in (3, 4):
        places = on_rule(size)
        literal = jax.jit(partial(literal_kernel, net, places=places))(*x)
        np.testing.assert_allclose([ours.nngp, ours.ntk], [literal.nngp, literal.ntk], rtol=1e-12)


def test_finite_bandwidth_converges_to_the_reduction(x64):
    """What the filters of bandwidth B leave out of a nonlinear network falls with B."""
    net = eq.Sequential(eq.LiftS2(8, b_std=0.2), eq.Relu(), eq.SO3Conv(8, 1.2, 0.4), eq.Relu(), eq.SO3Pool())
    _, x = signals(2, 2, 3)
    ours = jitted(net, *x)

    def error(size):
        literal = jax.jit(lambda a, b: literal_kernel(net, a, b, on_rule(size)))(*x)
        return abs(literal.ntk / ours.ntk - 1)

    errors = [error(size) for size in (2, 3, 5)]
    assert errors[2] < errors[1] < errors[0]
    assert errors[2] < errors[0] / 16  # faster than B^-3


def test_constant_signals(x64):
    """f = 1: K = 1 after every linear layer, and each layer with weights adds 1 to the NTK."""
    x = np.ones((1, 6, 5, 2))
    for layers, ntk in (((eq.LiftS2(4),), 1), ((eq.LiftS2(4), eq.SO3Conv(4)), 2)):
        k = eq.gram(eq.Sequential(*layers, eq.SO3Pool()), x)
        np.testing.assert_allclose([k.nngp, k.ntk], [[[1]], [[ntk]]], rtol=1e-13)


# Symmetries and theorems.


@pytest.mark.every(2)
@pytest.mark.parametrize("name", SPHERE_NETWORKS)
def test_invariant_under_rotations_of_one_signal(name, x64):
    """Exactly without a nonlinearity; with one up to the quadrature, whose default promises 1e-5."""
    first, *others = SPHERE_NETWORKS[name].layers
    net = eq.Sequential(replace(first, quadrature=None), *others)
    f, x = signals(2, 3, 2)
    plain = jitted(net, *x)
    bound = (
        1e-12 if net == eq.Sequential(eq.LiftS2(8, 1.3, 0.2), *SPHERE_NETWORKS["sphere-linear"].layers[1:]) else 1e-5
    )
    for angles in ANGLES[:2]:
        rotated = so3.sphere_signal(so3.rotate_coefficients(angles, f[1:]))[0]
        k = jitted(net, x[0], rotated)
        np.testing.assert_allclose([k.nngp, k.ntk], [plain.nngp, plain.ntk], rtol=bound)
    flat = eq.Sequential(eq.Flatten(), eq.Dense(8), eq.Relu(), eq.Dense(1))
    assert abs(jitted(flat, x[0], rotated).ntk / jitted(flat, *x).ntk - 1) > 1e-2


def test_mean_over_rotations_of_the_dense_network(x64):
    """Theorem 5.2 of Misof et al.: the NTK is the Haar mean of that of Dense-relu-Dense-relu on rotated signals."""
    f, x = signals(2, 3, 2, seed=3)
    scale = np.sqrt(f[0].size / (4 * np.pi * 2))  # Dense divides by its inputs, the lifting layer by 4 pi n_in
    dense = eq.Sequential(eq.Dense(8, 1.3, 0.2), eq.Relu(), eq.Dense(8, 1.2, 0.4), eq.Relu())
    convolutional = eq.Sequential(eq.LiftS2(8, 1.3, 0.2), eq.Relu(), eq.SO3Conv(8, 1.2, 0.4), eq.Relu(), eq.SO3Pool())

    def over(angles):
        """NTK of the dense network between f and f' rotated by each of the angles."""
        blocks = [so3.wigner_matrix(l, angles) @ f[1, l * l : (l + 1) ** 2] for l in range(3)]
        rotated = np.concatenate(blocks, 1).reshape(len(angles), -1)
        return np.asarray(eq.gram(dense, scale * f[:1].reshape(1, -1), scale * rotated).ntk[0])

    expected = float(jitted(convolutional, *x).ntk)
    from scipy.spatial.transform import Rotation

    random = Rotation.random(4000, random_state=0).as_matrix()
    samples = over(so3.matrix_to_angles(random))
    assert abs(monte_carlo_z(samples, expected)) < 4
    assert samples.std() / np.sqrt(len(samples)) < 0.01 * expected  # the check can see a per cent
    # Another rule: trapezoids in all three angles, on odd numbers of points, with Fejer's weights in beta.
    n, m = 40, 25
    beta = (np.arange(n) + 0.5) * np.pi / n
    k = np.arange(1, n // 2 + 1)
    fejer = (1 - 2 * np.sum(np.cos(2 * k * beta[:, None]) / (4 * k**2 - 1), -1)) / n
    turns = 2 * np.pi * np.arange(m) / m
    grid = np.stack(np.meshgrid(turns, beta, turns, indexing="ij"), -1).reshape(-1, 3)
    weights = np.broadcast_to(fejer[:, None] / m**2, (m, n, m)).ravel()
    assert weights.sum() == pytest.approx(1, rel=1e-12)
    assert over(grid) @ weights == pytest.approx(expected, rel=1e-6)


# Gram matrices.


@pytest.mark.every(2)
def test_gram_in_both_precisions(net, x64):
    """Symmetric, positive semidefinite, of the dtype of the inputs, and float32 within 1e-5 of float64."""
    _, x = signals(3, 3, 2)
    x = x.astype("float32")
    low, high = eq.gram(net, x), eq.gram(net, x.astype("float64"))
    for kind in ("nngp", "ntk"):
        for k, dtype in ((low, "float32"), (high, "float64")):
            matrix = getattr(k, kind)
            assert matrix.dtype == dtype
            np.testing.assert_array_equal(matrix, matrix.T)
            eigenvalues = np.linalg.eigvalsh(np.asarray(matrix, np.float64))
            assert eigenvalues[0] > -tolerance(dtype, 3) * eigenvalues[-1]
        a, b = np.asarray(getattr(low, kind), np.float64), np.asarray(getattr(high, kind))
        scale = np.sqrt(np.outer(np.diag(b), np.diag(b)))
        assert np.max(np.abs(a - b) / scale) < 1e-5
        np.testing.assert_allclose(np.diag(a), np.diag(b), rtol=1e-5)


@pytest.mark.parametrize("bandwidth", [4, pytest.param(8, marks=pytest.mark.slow)])
@pytest.mark.parametrize("layer", [eq.Relu(), eq.Erf()], ids=lambda layer: type(layer).__name__)
def test_constant_signals_in_single_precision(layer, bandwidth, x64):
    """All terms of the mean over rotations are equal, so that roundings of their sum do not cancel."""
    net = eq.Sequential(eq.LiftS2(2), layer, eq.SO3Conv(2), layer, eq.SO3Pool())
    x = np.linspace(0.5, 1.5, 3)[:, None, None, None] * np.ones((3, 2 * bandwidth, 2 * bandwidth - 1, 1))
    low, high = eq.gram(net, x.astype("float32")), eq.gram(net, x.astype("float32").astype(float))
    for kind in ("nngp", "ntk"):
        np.testing.assert_allclose(getattr(low, kind), getattr(high, kind), rtol=1e-5)


def test_dtype_without_64_bit_types():
    _, x = signals(2, 2, 1)
    assert jitted(RELU, *x.astype("float32")).ntk.dtype == "float32"


def test_pair_in_either_order(x64):
    """The rule is its own inverse: exactly symmetric however coarse."""
    net = SPHERE_NETWORKS["sphere-deep"]
    _, x = signals(2, 3, 2)
    forth, back = jitted(net, x[0], x[1]), jitted(net, x[1], x[0])
    np.testing.assert_allclose([forth.nngp, forth.ntk], [back.nngp, back.ntk], rtol=tolerance("float64", 108))


def test_one_input_twice_uses_the_rule_around_the_identity(x64):
    """The product rule misses the kink by more than a thousand times the error of the other."""
    _, x = signals(1, 4, 10)
    a, same = jnp.asarray(x[0]), jnp.asarray(x[0].copy())
    twice = jax.jit(lambda net, a: pair_kernel(net, a, a).ntk, static_argnums=0)
    around, across = twice(RELU, a), jitted(RELU, a, same).ntk
    reference = twice(eq.Sequential(replace(RELU.layers[0], quadrature=12), *RELU.layers[1:]), a)
    assert abs(around / reference - 1) < 1e-7 < 1e-5 < abs(across / reference - 1)


@pytest.mark.every(2)
@pytest.mark.parametrize("name", ["sphere-deep", "sphere-residual"])
def test_gradients_are_finite_at_coincident_inputs(name, x64):
    net = SPHERE_NETWORKS[name]
    _, x = signals(1, 3, 2)
    gradient = jax.jit(jax.grad(lambda a, b: pair_kernel(net, a, b).ntk))
    for start in (x[0], np.zeros_like(x[0])):
        assert np.isfinite(gradient(start, start)).all()


def test_bandwidth_drops_degrees(x64):
    f, x = signals(2, 4, 2)
    low = np.asarray(so3.sphere_signal(f[:, :4]))
    net = eq.Sequential(eq.LiftS2(8, bandwidth=2, quadrature=6), *RELU.layers[1:])
    assert float(jitted(net, *x).ntk) == pytest.approx(float(jitted(net, *low).ntk), rel=1e-12)


GOOD = np.ones((2, 4, 3, 1), np.float32)
LIFT, END = eq.LiftS2(2), (eq.SO3Pool(), eq.Dense(1))
BAD = {
    "wrong grid": (eq.Sequential(LIFT, *END), GOOD[:, :, :2], r"layer 0: LiftS2.*2L colatitudes.*got 4 by 2"),
    "odd rows": (eq.Sequential(LIFT, *END), GOOD[:, :3, :2], r"layer 0: LiftS2.*2L colatitudes.*got 3 by 2"),
    "vectors": (eq.Sequential(LIFT, *END), GOOD[:, :, 0, 0], r"layer 0: LiftS2.*expected signals.*got a batch of vec"),
    "no lift": (eq.Sequential(eq.SO3Conv(2), *END), GOOD, r"layer 0: SO3Conv.*got a batch of images; put a LiftS2"),
    "no lift before pool": (eq.Sequential(*END), GOOD, r"layer 0: SO3Pool.*got a batch of images; put a LiftS2"),
    "after pooling": (
        eq.Sequential(LIFT, eq.SO3Pool(), eq.SO3Conv(2)), GOOD, r"layer 2: SO3Conv.*got a batch of vectors"
    ),
    "no pool": (eq.Sequential(LIFT, eq.SO3Conv(2)), GOOD, r"still a feature map on SO\(3\); end it with SO3Pool"),
    "flatten": (eq.Sequential(LIFT, eq.Flatten(), eq.Dense(1)), GOOD, r"layer 1: Flatten.*use SO3Pool"),
    "Conv": (eq.Sequential(LIFT, eq.Conv(2, (1, 1)), *END), GOOD, r"layer 1: Conv.*needs images.*SO3Conv"),
    "lift twice": (eq.Sequential(LIFT, LIFT, *END), GOOD, r"layer 1: LiftS2.*got a feature map on SO\(3\)"),
    "lift later": (eq.Sequential(eq.Conv(2, (1, 1)), LIFT, *END), GOOD, r"layer 1: LiftS2.*put it first"),
    "bandwidth": (eq.Sequential(eq.LiftS2(2, bandwidth=3), *END), GOOD, r"layer 0: LiftS2.*`bandwidth`.*at most 2"),
    "rule": (eq.Sequential(eq.LiftS2(2, quadrature=1), *END), GOOD, r"layer 0: LiftS2.*`quadrature`.*2, got 1"),
    "nan": (eq.Sequential(LIFT, *END), GOOD * np.nan, r"`x1`: expected finite numbers"),
    "empty": (eq.Sequential(LIFT, *END), GOOD[:0], r"`x1`: expected at least one example"),
    "nonlinearity first": (eq.Sequential(LIFT, eq.Relu(), eq.Erf(), *END), GOOD, r"layer 2: Erf.*needs a Gaussian"),
}  # fmt: skip


@pytest.mark.parametrize("net, x, message", BAD.values(), ids=list(BAD))
def test_bad_input(net, x, message):
    with pytest.raises(ValueError, match=message):
        eq.gram(net, x)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: eq.LiftS2(0), "LiftS2: channels`: expected an integer of at least 1, got 0"),
        (lambda: eq.LiftS2(1, -1.0), "LiftS2: `W_std`: expected a finite number"),
        (lambda: eq.SO3Conv(1, b_std=np.nan), "SO3Conv: `b_std`: expected a finite number"),
        (lambda: eq.LiftS2(1, bandwidth=0), "LiftS2: bandwidth`: expected an integer"),
        (lambda: eq.LiftS2(1, quadrature=2.5), "LiftS2: quadrature`: expected an integer"),
        (lambda: eq.LiftS2(1, bandwidth=4, quadrature=3), "`quadrature`: expected at least the bandwidth 4, got 3"),
        (lambda: on_subgroup(octahedral_group()[:5]), "`rotations`: expected a group"),
        (lambda: so3.rotation_points([2]), "`size`: expected an integer of at least 1"),
        (lambda: so3.sphere_grid(jnp.int32(2)), "`bandwidth`: expected an integer of at least 1"),
        (lambda: so3.correlation_features(np.ones((5, 1)), np.ones((5, 1))), "`f1`: expected coefficients"),
        (lambda: so3.correlation_features(np.ones((4, 1)), np.ones((4, 2))), r"`f2`: expected .*\[\.\.\., 4, 1\]"),
        (lambda: so3.correlation_features(np.ones((9, 1)), np.ones((4, 1))), r"`f2`: expected .*\[\.\.\., 9, 1\]"),
    ],
)
def test_bad_arguments(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    "layers, message",
    [
        ((eq.Relu(), eq.Relu(), eq.SO3Pool()), "layer 2: Relu.* needs a Gaussian input"),
        ((eq.Relu(), eq.SO3Pool(), eq.Relu(), eq.Dense(1)), "layer 3: Relu.* needs a Gaussian input"),
        ((eq.Residual(eq.Relu()), eq.SO3Pool()), "expected a branch whose last layer has weights"),
    ],
    ids=["twice", "behind the pool", "branch"],
)
def test_the_literal_recursion_refuses_what_the_reduction_refuses(layers, message):
    x = np.ones((2, 4, 3, 1))
    with pytest.raises(ValueError, match=message):
        literal_kernel(eq.Sequential(eq.LiftS2(2), *layers), x[0], x[1], on_subgroup(octahedral_group()))


def test_no_signals_and_no_rotations():
    assert so3.sphere_coefficients(np.zeros((0, 4, 3, 2))).shape == (0, 4, 2)
    assert so3.sphere_signal(np.zeros((0, 4, 2))).shape == (0, 4, 3, 2)
    assert so3.wigner_table(2, np.zeros((0, 3))).shape == (10, 0)


def test_integers_are_numbers():
    """Tables and weights keep their digits: they are not rounded to the integers they meet."""
    features, values = np.ones(10, int), np.arange(32)
    table = so3.wigner_table(2, ANGLES)
    np.testing.assert_allclose(so3.correlation(features, table), features @ table, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(so3.mean_over_rotations(values, 2), values @ so3.rotation_points(2)[1], rtol=1e-6)


def test_rules_are_kept_until_their_cache_is_cleared():
    first = so3.rotation_rule(2, 3)
    assert so3.rotation_rule(2, 3)[0] is first[0] and not first[0].flags.writeable
    so3.rotation_rule.cache_clear()
    again = so3.rotation_rule(2, 3)
    assert again[0] is not first[0]
    np.testing.assert_array_equal(again[0], first[0])


def test_the_missing_extra_is_named(monkeypatch):
    import sys

    from eqbook.kernels.so3 import wigner

    monkeypatch.setitem(sys.modules, "e3nn_jax", None)
    wigner._generators.cache_clear()
    with pytest.raises(ImportError, match="eqbook with the extra `so3`"):
        so3.wigner_matrix(1, ANGLES)


def test_layers_are_hashable_and_equal():
    assert eq.LiftS2(4, np.float32(2)) == eq.LiftS2(4, 2.0)
    assert len({eq.LiftS2(4), eq.LiftS2(4), eq.SO3Conv(4), eq.SO3Pool(), eq.SO3Pool()}) == 3

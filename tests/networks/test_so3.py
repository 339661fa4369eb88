"""Finite networks on SO(3): their integrals by hand, equivariance, and their kernels by Monte Carlo."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from monte_carlo import assert_agrees
from numbers_drawn import quick_key
from registry import SPHERE_NETWORKS

import eqbook as eq

pytest.importorskip("e3nn_jax", reason="the so3 extra")

from eqbook.grams import Gram  # noqa: E402
from eqbook.kernels import so3  # noqa: E402
from eqbook.kernels.so3.literal import literal_kernel  # noqa: E402
from eqbook.kernels.so3.places import on_rule  # noqa: E402

COEFFICIENTS = np.random.default_rng(0).normal(size=(2, 4, 2))
NETWORKS = {  # on the smallest rule for signals of bandwidth 2
    name: eq.Sequential(replace(net.layers[0], quadrature=2), *net.layers[1:]) for name, net in SPHERE_NETWORKS.items()
}


def signals(coefficients=COEFFICIENTS):
    return np.asarray(so3.sphere_signal(coefficients))


def weights_of(params):
    """The only layer's W and b."""
    leaves = {leaf.ndim: leaf for leaf in jax.tree.leaves(params)}
    return np.asarray(leaves[3]), np.asarray(leaves[1])


@pytest.mark.parametrize("name", NETWORKS)
def test_shapes_and_dtype(name, dtype):
    net, x = NETWORKS[name], signals()
    y = jax.eval_shape(lambda x: net.apply(net.init(jax.random.key(0), x.shape), x), jnp.asarray(x, dtype))
    assert y.shape == (2, 1) and y.dtype == dtype


def test_lifting_by_hand(x64):
    """The filter, turned to each rotation, integrated against the signal over a fine grid of the sphere."""
    net = eq.Sequential(eq.LiftS2(3, 1.3, 0.7, quadrature=2))
    x = signals()
    params = net.init(quick_key(0), x.shape)
    W, b = weights_of(params)  # [4, 2, 3], [3]
    theta, phi = so3.sphere_grid(4)
    fine = np.stack([np.sin(theta) * np.cos(phi), np.sin(theta) * np.sin(phi), np.cos(theta)], -1)
    f = np.einsum("gk,nkc->ngc", so3.spherical_harmonics(2, theta, phi), COEFFICIENTS)
    expected = []
    for R in so3.angles_to_matrix(so3.rotation_points(2)[0]):
        moved = fine @ R  # R^-1 x
        Y = so3.spherical_harmonics(2, np.arccos(np.clip(moved[:, 2], -1, 1)), np.arctan2(moved[:, 1], moved[:, 0]))
        kappa = np.einsum("gk,kci->gci", Y, W)
        integral = np.einsum("g,gci,ngc->ni", so3.sphere_weights(4), kappa, f)
        expected.append(1.3 / np.sqrt(4 * np.pi * 2) * integral + 0.7 * b)
    np.testing.assert_allclose(net.apply(params, x), np.stack(expected, 1), atol=1e-12)


def test_convolution_by_hand(x64):
    r"""$\int \kappa(R^{-1} S) f(S) dS$ with the filter evaluated at the product of rotations, no factor of degree."""
    lift, conv = eq.Sequential(eq.LiftS2(2, quadrature=2)), eq.SO3Conv(3, 1.3, 0.7)
    net = eq.Sequential(*lift.layers, conv)
    x = signals()
    params = net.init(quick_key(0), x.shape)
    f = lift.apply({"params": {"layers_0": params["params"]["layers_0"]}}, x)  # [n, points, 2]
    W, b = weights_of(params["params"]["layers_1"])  # [features, 2, 3]
    angles, weights = so3.rotation_points(2)
    R = so3.angles_to_matrix(angles)
    products = so3.matrix_to_angles(np.einsum("aji,bjk->abik", R, R)).reshape(-1, 3)  # R_a^-1 R_b
    volume = 8 * np.pi**2
    basis = np.concatenate([np.full(1, 1 / np.sqrt(volume)), np.full(9, np.sqrt(3 / volume))])
    kappa = np.einsum("fp,f,fci->pci", so3.wigner_table(2, products), basis, W).reshape(len(R), len(R), 2, 3)
    integral = np.einsum("b,abci,nbc->nai", volume * weights, kappa, f)
    np.testing.assert_allclose(net.apply(params, x), 1.3 / np.sqrt(volume * 2) * integral + 0.7 * b, atol=1e-12)


def test_pool_is_the_mean_over_rotations(x64):
    """Of the lifted map only degree 0 is left: the mean of the filter times the mean of the signal."""
    net = eq.Sequential(eq.LiftS2(3), eq.SO3Pool())
    x = signals()
    params = net.init(quick_key(0), x.shape)
    (W,) = jax.tree.leaves(params)
    expected = np.einsum("nc,ci->ni", COEFFICIENTS[:, 0], W[0]) / np.sqrt(4 * np.pi * 2)
    np.testing.assert_allclose(net.apply(params, x), expected, atol=1e-12)


@pytest.mark.every(2)
@pytest.mark.parametrize("name", ["sphere-deep", "sphere-residual"])
def test_invariant_under_turns_of_the_rule(name, x64):
    """A turn about the z axis by a step of the rule permutes its points: exact, nonlinear or not."""
    net, x = NETWORKS[name], signals()
    turned = signals(so3.rotate_coefficients(np.array([np.pi / 2, 0, 0]), COEFFICIENTS))
    outputs = jax.jit(lambda x: net.apply(net.init(quick_key(0), x.shape), x))
    np.testing.assert_allclose(outputs(turned), outputs(x), rtol=1e-11)
    assert np.abs(turned - x).max() > 0.1


def test_equivariant_under_all_rotations_without_nonlinearity(x64):
    """Coefficients of the feature map of a rotated signal are the rotated coefficients."""
    net = eq.Sequential(eq.LiftS2(2, b_std=0.5, quadrature=3), eq.SO3Conv(3, b_std=0.5))
    params = net.init(quick_key(0), signals().shape)
    angles = np.array([0.3, 1.2, -0.7])
    table, weights = so3.rotation_rule(2, 3)

    def degree_one(coefficients):
        z = net.apply(params, signals(coefficients))
        return np.einsum("fp,p,npi->nfi", table[1:], weights, z).reshape(2, 3, 3, 3)

    D = so3.wigner_matrix(1, angles[None])[0]
    expected = np.einsum("mk,nkpi->nmpi", D, degree_one(COEFFICIENTS))
    np.testing.assert_allclose(degree_one(so3.rotate_coefficients(angles, COEFFICIENTS)), expected, atol=1e-12)


def test_nonlinear_network_becomes_invariant_with_the_rule(x64):
    """Aliasing of the nonlinearity breaks the invariance, and vanishes as the rule grows."""
    angles = np.array([0.3, 1.2, -0.7])
    turned = signals(so3.rotate_coefficients(angles, COEFFICIENTS))

    def gap(size):
        net = eq.Sequential(eq.LiftS2(4, quadrature=size), eq.Erf(), eq.SO3Conv(4), eq.Erf(), eq.SO3Pool())
        outputs = jax.jit(lambda x: net.apply(net.init(quick_key(1), x.shape), x))
        y = outputs(signals())
        return float(np.linalg.norm(outputs(turned) - y) / np.linalg.norm(y))

    assert gap(6) < gap(2) / 20


def limit(net, x):
    """The kernel of the finite network at infinite width: the literal recursion on the points of its rule."""
    places = on_rule(net.layers[0].quadrature)
    kernel = jax.jit(lambda a, b: literal_kernel(net, a, b, places))
    entries = [[kernel(a, b) for b in x] for a in x]
    return Gram(*(np.array([[getattr(k, kind) for k in row] for row in entries]) for kind in ("nngp", "ntk")))


@pytest.mark.every(2)
@pytest.mark.parametrize("name", ["sphere-deep", "sphere-residual"])
def test_monte_carlo_agrees_with_the_literal_recursion(name, x64):
    """Exact but for the width: the recursion knows the points and the bandwidth of the filters."""
    net, x = NETWORKS[name], signals()
    assert_agrees(net, x, count=768, widths=(16, 32), gram=limit(net, x))


@pytest.mark.parametrize(
    "net, x, message",
    [
        (eq.Sequential(eq.LiftS2(2), eq.SO3Pool()), np.ones((2, 4, 4, 1)), r"layer 0: LiftS2.*2L colatitudes.*4 by 4"),
        (eq.Sequential(eq.LiftS2(2), eq.SO3Pool()), np.ones((2, 4)), r"layer 0: LiftS2.*got a batch of vectors"),
        (eq.Sequential(eq.LiftS2(2, bandwidth=3)), np.ones((2, 4, 3, 1)), r"layer 0: LiftS2.*`bandwidth`.*at most 2"),
        (eq.Sequential(eq.LiftS2(2, quadrature=1)), np.ones((2, 4, 3, 1)), r"layer 0: LiftS2.*`quadrature`.*got 1"),
        (eq.Sequential(eq.SO3Conv(2)), np.ones((2, 4, 3, 1)), r"layer 0: SO3Conv.*put a LiftS2 before it"),
        (eq.Sequential(eq.LiftS2(2), eq.Flatten()), np.ones((2, 4, 3, 1)), r"layer 1: Flatten.*use SO3Pool"),
    ],
)
def test_bad_input(net, x, message):
    with pytest.raises(ValueError, match=message):
        net.init(jax.random.key(0), x.shape)
    with pytest.raises(ValueError, match=message):
        net.apply({"params": {}}, x)

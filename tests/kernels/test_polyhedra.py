"""Networks on the finite groups of rotations that fix no axis, in place of SO(3)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from monte_carlo import assert_agrees
from numbers_drawn import quick_key

import eqbook as eq

pytest.importorskip("e3nn_jax", reason="the so3 extra")

from eqbook.groups import POLYHEDRA  # noqa: E402
from eqbook.kernels import pair_kernel, so3  # noqa: E402
from eqbook.kernels.so3.literal import literal_kernel  # noqa: E402
from eqbook.kernels.so3.places import on_subgroup  # noqa: E402

ORDERS = {"tetrahedron": 12, "cube": 24, "icosahedron": 60}


def network(quadrature, width=8, **options):
    return eq.Sequential(
        eq.LiftS2(width, 1.3, 0.2, quadrature=quadrature, **options),
        eq.Erf(),
        eq.SO3Conv(width, 1.2, 0.3),
        eq.Relu(),
        eq.SO3Pool(),
        eq.Dense(1, b_std=0.1),
    )


@pytest.fixture
def rng():
    """Its own for each test: what one draws does not depend on which ran before."""
    return np.random.default_rng(0)


def turned(coefficients, R):
    return so3.sphere_signal(so3.rotate_coefficients(so3.matrix_to_angles(R), coefficients))


@pytest.mark.parametrize("name", POLYHEDRA)
def test_equals_the_recursion_over_pairs_of_elements(name, rng, x64):
    """All ways to the kernel: tiles, pair by pair, and the sums over all pairs of group elements."""
    net, x = network(name), rng.normal(size=(3, 6, 5, 2))
    places = on_subgroup(POLYHEDRA[name]()[0])
    assert len(places.weights) == ORDERS[name]
    ours = eq.gram(net, x)
    literal = jax.jit(lambda a, b: literal_kernel(net, a, b, places))
    for i, j in ((0, 1), (1, 2), (2, 2)):
        expected = literal(x[i], x[j])
        one = jax.jit(pair_kernel, static_argnums=0)(net, x[i], x[j])
        # Where inputs coincide, the sums hide it from the dual: half of the digits of the derivative.
        bound = 1e-12 if i != j else 1e-7
        for kind in ("nngp", "ntk"):
            np.testing.assert_allclose(getattr(ours, kind)[i, j], getattr(expected, kind), rtol=bound)
            np.testing.assert_allclose(getattr(ours, kind)[i, j], getattr(one, kind), rtol=1e-12)
    across = eq.gram(net, x, x[::-1])
    np.testing.assert_allclose(across.ntk[:, ::-1], ours.ntk, rtol=1e-12)
    np.testing.assert_allclose(eq.gram(net, x, tile=2).ntk, ours.ntk, rtol=1e-12)
    np.testing.assert_allclose(eq.gram(net, x, method="literal").ntk, ours.ntk, rtol=1e-12)


@pytest.mark.parametrize("name", POLYHEDRA)
def test_invariant_under_the_group_and_no_more(name, rng, x64):
    f = rng.normal(size=(2, 9, 2))
    x = np.asarray(so3.sphere_signal(f))
    plain = eq.gram(network(name), x[:1], x[1:]).ntk
    for R in POLYHEDRA[name]()[0][[1, -1]]:
        np.testing.assert_allclose(eq.gram(network(name), x[:1], turned(f[1:], R)).ntk, plain, rtol=1e-11)
    other = so3.angles_to_matrix(np.array([0.3, 1.2, -0.7]))
    assert abs(eq.gram(network(name), x[:1], turned(f[1:], other)).ntk / plain - 1) > 1e-5


def test_no_negative_eigenvalues(rng, x64):
    """Signals and copies turned by random rotations, where a rule for SO(3) with 864 points has some."""
    f = rng.normal(size=(4, 9, 1))
    angles = rng.uniform(-np.pi, np.pi, (12, 3))
    x = np.concatenate([so3.sphere_signal(so3.rotate_coefficients(a, f)) for a in angles])

    def least(quadrature):
        eigenvalues = np.linalg.eigvalsh(eq.gram(network(quadrature), x).ntk)
        return eigenvalues[0] / eigenvalues[-1]

    assert all(least(name) > -1e-13 for name in POLYHEDRA)
    assert least(6) < -1e-6


@pytest.mark.parametrize("name, degree", [("tetrahedron", 3), ("cube", 4), ("icosahedron", 6)])
def test_exact_below_the_first_invariant(name, degree, x64):
    """The mean of D^l over the group is 0 below that degree, and the projector onto one vector there."""
    angles, weights = so3.rotation_points(name)
    for l in range(1, degree + 1):
        mean = np.einsum("a,amn->mn", weights, so3.wigner_matrix(l, angles))
        np.testing.assert_allclose(mean @ mean, mean, atol=1e-13)
        assert np.trace(mean) == pytest.approx(float(l == degree), abs=1e-12)


def test_kernels_of_low_degree_are_those_of_all_rotations(x64):
    """A square doubles the degrees: those below 3 stay below 6 for the icosahedron, those below 4 do not."""

    def kernel(quadrature, bandwidth):
        x = np.asarray(so3.sphere_signal(np.random.default_rng(1).normal(size=(2, bandwidth**2, 1))))
        square = eq.Activation(lambda u: u**2)
        net = eq.Sequential(eq.LiftS2(4, quadrature=quadrature), square, eq.SO3Pool(), eq.Dense(1))
        return float(eq.gram(net, x[:1], x[1:]).nngp[0, 0])

    assert kernel("icosahedron", 3) == pytest.approx(kernel(6, 3), rel=1e-10)
    assert abs(kernel("icosahedron", 4) / kernel(8, 4) - 1) > 1e-5
    assert abs(kernel("cube", 3) / kernel(6, 3) - 1) > 1e-5


@pytest.mark.parametrize("name", POLYHEDRA)
def test_finite_network_by_hand(name, rng, x64):
    """Filters on the group: one weight for each element, at g^-1 s; and the output is invariant under the group."""
    f = rng.normal(size=(2, 9, 2))
    x, (matrices, group) = np.asarray(so3.sphere_signal(f)), POLYHEDRA[name]()
    lift = eq.LiftS2(2, quadrature=name)
    net = eq.Sequential(lift, eq.SO3Conv(3, 1.3, 0.7))
    params = net.init(quick_key(0), x.shape)
    lifted = eq.Sequential(lift).apply({"params": {"layers_0": params["params"]["layers_0"]}}, x)
    assert lifted.shape == (2, group.order, 2)
    W, b = (params["params"]["layers_1"][key] for key in ("W", "b"))  # [order, 2, 3]
    expected = np.zeros((2, group.order, 3))
    for g in group.elements:
        for s in group.elements:
            expected[:, g] += np.asarray(lifted[:, s] @ W[group.table[group.inverse[g], s]])
    expected = 1.3 / np.sqrt(group.order * 2) * expected + 0.7 * np.asarray(b)
    np.testing.assert_allclose(net.apply(params, x), expected, atol=1e-12)
    deep = network(name)
    outputs = jax.jit(lambda x: deep.apply(deep.init(quick_key(1), x.shape), x))
    np.testing.assert_allclose(outputs(turned(f, matrices[5])), outputs(x), rtol=1e-10)
    other = so3.angles_to_matrix(np.array([0.3, 1.2, -0.7]))
    assert np.abs(outputs(turned(f, other)) / outputs(x) - 1).max() > 1e-4


@pytest.mark.every(2)
def test_kernel_is_that_of_wide_networks(rng):
    """The mean over finite networks, tetrahedron, up to the standard error and the width."""
    x = np.asarray(so3.sphere_signal(rng.normal(size=(2, 4, 2))), np.float32)
    assert_agrees(network("tetrahedron"), x, 400)


def test_gradients_and_jit(rng, x64):
    x = jnp.asarray(rng.normal(size=(2, 4, 3, 1)))
    net = network("tetrahedron")

    def entry(x):
        return eq.gram(net, x[:1], x[1:]).ntk[0, 0]

    slope, step = jax.jit(jax.grad(entry))(x), 1e-6
    moved = [float(entry(x.at[0, 1, 2, 0].add(sign * step))) for sign in (1, -1)]
    assert float(slope[0, 1, 2, 0]) == pytest.approx((moved[0] - moved[1]) / (2 * step), rel=1e-6)

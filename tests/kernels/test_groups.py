"""Kernels on groups, by the literal recursion: against sums written out, their symmetries, and two theorems."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from by_hand import conv_covariance, seen_by_lift
from literal import literal_gram
from registry import C3, D3, D3_TURNS, GROUP_NETWORKS

import eqbook as eq
from eqbook.groups import ImageAction, RegularAction, TrivialAction, orbit
from eqbook.kernels import kernel_map, pair_kernel
from eqbook.kernels.recursion import input_kernel
from eqbook.testing import relative_error, tolerance

ARRAYS = ("nngp", "ntk", "self1", "self2")


@pytest.fixture(params=GROUP_NETWORKS, ids=list(GROUP_NETWORKS))
def case(request):
    return GROUP_NETWORKS[request.param]


def inputs(shape, n=2, seed=0):
    return np.random.default_rng(seed).normal(size=(n, *shape))


def compiled(net):
    return jax.jit(lambda a, b: kernel_map(net, input_kernel(net, a, b)))


def before_pooling(net):
    return eq.Sequential(*net.layers[: net.layers.index(eq.GroupPool())])


PLANE = {
    "C4-SAME-3x1": (eq.cyclic(4), (3, 1), "SAME"),
    "D4-CIRCULAR": (eq.dihedral(4), (3, 3), "CIRCULAR"),
    "D2-VALID": (eq.dihedral(2), (2, 2), "VALID"),
}


@pytest.mark.every(2)
@pytest.mark.parametrize("group, filter_shape, padding", PLANE.values(), ids=list(PLANE))
def test_plane_by_hand(group, filter_shape, padding, x64):
    """A lifted covariance is the mean product of what the filter sees; convolution is the mean over its entries."""
    lift = eq.Lift(group, 4, filter_shape, padding, W_std=1.3, b_std=0.7)
    conv = eq.GroupConv(group, 4, filter_shape, padding, W_std=0.9, b_std=0.2, support=(0, group.order - 1))
    x1, x2 = inputs((3, 3, 2))
    seen = [seen_by_lift(lift, x) for x in (x1, x2)]
    lifted = 1.3**2 * np.einsum("ghwyc,GHWyc->ghwGHW", *seen) / (lift.fan * 2) + 0.7**2
    nngp = 0.9**2 * conv_covariance(conv, lifted) + 0.2**2
    expected = {"nngp": nngp, "ntk": nngp + 0.9**2 * conv_covariance(conv, lifted)}
    k = compiled(eq.Sequential(lift, conv))(x1, x2)
    for kind in expected:
        np.testing.assert_allclose(getattr(k, kind), expected[kind], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("action", [C3, D3, D3_TURNS], ids=["C3", "D3", "D3-matrices"])
def test_finite_set_by_hand(action, x64):
    group, support = action.group, (1, 0)
    x1, x2 = inputs((2,) if action is D3_TURNS else (group.order,))
    lift = eq.Lift(group, 4, W_std=1.3, b_std=0.7, action=action, support=support)
    conv = eq.GroupConv(group, 4, W_std=0.9, b_std=0.2, support=support)
    back = [np.stack([action(int(group.inverse[g]), x) for g in group.elements]) for x in (x1, x2)]
    lifted = 1.3**2 * np.mean([np.outer(back[0][:, s], back[1][:, s]) for s in support], 0) + 0.7**2
    nngp, mean = np.zeros((2, group.order, group.order))
    for g, h in np.ndindex(*nngp.shape):
        mean[g, h] = 0.9**2 * np.mean([lifted[group.table[g, s], group.table[h, s]] for s in support])
    nngp = mean + 0.2**2
    k = compiled(eq.Sequential(lift, conv))(x1, x2)
    np.testing.assert_allclose(k.nngp, nngp, rtol=1e-12)
    np.testing.assert_allclose(k.ntk, nngp + mean, rtol=1e-12)


def move_both(action_rows, h1, action_columns, h2, k):
    """Translate a kernel in both indices: entry (g, g') becomes (h1^-1 g, h2^-1 g')."""
    size = int(np.sqrt(k.size))
    half = k.shape[: k.ndim // 2]
    rows = action_rows(h1, k.reshape(*half, size))
    columns = action_columns(h2, rows.reshape(size, *half, 1))
    return np.asarray(columns).reshape(k.shape)


def feature_map_action(case):
    """How the group translates feature maps `[..., |G|, (h, w,) channels]`."""
    group = case.action.group
    if len(case.shape) == 1:
        return RegularAction(group, axis=-2)
    return lambda g, x: RegularAction(group, axis=-4)(g, ImageAction(group)(g, x))


@pytest.mark.every(4)
def test_kernel_is_translated_in_each_index(case, x64):
    """K_{g,g'}(rho(h) f, rho(h') f') = K_{h^-1 g, h'^-1 g'}(f, f'), the same for Theta."""
    x1, x2 = inputs(case.shape)
    kernel, translate = compiled(before_pooling(case.net)), feature_map_action(case)
    k, order = kernel(x1, x2), case.action.group.order
    for h1, h2 in ((1, 0), (0, order - 1), (order - 1, 1)):
        moved = kernel(case.action(h1, x1), case.action(h2, x2))
        for kind in ("nngp", "ntk"):
            expected = move_both(translate, h1, translate, h2, getattr(k, kind))
            assert relative_error(getattr(moved, kind), expected) < tolerance(float, 300)


@pytest.mark.every(5)
@pytest.mark.parametrize("name", ["plane-C4-SAME", "plane-D4-VALID", "D3-on-itself", "D3-matrices", "D3-residual"])
def test_pooled_kernel_is_symmetric_positive_semidefinite_and_precise(name, x64):
    case = GROUP_NETWORKS[name]
    x = inputs(case.shape, 3)
    k = literal_gram(case.net, x, x)
    low = literal_gram(case.net, x.astype(np.float32), x.astype(np.float32))
    assert all(getattr(low, name).dtype == np.float32 for name in ARRAYS)
    for kind in ("nngp", "ntk"):
        matrix = np.asarray(getattr(k, kind))
        # Off the diagonal the pairs (x, x') and (x', x) add up the same terms in another order.
        assert relative_error(matrix, matrix.T) < tolerance(float, 300)
        eigenvalues = np.linalg.eigvalsh((matrix + matrix.T) / 2)
        assert eigenvalues[0] > -tolerance(float, 300) * eigenvalues[-1]
        np.testing.assert_allclose(getattr(low, kind), matrix, rtol=1e-5, atol=1e-5)


@pytest.mark.every(2)
@pytest.mark.parametrize("name", ["plane-C4-SAME", "D3-residual"])
def test_gradients_are_finite_at_coinciding_inputs(name, x64):
    """There the dual of relu has its corner."""
    case = GROUP_NETWORKS[name]
    x = inputs(case.shape)[0]
    gradient = jax.jit(jax.grad(lambda a, b: pair_kernel(case.net, a, b).ntk))(x, x)
    assert np.isfinite(gradient).all() and np.abs(gradient).max() > 0


@pytest.mark.every(2)
@pytest.mark.parametrize("group", [eq.cyclic(4), eq.dihedral(2)], ids=["C4", "D2"])
@pytest.mark.parametrize("planar", [True, False])
def test_constant_inputs(group, planar, x64):
    """K = 1 in every layer; the NTK counts the layers with weights: 1 after the first, 2 after the second."""
    filter_shape, x = ((3, 3), np.ones((3, 3, 2))) if planar else (None, np.ones(group.order))
    lift = eq.Sequential(eq.Lift(group, 4, filter_shape, "CIRCULAR"))
    k = compiled(lift)(x, x)
    np.testing.assert_allclose(k.nngp, 1, rtol=1e-14)
    np.testing.assert_allclose(k.ntk, 1, rtol=1e-14)
    net = eq.Sequential(*lift.layers, eq.GroupConv(group, 4, filter_shape, "CIRCULAR"), eq.GroupPool())
    k = compiled(net)(x, x)
    np.testing.assert_allclose([k.nngp, k.ntk], [1, 2], rtol=1e-13)


def orbit_mean(net, action, x1, x2):
    """(1/|G|) sum_g K(f, rho(g) f') and the same for Theta, of a network without a group."""
    moved = orbit(action, jnp.asarray(x2))  # [|G|, n, ...]
    k = literal_gram(net, x1, moved.reshape(-1, *x2.shape[1:]))
    return {kind: getattr(k, kind).reshape(len(x1), -1, len(x2)).mean(1) for kind in ("nngp", "ntk")}


def averaged_gap(group_net, plain_net, action, x1, x2):
    """Largest relative distance of the kernels of a group network from the orbit means of the plain one."""
    means, k = orbit_mean(plain_net, action, x1, x2), literal_gram(group_net, x1, x2)
    return max(relative_error(getattr(k, kind), mean) for kind, mean in means.items())


SELF = {f"{name}-on-itself": RegularAction(group) for name, group in (("C4", eq.cyclic(4)), ("D3", eq.dihedral(3)))}


@pytest.mark.every(6)
@pytest.mark.parametrize("action", [*SELF.values(), D3_TURNS], ids=[*SELF, "D3-matrices"])
@pytest.mark.parametrize("support", [None, (1, 2)], ids=["full", "restricted"])
def test_group_network_is_the_orbit_mean_of_the_fully_connected_one(action, support, x64):
    """Theorem 5.2 of paper 2, for any finite group; the support of the group convolution does not matter."""
    group = action.group
    x1, x2 = inputs((2 if action is D3_TURNS else group.order,), 4).reshape(2, 2, -1)
    on_group = eq.Sequential(
        eq.Lift(group, 4, W_std=1.3, b_std=0.2, action=action), eq.Relu(),
        eq.GroupConv(group, 4, b_std=0.3, support=support), eq.Erf(),
        eq.GroupConv(group, 4, support=support), eq.GroupPool(),
    )  # fmt: skip
    plain = eq.Sequential(eq.Dense(4, W_std=1.3, b_std=0.2), eq.Relu(), eq.Dense(4, b_std=0.3), eq.Erf(), eq.Dense(4))
    assert averaged_gap(on_group, plain, action, x1, x2) < 1e-12


def test_a_lift_that_does_not_see_all_coordinates_is_no_orbit_mean(x64):
    action = RegularAction(eq.cyclic(4))
    x1, x2 = inputs((4,), 4).reshape(2, 2, -1)
    on_group = eq.Sequential(
        eq.Lift(action.group, 4, support=(0, 1)), eq.Relu(), eq.GroupConv(action.group, 4), eq.GroupPool()
    )
    plain = eq.Sequential(eq.Dense(4), eq.Relu(), eq.Dense(4))
    assert averaged_gap(on_group, plain, action, x1, x2) > 1e-3


def plane_pair(group, filter_shape, padding, support=None):
    on_group = eq.Sequential(
        eq.Lift(group, 4, filter_shape, padding, W_std=1.3, b_std=0.2), eq.Relu(),
        eq.GroupConv(group, 4, filter_shape, padding, b_std=0.3, support=support), eq.Erf(),
        eq.GroupPool(), eq.Dense(1, W_std=0.8, b_std=0.1),
    )  # fmt: skip
    plain = eq.Sequential(
        eq.Conv(4, filter_shape, (1, 1), padding, 1.3, 0.2), eq.Relu(),
        eq.Conv(4, filter_shape, (1, 1), padding, b_std=0.3), eq.Erf(),
        eq.GlobalAvgPool(), eq.Dense(1, W_std=0.8, b_std=0.1),
    )  # fmt: skip
    return on_group, plain


ORBIT_MEANS = {
    "C4-SAME": (eq.cyclic(4), (3, 3), "SAME"),
    "C4-VALID": (eq.cyclic(4), (2, 2), "VALID"),
    "C2-CIRCULAR-3x1": (eq.cyclic(2), (3, 1), "CIRCULAR"),
    "C4-one-rotation": (eq.cyclic(4), (3, 3), "CIRCULAR", (1,)),
    "D4-SAME": (eq.dihedral(4), (3, 3), "SAME"),
    "D4-three-elements": (eq.dihedral(4), (2, 2), "VALID", (0, 3, 5)),
}


@pytest.mark.every(6)
@pytest.mark.parametrize("arguments", ORBIT_MEANS.values(), ids=list(ORBIT_MEANS))
def test_group_network_on_the_plane_is_the_orbit_mean_of_the_convolutional_one(arguments, x64):
    """Theorem 5.3 of paper 2: the filter's shape is symmetric; dihedral groups and any rotations in it do as well."""
    x1, x2 = inputs((3, 3, 2), 2)[:, None]
    assert averaged_gap(*plane_pair(*arguments), ImageAction(arguments[0]), x1, x2) < 1e-12


def test_a_filter_without_the_symmetry_is_no_orbit_mean(x64):
    """A 3 by 1 filter is another one after a quarter turn."""
    x1, x2 = inputs((3, 3, 2), 2)[:, None]
    assert averaged_gap(*plane_pair(eq.cyclic(4), (3, 1), "SAME"), ImageAction(eq.cyclic(4)), x1, x2) > 1e-3


def test_without_rotations_the_kernels_are_those_of_ordinary_convolutions(x64):
    x1, x2 = inputs((3, 3, 2), 2)[:, None]
    group = eq.cyclic(1)
    assert averaged_gap(*plane_pair(group, (3, 3), "SAME"), TrivialAction(group), x1, x2) < 1e-14

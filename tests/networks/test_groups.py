"""Finite networks on groups: their formulas by hand, exact equivariance, and their kernels by Monte Carlo."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from by_hand import seen_by_conv, seen_by_lift
from literal import literal_gram
from monte_carlo import assert_agrees
from registry import C3, D3, D3_TURNS, GROUP_NETWORKS

import eqbook as eq
from eqbook.groups import ImageAction, RegularAction
from eqbook.testing import assert_equivariant, normal_parameters, tolerance

RNG = np.random.default_rng(0)


@pytest.fixture(params=GROUP_NETWORKS, ids=list(GROUP_NETWORKS))
def case(request):
    return GROUP_NETWORKS[request.param]


def batch(shape, n=2):
    return np.random.default_rng(0).normal(size=(n, *shape))


def parameters(params):
    """`W` and `b` of a network with one layer."""
    return params["params"]["layers_0"]["W"], params["params"]["layers_0"]["b"]


class FeatureMapAction(eq.groups.Action):
    """Left translation of feature maps on the plane and a group: turns pixels and permutes elements."""

    def __init__(self, group):
        self.group = group

    def __call__(self, g, x):
        return RegularAction(self.group, axis=-4)(g, ImageAction(self.group)(g, x))


def drawn(net, x):
    """A function of a batch: the network at random parameters. Compiled, as it is used."""
    params = normal_parameters(net, x.shape, 3)
    return jax.jit(lambda x: net.apply(params, x))


@pytest.mark.every(2)
def test_outputs_are_invariant_and_have_the_dtype_of_the_data(case, dtype):
    x = jnp.asarray(batch(case.shape), dtype)
    f = drawn(case.net, x)
    assert f(x).shape == (2, 1) and f(x).dtype == dtype
    assert_equivariant(f, x, case.action, eq.groups.TrivialAction(case.action.group))


def test_feature_maps_are_translated(case, x64):
    body = eq.Sequential(*case.net.layers[: case.net.layers.index(eq.GroupPool())])
    x, group = batch(case.shape), case.action.group
    moved = FeatureMapAction(group) if len(case.shape) == 3 else RegularAction(group, axis=-2)
    assert_equivariant(drawn(body, x), x, case.action, moved, bound=tolerance(float, 300))


@pytest.mark.every(4)
@pytest.mark.parametrize("name", ["plane-C4-SAME", "plane-D4-VALID", "D3-on-itself", "D3-residual"])
def test_monte_carlo_agrees_with_the_infinite_width_kernel(name, x64):
    """Every layer and both kinds of inputs; the other networks differ from these in what the tests by hand cover."""
    case = GROUP_NETWORKS[name]
    x = batch(case.shape)
    assert_agrees(case.net, x, count=512, widths=(12, 24), gram=literal_gram(case.net, x, x))


PLANE = [
    ("C4-SAME", eq.cyclic(4), (3, 3), "SAME"),
    ("C4-3x1-CIRCULAR", eq.cyclic(4), (3, 1), "CIRCULAR"),
    ("D4-VALID", eq.dihedral(4), (2, 2), "VALID"),
    ("D2-1x3-SAME", eq.dihedral(2), (1, 3), "SAME"),
    ("D1-VALID", eq.dihedral(1), (2, 2), "VALID"),
]


@pytest.mark.every(2)
@pytest.mark.parametrize("group, filter_shape, padding", [case[1:] for case in PLANE], ids=[case[0] for case in PLANE])
def test_plane_by_hand(group, filter_shape, padding, x64):
    """Sums over filter positions and elements, with the positions turned as points of the plane."""
    x = RNG.normal(size=(2, 4, 4, 2))
    lift = eq.Lift(group, 3, filter_shape, padding, W_std=1.3, b_std=0.7)
    params = normal_parameters(eq.Sequential(lift), x.shape, 3)
    W, b = parameters(params)
    assert W.shape == (*filter_shape, 2, 3)
    flat = W.reshape(-1, 2, 3)
    z = [np.einsum("ghwyc,ycf->ghwf", seen_by_lift(lift, image), flat) for image in x]
    expected = 1.3 / np.sqrt(lift.fan * 2) * np.stack(z) + 0.7 * b
    np.testing.assert_allclose(eq.Sequential(lift).apply(params, x), expected, rtol=1e-12, atol=1e-13)

    support = (0, group.order - 1)
    conv = eq.GroupConv(group, 3, filter_shape, padding, W_std=0.9, b_std=0.2, support=support)
    net = eq.Sequential(lift, conv)
    params = normal_parameters(net, x.shape, 3)
    W, b = params["params"]["layers_1"]["W"], params["params"]["layers_1"]["b"]
    assert W.shape == (2, *filter_shape, 3, 3)
    maps = np.asarray(eq.Sequential(lift).apply({"params": {"layers_0": params["params"]["layers_0"]}}, x))
    z = [np.einsum("ghwqyc,qycf->ghwf", seen_by_conv(conv, f), W.reshape(2, -1, 3, 3)) for f in maps]
    expected = 0.9 / np.sqrt(2 * conv.fan * 3) * np.stack(z) + 0.2 * b
    np.testing.assert_allclose(net.apply(params, x), expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("action", [C3, D3, D3_TURNS], ids=["C3", "D3", "D3-matrices"])
def test_finite_set_by_hand(action, x64):
    group = action.group
    d = 2 if action is D3_TURNS else group.order
    x, support = RNG.normal(size=(2, d)), (1, 0)
    lift = eq.Lift(group, 4, W_std=1.3, b_std=0.7, action=action, support=support)
    params = normal_parameters(eq.Sequential(lift), x.shape, 3)
    W, b = parameters(params)
    for g in group.elements:
        back = np.asarray(action(int(group.inverse[g]), x))
        expected = 1.3 / np.sqrt(2) * sum(back[:, [s]] * W[k] for k, s in enumerate(support)) + 0.7 * b
        np.testing.assert_allclose(eq.Sequential(lift).apply(params, x)[:, g], expected, rtol=1e-12)

    conv = eq.GroupConv(group, 5, W_std=0.9, b_std=0.2, support=support)
    net = eq.Sequential(lift, conv)
    params = normal_parameters(net, x.shape, 3)
    f = np.asarray(eq.Sequential(lift).apply({"params": {"layers_0": params["params"]["layers_0"]}}, x))
    W, b = params["params"]["layers_1"]["W"], params["params"]["layers_1"]["b"]
    for g in group.elements:
        sums = sum(f[:, group.table[g, s]] @ W[k] for k, s in enumerate(support))
        expected = 0.9 / np.sqrt(2 * 4) * sums + 0.2 * b
        np.testing.assert_allclose(net.apply(params, x)[:, g], expected, rtol=1e-12)


def test_group_acts_on_itself_by_default(x64):
    """(rho(g) f)(h) = f(g^-1 h), so that z(g) = sum_s W(s) f(g s) / sqrt(|G|)."""
    group, x = eq.dihedral(3), RNG.normal(size=(1, 6))
    net = eq.Sequential(eq.Lift(group, 2))
    params = normal_parameters(net, x.shape, 3)
    W = params["params"]["layers_0"]["W"]
    expected = [sum(W[s] * x[0, group.table[g, s]] for s in group.elements) / np.sqrt(6) for g in group.elements]
    np.testing.assert_allclose(net.apply(params, x)[0], expected, rtol=1e-12)


def test_without_rotations_the_layers_are_ordinary_convolutions(x64):
    group, x = eq.cyclic(1), RNG.normal(size=(2, 4, 4, 2))
    lifted = eq.Sequential(
        eq.Lift(group, 3, (3, 3), b_std=0.4), eq.Erf(), eq.GroupConv(group, 2, (3, 3)), eq.GroupPool()
    )
    plain = eq.Sequential(eq.Conv(3, (3, 3), b_std=0.4), eq.Erf(), eq.Conv(2, (3, 3)), eq.GlobalAvgPool())
    params = normal_parameters(plain, x.shape, 3)
    turned = normal_parameters(lifted, x.shape, 3)
    same = jax.tree.map(lambda new, old: old.reshape(new.shape), turned, params)
    np.testing.assert_allclose(lifted.apply(same, x), plain.apply(params, x), rtol=1e-12)

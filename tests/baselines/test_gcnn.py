"""Plain GCNNs: exact invariance, the CNN partner and theorem 5.3, equal sizes."""

import jax
import numpy as np
import pytest
from numbers_drawn import quick_key
from registry import IMAGE_GROUPS

import eqbook as eq
from eqbook.baselines import SteerableNet, cnn_partner, gcnn, matching_width, parameter_count
from eqbook.layers import LiftS2, SO3Conv, SO3Pool
from eqbook.testing import assert_equivariant, relative_error, tolerance

X = np.random.default_rng(0).normal(size=(3, 6, 6, 2))


@pytest.mark.every(2)
@pytest.mark.parametrize("name", ["C1", "C4", "D2", "D4"])
def test_invariant_under_its_group(name, x64):
    group = IMAGE_GROUPS[name]
    net = gcnn(group, (3, 4), classes=5, b_std=0.2)
    f = jax.jit(lambda x: net.apply(net.init(quick_key(0), x.shape), x))
    assert f(X).shape == (3, 5)
    bound = tolerance(float, 9 * 3 * group.order * 36)
    assert_equivariant(f, X, eq.groups.ImageAction(group), eq.groups.TrivialAction(group), bound)


def test_layers_are_those_asked_for():
    C4 = eq.cyclic(4)
    net = gcnn(C4, (3, 4), 7, (2, 2), "VALID", W_std=1.1, b_std=0.3)
    shared = {"filter_shape": (2, 2), "padding": "VALID", "W_std": 1.1, "b_std": 0.3}
    assert net.layers == (
        eq.Lift(C4, 3, **shared), eq.Relu(), eq.GroupConv(C4, 4, **shared), eq.Relu(), eq.GroupPool(), eq.Dense(7),
    )  # fmt: skip
    plain = eq.Conv(3, (2, 2), padding="VALID", W_std=1.1, b_std=0.3), eq.Conv(4, (2, 2), (1, 1), "VALID", 1.1, 0.3)
    assert cnn_partner(net).layers == (plain[0], eq.Relu(), plain[1], eq.Relu(), eq.GlobalAvgPool(), eq.Dense(7))


@pytest.mark.parametrize("order", [4])
def test_kernel_is_the_average_of_the_partner_s(order, x64):
    """Theorem 5.3: the partner's kernel averaged over rotations of one image."""
    group = eq.cyclic(order)
    net = gcnn(group, (3, 4), classes=1, b_std=0.2)
    action, partner = eq.groups.ImageAction(group), cnn_partner(net)
    averaged = np.mean([eq.gram(partner, X, action(g, X)).ntk for g in group.elements], axis=0)
    assert relative_error(eq.gram(net, X).ntk, averaged) < tolerance(float, 9 * 9 * 36)


def test_partner_of_nested_and_residual_networks():
    group = eq.cyclic(4)
    nested = eq.Sequential(
        eq.Sequential(eq.Lift(group, 3, (3, 3))), eq.Residual(eq.Relu(), eq.GroupConv(group, 3, (3, 3))), eq.GroupPool()
    )
    expected = eq.Sequential(
        eq.Sequential(eq.Conv(3, (3, 3))), eq.Residual(eq.Relu(), eq.Conv(3, (3, 3))), eq.GlobalAvgPool()
    )
    assert cnn_partner(nested) == expected


def test_parameters_are_counted():
    assert parameter_count(eq.Sequential(eq.Dense(5, b_std=1.0), eq.Relu(), eq.Dense(2)), (1, 3)) == 3 * 5 + 5 + 5 * 2
    group = eq.dihedral(4)
    # Lift 9 * 2 * 3, GroupConv 8 * 9 * 3 * 4, Dense 4 * 10
    assert parameter_count(gcnn(group, (3, 4)), (1, 8, 8, 2)) == 54 + 864 + 40
    net = SteerableNet(8, (2, 3), 5, hidden=4)
    params = jax.jit(net.init)(quick_key(0), np.ones((1, 8, 8, 1)))
    assert parameter_count(net, (7, 8, 8, 1)) == sum(leaf.size for leaf in jax.tree.leaves(params))


@pytest.mark.every(2)
@pytest.mark.parametrize(
    "make",
    [
        lambda w: gcnn(eq.cyclic(4), (w, 2 * w, 2 * w)),
        lambda w: gcnn(eq.dihedral(4), (w, 2 * w, 2 * w)),
        lambda w: cnn_partner(gcnn(eq.cyclic(4), (w, 2 * w, 2 * w))),
        lambda w: SteerableNet(16, (w, 2 * w, 2 * w)),
    ],
    ids=["C4", "D4", "CNN", "steerable"],
)
def test_matching_width_is_the_closest(make):
    """Sizes of the paper: about 120,000 parameters on images of 28 by 28 pixels."""
    shape = (1, 28, 28, 1)
    width = matching_width(make, 120_000, shape)
    gaps = [abs(parameter_count(make(w), shape) - 120_000) for w in (width - 1, width, width + 1)]
    assert gaps[1] == min(gaps) and gaps[1] < 0.1 * 120_000


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gcnn(eq.cyclic(8), (3,)), "Lift: `group`"),
        (lambda: gcnn(eq.cyclic(4), ()), "`channels`: expected channels of at least one layer"),
        (lambda: gcnn(eq.cyclic(4), 16), "`channels`: expected channels of at least one layer"),
        (lambda: gcnn(eq.cyclic(4), (3,), filter_shape=(2, 2)), "Lift: `filter_shape`"),
        (lambda: cnn_partner(eq.Sequential(eq.Lift(eq.cyclic(3), 2))), "`net`: expected layers on the plane"),
        (
            lambda: cnn_partner(eq.Sequential(LiftS2(2), eq.Relu(), SO3Conv(2), SO3Pool())),
            "`net`: expected layers on the plane, got LiftS2.* sphere",
        ),
        (lambda: cnn_partner(eq.Dense(2)), "`net`: expected a Sequential"),
        (lambda: matching_width(lambda w: eq.Dense(w), 0, (1, 3)), "`parameters`"),
        (lambda: matching_width(lambda w: eq.Sequential(eq.Dense(5)), 100, (1, 3)), "`make`: expected more parameters"),
        (lambda: matching_width(lambda w: eq.Sequential(eq.Dense(5)), 10, (1, 3)), "`make`: .* width 2 than for 1"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()

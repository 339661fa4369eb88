"""Layers on groups: what they refuse, alone and in their place in a network."""

import pickle
import re

import numpy as np
import pytest
from numbers_drawn import quick_key
from registry import D3_TURNS, planar_matrices

import eqbook as eq
from eqbook.groups import ImageAction, MatrixAction, RegularAction, TrivialAction
from eqbook.kernels import pair_kernel

C4, D3 = eq.cyclic(4), eq.dihedral(3)

BAD_LAYERS = {
    "no group": (lambda: eq.Lift(4, 8), r"Lift: `group`: expected a group such as eq.cyclic\(4\), got 4"),
    "channels": (lambda: eq.Lift(C4, 0), "Lift: channels`: expected an integer of at least 1, got 0"),
    "C8 on pixels": (
        lambda: eq.GroupConv(eq.cyclic(8), 2, (3, 3)),
        r"GroupConv: `group`: expected cyclic\(n\) or dihedral\(n\) with n in 1, 2, 4.* not an exact action",
    ),
    "C6 on pixels": (
        lambda: eq.Lift(eq.cyclic(6), 2, (3, 3)),
        r"Lift: `group`: .* on images turned by `RotationAction\(cyclic\(n\)\)`, as `eq.groups.augment` makes them",
    ),
    "D3 on pixels": (lambda: eq.Lift(D3, 2, (3, 3)), "Lift: `group`: .*need interpolation"),
    "even filter": (lambda: eq.Lift(C4, 2, (3, 2)), r"Lift: `filter_shape`: expected odd sides for SAME, got \(3, 2\)"),
    "VALID oblong": (lambda: eq.Lift(C4, 2, (3, 1), "VALID"), r"expected equal sides for VALID, got \(3, 1\)"),
    "padding": (lambda: eq.GroupConv(C4, 2, (3, 3), "same"), "GroupConv: `padding`: expected one of SAME"),
    "W_std": (lambda: eq.Lift(C4, 2, W_std=-1), "Lift: `W_std`: expected a finite number >= 0"),
    "support on the plane": (lambda: eq.Lift(C4, 2, (3, 3), support=(0,)), "leave `support` out"),
    "support repeated": (lambda: eq.Lift(C4, 2, support=(0, 0)), "Lift: `support`: expected a tuple of different"),
    "support not an element": (lambda: eq.GroupConv(C4, 2, support=(4,)), "expected elements 0 .. 3, got 4"),
    "support negative": (lambda: eq.GroupConv(C4, 2, support=(-1,)), "expected an integer of at least 0, got -1"),
    "support empty": (lambda: eq.GroupConv(C4, 2, support=()), "GroupConv: `support`: expected a tuple of different"),
    "action of another group": (
        lambda: eq.Lift(C4, 2, action=RegularAction(D3)),
        r"Lift: `action`: expected an action of FiniteGroup\(order=4.*got RegularAction\(group of order 6\)",
    ),
    "matrices on the plane": (
        lambda: eq.Lift(C4, 2, (3, 3), action=RegularAction(C4)),
        r"Lift: `action`: expected ImageAction\(group\) on the plane, got RegularAction",
    ),
    "no action": (lambda: eq.Lift(C4, 2, action="rotate"), "Lift: `action`: expected an action"),
}


@pytest.mark.parametrize("make, message", BAD_LAYERS.values(), ids=list(BAD_LAYERS))
def test_bad_layer(make, message):
    with pytest.raises(ValueError, match=message):
        make()


IMAGE, VECTOR = (4, 4, 2), (4,)
LIFT, FINITE = eq.Lift(C4, 2, (3, 3)), eq.Lift(C4, 2)
BAD_NETWORKS = {
    "another group": (
        (LIFT, eq.Relu(), eq.GroupConv(eq.dihedral(2), 2, (3, 3))),
        IMAGE,
        r"layer 2: GroupConv\(.*: expected the group of the Lift before, FiniteGroup\(order=4, names=\('e', 'r1'.*"
        r"got FiniteGroup\(order=4, names=\('e', 'r1', 's', 'r1s'\)\)",
    ),
    "no lift": ((eq.GroupConv(C4, 2, (3, 3)),), IMAGE, r"layer 0: GroupConv\(.*got a batch of images; put a Lift"),
    "conv after pooling": (
        (LIFT, eq.GroupPool(), eq.GroupConv(C4, 2, (3, 3))),
        IMAGE,
        r"layer 2: GroupConv\(.*: expected a feature map on the group, got a batch of vectors",
    ),
    "pool without lift": ((eq.GroupPool(),), VECTOR, r"layer 0: GroupPool\(\): expected a feature map on a group"),
    "lift twice": ((LIFT, LIFT), IMAGE, r"layer 1: Lift\(.*: expected a batch of images, got a feature map"),
    "vectors into a plane lift": (
        (LIFT,),
        VECTOR,
        r"layer 0: Lift\(.*got a batch of vectors; leave `filter_shape` out",
    ),
    "images into a finite lift": ((FINITE,), IMAGE, r"layer 0: Lift\(.*got a batch of images; give `filter_shape`"),
    "no filter on the plane": ((LIFT, eq.GroupConv(C4, 2)), IMAGE, r"layer 1: GroupConv\(.*give `filter_shape`"),
    "filter without a plane": (
        (FINITE, eq.GroupConv(C4, 2, (3, 3))),
        VECTOR,
        r"layer 1: GroupConv\(.*expected a filter for a feature map on a group of order 4; leave `filter_shape` out",
    ),
    "Conv on the group": ((LIFT, eq.Conv(2, (3, 3))), IMAGE, r"layer 1: Conv\(.* needs images.*; use GroupConv"),
    "AvgPool on the group": ((LIFT, eq.AvgPool((2, 2))), IMAGE, r"layer 1: AvgPool\(.* needs images.*GroupPool\(\)"),
    "GlobalAvgPool on the group": ((LIFT, eq.GlobalAvgPool()), IMAGE, r"layer 1: GlobalAvgPool\(\) needs.*GroupPool"),
    "Flatten on the group": ((FINITE, eq.Flatten()), VECTOR, r"layer 1: Flatten\(\): expected images.*GroupPool\(\)"),
    "nested": (
        (eq.Sequential(LIFT, eq.Relu()), eq.Residual(eq.Conv(2, (1, 1)))),
        IMAGE,
        r"layer 1: Residual\(.*\): layer 0: Conv\(.* needs images",
    ),
    "branch that pools": ((LIFT, eq.Residual(eq.GroupPool())), IMAGE, r"layer 1: Residual\(.*expected a branch that"),
    "not square": ((LIFT,), (4, 5, 2), r"layer 0: Lift\(.*: expected square images.*got \(4, 5\) pixels"),
    "filter too large": (
        (LIFT, eq.GroupConv(C4, 2, (5, 5), "VALID")),
        IMAGE,
        r"layer 1: GroupConv\(.*: expected images of at least \(5, 5\) pixels for this window, got \(4, 4\)",
    ),
    "circular too wide": (
        (eq.Lift(C4, 2, (11, 11), "CIRCULAR"),),
        IMAGE,
        r"layer 0: Lift\(.*: expected a circular border no wider than the image",
    ),
    "wrong size for matrices": (
        (eq.Lift(D3, 2, action=D3_TURNS),),
        VECTOR,
        r"layer 0: Lift\(.*: expected vectors on which the action acts, got 4 coordinates: .* last axis of size 2",
    ),
    "wrong size for the group": ((eq.Lift(D3, 2),), VECTOR, r"layer 0: Lift\(.*got 4 coordinates: .*expected size 6"),
    "support outside": (
        (eq.Lift(C4, 2, support=(1, 4)),),
        VECTOR,
        r"layer 0: Lift\(.*: `support`: expected coordinates 0 .. 3, got 4",
    ),
}


@pytest.mark.parametrize("layers, shape, message", BAD_NETWORKS.values(), ids=list(BAD_NETWORKS))
def test_finite_network_and_kernel_refuse_with_the_same_words(layers, shape, message):
    net, x = eq.Sequential(*layers), np.ones(shape, np.float32)
    texts = []
    for use in (lambda: net.init(quick_key(0), (1, *shape)), lambda: pair_kernel(net, x, x)):
        with pytest.raises(ValueError, match=message) as error:
            use()
        texts.append(re.sub("\n.*", "", str(error.value)))
    assert texts[0] == texts[1]


def test_what_only_the_kernel_refuses():
    x = np.ones(4, np.float32)
    with pytest.raises(ValueError, match=r"output is still a feature map on the group; end it with GroupPool\(\)"):
        pair_kernel(eq.Sequential(FINITE, eq.Relu(), eq.Dense(1)), x, x)
    with pytest.raises(ValueError, match=r"layer 1: Lift\(.*: expected the network's input.* put it first"):
        pair_kernel(eq.Sequential(eq.Dense(4), FINITE, eq.GroupPool()), x, x)
    with pytest.raises(ValueError, match=r"layer 1: Relu\(\) needs a Gaussian input"):
        pair_kernel(eq.Sequential(eq.Sequential(FINITE, eq.Relu()), eq.Relu(), eq.GroupPool()), x, x)


def test_specs_compare_by_value():
    """They are static arguments of jit: equal specs must share one compiled program."""
    matrices = lambda: MatrixAction(D3, planar_matrices(3, reflections=True))  # noqa: E731
    for make in (
        lambda: eq.Lift(eq.cyclic(4), 2, [3, 3], b_std=np.float64(0.5)),
        lambda: eq.Lift(eq.dihedral(3), 2, action=matrices(), support=[1, 0]),
        lambda: eq.Sequential(eq.Lift(eq.cyclic(3), 2), eq.GroupConv(eq.cyclic(3), 2, support=[2]), eq.GroupPool()),
    ):
        assert make() == make() and hash(make()) == hash(make())
        assert pickle.loads(pickle.dumps(make())) == make()
    assert eq.Lift(C4, 2, (3, 3)) != eq.Lift(eq.dihedral(2), 2, (3, 3))
    assert eq.Lift(D3, 2) != eq.Lift(D3, 2, support=(0,)) and eq.Lift(C4, 2) == eq.Lift(C4, 2, action=RegularAction(C4))


def test_actions_compare_by_value():
    turned = MatrixAction(D3, planar_matrices(3, reflections=True)[:, ::-1, ::-1])
    actions = [ImageAction(C4), RegularAction(C4), RegularAction(C4, -2), TrivialAction(C4), D3_TURNS, turned]
    assert len(set(actions)) == len(actions)
    assert ImageAction(C4) == ImageAction(eq.cyclic(4)) != ImageAction(eq.dihedral(2))

    class Own(eq.groups.Action):
        group = C4

    assert Own() != Own()  # an action that does not say what it is made of is only equal to itself
    assert repr(ImageAction(C4)) == "ImageAction(group of order 4)"


def test_oblong_images_are_refused_for_groups_without_quarter_turns_too():
    """Half turns and reflections would permute their pixels: the message must not say otherwise."""
    x = np.ones((1, 8, 6, 1), np.float32)
    for group in (eq.cyclic(2), eq.dihedral(1), eq.dihedral(2)):
        with pytest.raises(ValueError, match=r"square images, the only ones that layers on groups take, got \(8, 6\)"):
            eq.gram(eq.Sequential(eq.Lift(group, 2, (3, 3)), eq.GroupPool()), x)
        with pytest.raises(ValueError, match="`x`: expected square images .* the only ones that groups act on here"):
            ImageAction(group)(1, x)


def test_other_rotations_as_the_message_advises():
    """Networks of other layers on turned images; those of the group itself would need interpolation."""
    x, turned = np.ones((2, 4, 4, 1), np.float32), eq.groups.RotationAction(eq.cyclic(6))
    images, targets = eq.groups.augment(turned, x, TrivialAction(eq.cyclic(6)), np.ones((2, 1)))
    assert images.shape == (12, 4, 4, 1) and targets.shape == (12, 1)
    net = eq.Sequential(eq.Conv(2, (3, 3)), eq.Relu(), eq.GlobalAvgPool(), eq.Dense(1))
    assert eq.gram(net, images, kinds="ntk").ntk.shape == (12, 12)


def test_filter_positions_are_those_on_the_plane():
    for layer in (eq.Lift, eq.GroupConv):
        assert layer(C4, 1, (3, 5)).fan == 15
        with pytest.raises(ValueError, match=f"{layer.__name__}: `fan`: expected a filter with pixels, got none"):
            _ = layer(C4, 1).fan

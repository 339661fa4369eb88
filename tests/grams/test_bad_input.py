"""Bad input: a `ValueError` that names the layer and its position, what was expected, and what it got."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from grams.cases import REGISTRY, SPHERES
from numbers_drawn import quick_key

import eqbook as eq
from eqbook.kernels.so3.literal import literal_kernel
from eqbook.kernels.so3.places import on_rule

ALL = REGISTRY | SPHERES
C4, PIXEL = eq.cyclic(4), (1, 1)
IMAGES, VECTORS = np.ones((2, 4, 4, 1), np.float32), np.ones((2, 6), np.float32)
SPHERE = np.ones((2, 4, 3, 1), np.float32)


def refused(net, x, message, **options):
    with pytest.raises(ValueError, match=message):
        eq.gram(net, x, **options)


@pytest.fixture(params=ALL.values(), ids=list(ALL))
def case(request):
    return request.param


def first(net):
    """The first layer and its position, as messages name it."""
    if isinstance(net.layers[0], eq.Sequential):
        return f"layer 0: {first(net.layers[0])}"
    return f"layer 0: {re.escape(repr(net.layers[0]))}"


def test_batches(case):
    """NaN, infinity, an empty batch, no channels, and a second batch of another shape."""
    x = np.ones((2, *case.shape), np.float32)
    spoilt = x.copy()
    spoilt.flat[3] = np.nan
    refused(case.net, spoilt, r"`x1`: expected finite numbers, got nan at index \(.*\) \(1 bad of")
    refused(case.net, x, "`x2`: expected finite numbers, got inf", x2=x * np.inf)
    refused(case.net, x[:0], r"`x1`: expected at least one example and one feature, got shape \(0,")
    refused(case.net, x, r"`x2`: expected at least one example and one feature, got shape \(0,", x2=x[:0])
    refused(case.net, x[..., :0], "`x1`: expected at least one example and one feature, got shape")
    refused(case.net, x[0], "`x1`: expected")
    other = np.ones((2, *case.shape[:-1], case.shape[-1] + 1), np.float32)
    shapes = re.escape(f"`x2`: expected examples of shape {case.shape} as in `x1`, got {other.shape[1:]}")
    refused(case.net, x, shapes, x2=other)
    if len(case.shape) == 3:
        taller = np.ones((2, case.shape[0] + 2, *case.shape[1:]), np.float32)
        refused(case.net, x, re.escape(f"as in `x1`, got {taller.shape[1:]}"), x2=taller)


def test_inputs_of_the_other_kind(case):
    """Vectors for a network on images and the reverse: the first layer refuses, or the last if pixels are left."""
    if len(case.shape) == 3:
        refused(case.net, VECTORS, f"^{first(case.net)}.* a batch of vectors")
    elif isinstance(case.net.layers[0], eq.Lift):
        refused(
            case.net, IMAGES, f"^{first(case.net)}: expected a batch of vectors, got a batch of images; give `filter"
        )
    else:
        last = len(case.net.layers) - 1
        refused(case.net, IMAGES, f"^layer {last}: .* output still has pixels; end it with Flatten")


def test_group_that_does_not_act_on_the_input(case):
    """Images that are not square for a rotation group, vectors on which the group does not act."""
    if not isinstance(case.net.layers[0], eq.Lift):
        return
    if len(case.shape) == 3:
        x, message = IMAGES[:, :3], r": expected square images, the only ones that layers on groups take, got \(3, 4\)"
    else:
        size = case.shape[0] + 1
        x, message = np.ones((2, size)), f": expected vectors on which the action acts, got {size} coordinates: "
    refused(case.net, x, f"^{first(case.net)}{message}")


def test_sphere_grid(case):
    if not isinstance(case.net.layers[0], eq.LiftS2):
        return
    refused(case.net, IMAGES, f"^{first(case.net)}: expected signals on the sphere, at 2L .* got 4 by 4; resample them")


def test_images_smaller_than_a_window(case):
    net = case.net
    places = [
        (i, layer)
        for i, layer in enumerate(net.layers)
        if getattr(layer, "padding", "") == "VALID" or isinstance(layer, eq.AvgPool)
    ]
    if not places or len(case.shape) != 3:
        return
    i, layer = places[0]
    window = re.escape(str(getattr(layer, "filter_shape", None) or layer.window))
    name = re.escape(repr(layer))
    refused(net, IMAGES[:, :1, :1], rf"^layer {i}: {name}: expected images of at least {window} .*, got \(1, 1\)")


NEED_SPACE = {
    "Conv": (eq.Conv(2, PIXEL), "needs images, and its input is a batch of vectors"),
    "LocallyConnected": (eq.LocallyConnected(2, PIXEL), "needs images, and its input is a batch of vectors"),
    "AvgPool": (eq.AvgPool(PIXEL), "needs images, and its input is a batch of vectors"),
    "GlobalAvgPool": (eq.GlobalAvgPool(), "needs images, and its input is a batch of vectors"),
    "Lift-plane": (eq.Lift(C4, 2, PIXEL), ": expected a batch of images, got a batch of vectors"),
    "Lift": (eq.Lift(C4, 2), ": expected the network's input; after another layer coordinates are channels"),
    "GroupConv": (eq.GroupConv(C4, 2, PIXEL), ": expected a feature map on the group, got a batch of vectors"),
    "GroupPool": (eq.GroupPool(), ": expected a feature map on a group, got a batch of vectors"),
    "LiftS2": (eq.LiftS2(2), ": expected signals on the sphere .*, got a batch of vectors"),
    "SO3Conv": (eq.SO3Conv(2), r": expected a feature map on SO\(3\), got a batch of vectors"),
    "SO3Pool": (eq.SO3Pool(), r": expected a feature map on SO\(3\), got a batch of vectors"),
}


@pytest.mark.parametrize("layer, message", NEED_SPACE.values(), ids=list(NEED_SPACE))
def test_layer_that_needs_space_after_pooling(layer, message):
    name = re.escape(repr(layer))
    for net, x in (
        (eq.Sequential(eq.Conv(2, PIXEL), eq.GlobalAvgPool(), layer), IMAGES),
        (eq.Sequential(eq.Lift(C4, 2, PIXEL), eq.GroupPool(), layer), IMAGES),
        (eq.Sequential(eq.LiftS2(2, quadrature=2), eq.SO3Pool(), layer), SPHERE),
    ):
        refused(net, x, f"^layer 2: {name} ?{message}")
    # The position in a nested network is that of each list on the way.
    nested = eq.Sequential(eq.Sequential(eq.Conv(2, PIXEL), eq.Flatten()), eq.Sequential(layer))
    refused(nested, IMAGES, f"^layer 1: layer 0: {name} ?{message}")


LIFT, SO3 = eq.Lift(C4, 2, PIXEL), eq.LiftS2(2, quadrature=2)
PLACES = {
    "Flatten on a group": (eq.Sequential(LIFT, eq.Flatten()), IMAGES, "^layer 1: Flatten.*, got a feature map on"),
    "Conv on a group": (eq.Sequential(LIFT, eq.Conv(2, PIXEL)), IMAGES, "^layer 1: Conv.* needs images, .* GroupConv"),
    "SO3Pool on a group": (eq.Sequential(LIFT, eq.SO3Pool()), IMAGES, r"^layer 1: SO3Pool.* expected .* SO\(3\), got"),
    "Conv on SO(3)": (eq.Sequential(SO3, eq.Conv(2, PIXEL)), SPHERE, "^layer 1: Conv.* needs images, .* use SO3Conv"),
    "Flatten on SO(3)": (eq.Sequential(SO3, eq.Flatten()), SPHERE, "^layer 1: Flatten.* use SO3Pool"),
    "GroupPool on SO(3)": (eq.Sequential(SO3, eq.GroupPool()), SPHERE, "^layer 1: GroupPool.* expected .* on a group"),
    "no pooling on a group": (eq.Sequential(LIFT, eq.Dense(1)), IMAGES, "^layer 1: Dense.* end it with GroupPool"),
    "no pooling on SO(3)": (eq.Sequential(SO3, eq.Dense(1)), SPHERE, "^layer 1: Dense.* end it with SO3Pool"),
    "another group": (
        eq.Sequential(LIFT, eq.GroupConv(eq.dihedral(2), 2, PIXEL)), IMAGES,
        "^layer 1: GroupConv.* expected the group of the Lift before, .*'r3'.*, got .*'r1s'",
    ),
    "no filter": (eq.Sequential(LIFT, eq.GroupConv(C4, 2)), IMAGES, "^layer 1: GroupConv.* give `filter_shape`"),
    "large filter": (
        eq.Sequential(eq.Lift(C4, 2, (3, 3), "VALID"), eq.GroupConv(C4, 2, (3, 3), "VALID")), IMAGES,
        r"^layer 1: GroupConv.*: expected images of at least \(3, 3\) .*, got \(2, 2\)",
    ),
    "wide circle": (
        eq.Sequential(eq.Lift(C4, 2, (11, 11), "CIRCULAR")), IMAGES,
        r"^layer 0: Lift.*: expected a circular border no wider than the image, got \(5, 5\) on side 4",
    ),
    "support outside": (
        eq.Sequential(eq.Lift(C4, 2, support=(0, 5))), np.ones((2, 4)),
        "^layer 0: Lift.*: `support`: expected coordinates 0 .. 3, got 5",
    ),
    "branch that pools": (
        eq.Sequential(LIFT, eq.Residual(eq.GroupPool(), eq.Dense(2))), IMAGES,
        "^layer 1: Residual.*: expected a branch that keeps .*, got a batch of vectors from a feature map on the plane",
    ),
    "branch that ends with a nonlinearity": (
        eq.Sequential(eq.Dense(2), eq.Residual(eq.Dense(2), eq.Relu()), eq.Dense(1)), VECTORS,
        r"^layer 1: Residual.*: expected a branch whose last layer has weights, got Relu\(\)",
    ),
    "branch that ends with a nonlinearity, in a network of its own": (
        eq.Sequential(eq.Dense(2), eq.Residual(eq.Dense(2), eq.Sequential(eq.Relu())), eq.Dense(1)), VECTORS,
        r"^layer 1: Residual.*: expected a branch whose last layer has weights, got Sequential\(Relu\(\)\)",
    ),
    "branch that shrinks": (
        eq.Sequential(eq.Conv(2, PIXEL), eq.Residual(eq.Conv(2, (2, 2), padding="VALID")), eq.Flatten()), IMAGES,
        r"^layer 1: Residual.*: expected a branch that keeps .*, got pairs of \(3, 3\) from \(4, 4\)",
    ),
    "coarse rule": (
        eq.Sequential(eq.LiftS2(2, quadrature=2), eq.SO3Pool()), np.ones((1, 6, 5, 1)),
        "^layer 0: LiftS2.*: `quadrature`: expected at least the bandwidth of the signals, 3, got 2",
    ),
}  # fmt: skip


@pytest.mark.parametrize("net, x, message", PLACES.values(), ids=list(PLACES))
def test_layer_in_the_wrong_place(net, x, message):
    refused(net, x, message)


def test_groups_that_do_not_act_on_the_grid():
    """Refused where the layer is written down, with the reason."""
    for make in (eq.Lift, eq.GroupConv):
        for group in (eq.cyclic(3), eq.dihedral(3), eq.cyclic(8)):
            reason = "`group`: expected cyclic.* whose elements permute the pixels .* need interpolation"
            with pytest.raises(ValueError, match=f"{make.__name__}: {reason}"):
                make(group, 2, (3, 3))


OPTIONS = {
    "tile 0": ({"tile": 0}, "`tile`: expected an integer of at least 1, got 0"),
    "tile not whole": ({"tile": 2.5}, "`tile`: expected an integer of at least 1, got 2.5"),
    "tile True": ({"tile": True}, "`tile`: expected an integer"),
    "mesh a list": ({"mesh": [0]}, r"`mesh`: expected a jax.sharding.Mesh, got \[0\]; make one with jax.make_mesh"),
    "method": ({"method": "fast"}, r"`method`: expected one of \('auto', 'literal'\), got 'fast'"),
    "method None": ({"method": None}, "`method`: expected one of"),
    "store a number": ({"store": 3}, "`store`: expected the path of a folder, got 3"),
}


@pytest.mark.parametrize("options, message", OPTIONS.values(), ids=list(OPTIONS))
def test_options(options, message):
    refused(REGISTRY["relu"].net, VECTORS, message, **options)


def test_store_inside_jit(tmp_path):
    with pytest.raises(ValueError, match="`store`: expected none inside jit or grad"):
        jax.jit(lambda x: eq.gram(REGISTRY["relu"].net, x, store=tmp_path).ntk)(jnp.asarray(VECTORS))
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    "layers", [(eq.LiftS2(2),), (eq.Dense(2), eq.SO3Pool()), (eq.Sequential(eq.LiftS2(2), eq.SO3Pool()),)]
)
def test_literal_recursion_over_rotations_names_what_is_missing(layers):
    with pytest.raises(ValueError, match="`net`: expected LiftS2 first and SO3Pool behind it, got Sequential"):
        literal_kernel(eq.Sequential(*layers), SPHERE[0], SPHERE[1], on_rule(2))


def test_finite_networks_refuse_the_same_places():
    """The kernel and the finite network ask the same rules: both name the layer and its position."""
    for net, x, message in PLACES.values():
        if "still" in message or "end it with" in message or "whose last layer has weights" in message:
            continue  # a finite network may end anywhere, and add anything
        with pytest.raises(ValueError, match=message.split(".*")[0]):
            net.init(quick_key(0), np.shape(x))

"""Steerable networks: the package's group convolutions for C_4, exactness, error of sampling, training."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from baselines.blobs import smooth_image
from numbers_drawn import normal, quick_key

import eqbook as eq
from eqbook.baselines import SteerableBody, SteerableConv, SteerableLift, SteerableNet, turned_basis
from eqbook.groups import ImageAction, RegularAction, RotationAction, TrivialAction, cyclic
from eqbook.testing import assert_equivariant, relative_error, tolerance

C4 = eq.cyclic(4)
QUARTERS = ImageAction(C4)


class QuarterTurns(eq.groups.Action):
    """C_4 on fields of C_n: turns the pixels, and moves the group axis by n / 4 places for each quarter."""

    def __init__(self, n):
        self.group, self._regular = C4, RegularAction(eq.cyclic(n), axis=-4)

    def __call__(self, g, x):
        return self._regular(g * self._regular.group.order // 4, QUARTERS(g, x))


def images(dtype, size, channels=1, n=2):
    return normal(0, (n, size, size, channels), dtype)


def expanded(params, n, side):
    """The filters of the first element, `[k, k, q, c, f]`."""
    return np.einsum("pij,pqcf->ijqcf", turned_basis(n, side)[0], params["params"]["kernel"])


def test_c4_equals_the_group_convolutions_of_the_package(x64):
    """`Lift` and `GroupConv` with the sampled filters: turned arrays are turned functions, and signs agree."""
    x = images(float, 6, 2)
    lift, conv = SteerableLift(4, 3, 3), SteerableConv(4, 5, 3)
    first = lift.init(quick_key(1), x)
    first["params"]["bias"] = jnp.arange(3.0)
    z = lift.apply(first, x)
    scale = np.sqrt(9 * 2)
    ours = eq.Sequential(eq.Lift(C4, 3, (3, 3), W_std=scale, b_std=1.0))
    W = expanded(first, 4, 3)[:, :, 0]
    expected = ours.apply({"params": {"layers_0": {"W": W, "b": first["params"]["bias"]}}}, x)
    assert relative_error(z, expected) < tolerance(float, 18)

    second = conv.init(quick_key(2), z)
    both = eq.Sequential(*ours.layers, eq.GroupConv(C4, 5, (3, 3), W_std=np.sqrt(4 * 9 * 3)))
    V = expanded(second, 4, 3).transpose(2, 0, 1, 3, 4)  # [q, k, k, c, f]
    layers = {"layers_0": {"W": W, "b": first["params"]["bias"]}, "layers_1": {"W": V}}
    assert relative_error(conv.apply(second, z), both.apply({"params": layers}, x)) < tolerance(float, 18 * 108)


def drawn(net):
    """A function of a batch, compiled once: the network at fixed random parameters."""
    return jax.jit(lambda x: net.apply(net.init(quick_key(1), x), x))


@pytest.mark.every(2)
@pytest.mark.parametrize(("n", "size"), [(4, 8), (8, 9), (16, 8)])
def test_feature_maps_move_with_quarter_turns(n, size, x64):
    f, x = drawn(SteerableBody(n, (2, 3), 5)), images(float, size, 2)
    z = f(x)
    assert z.shape == (2, n, *2 * ((size // 2 + 1) // 2 if size == 8 else 3,), 3)
    bound = tolerance(float, 25 * 2 * n * 2)
    assert_equivariant(f, x, QUARTERS, QuarterTurns(n), bound)


@pytest.mark.every(3)
@pytest.mark.parametrize(("n", "size", "pool"), [(4, 11, "max"), (8, 12, "mean"), (16, 13, "max")])
def test_network_is_invariant_under_quarter_turns(n, size, pool, dtype):
    f, x = drawn(SteerableNet(n, (2, 3), 3, hidden=16, group_pool=pool)), images(dtype, size)
    assert f(x).shape == (2, 10) and f(x).dtype == dtype
    assert_equivariant(f, x, QUARTERS, TrivialAction(C4), tolerance(dtype, 25 * 4 * n * 2))
    assert relative_error(f(x[:, ::-1]), f(x)) > 1e-3  # not invariant under reflections


def turning_errors(n, degrees, size, members=6):
    """Change of a network's outputs when a smooth picture is turned, relative, over several initial parameters.

    The picture is known at every angle: nothing is interpolated but by the network.
    """
    net = SteerableNet(n, (2, 4), 5, hidden=16, classes=4)
    x = np.stack([smooth_image(size, np.radians(d)) for d in (0, *degrees)])[..., None]

    @jax.jit
    def outputs(keys):
        return jax.lax.map(lambda key: net.apply(net.init(key, x[:1]), x), keys)

    y = np.asarray(outputs(jax.random.split(quick_key(3), members)))  # [members, angles, classes]
    # One norm over all members: a member whose outputs happen to be near 0 shall not count more than the others.
    return {d: relative_error(y[:, i], y[:, 0]) for i, d in enumerate(degrees, start=1)}


@pytest.mark.parametrize(("n", "angle"), [(8, 45), (16, 22.5)])
def test_error_between_multiples_of_90_degrees(x64, n, angle):
    """At its own angles C_n has the error of sampling, which falls with the resolution; C_4 has more."""
    coarse, fine = (turning_errors(n, (angle, 90), size) for size in (24, 48))
    assert max(coarse[90], fine[90]) < tolerance(float, 25 * 4 * 16)
    assert 1e-4 < fine[angle] < coarse[angle] / 2.5 < 0.02
    assert fine[angle] < turning_errors(4, (angle,), 48)[angle] / 4


def test_interpolated_images_add_the_error_of_interpolation(x64):
    """Turned by bilinear interpolation in place of drawn anew, the outputs of C_16 change more; not by 90 degrees."""
    net, x = SteerableNet(16, (2, 4), 5, hidden=16, classes=4), smooth_image(48)[None, ..., None]
    action = RotationAction(cyclic(16))
    turned = np.concatenate([action(g, x) for g in (0, 1, 4)])

    @jax.jit
    def outputs(keys):
        return jax.lax.map(lambda key: net.apply(net.init(key, x), turned), keys)

    y = np.asarray(outputs(jax.random.split(quick_key(3), 6)))
    interpolated, exact = (relative_error(y[:, i], y[:, 0]) for i in (1, 2))
    assert exact < tolerance(float, 25 * 4 * 16)
    assert turning_errors(16, (22.5,), 48)[22.5] < interpolated < 0.05


def test_sampling_error_of_a_layer_falls_with_the_resolution(x64):
    """Filters of fixed width in pixels see a picture of more pixels as smoother: at twice the side, half or less."""
    errors = []
    for size in (15, 29, 57):
        x = np.stack([smooth_image(size, np.radians(degrees)) for degrees in (0, 45)])[..., None]
        upright, turned = jnp.mean(drawn(SteerableLift(8, 3, 5))(x) ** 2, axis=(2, 3))  # [n, fields]
        errors.append(relative_error(jnp.roll(turned, -1, axis=0), upright))
    assert errors[1] < errors[0] / 2 and errors[2] < errors[1] / 2


def test_initial_outputs_have_the_variance_of_he_s_rule(x64):
    """White noise of variance 1 in: the middle pixels of both layers have variance 2, by 4 standard errors."""
    for layer, shape in ((SteerableLift(8, 32, 5), (8, 5, 5, 3)), (SteerableConv(8, 32, 5), (8, 8, 5, 5, 3))):
        z = drawn(layer)(normal(0, shape))[:, :, 2, 2]  # [batch, n, fields]
        per_filter = np.asarray(z**2).mean((0, 1))  # filters are independent
        assert abs(eq.testing.monte_carlo_z(per_filter, 2.0)) < 4


def test_members_train():
    """Four random pictures with random labels are learned, and their turned copies with them."""
    x, labels = np.asarray(images(np.float32, 8, n=4)), np.array([0, 1, 1, 0])
    net = SteerableNet(8, (4,), 3, hidden=16, classes=2)
    run = eq.train_ensemble(
        net, quick_key(0), x, labels, members=2, epochs=150, optimizer=optax.adam(2e-2),
        loss="cross_entropy", record=[1, 150], watch={"turned": np.rot90(x, axes=(1, 2)), "x": x}, progress=False,
    )  # fmt: skip
    assert (run.losses[-1] < run.losses[0]).all()
    assert (run.outputs["x"][-1].argmax(-1) == labels).all() and (run.outputs["turned"][-1].argmax(-1) == labels).all()
    assert relative_error(run.outputs["turned"], run.outputs["x"]) < tolerance(np.float32, 9 * 4 * 8)


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: SteerableLift(4, 2, 4).init(jax.random.key(0), jnp.ones((1, 5, 5, 1))), "kernel_size"),
        (lambda: SteerableLift(0, 2).init(jax.random.key(0), jnp.ones((1, 5, 5, 1))), "n"),
        (lambda: SteerableLift(4, 2).init(jax.random.key(0), jnp.ones((2, 1, 5, 5, 1))), "x"),
        (lambda: SteerableLift(4, 0).init(jax.random.key(0), jnp.ones((1, 5, 5, 1))), "features"),
        (lambda: SteerableConv(4, 2).init(jax.random.key(0), jnp.ones((2, 5, 5, 1))), "x"),
        (lambda: SteerableConv(4, 2).init(jax.random.key(0), jnp.ones((2, 8, 5, 5, 1))), "x"),
        (lambda: SteerableNet(4, group_pool="sum").init(jax.random.key(0), jnp.ones((1, 8, 8, 1))), "group_pool"),
        (lambda: SteerableNet(4).init(jax.random.key(0), jnp.ones((1, 8, 4, 1))), "x"),
        (lambda: SteerableNet(4, 8).init(jax.random.key(0), jnp.ones((1, 8, 8, 1))), "features"),
        (lambda: SteerableNet(4, hidden=0).init(jax.random.key(0), jnp.ones((1, 8, 8, 1))), "hidden"),
        (lambda: SteerableNet(4, classes=0).init(jax.random.key(0), jnp.ones((1, 8, 8, 1))), "classes"),
        (lambda: SteerableLift(4, 2, W_variance=-1.0).init(jax.random.key(0), jnp.ones((1, 5, 5, 1))), "W_variance"),
        (lambda: SteerableNet(4, (2,)).init(jax.random.key(0), jnp.ones((1, 1, 1, 1))), "x"),
        (lambda: SteerableNet(4).init(jax.random.key(0), jnp.ones((8, 8, 1))), "x"),
    ],
)
def test_bad_input(call, argument):
    with pytest.raises(ValueError, match=f"`{argument}`"):
        call()


def test_the_smallest_images():
    """Three halvings leave two pixels for the last one where a side has five."""
    net = SteerableNet(4, (1, 1, 1), 3, 2)
    shapes = jax.eval_shape(lambda x: net.init_with_output(jax.random.key(0), x)[0], jnp.ones((2, 5, 7, 1)))
    assert shapes.shape == (2, 10)
    with pytest.raises(ValueError, match="more than 4 pixels a side for 3 convolutions.*got 4 by 7"):
        net.init(jax.random.key(0), jnp.ones((2, 4, 7, 1)))

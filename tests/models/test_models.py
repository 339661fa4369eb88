"""The standard sizes, the strided convolution, and the optimiser of the recipe."""

from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from numbers_drawn import normal, quick_key

import eqbook as eq
from eqbook.models import MLPMixer, ResNet, StridedConv, flax_recipe, gaussian, initial_params, mixer, resnet
from eqbook.models.mixer import patches
from eqbook.testing import relative_error, tolerance


def count(net, side):
    x = jax.ShapeDtypeStruct((1, side, side, 3), jnp.float32)
    return sum(leaf.size for leaf in jax.tree.leaves(jax.eval_shape(net.init, jax.random.key(0), x)))


@pytest.mark.parametrize(
    "depth, parameters",
    # With batch norms, which have as many; the references round to 11.7, 21.8 and 25.6 million.
    [(18, 11_689_512), (34, 21_797_672), (50, 25_557_032)],
)
def test_parameters_of_residual_networks(depth, parameters):
    assert count(resnet(depth), 224) == parameters


@pytest.mark.parametrize("size, parameters", [("S/16", 18_528_264), ("B/16", 59_880_472)])
def test_parameters_of_mixers(size, parameters):
    assert count(mixer(size), 224) == parameters


def test_shapes_inside_a_residual_network():
    """Stages halve the image; the stem of CIFAR keeps its 32 pixels, that of ImageNet leaves a quarter."""

    def sides(net, side):
        _, seen = jax.eval_shape(
            partial(net.init_with_output, capture_intermediates=True, mutable=["params", "intermediates"]),
            jax.random.key(0),
            jax.ShapeDtypeStruct((2, side, side, 3), jnp.float32),
        )
        blocks = [k for k in seen["intermediates"] if k.startswith("ResidualBlock")]
        blocks.sort(key=lambda k: int(k.split("_")[1]))
        return [seen["intermediates"][k]["__call__"][0].shape[1:] for k in blocks]

    assert sides(resnet(18, stem="cifar"), 32)[::2] == [(32, 32, 64), (16, 16, 128), (8, 8, 256), (4, 4, 512)]
    assert sides(resnet(50), 224)[0] == (56, 56, 256) and sides(resnet(50), 224)[-1] == (7, 7, 2048)


@pytest.mark.every(2)
@pytest.mark.parametrize("size, strides, side", [(3, 2, 8), (7, 2, 9), (1, 3, 8)])
def test_strided_convolution_is_that_of_flax(dtype, size, strides, side):
    x = normal(0, (2, side, side + 2, 3), dtype)
    ours = StridedConv(5, size, strides)
    theirs = nn.Conv(
        5, (size, size), strides, padding=size // 2, use_bias=False, param_dtype=dtype, precision="highest"
    )
    params = ours.init(quick_key(1), x)
    expected = jax.eval_shape(theirs.init, quick_key(1), x)
    assert jax.tree.map(jnp.shape, params) == jax.tree.map(jnp.shape, expected)
    terms = size * size * 3

    def both(f):
        return jax.jit(lambda p, z: (f(p, z), jax.grad(lambda *a: jnp.sum(jnp.sin(f(*a))), argnums=(0, 1))(p, z)))

    (value, gradients), (expected, derivatives) = (both(f)(params, x) for f in (ours.apply, theirs.apply))
    assert relative_error(value, expected) < tolerance(dtype, terms)
    for a, b in zip(jax.tree.leaves(gradients), jax.tree.leaves(derivatives), strict=True):
        assert relative_error(a, b) < tolerance(dtype, terms * 100)


def test_members_of_an_ensemble_side_by_side():
    x = normal(0, (3, 8, 8, 3))
    net = ResNet((1,), features=4, stem="cifar", classes=5)
    one = initial_params(net, quick_key(1), x)
    both = [one, jax.tree.map(lambda leaf: leaf[..., ::-1] + 0.1, one)]
    together = jax.jit(jax.vmap(net.apply, in_axes=(0, None)))(
        jax.tree.map(lambda *leaves: jnp.stack(leaves), *both), x
    )
    apply = jax.jit(net.apply)
    for params, outputs in zip(both, together):
        assert relative_error(outputs, apply(params, x)) < tolerance(jnp.float32, 1000)


@pytest.mark.every(2)
@pytest.mark.parametrize("net", [ResNet((1,), 4, True, classes=3), MLPMixer(4, 1, 8, 6, 7, 3)])
def test_each_example_is_on_its_own(net):
    """No statistic of the batch: the reason for a group norm."""
    x = normal(0, (2, 16, 16, 3))
    params = initial_params(net, quick_key(1), x)
    params = jax.tree.map(lambda leaf: leaf + 0.1, params)  # the read-out of a mixer starts at 0
    apply = jax.jit(net.apply)
    alone = jnp.concatenate([apply(params, one[None]) for one in x])
    assert relative_error(apply(params, x), alone) < tolerance(jnp.float32, 1000)


def test_patches_are_squares_of_the_image():
    x = np.arange(2 * 4 * 6 * 3).reshape(2, 4, 6, 3).astype(np.float32)
    cut = patches(x, 2)
    assert cut.shape == (2, 6, 12)
    np.testing.assert_array_equal(cut[1, 4], x[1, 2:4, 2:4].reshape(-1))
    np.testing.assert_array_equal(patches(x.tolist(), 2), cut)
    assert patches(x[:0], 2).shape == (0, 6, 12)


def test_first_weights_are_gaussian():
    """Not cut off: P(|w| > 2) is 0.0455 for a normal law, and 0 for the default of Flax before its rescaling."""
    w = np.asarray(gaussian(jax.random.key(0), (100, 2000), jnp.float32)) * 10
    far = np.mean(np.abs(w) > 2.5)  # the truncated law ends at 2 / 0.88
    assert abs(far - 0.01242) < 5 * np.sqrt(0.01242 / w.size)


def test_rate_of_the_recipe():
    """The steps of plain gradients: warm-up over two of 20 epochs, then a cosine to 0."""
    optimizer = flax_recipe(64, 20, 8, base_rate=0.32, weight_decay=0.0, momentum=0.0)
    params = {"W": jnp.ones((1, 1))}
    state, rates = optimizer.init(params), []
    for _ in range(160):
        updates, state = optimizer.update({"W": jnp.ones((1, 1))}, state, params)
        rates.append(-float(updates["W"][0, 0]))
    np.testing.assert_allclose(rates[:17], 0.01 * np.arange(17) / 16, atol=1e-8)
    s = np.arange(16, 160)
    np.testing.assert_allclose(rates[16:], 0.005 * (1 + np.cos(np.pi * (s - 16) / 144)), atol=1e-8)


def test_decay_of_weights_and_of_nothing_else():
    optimizer = flax_recipe(8, 1, 8, base_rate=32.0, warmup_epochs=0, weight_decay=0.5, momentum=0.0)
    params = {"W": jnp.ones((2, 2)), "b": jnp.ones(2)}
    updates, _ = optimizer.update(jax.tree.map(jnp.zeros_like, params), optimizer.init(params), params)
    moved = optax.apply_updates(params, updates)
    np.testing.assert_allclose(moved["W"], 0.5)
    np.testing.assert_array_equal(moved["b"], 1.0)


@pytest.mark.slow
def test_an_ensemble_learns():
    y = np.arange(32, dtype=np.int32) % 2
    x = normal(0, (32, 8, 8, 3)) + y[:, None, None, None]
    for net in (ResNet((1,), 4, stem="cifar", classes=2), MLPMixer(4, 1, 8, 8, 8, 2)):
        run = eq.train_ensemble(
            net,
            quick_key(1),
            x,
            y,
            members=2,
            epochs=20,
            optimizer=flax_recipe(32, 20, 16, base_rate=1.6),
            loss="cross_entropy",
            batch_size=16,
            record=[1, 20],
            at_once=1,
        )
        assert (run.losses[1] < 0.8 * run.losses[0]).all()


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: resnet(19), "`depth`: expected one of 18, 34"),
        (lambda: resnet([50]), r"`depth`: .* got \[50\]"),
        (lambda: mixer(["S/16"]), "`size`: expected one of S/32"),
        (lambda: mixer("S/17"), "`size`: expected one of S/32"),
        (lambda: mixer("S/16", patch=0), "`patch`: expected an integer of at least 1"),
        (lambda: flax_recipe(4, 1, 8), "`batch_size`: expected at most 4"),
        (lambda: flax_recipe(4, 1, 2, base_rate=0.0), "`base_rate`: expected a positive number"),
        (lambda: count(ResNet((1,), stem="mnist"), 8), "`stem`: expected one of imagenet, cifar"),
        (lambda: count(MLPMixer(3, 1, 4, 4, 4), 8), "sides divisible by 3"),
        (lambda: count(MLPMixer(0, 1, 4, 4, 4), 8), "`patch`: expected an integer of at least 1"),
        (lambda: patches(np.ones((1, 2, 2, 1)), 0), "`p`: expected an integer of at least 1"),
        (lambda: patches([[[1.0]], [[1.0], [2.0]]], 1), "`x`: .*lists that differ in length"),
        (lambda: count(StridedConv(3, 2), 8), "`kernel_size`: expected an odd number"),
        (lambda: count(StridedConv(3, 3, 0), 8), "`strides`: expected an integer of at least 1"),
    ],
)
def test_errors(call, words):
    with pytest.raises(ValueError, match=words):
        call()

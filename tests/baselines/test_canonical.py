"""Canonicalisation: the frame turns with the image, outputs do not, and both networks learn."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from numbers_drawn import normal, quick_key

import eqbook as eq
from eqbook.baselines import Canonicalized, FrameScores, PlainCNN, quarter_turn
from eqbook.groups import ImageAction, RegularAction, TrivialAction, rotate_images
from eqbook.testing import assert_equivariant, relative_error, tolerance

C4 = eq.cyclic(4)
QUARTERS = ImageAction(C4)
ROUNDING = 25 * 4 * 8 * 4  # terms of the sums in the score network


def small(n, rotate=None, **changes):
    return Canonicalized(n, FrameScores(n, (2, 3), 3), PlainCNN((3,), 8, 3), rotate, **changes)


def images(size=8, n=5, dtype=None):
    return normal(0, (n, size, size, 1), dtype)


def drawn(net):
    """A function of a batch, compiled once: the network at fixed random parameters."""
    return jax.jit(lambda x: net.apply(net.init(quick_key(1), x), x))


def params_of(net, x):
    return jax.jit(net.init)(quick_key(1), x)


class Scores(nn.Module):
    """Scores made for the test: how bright the image is in one quadrant, turned by each quarter."""

    @nn.compact
    def __call__(self, x):
        scale = self.param("scale", nn.initializers.ones, ())
        corner = lambda r: jnp.sum(quarter_turn(x, -90 * r)[:, :3, :3], axis=(1, 2, 3))  # noqa: E731
        return scale * jnp.stack([corner(r) for r in range(4)], -1)


@pytest.mark.every(2)
@pytest.mark.parametrize("n", [4, 8])
def test_scores_turn_with_the_image(n, x64):
    scores, x = FrameScores(n, (2, 3), 3), images()
    f = drawn(scores)
    shift = RegularAction(eq.cyclic(n))
    for quarter in range(4):
        expected = shift(quarter * n // 4, f(x))
        assert relative_error(f(QUARTERS(quarter, x)), expected) < tolerance(float, ROUNDING)
    assert relative_error(np.roll(f(x), 1, axis=-1), f(x)) > 1e-2  # the scores differ


@pytest.mark.every(2)
@pytest.mark.parametrize(("n", "rotate"), [(4, None), (8, rotate_images)], ids=["C4", "C8-bilinear"])
def test_outputs_are_invariant_under_the_exact_rotations(n, rotate, dtype):
    f, x = drawn(small(n, rotate)), images(dtype=dtype)
    y = f(x)
    assert y.shape == (5, 3) and y.dtype == dtype
    for quarter in (1, 2, 3):
        assert relative_error(f(QUARTERS(quarter, x)), y) < tolerance(dtype, ROUNDING)


def test_predictor_alone_is_not_invariant():
    x = images()
    with pytest.raises(AssertionError, match="not equivariant"):
        assert_equivariant(drawn(PlainCNN((3,), 8, 3)), x, QUARTERS, TrivialAction(C4))


def test_predictor_sees_the_chosen_frame_exactly():
    """The sum over frames with weights 0 and 1 is the frame itself, to the last bit."""

    class Seen(nn.Module):
        def __call__(self, x):
            return x.reshape(len(x), -1)

    net, x = Canonicalized(4, Scores(), Seen()), images()
    params = net.init(jax.random.key(0), x)
    chosen = np.asarray(net.apply(params, x)).reshape(x.shape)
    brightest = np.argmax(Scores().apply({"params": params["params"]["scores"]}, x), -1)
    assert len(set(brightest.tolist())) > 1
    for image, r, seen in zip(x, brightest, chosen):
        np.testing.assert_array_equal(seen, quarter_turn(image, -90 * int(r)))
        quadrants = [seen[:3, :3], seen[:3, -3:], seen[-3:, :3], seen[-3:, -3:]]
        assert np.argmax([q.sum() for q in quadrants]) == 0  # turned so that the brightest is in its place


def test_gradient_of_the_frame_is_that_of_the_softmax(x64):
    """d f / d s_r = sum_r' (d w_r' / d s_r) <d f / d image, frame_r'>, with the softmax's derivative, by hand."""
    x, temperature = images(n=1), 0.7

    class Free(nn.Module):
        @nn.compact
        def __call__(self, x):
            return self.param("s", nn.initializers.normal(1.0), (1, 4), x.dtype)

    net = Canonicalized(4, Free(), PlainCNN((3,), 8, 3), temperature=temperature)
    params = params_of(net, x)
    s = params["params"]["scores"]["s"][0]
    predict = lambda z: PlainCNN((3,), 8, 3).apply({"params": params["params"]["predictor"]}, z)[0, 0]  # noqa: E731
    frames = [quarter_turn(x, -90 * r) for r in range(4)]
    by_image = jax.jit(jax.grad(predict))(frames[int(np.argmax(s))])
    products = np.array([jnp.sum(by_image * frame) for frame in frames])
    q = np.asarray(jax.nn.softmax(s / temperature))
    expected = q * (products - q @ products) / temperature
    gradient = jax.jit(jax.grad(lambda p: net.apply(p, x)[0, 0]))(params)["params"]["scores"]["s"][0]
    assert relative_error(gradient, expected) < tolerance(float, 64 * 27)


def test_trained_end_to_end_loss_falls_and_both_networks_move():
    x = np.asarray(images(n=12))
    labels = np.arange(12) % 3
    net = small(4)
    run = eq.train_ensemble(
        net, quick_key(2), x, labels, members=2, epochs=100, optimizer=optax.adam(1e-2),
        loss="cross_entropy", record=[1, 100], watch={"x": x, "turned": np.rot90(x, axes=(1, 2))}, progress=False,
    )  # fmt: skip
    assert (run.losses[-1] < run.losses[0] / 2).all()
    assert relative_error(run.outputs["turned"], run.outputs["x"]) < tolerance(np.float32, ROUNDING)
    start = eq.train_ensemble(
        net, quick_key(2), x, labels, members=2, epochs=0, optimizer=optax.adam(1e-2), loss="cross_entropy"
    )
    for part in ("scores", "predictor"):
        before, after = (jax.tree.leaves(r.params["params"][part]) for r in (start, run))
        assert all(relative_error(b, a) > 1e-2 for a, b in zip(before, after) if np.any(a)), part


def test_gradient_reaches_the_canonicaliser():
    net, x = small(4), images()

    @jax.jit
    def gradient_of(key):
        loss = lambda p: eq.ensembles.cross_entropy(net.apply(p, x), jnp.arange(5) % 3)  # noqa: E731
        return jax.grad(loss)(net.init(key, x))

    gradient = gradient_of(quick_key(1))["params"]["scores"]
    kernels = {jax.tree_util.keystr(path): leaf for path, leaf in jax.tree.leaves_with_path(gradient)}
    assert all(np.any(leaf != 0) for leaf in kernels.values())


def test_quarter_turns_are_the_action():
    x = images()
    for g in C4.elements:
        np.testing.assert_array_equal(quarter_turn(x, 90 * g), QUARTERS(g, x))
        np.testing.assert_array_equal(quarter_turn(x, -90 * g), QUARTERS(C4.inverse[g], x))


def test_quarter_turns_of_any_size():
    x = images()
    for angle in (90 * (10**17 + 1), 90.0 * 2**60 * 3, -90 * (4 * 10**17 + 3)):
        np.testing.assert_array_equal(quarter_turn(x, angle), QUARTERS(int(angle) // 90 % 4, x))


def test_quarter_turns_of_lists():
    x = [[[1.0], [2.0]], [[3.0], [4.0]]]
    np.testing.assert_array_equal(quarter_turn(x, 90)[..., 0], [[2, 4], [1, 3]])


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: params_of(small(8), images()), "rotate"),
        (lambda: params_of(small(0), images()), "n"),
        (lambda: params_of(small(4, temperature=0.0), images()), "temperature"),
        (lambda: params_of(Canonicalized(4, FrameScores(8, (2,), 3), PlainCNN()), images()), "scores"),
        (lambda: quarter_turn(images(), 45), "angle"),
        (lambda: quarter_turn(images(), 90 * 10**17 + 1), "angle"),
        (lambda: quarter_turn(images(), float("inf")), "angle"),
        (lambda: quarter_turn(jnp.ones((1, 4, 5, 1)), 90), "x"),
        (lambda: quarter_turn([[[1.0], [2.0]], [[3.0]]], 90), "x"),
        (lambda: quarter_turn(np.full((1, 1, 1), 2**40), 90), "x"),
    ],
)
def test_bad_input(call, argument):
    with pytest.raises(ValueError, match=f"`{argument}`"):
        call()

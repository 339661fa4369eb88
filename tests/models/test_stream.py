"""Training on batches, from memory and from wherever else."""

import flax.linen as nn
import jax
import numpy as np
import optax
import pytest

from eqbook.models import (
    MLPMixer,
    batches_of,
    flax_momentum,
    flax_rates,
    initial_params,
    predict_on_stream,
    train_on_stream,
)

NET = MLPMixer(4, 1, 8, 8, 8, 2)
PLAIN = optax.identity()


class Listed(nn.Module):
    """A network with a list as attribute, which cannot be hashed."""

    widths: list

    @nn.compact
    def __call__(self, x):
        return nn.Dense(self.widths[0])(x.reshape(len(x), -1))


def some(count=64):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, count).astype(np.int32)
    return (rng.normal(size=(count, 8, 8, 3)) + y[:, None, None, None]).astype(np.float32), y


@pytest.fixture(scope="module")
def start():
    return jax.jit(NET.init)(jax.random.key(0), some()[0][:1])


def test_learns_what_it_sees(start):
    x, y = some()
    rates = flax_rates(64, 10, 8, base_rate=6.4)
    params, losses = train_on_stream(NET, start, batches_of(x, y, 8, epochs=10, seed=1), rates, flax_momentum())
    assert len(losses) == 80 and losses[0] == pytest.approx(np.log(2), rel=1e-5)  # its read-out starts at 0
    scores, seen = predict_on_stream(NET, params, batches_of(x, y, 40))
    assert scores.shape == (64, 2) and np.mean(scores.argmax(-1) != seen) < 0.1
    np.testing.assert_array_equal(seen, y)


def test_batches_visit_every_example():
    x, y = some(10)
    passes = [y_.tolist() for y_ in (b[0][:, 0, 0, 0] for b in batches_of(x, y, 5, epochs=2, seed=3))]
    first, second = passes[0] + passes[1], passes[2] + passes[3]
    assert sorted(first) == sorted(second) == sorted(x[:, 0, 0, 0].tolist()) and first != second
    assert [len(b[1]) for b in batches_of(x, y, 4)] == [4, 4, 2] and len(list(batches_of(x, y, 4, seed=0))) == 2


def test_as_many_batches_as_steps(start):
    x, y = some()
    for steps, words in ((9, "expected 9, one for each step size, got 8"), (7, "expected 7, .* got more")):
        with pytest.raises(ValueError, match=f"`batches`: {words}"):
            train_on_stream(NET, start, batches_of(x, y, 8), np.zeros(steps), PLAIN)
    with pytest.raises(ValueError, match="`batches`: expected at least one"):
        predict_on_stream(NET, start, [])


def test_divergence_names_the_step(start):
    x, y = some()
    with pytest.raises(FloatingPointError, match="the loss of step [0-9]+ is nan"):
        train_on_stream(NET, start, batches_of(x, y, 8), np.full(8, 1e30), PLAIN)


def test_what_is_no_class_or_no_floating_image_is_refused(start):
    x, y = some()
    for wrong, words in ((-1, "got -1 .. 1"), (2, "got 0 .. 2")):
        other = y.copy()
        other[40] = wrong
        with pytest.raises(ValueError, match=f"`batches`: expected classes 0 .. 1, one for each output, {words}"):
            train_on_stream(NET, start, batches_of(x, other, 64), [0.1], PLAIN)
    pictures = np.zeros(x.shape, np.uint8)
    with pytest.raises(ValueError, match="`batches`: expected images in floating numbers, got uint8"):
        train_on_stream(NET, start, batches_of(pictures, y, 64), [0.1], PLAIN)
    with pytest.raises(ValueError, match="`batches`: expected integer classes"):
        train_on_stream(NET, start, batches_of(x, np.eye(2, dtype=np.float32)[y], 64), [0.1], PLAIN)
    with pytest.raises(ValueError, match=r"`batches`: expected a class for each of \(64,\) images, got shape \(63,\)"):
        train_on_stream(NET, start, [(x, y[1:])], [0.1], PLAIN)
    with pytest.raises(ValueError, match="`batches`: expected at least one image in each batch"):
        train_on_stream(NET, start, [(x[:0], y[:0])], [0.1], PLAIN)
    params, losses = train_on_stream(NET, start, [(x[:4].tolist(), y[:4].tolist())], [0.1], PLAIN)
    assert len(losses) == 1


@pytest.mark.parametrize("batch", [3, np.zeros((2, 8, 8, 3), np.float32), (np.zeros((2, 8, 8, 3)),)], ids=type)
def test_what_is_no_pair_is_refused(start, batch):
    """Of an array, the first image would be taken for all images, and the second for their classes."""
    for call in (
        lambda: train_on_stream(NET, start, [batch], [0.1], PLAIN),
        lambda: predict_on_stream(NET, start, [batch]),
    ):
        with pytest.raises(ValueError, match="`batches`: expected pairs of images and classes, got .*; see"):
            call()


def test_a_prediction_refuses_what_training_refuses_of_images(start):
    """Bytes from files would be scored as numbers 255 times too large."""
    x, y = some()
    with pytest.raises(ValueError, match="`batches`: expected images in floating numbers, got uint8; see .*to_unit"):
        predict_on_stream(NET, start, batches_of(np.zeros(x.shape, np.uint8), y, 64))
    for classes, shape in ((y[1:], r"\(63,\)"), (y[:, None], r"\(64, 1\)")):
        with pytest.raises(ValueError, match=rf"a class for each of \(64,\) images, got shape {shape}"):
            predict_on_stream(NET, start, [(x, y), (x, classes)])


def test_networks_that_no_program_can_be_kept_for_are_refused(start):
    x, y = some()
    for call in (
        lambda net: initial_params(net, jax.random.key(0), x),
        lambda net: train_on_stream(net, start, [(x, y)], [0.1], PLAIN),
        lambda net: predict_on_stream(net, start, [(x, y)]),
    ):
        with pytest.raises(ValueError, match="`net`: expected tuples in place of lists as attributes, got Listed"):
            call(Listed([3]))
        with pytest.raises(ValueError, match="`net`: expected a network, got the class MLPMixer; call it"):
            call(MLPMixer)


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda x, y: batches_of(x.tolist(), y, 8), "x"),
        (lambda x, y: batches_of(x, y[1:], 8), "y"),
        (lambda x, y: batches_of(x, y, 0), "batch_size"),
        (lambda x, y: batches_of(x, y, 8, epochs=-1), "epochs"),
        (lambda x, y: batches_of(x, y, 8, seed=-1), "seed"),
    ],
)
def test_batches_are_refused_before_the_first_is_asked_for(call, argument):
    with pytest.raises(ValueError, match=f"`{argument}`"):
        call(*some())

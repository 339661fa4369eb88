"""Gradients of a batch part by part; the progress bar."""

import io
import sys
from dataclasses import replace
from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from numbers_drawn import normal

import eqbook as eq
from eqbook.ensembles import progress
from eqbook.ensembles.epoch import Recipe, loss_and_gradient
from eqbook.testing import relative_error, tolerance

NET = eq.Sequential(eq.Dense(16, b_std=0.3), eq.Relu(), eq.Dense(2))
X = normal(10, (12, 3))
Y = normal(11, (12, 2))
LABELS = jnp.arange(12) % 2


def train(y=Y, **changes):
    arguments = dict(members=3, epochs=3, optimizer=optax.sgd(0.05, momentum=0.9), watch={"x": X}, at_once=2)
    return eq.train_ensemble(NET, jax.random.key(0), X, y, **{**arguments, **changes})


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("y", "loss", "batch_size"), [(Y, "squared_error", None), (LABELS, "cross_entropy", 6)], ids=["sum", "mean"]
)
def test_parts_add_up_to_the_batch(y, loss, batch_size):
    whole = train(y, loss=loss, batch_size=batch_size)
    for part in (1, 3, 6):
        run = train(y, loss=loss, batch_size=batch_size, part=part)
        steps = 3 if batch_size is None else 6
        assert relative_error(run.outputs["x"], whole.outputs["x"]) < steps * tolerance(jnp.float32, 12 * 16)
        assert relative_error(run.losses[1:], whole.losses[1:]) < steps * tolerance(jnp.float32, 12 * 16)


def test_parts_of_orbits():
    augment = eq.ensembles.full_orbits(eq.groups.TrivialAction(eq.cyclic(2)))
    whole, parts = (train(augment=augment, part=part) for part in (None, 8))
    assert relative_error(parts.outputs["x"], whole.outputs["x"]) < 3 * tolerance(jnp.float32, 24 * 16)


@pytest.mark.parametrize(
    "changes",
    [{"part": 5}, {"part": 0}, {"part": 4, "batch_size": 6}, {"part": 3, "loss": lambda f, y: jnp.sum(f - y)}],
)
def test_bad_parts(changes):
    with pytest.raises(ValueError, match="`part`: expected"):
        train(**changes)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_the_bar_shows_loss_rate_and_time_left(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(progress, "tqdm", partial(progress.tqdm, mininterval=0))  # draw also what is quick
    watched = train(epochs=40, record=[40], progress=True)
    text = screen.getvalue()
    assert "loss=" in text and "epoch/s" in text and "/120" in text and "<" in text
    screen.truncate(0)
    silent = train(epochs=40, record=[40], progress=False)
    assert screen.getvalue().strip("\0") == ""
    # On a terminal the epochs are trained in slices, to the same bits.
    np.testing.assert_array_equal(watched.outputs["x"], silent.outputs["x"])
    np.testing.assert_array_equal(watched.losses, silent.losses)


class Short(nn.Module):
    """A network whose parameters are as short as its inputs."""

    @nn.compact
    def __call__(self, x):
        return nn.Dense(1, dtype=jnp.bfloat16, param_dtype=jnp.bfloat16)(x)


def test_parts_in_bfloat16_add_up():
    """1,024 examples one by one: in bfloat16 a sum of them stands still at the 256th."""
    x, y = jnp.ones((1024, 2), jnp.bfloat16), jnp.full((1024, 1), 3, jnp.bfloat16)
    recipe = Recipe(Short(), eq.ensembles.squared_error, optax.sgd(0.1), None, None, ((), ()))
    params = jax.tree.map(jnp.zeros_like, Short().init(jax.random.key(0), x))
    whole, parts = (loss_and_gradient(replace(recipe, part=part), params, x, y) for part in (None, 1))
    assert parts[0] == whole[0] == 0.5 * 9 * 1024
    np.testing.assert_array_equal(*(np.asarray(g["params"]["Dense_0"]["bias"], float) for _, g in (whole, parts)))
    assert all(leaf.dtype == jnp.bfloat16 for leaf in jax.tree.leaves(parts))

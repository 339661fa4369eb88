"""What is compiled once: programs of the same network, optimiser and loss, for data of the same shape."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import eqbook as eq
from eqbook.baselines import PlainCNN
from eqbook.ensembles.epoch import init_member

NET = eq.Sequential(eq.Dense(5), eq.Relu(), eq.Dense(2))
SLOW, QUICK = optax.sgd(0.01), optax.sgd(0.02)
X = np.sin(np.arange(24.0, dtype=np.float32)).reshape(8, 3)
Y = np.cos(np.arange(16.0, dtype=np.float32)).reshape(8, 2)


def train(loss, optimizer=SLOW, x=X, y=Y):
    run = eq.train_ensemble(
        NET, jax.random.key(0), x, y, members=2, epochs=2, optimizer=optimizer, loss=loss, at_once=1
    )
    return run.losses[1:], run.predict(x)


def counted():
    """A loss, and the list of the shapes for which it was traced."""
    shapes = []

    def loss(outputs, targets):
        shapes.append(outputs.shape)
        return jnp.mean((outputs - targets) ** 2)

    return loss, shapes


def test_other_data_of_the_same_shape_are_not_compiled_for():
    loss, shapes = counted()
    first, before = train(loss), len(shapes)
    assert before > 0
    again, other = train(loss), train(loss, x=2 * X, y=-Y)
    assert len(shapes) == before, "traced anew"
    for a, b in zip(first, again):
        np.testing.assert_array_equal(a, b)
    fresh, _ = counted()
    for a, b in zip(other, train(fresh, x=2 * X, y=-Y)):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(first[0], other[0])


def test_another_optimiser_shape_or_precision_is_compiled_for():
    loss, shapes = counted()
    first, before = train(loss), len(shapes)
    for changes in ({"optimizer": QUICK}, {"x": X[:6], "y": Y[:6]}):
        assert not np.array_equal(train(loss, **changes)[0], first[0])
        assert len(shapes) > before
        before = len(shapes)
    with jax.enable_x64(True):
        losses, outputs = train(loss, x=X.astype(np.float64), y=Y.astype(np.float64))
    assert losses.dtype == outputs.dtype == np.float64 and len(shapes) > before


@dataclass  # compared by value, hence without a hash
class Unhashable:
    inner: Any

    def init(self, params):
        return self.inner.init(params)

    def update(self, *arguments):
        return self.inner.update(*arguments)


def test_an_optimiser_without_a_hash_is_none_the_worse():
    loss, _ = counted()
    for a, b in zip(train(loss), train(loss, Unhashable(SLOW))):
        np.testing.assert_array_equal(a, b)


NETS = (PlainCNN((4, 8), 5), eq.Sequential(eq.Conv(4, (3, 3)), eq.Relu(), eq.Flatten(), eq.Dense(2)))


@pytest.mark.parametrize("net", NETS, ids=["flax", "eqbook"])
def test_initial_parameters_are_those_of_the_network_bit_for_bit(net, dtype):
    """Although their program is compiled with fewer optimisations."""
    example, key = jnp.zeros((1, 8, 8, 2)), jax.random.key(3)
    init = net.init if net is NETS[0] else lambda key, x: net.init(key, x.shape)
    jax.tree.map(np.testing.assert_array_equal, init_member(net, key, example), jax.jit(init)(key, example))

"""What is compiled once: programs of the same network, optimiser and loss, for data of the same shape."""

from dataclasses import dataclass
from typing import Any

import flax.linen as nn
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


def train(loss, optimizer=SLOW, x=X, y=Y, **more):
    run = eq.train_ensemble(
        NET, jax.random.key(0), x, y, members=2, epochs=2, optimizer=optimizer, loss=loss, at_once=1, **more
    )
    return run.losses[1:], run.predict(x)


def counted():
    """A loss, and the list of the shapes for which it was traced.

    The list belongs to a class: one that the loss held itself would be new content of the loss after each entry.
    """

    class Seen:
        shapes = []

    def loss(outputs, targets):
        Seen.shapes.append(outputs.shape)
        return jnp.mean((outputs - targets) ** 2)

    return loss, Seen.shapes


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


SCALE = 0.0


@pytest.fixture
def as_a_script(monkeypatch):
    """The variables of this module count as those of a script do; pytest imports it as one of a package."""
    monkeypatch.setitem(globals(), "__package__", None)


def scaled(outputs, targets):
    """A loss that finds a number by name."""
    return jnp.mean((outputs - targets) ** 2) + SCALE * jnp.mean(outputs**2)


class Scaled:
    """A number, and what is made of it."""

    def __init__(self, scale=0.0):
        self.scale, self.group = scale, eq.cyclic(2)

    def loss(self, outputs, targets):
        return jnp.mean((outputs - targets) ** 2) + self.scale * jnp.mean(outputs**2)

    def rate(self, count):
        return 0.01 * (1 + self.scale)


class Signed(eq.groups.Action):
    """An action that can be told to do something else."""

    def __init__(self):
        self.group, self.scale = eq.cyclic(2), 0.0

    def __call__(self, g, x):
        return x + self.scale * g


def test_a_variable_of_a_loss_that_has_changed_counts(as_a_script, monkeypatch, tmp_path):
    """Also in a store, whose settings are those of the moment."""
    for scale in (0.0, 1.0, 10.0):
        monkeypatch.setitem(globals(), "SCALE", scale)
        expected = train(Scaled(scale).loss)
        for folder in (None, tmp_path / str(scale)):
            for one, other in zip(train(scaled, store=folder), expected):
                np.testing.assert_array_equal(one, other)


@pytest.mark.every(3)
@pytest.mark.parametrize("part", ["loss", "optimizer", "augment"])
def test_an_attribute_that_has_changed_counts(part):
    """Of the object whose method is the loss or the schedule, or of an action."""

    def arguments():
        held = Signed() if part == "augment" else Scaled()
        made = {
            "loss": lambda: held.loss,
            "optimizer": lambda: optax.sgd(held.rate),
            "augment": lambda: eq.ensembles.full_orbits(held),
        }
        return held, {"loss": "squared_error"} | {part: made[part]()}

    held, same = arguments()
    found = []
    for scale in (0.0, 1.0, 10.0):
        held.scale = scale
        fresh, other = arguments()
        fresh.scale = scale
        found.append(train(**same))
        for one, expected in zip(found[-1], train(**other)):
            np.testing.assert_array_equal(one, expected)
    assert len(np.unique([losses[-1, 0] for losses, _ in found])) == 3


class Started(nn.Module):
    """A module that starts from a number that it finds by name."""

    @nn.compact
    def __call__(self, x):
        return nn.Dense(2, kernel_init=nn.initializers.constant(SCALE))(x)


def test_a_variable_of_a_module_that_has_changed_counts(as_a_script, monkeypatch):
    for scale in (0.5, 2.0):
        monkeypatch.setitem(globals(), "SCALE", scale)
        run = eq.train_ensemble(
            Started(), jax.random.key(0), X, Y, members=2, epochs=0, optimizer=SLOW, watch={"x": X}, at_once=1
        )
        assert np.unique(run.params["params"]["Dense_0"]["kernel"]).tolist() == [scale]


def penalty(outputs):
    """Finds a number by name."""
    return SCALE * jnp.mean(outputs**2)


class ByStatic:
    """Uses a static method."""

    @staticmethod
    def more(outputs):
        return penalty(outputs)

    def __call__(self, outputs, targets):
        return jnp.mean((outputs - targets) ** 2) + self.more(outputs)


class ByParent(ByStatic):
    """Uses what its parent does."""

    def __call__(self, outputs, targets):
        return super().__call__(outputs, targets)


class ByHanding(ByStatic):
    """Hands itself on."""

    def __call__(self, outputs, targets):
        return jnp.mean((outputs - targets) ** 2) + sum(self.more(one) for one in [outputs])


class ByClass:
    """Uses a number of its class by a class method."""

    weight = 0.0

    @classmethod
    def more(cls, outputs):
        return cls.weight * jnp.mean(outputs**2)

    def __call__(self, outputs, targets):
        return jnp.mean((outputs - targets) ** 2) + self.more(outputs)


@pytest.mark.every(4)
@pytest.mark.parametrize("kind", [ByStatic, ByParent, ByHanding, ByClass])
def test_what_methods_of_a_loss_find_counts(as_a_script, monkeypatch, kind):
    loss = kind()
    for scale in (0.0, 1.0, 10.0):
        monkeypatch.setitem(globals(), "SCALE", scale)
        monkeypatch.setattr(ByClass, "weight", scale)
        for one, expected in zip(train(loss), train(Scaled(scale).loss)):
            np.testing.assert_array_equal(one, expected)


class Helped(nn.Module):
    """A module whose helper finds a number by name."""

    def scaled(self, x):
        return SCALE * x

    @nn.compact
    def __call__(self, x):
        return nn.Dense(2)(self.scaled(x))


def test_what_a_helper_of_a_module_finds_counts(as_a_script, monkeypatch):
    found = []
    for scale in (0.5, 2.0, 0.5):
        monkeypatch.setitem(globals(), "SCALE", scale)
        arguments = dict(members=2, epochs=2, optimizer=SLOW, at_once=1)
        found.append(eq.train_ensemble(Helped(), jax.random.key(0), X, Y, **arguments).losses[1:])
    np.testing.assert_array_equal(found[0], found[2])
    assert not np.allclose(found[0], found[1])


class Seen(nn.Module):
    """Keeps the shapes that it is traced for."""

    @nn.compact
    def __call__(self, x):
        Traced.shapes.append(x.shape)
        return nn.Dense(2)(x)


class Traced:
    """A place outside of the module."""

    shapes = []


def test_an_evaluation_is_compiled_once_whatever_the_optimiser():
    net, watched = Seen(), np.zeros((11, 3), np.float32)
    for rate in (0.1, 0.2, 0.3):
        arguments = dict(members=2, epochs=1, optimizer=optax.sgd(rate), at_once=2, watch={"x": watched})
        eq.train_ensemble(net, jax.random.key(0), X, Y, **arguments)
    assert Traced.shapes.count((11, 3)) == 3 + 1, "one for the outputs' shape in each run, and one for the program"


SHAPE = ()


def of_shape(outputs, targets):
    """A number, or more of them."""
    return jnp.mean((outputs - targets) ** 2) + jnp.zeros(SHAPE)


def test_a_loss_that_has_changed_is_checked_again(as_a_script, monkeypatch):
    train(of_shape)
    monkeypatch.setitem(globals(), "SHAPE", (3,))
    with pytest.raises(ValueError, match="`loss`: expected one real number"):
        train(of_shape)


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


@pytest.mark.every(2)
@pytest.mark.parametrize("net", NETS, ids=["flax", "eqbook"])
def test_initial_parameters_are_those_of_the_network_bit_for_bit(net, dtype):
    """Although their program is compiled with fewer optimisations."""
    example, key = jnp.zeros((1, 8, 8, 2)), jax.random.key(3)
    init = net.init if net is NETS[0] else lambda key, x: net.init(key, x.shape)
    jax.tree.map(np.testing.assert_array_equal, init_member(net, key, example), jax.jit(init)(key, example))

"""The numbers that tell functions and objects apart."""

import logging
import os
import pathlib
import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property, partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax.core import FrozenDict

import eqbook as eq
from eqbook._attributes import parts_of
from eqbook._identity import numbers_in


class Weighted:
    """A loss that holds what it was made with, as an attribute or a slot."""

    def __init__(self, weights, mode="mean"):
        self.weights, self.mode = weights, mode

    def __call__(self, outputs, y):
        return jnp.mean(self.weights[y] * outputs) if self.mode else 0.0

    def loss(self, outputs, y):
        return self(outputs, y)


class Slotted(Weighted):
    __slots__ = ("inner",)

    def __init__(self, weights):
        super().__init__(0.0)
        self.inner = Weighted(weights)

    def __call__(self, outputs, y):
        return self.inner(outputs, y)


def lambda_around(weights):
    held = Weighted(weights)
    return lambda outputs, y: held(outputs, y)


def in_a_notebook(weights):
    """A function that finds its weights by name, through another function, as cells of a notebook do."""
    names = {"weights": weights, "time": object()}
    exec("def inner(y):\n    return weights[y]\ndef loss(outputs, y):\n    return inner(y) * outputs", names)
    return names["loss"]


def of_settings(weights):
    """A function that reads one of the settings of a notebook."""
    names = {"settings": {"weights": weights, "epochs": sum(weights)}}
    exec("def loss(outputs, y):\n    return settings['weights'][y] * outputs", names)
    return names["loss"]


class OfParent(Weighted):
    """Uses what its parent uses."""

    def __call__(self, outputs, y):
        return super().__call__(outputs, y)


class OfParentClass:
    """Uses a constant of its class by what its parent does."""

    def __call__(self, outputs, y):
        return self.weights[y] * outputs


class Child(OfParentClass):
    def __call__(self, outputs, y):
        return super().__call__(outputs, y)


def with_helper(weights):
    """A method that holds the weights in its code, used by another one."""
    names = {}
    exec(f"def weigh(self, y):\n    return {weights}[y]\ndef call(self, outputs, y):\n    return self.weigh(y)", names)
    return type("With", (), {"weigh": names["weigh"], "__call__": names["call"]})()


class OfClass:
    """A constant of a class, used by a method that a method uses."""

    def weigh(self, y):
        return self.weights[y]

    def __call__(self, outputs, y):
        return self.weigh(y) * outputs


@dataclass
class Base:
    mode: str = "mean"


class Further(Base):
    """What is not among the fields."""

    def __init__(self, weights):
        super().__init__()
        self.weights = weights

    def __call__(self, outputs, y):
        return self.weights[y] * outputs


def with_own_gradient(weights):
    clipped = jax.custom_vjp(lambda x: x)
    clipped.defvjp(lambda x: (x, None), lambda _, g: (g * weights[-1],))
    return clipped


class Masked:
    def __init__(self, values):
        self.mask = values

    def __call__(self, outputs, y):
        return outputs + self.mask


MADE = {
    "object": Weighted,
    "method": lambda weights: Weighted(weights).loss,
    "jitted": lambda weights: jax.jit(lambda y: jnp.asarray(weights)[y]),
    "closure over an object": lambda_around,
    "partial": lambda weights: partial(Weighted(0.0), weights),
    "object in a slot": Slotted,
    "text": lambda weights: Weighted(0.0, mode=str(weights)),
    "set": lambda weights: Weighted(frozenset(weights)),
    "variable of a notebook": in_a_notebook,
    "settings of a notebook": of_settings,
    "constant of a class": lambda weights: type("Of", (OfClass,), {"weights": weights})(),
    "list of a class": lambda weights: type("Of", (OfClass,), {"weights": list(weights)})(),
    "array of a class": lambda weights: type("Of", (OfClass,), {"weights": jnp.asarray(weights)})(),
    "parent": OfParent,
    "constant of a class, by the parent": lambda weights: type("Of", (Child,), {"weights": weights})(),
    "code of another method": with_helper,
    "no field": Further,
    "own gradient": with_own_gradient,
    "infinite": lambda weights: Masked(np.where(np.array(weights) > 2, -np.inf, 0)),
    "short floats": lambda weights: Masked(jnp.asarray(weights, jnp.bfloat16)),
    "complex": lambda weights: Masked(1j * np.array(weights)),
    "shape": lambda weights: Masked(np.ones((int(weights[-1]), 50 // int(weights[-1])))),
    "mapping": lambda weights: Masked(FrozenDict(w=weights)),
}


@pytest.mark.parametrize("make", MADE.values(), ids=list(MADE))
def test_numbers_tell_functions_apart(make):
    one = numbers_in(make((1.0, 1.0, 2.0)))
    assert one == numbers_in(make((1.0, 1.0, 2.0)))
    assert one != numbers_in(make((1.0, 1.0, 50.0)))


@pytest.mark.parametrize(
    "kind",
    [int, np.int64, np.uint32, lambda n: np.array([1, n]), jax.random.key],
    ids=["int", "int64", "uint32", "array", "key"],
)
def test_integers_that_agree_up_to_rounding_are_told_apart(kind):
    """By more than a store allows for rounding."""
    one, other = (numbers_in(Masked(kind(n))) for n in (20240101, 20240102))
    assert not (len(one) == len(other) and np.allclose(one, other, rtol=1e-5, atol=0))
    assert numbers_in(Masked(kind(20240101))) == one


def test_an_integer_is_the_same_number_whatever_holds_it():
    for number in (-3, 99_999, 10**5, -(10**7), 2**62 + 1):
        assert numbers_in(number) == numbers_in(np.int64(number)) == numbers_in(np.array([number]))[1:]
    assert numbers_in([99_999, -7]) == [99_999.0, -7.0] and len(numbers_in(10**400)) == 1


def test_an_object_that_holds_itself_ends():
    it = Weighted(3.0)
    it.mode = [it, it.loss]
    assert 3.0 in numbers_in(it)


class Experiment:
    """Keeps what came out, and what was computed once, beside what its loss uses."""

    def __init__(self):
        self.scale, self.result = 2.0, None

    @cached_property
    def twice(self):
        return 2 * self.scale

    def loss(self, outputs, y):
        return self.twice * jnp.mean(outputs)


def test_what_a_loss_does_not_use_does_not_count():
    it = Experiment()
    before = numbers_in(it.loss)
    it.result, _ = [4.0, 5.0], it.twice
    assert numbers_in(it.loss) == before
    it.scale = 3.0
    assert numbers_in(it.loss) != before
    names = {"settings": {"scale": 2.0, "epochs": 1}, "calls": 0}
    exec("def loss(f, y):\n    global calls\n    calls += 1\n    return settings['scale'] * f", names)
    before = numbers_in(names["loss"])
    names["settings"]["epochs"], names["calls"] = 5, 3
    assert numbers_in(names["loss"]) == before


def test_what_is_filled_on_demand_does_not_count():
    group, path, frozen = eq.cyclic(4), pathlib.Path("a") / "b", FrozenDict(a=2)
    held = [group, path, frozen, logging.getLogger("a"), jnp.ones(3)]
    before = numbers_in(lambda: held)
    assert group.inverse is not None and hash(path) and hash(frozen) and str(path)
    logging.getLogger("a.b").setLevel(10)
    assert numbers_in(lambda: held) == before
    held[-1].delete()
    assert len(numbers_in(lambda: held)) < len(before)  # and no error


class Eager:
    """Answers to every name."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Eager()


def test_objects_that_answer_to_every_name():
    assert numbers_in([Eager(), object(), iter([1]), type, np]) == []


def test_messages_and_docstrings_do_not_count():
    def one(x):
        "A docstring."
        return 2 * x

    def two(x):
        "Another."
        return 2 * x

    assert numbers_in(one) == numbers_in(two)


def test_parts_of_classes_and_modules_are_none():
    assert parts_of(Weighted) == parts_of(np) == parts_of(3) == {}
    assert parts_of(Weighted(2.0)) == {"mode": "mean", "weights": 2.0}


def test_numbers_do_not_depend_on_the_process():
    """Also for functions of libraries, whose modules hold caches and counters."""
    script = (
        "import jax, jax.numpy as jnp, optax, flax.linen as nn, eqbook as eq\n"
        "from eqbook._identity import numbers_in\n"
        "held = [optax.adamw(1e-2), jnp.tanh, nn.relu, nn.gelu, jax.jit(lambda x: jnp.clip(x, 0, 6)), jnp.add,\n"
        "        optax.cosine_decay_schedule(1.0, 9), eq.ensembles.squared_error, nn.initializers.normal(0.1),\n"
        "        {'b', 'a'}]\n"
        "print([numbers_in(one) for one in held])\n"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", script], env=os.environ | {"PYTHONHASHSEED": seed}, text=True,
            capture_output=True, check=True,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(found) == 1 and len(found.pop()) > 100


def test_optimisers_of_equal_settings_are_equal():
    schedule = partial(optax.warmup_cosine_decay_schedule, 0.0, 1e-2, 10)
    assert numbers_in(optax.adam(schedule(100))) == numbers_in(optax.adam(schedule(100)))
    assert numbers_in(optax.adam(schedule(100))) != numbers_in(optax.adam(schedule(101)))

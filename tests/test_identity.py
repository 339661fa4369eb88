"""The numbers that tell functions and objects apart."""

import os
import subprocess
import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from eqbook._identity import numbers_in, parts_of


class Weighted:
    """A loss that holds what it was made with, as an attribute or a slot."""

    def __init__(self, weights, mode="mean"):
        self.weights, self.mode = weights, mode

    def __call__(self, outputs, y):
        return jnp.mean(self.weights[y] * outputs)

    def loss(self, outputs, y):
        return self(outputs, y)


class Slotted(Weighted):
    __slots__ = ("inner",)

    def __init__(self, weights):
        super().__init__(0.0)
        self.inner = Weighted(weights)


def lambda_around(weights):
    held = Weighted(weights)
    return lambda outputs, y: held(outputs, y)


def in_a_notebook(weights):
    """A function that finds its weights by name, through another function, as cells of a notebook do."""
    names = {"weights": weights, "time": object()}
    exec("def inner(y):\n    return weights[y]\ndef loss(outputs, y):\n    return inner(y) * outputs", names)
    return names["loss"]


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
}


@pytest.mark.parametrize("make", MADE.values(), ids=list(MADE))
def test_numbers_tell_functions_apart(make):
    one = numbers_in(make((1.0, 1.0, 2.0)))
    assert one == numbers_in(make((1.0, 1.0, 2.0)))
    assert one != numbers_in(make((1.0, 1.0, 50.0)))


def test_an_object_that_holds_itself_ends():
    it = Weighted(3.0)
    it.mode = [it, it.loss]
    assert 3.0 in numbers_in(it)


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

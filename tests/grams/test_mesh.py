"""Gram matrices on eight virtual devices: equal to those of one, and the work really is spread."""

import os

import pytest
from processes import finish, start

BEGIN = """
import sys

sys.path.insert(0, sys.argv[1])

import jax
import numpy as np
from grams.cases import ONE_EACH, inputs

import eqbook as eq
from eqbook.grams import workers
from eqbook.testing import relative_error, tolerance

assert len(jax.devices()) == 8
outputs = []
original = workers.sharded


def sharded(*args):
    call = original(*args)

    def recorded(*operands):
        result = call(*operands)
        outputs.extend(jax.tree.leaves(result))
        return result

    return recorded


workers.sharded = sharded
"""

EACH = """
mesh = jax.make_mesh((8,), ("devices",))
for name in sys.argv[2:]:
    case = ONE_EACH[name]
    # Neither 11 nor 3 is a multiple of 8; with 3 there are devices without a row of their own.
    for n1, n2 in ((11, None), (3, 11)) if name in ("relu-bias", "one-row") else ((11, None),):
        x1, x2 = inputs(case.shape, n1), None if n2 is None else inputs(case.shape, n2, seed=1)
        one, many = eq.gram(case.net, x1, x2), eq.gram(case.net, x1, x2, mesh=mesh)
        for kind in ("nngp", "ntk"):
            a, b = np.asarray(getattr(many, kind)), np.asarray(getattr(one, kind))
            assert a.shape == b.shape and a.dtype == b.dtype, (name, n1, n2, kind)
            assert np.isfinite(a).all()
            assert relative_error(a, b) < tolerance(a.dtype, 30), (name, n1, n2, kind, relative_error(a, b))
            if n2 is None:
                np.testing.assert_array_equal(a, a.T)
    assert outputs, name
    for array in outputs:
        assert len(array.sharding.device_set) == 8 and not array.sharding.is_fully_replicated, (name, array.sharding)
        # Each device holds, and computed, an eighth.
        assert {8 * shard.data.shape[0] for shard in array.addressable_shards} == {array.shape[0]}, name
    outputs.clear()
    print(name, "agrees", flush=True)
print("all agree")
"""

PLACES = """
two_axes = jax.make_mesh((4, 2), ("rows", "columns"))
case = ONE_EACH["relu-bias"]
x = inputs(case.shape, 11)
tiled = eq.gram(case.net, x, mesh=two_axes, tile=4)
assert relative_error(tiled.ntk, eq.gram(case.net, x).ntk) < tolerance(np.float32, 30)
assert len(outputs[0].sharding.device_set) == 8
for kind in (jax.sharding.AxisType.Explicit, jax.sharding.AxisType.Auto):
    rows = jax.make_mesh((8,), ("rows",), (kind,))
    spread = jax.device_put(inputs(case.shape, 16), jax.sharding.NamedSharding(rows, jax.P("rows")))
    apart = jax.device_put(inputs(case.shape, 5, seed=1), jax.devices()[3])
    for options in ({}, {"mesh": rows, "tile": 3}):
        np.testing.assert_array_equal(
            eq.gram(case.net, spread, **options).ntk, eq.gram(case.net, np.asarray(spread), **options).ntk
        )
        expected = eq.gram(case.net, np.asarray(spread), np.asarray(apart), **options).ntk
        np.testing.assert_array_equal(eq.gram(case.net, spread, apart, **options).ntk, expected)
        turned = np.asarray(eq.gram(case.net, apart, spread, **options).ntk.T)
        assert relative_error(turned, expected) < tolerance(np.float32, 30)
for options in ({}, {"tile": 2}):
    assert eq.gram(case.net, apart, **options).ntk.devices() == apart.devices(), options
print("all agree")
"""


def on_eight(script, *names):
    tests = os.path.dirname(os.path.dirname(__file__))
    (said,) = finish([start("-c", BEGIN + script, tests, *names, devices=8)])
    assert said.endswith("all agree\n")


@pytest.mark.parametrize(
    "names",
    [
        ("relu-bias", "flat-head", "D3-head"),
        pytest.param(
            ("one-row", "D2-long-filters", "C4-long-filters", "sphere-linear", "sphere-icosahedron"),
            marks=pytest.mark.slow,
        ),
    ],
    ids=["few", "others"],
)
def test_eight_devices_equal_one(names):
    on_eight(EACH, *names)


def test_inputs_may_be_on_some_of_them():
    on_eight(PLACES)

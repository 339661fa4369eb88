"""The benchmark of ensembles still checks what it times, at tiny size; nothing fails by its time."""

import json
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numbers_drawn import quick_key

from benchmarks import ensembles
from benchmarks.operations import operations
from eqbook.networks import winograd
from eqbook.testing import tolerance


@pytest.fixture(scope="module")
def record():
    return ensembles.run(ensembles.SMOKE, smoke=True)


@pytest.mark.slow
def test_a_try_is_no_record(record, tmp_path, capsys):
    assert record["smoke"] and ensembles.load("cpu", tmp_path) is None
    ensembles.write(record, tmp_path, "ensembles")
    assert ensembles.load("cpu", tmp_path) is None
    ensembles.write(record | {"smoke": False}, tmp_path, "ensembles")
    read = ensembles.load("cpu", tmp_path)
    assert read == json.loads(json.dumps(record | {"smoke": False}))
    ensembles.show(read)
    out = capsys.readouterr().out
    assert "3 members of" in out and "times as fast" in out
    assert "one after the other" in repr(ensembles.table(read))


def test_the_members_are_the_same(record):
    (one,) = record["checks"]
    assert 0 < one["difference"] <= one["bound"]


def test_a_wrong_answer_is_seen():
    size = ensembles.SMOKE
    peer = ensembles.one_after_the_other(size)

    def wrong(members):  # one entry of a filter is off by a part in a hundred
        found = jax.tree.map(lambda *leaves: np.stack(leaves), *peer(members))
        found["params"]["Conv_0"]["kernel"][1] *= 1.01
        return found

    with pytest.raises(AssertionError, match="the members differ"):
        ensembles.check(size, wrong, peer)


def test_without_kinks_both_agree_to_rounding(monkeypatch):
    """Rounding switches a relu that is close to 0, which changes a gradient by more: the check's bound allows it."""
    monkeypatch.setattr(ensembles.nn, "relu", jnp.tanh)
    size = replace(ensembles.SMOKE, hidden=7)  # a network that was not compiled with relu before
    found = ensembles.check(size, ensembles.ensemble(size), ensembles.one_after_the_other(size))
    steps, terms = size.images // size.batch, 9 * size.channels[0]
    assert 0 < found["difference"] < steps * tolerance(jnp.float32, terms) < found["bound"] / 10


def test_operations_are_those_of_the_traced_products(monkeypatch):
    """The forward pass, counted in the program of a network whose convolutions are products of patches."""
    monkeypatch.setattr(winograd, "suits", lambda *_: False)  # it takes fewer
    size = ensembles.SMOKE
    net = ensembles.CNN(size.channels, size.hidden, flax=False)
    x = jnp.zeros((size.images, 28, 28, 1))
    params = net.init(quick_key(0), x[:1])
    many = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), params)
    traced = operations(lambda p: jax.vmap(net.apply, (0, None))(p, x), many) / 2
    first = 2 * size.images * 28**2 * 9 * size.channels[0]
    forward = (ensembles.operations(size) + first) / 3
    # The rest of the program: relu, means, biases, a few for each output of a convolution.
    outputs = size.images * 28**2 * (size.channels[0] + size.channels[1] / 4)
    assert forward <= traced <= forward + 5 * outputs


def test_a_kept_record_is_right():
    for path in ensembles.RESULTS.glob("ensembles*.json"):
        record = json.loads(path.read_text())
        assert not record["smoke"] and record["size"]["members"] == 100 and 1.1e5 < record["parameters"] < 1.3e5
        assert all(one["difference"] <= one["bound"] for one in record["checks"])
        assert np.isclose(record["targets"][0]["reached"], record["peer"]["median_s"] / record["ours"]["median_s"])

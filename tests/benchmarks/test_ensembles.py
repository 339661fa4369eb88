"""The benchmark of ensembles still checks what it times, at tiny size; nothing fails by its time."""

import json
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numbers_drawn import quick_key

from benchmarks import ensembles, members
from benchmarks.members import CASES, SMOKE
from benchmarks.operations import operations
from eqbook.networks import winograd
from eqbook.testing import tolerance


@pytest.fixture(scope="module", params=CASES)
def record(request):
    return ensembles.run(request.param, SMOKE[request.param], smoke=True)


@pytest.mark.slow
def test_a_try_is_no_record(record, tmp_path, capsys):
    name = record["case"]
    assert record["smoke"] and ensembles.load("cpu", tmp_path) == {}
    ensembles.write(record, tmp_path, name)
    assert ensembles.load("cpu", tmp_path) == {}
    ensembles.write(record | {"smoke": False}, tmp_path, name)
    read = ensembles.load("cpu", tmp_path)
    assert read == {name: json.loads(json.dumps(record | {"smoke": False}))}
    ensembles.show(read[name])
    out = capsys.readouterr().out
    assert "3 members of" in out and "times as fast" in out
    ratio = f"{read[name]['targets'][0]['reached']:.3g}"
    assert ensembles.table(read).rows[0][3] == ratio and "train 3 networks" in ensembles.table(read).caption
    assert [row[0] for row in ensembles.details(read).rows[1:]] == ["loop", "eqbook"]


def test_the_members_are_the_same(record):
    (one,) = record["checks"]
    assert 0 < one["difference"] <= one["bound"]


@pytest.mark.parametrize("name", CASES)
def test_a_wrong_answer_is_seen(name):
    case = SMOKE[name]
    peer = ensembles.one_after_the_other(case)

    def wrong(members):  # parameters are off by a part in a hundred
        return jax.tree.map(lambda *leaves: 1.01 * np.stack(leaves), *peer(members))

    with pytest.raises(AssertionError, match="the members differ"):
        ensembles.check(case, wrong, peer)


def test_without_kinks_both_agree_to_rounding(monkeypatch):
    """Rounding switches a relu that is close to 0, which changes a gradient by more: the check's bound allows it."""
    monkeypatch.setattr(members.nn, "relu", jnp.tanh)
    case = replace(SMOKE["ensembles"], hidden=7)  # a network that was not compiled with relu before
    found = ensembles.check(case, ensembles.ensemble(case), ensembles.one_after_the_other(case))
    steps, terms = case.images // case.batch, 9 * case.channels[0]
    assert 0 < found["difference"] < steps * tolerance(jnp.float32, terms) < found["bound"] / 10


@pytest.mark.parametrize("argument", ["unknown", "ensemble"])
def test_an_unknown_case_is_named(argument, capsys):
    with pytest.raises(SystemExit):
        ensembles.main([argument, "--smoke"])
    assert f"unknown case '{argument}'; expected any of ensembles, ensembles_dense" in capsys.readouterr().err


def test_operations_are_those_of_the_traced_products(monkeypatch):
    """The forward pass, counted in the program of a network whose convolutions are products of patches."""
    monkeypatch.setattr(winograd, "suits", lambda *_: False)  # it takes fewer
    case = SMOKE["ensembles"]
    net = case.net()
    x = jnp.zeros((case.images, 28, 28, 1))
    params = net.init(quick_key(0), x[:1])
    many = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), params)
    traced = operations(lambda p: jax.vmap(net.apply, (0, None))(p, x), many) / 2
    first = 2 * case.images * 28**2 * 9 * case.channels[0]
    forward = (case.operations() + first) / 3
    # The rest of the program: relu, means, biases, a few for each output of a convolution.
    outputs = case.images * 28**2 * (case.channels[0] + case.channels[1] / 4)
    assert forward <= traced <= forward + 5 * outputs


def test_operations_of_dense_networks_are_those_of_the_traced_products():
    case = SMOKE["ensembles_dense"]
    x, y = case.data()
    params = case.peer().init(quick_key(0), x)
    traced = operations(jax.grad(lambda p: case.function(case.peer().apply(p, x), y)), params)
    step = case.operations() // case.epochs
    # The rest: relu, its derivative, two factors, a few for each hidden unit; the loss, a few for each output.
    assert step <= traced <= step + case.images * (10 * case.hidden + 10 * case.sites)


def test_a_kept_record_is_right():
    for path in ensembles.RESULTS.glob("ensembles*.json"):
        record = json.loads(path.read_text())
        size = {"ensembles": (1.1e5, 1.3e5), "ensembles_dense": (3.2e4, 3.4e4)}[record["case"]]
        assert not record["smoke"] and record["size"]["members"] == 100 and size[0] < record["parameters"] < size[1]
        assert all(one["difference"] <= one["bound"] for one in record["checks"])
        assert np.isclose(record["targets"][0]["reached"], record["peer"]["median_s"] / record["ours"]["median_s"])

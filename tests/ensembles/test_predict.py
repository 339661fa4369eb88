"""Predictions of a run on any inputs, at the epochs that are there."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from numbers_drawn import normal

import eqbook as eq
from eqbook.testing import relative_error, tolerance

NET = eq.Sequential(eq.Dense(16, b_std=0.3), eq.Relu(), eq.Dense(2))
X = normal(10, (12, 3))
Y = normal(11, (12, 2))
OTHER = np.asarray(normal(12, (7, 3)))


def train(store=None):
    return eq.train_ensemble(
        NET,
        jax.random.key(0),
        X,
        Y,
        members=5,
        epochs=4,
        record=[0, 2],
        optimizer=optax.sgd(0.01),
        watch={"other": OTHER},
        at_once=2,
        store=store,
    )


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    return train(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def in_memory():
    return train()


def test_predictions_are_those_that_were_watched(kept):
    assert kept.kept == (0, 2, 4)
    for record, epoch in enumerate((0, 2)):
        np.testing.assert_array_equal(kept.predict(OTHER, epoch=epoch), kept.outputs["other"][record])
    pieces = kept.predict(OTHER, epoch=2, batch=3)
    assert relative_error(pieces, kept.outputs["other"][1]) < tolerance(jnp.float32, 16)


@pytest.mark.parametrize("run", ["kept", "in_memory"])
def test_predictions_are_those_of_the_parameters(run, request):
    run = request.getfixturevalue(run)
    for m, outputs in enumerate(run.predict(OTHER)):
        params = jax.tree.map(lambda leaf: leaf[m], run.params)  # noqa: B023
        assert relative_error(outputs, NET.apply(params, OTHER)) < tolerance(jnp.float32, 16)


def test_some_members_in_any_order(kept):
    everyone = kept.predict(OTHER)
    np.testing.assert_array_equal(kept.predict(OTHER, members=[4, 0, 3]), everyone[[4, 0, 3]])
    np.testing.assert_array_equal(kept.predict(OTHER, members=range(1, 3)), everyone[1:3])
    expected = everyone[[4, 1]].astype(float).mean(0)
    assert relative_error(kept.predict_mean(OTHER, members=[4, 1]), expected) < tolerance(jnp.float32)


def test_mean_over_members(kept):
    mean = kept.predict_mean(OTHER, epoch=2)
    assert mean.dtype == np.float32
    assert relative_error(mean, kept.mean("other")[1]) < tolerance(jnp.float32, 5)


def test_one_chunk_of_members_is_read_at_a_time(kept, monkeypatch):
    read = []
    params = kept._chunk_params
    monkeypatch.setitem(kept.__dict__, "_chunk_params", lambda c, e: read.append((c, e)) or params(c, e))
    kept.predict(OTHER, members=[4, 1], epoch=2)
    assert read == [(0, 2), (2, 2)]


@pytest.mark.parametrize(
    ("changes", "argument"),
    [
        ({"epoch": 1}, "epoch"),
        ({"members": []}, "members"),
        ({"members": [5]}, "members"),
        ({"members": [-1]}, "members"),
        ({"members": [1, 1]}, "members"),
        ({"x": OTHER[:, :2]}, "x"),
        ({"x": OTHER[0]}, "x"),
        ({"x": OTHER * np.nan}, "x"),
        ({"batch": 0}, "batch"),
    ],
)
def test_bad_input(kept, changes, argument):
    for predict in (kept.predict, kept.predict_mean):
        with pytest.raises(ValueError, match=f"`{argument}`"):
            predict(**{"x": OTHER, **changes})


def test_without_a_store_only_the_last_epoch_is_there(in_memory):
    with pytest.raises(ValueError, match="`epoch`: expected one of 4, got 2; train with `store`"):
        in_memory.predict(OTHER, epoch=2)


@pytest.mark.parametrize("epoch", [jnp.int32(2), np.int64(2), np.array(2), jnp.arange(3)[-1]], ids=str)
def test_epochs_of_other_libraries(kept, epoch):
    np.testing.assert_array_equal(kept.predict(OTHER, epoch=epoch), kept.outputs["other"][1])


@pytest.mark.parametrize("epoch", [-1, True, 2.0, "2", np.array([2])], ids=repr)
def test_epochs_that_are_none(kept, epoch):
    what = "one of 0, 2, 4, got" if epoch == -1 else "an integer of at least 0, got"
    with pytest.raises(ValueError, match=f"`epoch`: expected {what}"):
        kept.predict(OTHER, epoch=epoch)


class Like:
    """What NumPy makes an array of."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.array, dtype)


def test_integers_fit_into_those_of_the_run():
    """A run in double precision takes integers of 64 bits wherever it is asked; one in single precision nowhere."""
    huge = np.full((1, 3), 2**31 + 5)
    with jax.enable_x64(True):
        wide = train()
    narrow, expected = train(), wide.predict(huge.astype(float))
    np.testing.assert_array_equal(wide.predict(huge), expected)
    for inside in (False, True):
        with jax.enable_x64(inside):
            for x in (huge, huge.tolist(), Like(huge)):
                with pytest.raises(ValueError, match="`x`: expected integers between -2147483648 and 2147483647"):
                    narrow.predict(x)


def test_standard_error_is_that_of_the_mean(in_memory):
    found, outputs = in_memory.standard_error("other"), in_memory.outputs["other"]
    by_hand = np.sqrt(((outputs - outputs.mean(1, keepdims=True)) ** 2).sum(1) / (5 - 1) / 5)
    assert found.shape == (2, 7, 2) and found.dtype == outputs.dtype
    np.testing.assert_allclose(found, by_hand, rtol=1e-5)
    with pytest.raises(ValueError, match="`name`: expected one of other, got 'train'"):
        in_memory.standard_error("train")
    alone = replace(in_memory, members=1, outputs={"other": outputs[:, :1]})
    with pytest.raises(ValueError, match="`members`: expected at least 2 for a standard error, got a run of 1"):
        alone.standard_error("other")


def test_a_run_shows_shapes(in_memory):
    assert repr(in_memory) == (
        "EnsembleRun(epochs=[0, 2], losses=float64[2, 5], outputs={'other': float32[2, 5, 7, 2]}, members=5, kept=(4,))"
    )

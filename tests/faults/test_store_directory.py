"""`EQBOOK_STORE_DIR`: long computations find their own folders, so that chapters go on where they were stopped."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import eqbook as eq
from eqbook.ensembles.programs import Programs

NET = eq.Sequential(eq.Dense(8, b_std=0.3), eq.Relu(), eq.Dense(1))
X = jnp.sin(jnp.arange(36.0).reshape(12, 3) ** 2)


@pytest.fixture
def directory(tmp_path, monkeypatch):
    monkeypatch.setenv("EQBOOK_STORE_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def trained(monkeypatch):
    """Epochs that are trained, one entry a call."""
    found, advance = [], Programs.advance

    def counted(self, chunk, member, first, last):
        found.append(last - first)
        return advance(self, chunk, member, first, last)

    monkeypatch.setattr(Programs, "advance", counted)
    return found


def train(rate, **options):
    options = {"members": 2, "epochs": 4, "at_once": 1, "record": [0, 4]} | options
    return eq.train_ensemble(NET, jax.random.key(0), X, X[:, :1], optimizer=optax.sgd(rate), watch={"x": X}, **options)


def test_an_ensemble_goes_on_in_its_own_folder(directory, trained):
    first = train(0.1)
    assert sum(trained) == 8
    again = train(0.1)
    assert sum(trained) == 8, "nothing is trained a second time"
    np.testing.assert_array_equal(again.outputs["x"], first.outputs["x"])
    longer = train(0.1, epochs=6, record=[0, 4, 6])
    assert sum(trained) == 12
    np.testing.assert_array_equal(longer.outputs["x"][:2], first.outputs["x"])
    assert len(list(directory.iterdir())) == 1


def test_ensembles_that_differ_by_the_optimiser_have_two_folders(directory, trained):
    results = {rate: train(rate).outputs["x"] for rate in (0.1, 0.2)}
    assert sorted(path.name[-2:] for path in directory.iterdir()) == ["-0", "-1"]
    count = sum(trained)
    for rate, expected in results.items():
        np.testing.assert_array_equal(train(rate).outputs["x"], expected)
    assert sum(trained) == count and not np.array_equal(*results.values())


def test_the_number_that_is_trained_at_once_is_that_of_the_folder(directory, trained, monkeypatch):
    first = train(0.1, at_once=None)
    monkeypatch.setattr("eqbook.ensembles.train.chunk_width", lambda *_, **__: pytest.fail("chosen anew"))
    count = sum(trained)
    np.testing.assert_array_equal(train(0.1, at_once=None).outputs["x"], first.outputs["x"])
    assert sum(trained) == count


def test_a_folder_that_is_named_wins(directory, tmp_path_factory, trained):
    train(0.1, store=tmp_path_factory.mktemp("named") / "store")
    assert not list(directory.iterdir()) and sum(trained) == 8


def test_tiles_are_found_again(directory):
    first = eq.gram(NET, X, tile=5)
    (folder,) = directory.iterdir()
    tiles = {path.name: path.stat().st_mtime_ns for path in folder.glob("tile-*")}
    assert len(tiles) == 6  # of a symmetric matrix of 3 by 3
    again = eq.gram(NET, X, tile=5)
    np.testing.assert_array_equal(again.ntk, first.ntk)
    now = {path.name: path.stat().st_mtime_ns for path in folder.glob("tile-*")}
    assert now == tiles, "none is written anew"
    eq.gram(NET, X + 1, tile=5)
    assert len(list(directory.iterdir())) == 2


def test_a_single_tile_is_not_kept(directory):
    eq.gram(NET, X)
    jax.jit(lambda x: eq.gram(NET, x, tile=5).ntk)(X)  # values are not known here
    assert not list(directory.iterdir())


@pytest.mark.parametrize("compute", [lambda: train(0.1), lambda: eq.gram(NET, X, tile=5)])
def test_a_directory_that_is_missing_is_named(tmp_path, monkeypatch, compute):
    monkeypatch.setenv("EQBOOK_STORE_DIR", str(tmp_path / "mistyped"))
    with pytest.raises(ValueError, match="EQBOOK_STORE_DIR.*existing directory.*mistyped.*create it, or unset it"):
        compute()
    monkeypatch.setenv("EQBOOK_STORE_DIR", "")
    compute()


@pytest.mark.parametrize("way", ["directory", "store"])
def test_errors_name_the_whole_shapes(directory, tmp_path, way):
    """Not those of the few samples by which an ensemble is described."""
    options = {"store": tmp_path / "named"} if way == "store" else {}
    with pytest.raises(ValueError, match=r"12, 2\).*12, 1\)|12, 1\).*12, 2\)"):
        eq.train_ensemble(NET, jax.random.key(0), X, X[:, :2], members=1, epochs=1, optimizer=optax.sgd(0.1), **options)

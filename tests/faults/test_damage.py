"""Files that are cut, altered, emptied or moved are known for what they are: never read as data, and named."""

import hashlib
import io
import json
import logging
import os
import re
import shutil

import jax
import numpy as np
import pytest

from eqbook import results
from eqbook._files import report
from eqbook.data.registry import DataFile
from eqbook.data.verify import read_verified, verify
from eqbook.ensembles import read_metrics
from eqbook.ensembles.epoch import Member
from eqbook.ensembles.store import Checkpoint
from eqbook.ensembles.store import Store as Members
from eqbook.grams.store import Store as Tiles

RNG_SEED, FLIPS = 7, 200
KEY, SETTINGS = "a" * 64, {"net": "b" * 64, "x": [0.25, 1.0, -3.5e-7], "at_once": 2, "augment": None}
PLACES = ((0, 0), (0, 1), (1, 1))
MISSED = -1.0  # what `compute` gives for a tile that could not be read


def values(shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def member(chunk, epoch=0):
    """A chunk of two members, its numbers its own."""
    params = {"w": values((2, 3, 5), 10 * chunk + epoch), "b": values((2, 5), 10 * chunk + epoch + 1)}
    return Member(params, (values((2, 4), chunk),), values(2, chunk), values(2, chunk), np.zeros(2, np.int32))


SHAPES = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), member(0))


def open_members(folder):
    return Members(folder, SETTINGS, SHAPES)


def same(one, two):
    leaves = [list(map(np.asarray, jax.tree.leaves(tree))) for tree in (one, two)]
    return all(np.array_equal(a, b) and a.dtype == b.dtype for a, b in zip(*leaves, strict=True))


class Kind:
    """A file of one kind: how it is made, and what reading it gives: `None` if it was found out."""

    def __init__(self, folder):
        self.folder = folder


class Tile(Kind):
    name = "tile-00000-00001"

    def make(self):
        store = Tiles(self.folder, KEY)
        for number, place in enumerate(PLACES):
            store.tile(place, lambda number=number: values((2, 6, 7), number))

    def read(self):
        path = self.folder / self.name
        before = path.read_bytes()
        found = Tiles(self.folder, KEY).tile((0, 1), lambda: np.full(1, MISSED))
        path.write_bytes(before)  # it was written anew
        return None if found[0].ravel()[0] == MISSED else found


class Manifest(Kind):
    """Of tiles."""

    name, refused = "gram.json", "gram.json is damaged or of another version"
    make = Tile.make

    def read(self):
        return Tiles(self.folder, KEY).key


class State(Kind):
    name = "state-00001.npz"

    def make(self):
        store = open_members(self.folder)
        for chunk in (0, 1):
            store.record(chunk, 0, 0, member(chunk).params, np.full(2, np.nan))
            store.record(chunk, 0, 3, member(chunk, 3).params, values(2, chunk))
            store.keep(chunk, Checkpoint(member(chunk, 3), 3, 3))
        store.close()

    def read(self):
        store = open_members(self.folder)
        store.close()
        return store.checkpoint(1)


class Params(State):
    name = "params-00001-0000003.npz"

    def read(self):
        store = open_members(self.folder)
        store.close()
        return store.params(1, 3)


class EnsembleManifest(State):
    name, refused = "ensemble.json", "ensemble.json is damaged or of another version"

    def read(self):
        open_members(self.folder).close()
        return 0


class Metrics(State):
    name = "metrics.jsonl"

    def read(self):
        lines = {(line["chunk"], line["epoch"]): line["loss"] for line in read_metrics(self.folder)}
        for (chunk, epoch), loss in lines.items():
            assert epoch == 3 and np.array_equal(loss, values(2, chunk))
        return lines if len(lines) == 2 else None


class Recorded(Kind):
    name, refused = "chapter.json", r"chapter\.json: "

    def make(self):
        results.write("chapter", {"members": 3}, {"measured": [0.25, -1e-7], "text": "one"}, 1.5)

    def read(self):
        return json.dumps(vars(results.read("chapter")), sort_keys=True)


class Data(Kind):
    name, refused = "images", "images`: (expected|damaged|cannot be read)"
    content = np.random.default_rng(3).bytes(700)
    file = DataFile(name, len(content), hashlib.sha256(content).hexdigest())

    def make(self):
        (self.folder / self.name).write_bytes(self.content)

    def read(self):
        verify(self.folder / self.name, self.file)
        return read_verified(self.folder / self.name, self.file)


KINDS = [Tile, Manifest, State, Params, EnsembleManifest, Metrics, Recorded, Data]


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def kind(request, tmp_path, monkeypatch):
    monkeypatch.setenv("EQBOOK_RESULTS_DIR", str(tmp_path))
    monkeypatch.setenv("EQBOOK_PROFILE", "paper")
    found = request.param(tmp_path)
    found.make()
    return found


def outcome(kind, caplog):
    """`None` if the file was found out, and named; else what it was read as."""
    report.cache_clear()
    caplog.clear()
    try:
        found = kind.read()
    except ValueError as error:
        assert re.search(kind.refused, str(error)), f"{error} does not name the file"
        return None
    if found is None:
        assert kind.name in caplog.text, "found out, and not reported"
    return found


def test_no_flipped_bit_is_read_as_data(kind, caplog):
    """Two hundred of them, as many in the first bytes and in the last as in the rest.

    A bit that means nothing may be flipped (a time stamp in a zip archive): then the content is that which was written.
    """
    caplog.set_level(logging.WARNING)
    path, expected = kind.folder / kind.name, kind.read()
    content, rng, found_out = path.read_bytes(), np.random.default_rng(RNG_SEED), 0
    parts = [(0, 32), (32, 160), (0, len(content)), (len(content) - 40, len(content))]
    for flip in range(FLIPS):
        first, last = parts[flip % len(parts)]
        altered = bytearray(content)
        altered[rng.integers(first, min(last, len(content)))] ^= 1 << rng.integers(8)
        path.write_bytes(bytes(altered))
        found = outcome(kind, caplog)
        found_out += found is None
        assert found is None or same(found, expected), f"flip {flip} was read as data"
    path.write_bytes(content)
    assert same(kind.read(), expected)
    # In a zip archive a tenth of the bytes, or so, are attributes and time stamps.
    assert found_out >= (0.5 if path.suffix == ".npz" else 0.99) * FLIPS


@pytest.mark.parametrize("size", ["empty", "one byte", "half", "all but one"])
def test_what_is_cut_is_found_out(kind, caplog, size):
    path = kind.folder / kind.name
    content = path.read_bytes().rstrip(b"\n")
    length = {"empty": 0, "one byte": 1, "half": len(content) // 2, "all but one": len(content) - 1}[size]
    path.write_bytes(content[:length])
    if kind.name == "metrics.jsonl":
        # A last line without its end may be on its way: it is left out without a word, and the chunk trained again.
        assert kind.read() is None
        return
    assert outcome(kind, caplog) is None


def neighbours(kind):
    return {
        Tile: ["tile-00000-00000", "tile-00001-00001"],
        State: ["state-00000.npz"],
        Params: ["params-00000-0000003.npz", "params-00001-0000000.npz"],
    }[type(kind)]


@pytest.mark.parametrize("kind", [Tile, State, Params], indirect=True, ids=lambda kind: kind.__name__)
def test_what_belongs_to_another_place_is_found_out(kind, caplog):
    """Whole files, of the same shape, with a good checksum: a tile of another place, members of another chunk."""
    for other in neighbours(kind):
        shutil.copy(kind.folder / other, kind.folder / kind.name)
        assert outcome(kind, caplog) is None


def test_what_belongs_to_another_computation_is_found_out(tmp_path, caplog, monkeypatch):
    """Files of another store under the same names."""
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    for kind in (Tile, State, Params, Metrics):
        for folder, key, width in ((mine, KEY, 2), (theirs, "c" * 64, 3)):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            monkeypatch.setitem(globals(), "KEY", key)
            monkeypatch.setitem(SETTINGS, "at_once", width)
            kind(folder).make()
        monkeypatch.undo()
        caplog.set_level(logging.WARNING)
        shutil.copy(theirs / kind.name, mine / kind.name)
        assert outcome(kind(mine), caplog) is None, kind.__name__


def test_a_run_of_another_chapter_is_refused(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("EQBOOK_RESULTS_DIR", str(tmp_path))
    monkeypatch.setenv("EQBOOK_PROFILE", "paper")
    results.write("another", {}, {"measured": 1.0}, 1.0)
    (tmp_path / "another.json").rename(tmp_path / "chapter.json")
    with pytest.raises(results.ResultsError, match=r"chapter\.json: was changed"):
        results.read("chapter")


def test_no_file_is_unpickled(tmp_path, monkeypatch, caplog):
    """A file whose checksum fits, made by somebody who knows how, still runs no code."""
    kind = Tile(tmp_path)
    kind.make()

    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "ran"),)

    buffer = io.BytesIO()
    np.save(buffer, np.array([Evil()], object), allow_pickle=True)
    digest = hashlib.sha256(f"{KEY} {kind.name}".encode() + buffer.getvalue()).digest()
    (tmp_path / kind.name).write_bytes(digest + buffer.getvalue())
    with pytest.raises(ValueError, match="allow_pickle=False"):
        Tiles(tmp_path, KEY).tile((0, 1), lambda: np.zeros(1))
    assert not (tmp_path / "ran").exists()

"""Killed at random, a few times, and gone on to the same bits; two processes in one place at once.

`python -m benchmarks.faults` does the same fifty times for each kind, and with a chapter of the book.
"""

import threading

import numpy as np
import pytest

from benchmarks import faults, victims
from benchmarks.kills import Server
from benchmarks.served import Site

pytest.importorskip("fcntl", reason="processes are forked")
KILLS = 2

# A chapter of two cells that trains nothing: what is tried is the record.
TOY = [
    "import time, numpy as np, eqbook as eq\nstarted = time.perf_counter()\ntime.sleep(0.2)",
    """
values = {"measured": np.sin(np.arange(50.0)), "how": eq.results.Quantity(0.5, 0.25)}
eq.results.write("ising", {"members": 4}, values, time.perf_counter() - started)
time.sleep(0.2)
""",
]
PLAIN = {}  # of each kind, what an undisturbed run finds


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    return tmp_path_factory.mktemp("faults")


@pytest.fixture(scope="module")
def servers(scratch):
    with Server(scratch) as one, Server(scratch) as two:
        yield one, two


def undisturbed(server, kind, folder, **more):
    PLAIN[kind] = faults_undisturbed(server, kind, folder, **more)
    return PLAIN[kind]


faults_undisturbed = faults.undisturbed


def test_the_chapter_that_is_killed_has_sizes_to_cut():
    (settings,) = (source for source in victims.pages()[0] if source.startswith(victims.SETTINGS))
    assert all(f"    {name}=" in settings for name in victims.CUT)


def test_killed_runs_go_on_to_the_same_bits(scratch, servers, monkeypatch):
    monkeypatch.setattr(faults, "COMPILES", 10**6)  # all but the first run of a kind find their programs compiled
    monkeypatch.setitem(faults.MORE, "chapter", {"cells": TOY})
    monkeypatch.setattr(faults, "undisturbed", undisturbed)
    path = scratch / "faults.json"
    record = faults.survive(list(faults.KINDS), KILLS, scratch, path, server=servers[0])
    for kind, one in record["kinds"].items():
        assert one["kills"] == KILLS == sum(one["phases"].values()), kind
        assert one["kills"] == one["clock"] + one["line"] and one["bits"] > 0 and one["differing_bits"] == 0
    shown = faults.load(scratch)
    assert shown is not None and len(faults.table(shown).rows) == len(faults.KINDS)
    # With the record there is nothing left to do; a damaged one does not count.
    monkeypatch.setattr(faults, "undisturbed", None)
    assert faults.survive(list(faults.KINDS), KILLS, scratch, path, server=servers[0])["kinds"] == record["kinds"]
    path.write_bytes(path.read_bytes().replace(b'"differing_bits": 0', b'"differing_bits": 1', 1))
    assert faults.load(scratch) is None and faults.load_partial(path, KILLS)["kinds"] == {}


def test_two_processes_in_one_place(scratch, servers):
    """Tiles are shared out as it happens, a second ensemble is refused by name, a second download waits."""
    both = {}
    with Site() as site:

        def run(name, server, kind, folder):
            try:
                both[kind, name] = server.run(kind, folder, **faults.arguments(kind, site))
            except RuntimeError as error:
                both[kind, name] = str(error)

        for kind in ("gram", "ensemble", "download"):
            threads = [
                threading.Thread(target=run, args=(name, server, kind, scratch / f"two-{kind}"))
                for name, server in zip(("one", "two"), servers, strict=True)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            found = [both[kind, name] for name in ("one", "two")]
            refused = [text for text in found if isinstance(text, str)]
            ended = [end.arrays for end in found if not isinstance(end, str)]
            assert len(ended) + len(refused) == 2 and ended, refused
            assert not refused or kind == "ensemble", refused
            assert all("`store`: expected a folder that no other process writes to" in text for text in refused)
            assert kind != "download" or sorted(site.asked) == [("packed.gz", 0), ("plain", 0)], "each file once"
            alone = PLAIN.get(kind) or servers[0].run(kind, scratch / f"alone-{kind}", **faults.arguments(kind, site))
            for arrays in ended:
                assert faults.differing_bits(arrays, alone.arrays) == 0
            assert faults.half_written(scratch / f"two-{kind}") == []
    assert len(both) == 6


def test_differing_bits():
    one = {"a": np.array([1.0, 2.0], np.float32), "b": np.array([3], np.int8)}
    assert faults.differing_bits(one, one) == 0
    assert faults.differing_bits(one | {"b": np.array([2], np.int8)}, one) == 1
    assert faults.differing_bits({"a": one["a"]}, one) == 8
    assert faults.differing_bits(one | {"a": one["a"].astype(float)}, one) == 64


def test_what_is_lost_is_seen(scratch):
    """A run that finds other numbers, makes again what was there, or leaves something half-written."""
    with Site() as site:
        folder = scratch / "seen"
        (folder / "store").mkdir(parents=True)
        (folder / "store" / "tile-00000-00000").touch()
        (folder / "store" / ".writing-x").touch()
        assert faults.kept("gram", folder, site) == {"tiles": 1}
        assert faults.half_written(folder) == [".writing-x"]
        tiles = sum(range(1, -(-faults.INPUTS // faults.TILE) + 1))
        assert faults.made_again("gram", {"tiles": 1}, {"made": tiles}, site) == 1
        assert faults.made_again("gram", {"tiles": 1}, {"made": tiles - 1}, site) == 0
        (folder / "data").mkdir()
        for name, size in {"plain.part": 100, "packed": 70, "packed.gz.part": 50, "lock": 3}.items():
            (folder / "data" / name).write_bytes(bytes(size))
        assert faults.kept("download", folder, site) == {"plain.part": 100, "packed": 70}
        for asked, again in ((("plain", 0), 100), (("plain", 100), 0), (("packed.gz", 0), 50), (("packed.gz", 50), 0)):
            site.asked[:] = [asked]
            assert faults.made_again("download", {"plain.part": 100, "packed.gz.part": 50}, {}, site) == again
        for name, asked in (("plain", ("plain", 0)), ("packed", ("packed.gz", 50))):  # files that have arrived
            site.asked[:] = [asked]
            assert faults.made_again("download", {name: 70}, {}, site) == 70
        before = {"plain.part": 100, "packed": 70}
        assert faults.gone(before, {"plain": 250, "packed": 70}) == faults.gone(before, before) == []
        assert faults.gone(before, {"plain.part": 99}) == ["plain.part", "packed"]
        assert faults.made_again("ensemble", {"store/0": 4}, {"trained": {"store/0": faults.EPOCHS}}, site) == 4

"""Disks that fill up, folders that cannot be written: said by name, nothing half-written, and the next call goes on."""

import contextlib
import errno
import hashlib
import os
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest
from faults.test_damage import KEY, SETTINGS, SHAPES, member, values

import eqbook as eq
from benchmarks.served import Site
from eqbook import results
from eqbook._files import remove_left_over, write_whole
from eqbook.data import DataDirectoryError
from eqbook.data.obtain import obtain
from eqbook.data.registry import DataFile, DataSet, Edition
from eqbook.ensembles import read_metrics
from eqbook.ensembles.store import Checkpoint
from eqbook.ensembles.store import Store as Members
from eqbook.grams.store import Store as Tiles

resource = pytest.importorskip("resource", reason="limits of a process")
LARGE = (40, 60)  # shape of a tile that is beyond the limit


@contextlib.contextmanager
def files_up_to(size):
    """Files of this process cannot grow beyond so many bytes; a write gets as far and then fails, as on a disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def visible(folder):
    return sorted(path.name for path in folder.iterdir() if path.name != ".lock")


def test_a_tile_that_does_not_fit(tmp_path):
    store, tile = Tiles(tmp_path, KEY), values(LARGE)
    with files_up_to(4096), pytest.raises(ValueError, match="`store`: tile-00000-00001 cannot be written .*free space"):
        store.tile((0, 1), lambda: tile)
    assert visible(tmp_path) == ["gram.json"]
    np.testing.assert_array_equal(store.tile((0, 1), lambda: tile), tile)
    np.testing.assert_array_equal(Tiles(tmp_path, KEY).tile((0, 1), lambda: None), tile)


@pytest.mark.parametrize("what", ["checkpoint", "members", "losses"])
def test_members_that_do_not_fit(tmp_path, what):
    store = Members(tmp_path, SETTINGS, SHAPES)
    store.keep(0, Checkpoint(member(0, 1), 1, 1))
    store.record(0, 0, 1, member(0, 1).params, values(2))
    before, lines = visible(tmp_path), read_metrics(tmp_path)
    size = (tmp_path / "metrics.jsonl").stat().st_size
    # The lines grow in place: the limit lets half of the next one through.
    limit, named = (size + 100, "metrics.jsonl") if what == "losses" else (100, "state-00000|metrics")
    with files_up_to(limit), pytest.raises(ValueError, match=f"`store`: ({named}).* cannot be written to .*call again"):
        if what == "checkpoint":
            store.keep(0, Checkpoint(member(0, 2), 2, 1))
        else:
            store.record(0, 1, 2, member(0, 2).params, values(2, 1))
    store.close()
    assert visible(tmp_path) == before
    store = Members(tmp_path, SETTINGS, SHAPES)
    assert len(read_metrics(tmp_path)) == len(lines)
    assert store.checkpoint(0).epoch == 1  # the older one
    store.record(0, 1, 2, member(0, 2).params, values(2, 1))
    assert len(read_metrics(tmp_path)) == len(lines) + 1
    store.close()


def test_a_recorded_run_that_does_not_fit(tmp_path, monkeypatch):
    monkeypatch.setenv("EQBOOK_RESULTS_DIR", str(tmp_path))
    monkeypatch.setenv("EQBOOK_PROFILE", "paper")
    results.write("chapter", {}, {"measured": 1.0}, 1.0)
    with files_up_to(4096), pytest.raises(results.ResultsError, match=r"chapter\.json: cannot be written to "):
        results.write("chapter", {}, {"measured": values(2000)}, 1.0)
    assert visible(tmp_path) == ["chapter.json"] and results.read("chapter").values == {"measured": 1.0}


def toy(site, names=("plain", "packed")):
    files = tuple(DataFile(**file) for file in site.data_set["files"] if file["name"] in names)
    return DataSet("toy", "Toy", (Edition("files", files, (site.data_set["address"] + "{name}",)),), "none", "nowhere")


@pytest.mark.parametrize("name", ["plain", "packed"])
def test_a_download_that_does_not_fit(tmp_path, name):
    """The bytes that fit are kept; with more room the next call asks for the others."""
    with Site() as site:
        with files_up_to(100_000), pytest.raises(DataDirectoryError, match=f"cannot write {name}: .*free space"):
            obtain(toy(site, (name,)), tmp_path, progress=False)
        (part,) = visible(tmp_path / "toy")
        assert part.endswith(".part") and (tmp_path / "toy" / part).stat().st_size == 100_000
        _, paths = obtain(toy(site, (name,)), tmp_path, progress=False)
        assert site.asked == [(part.removesuffix(".part"), 0), (part.removesuffix(".part"), 100_000)]
        assert hashlib.sha256(paths[name].read_bytes()).hexdigest() == toy(site, (name,)).editions[0].files[0].sha256
        assert visible(tmp_path / "toy") == [name]


STEPS = ("tempfile.mkstemp", "os.fsync", "os.chmod", "os.replace")


def test_any_step_of_a_write_may_fail(tmp_path, monkeypatch):
    """At random, again and again, until all tiles are there: they are those that were computed."""
    rng, tiles, failed = np.random.default_rng(5), {(0, k): values((3, 4), k) for k in range(12)}, 0
    made = []

    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    while len(made) < len(tiles):
        with monkeypatch.context() as patched:
            if rng.random() < 0.8:
                patched.setattr(STEPS[rng.integers(len(STEPS))], full)
            try:
                store = Tiles(tmp_path / "store", KEY)
                for place, tile in tiles.items():
                    new = not (tmp_path / "store" / f"tile-00000-{place[1]:05d}").exists()
                    np.testing.assert_array_equal(store.tile(place, lambda tile=tile: tile), tile)
                    if new:
                        made.append(place)
                        break
            except ValueError as error:
                assert "`store`: " in str(error) and "No space left on device" in str(error)
                failed += 1
    assert failed > 20 and made == list(tiles)
    store = Tiles(tmp_path / "store", KEY)
    for place, tile in tiles.items():
        np.testing.assert_array_equal(store.tile(place, lambda tile=tile: tile), tile)
    assert visible(tmp_path / "store") == ["gram.json", *(f"tile-00000-{k:05d}" for k in range(12))]


def mount(folder, options, remount=False):
    command = ["mount", "-t", "tmpfs", "-o", ("remount," if remount else "") + options, "tmpfs", str(folder)]
    return subprocess.run(command, capture_output=True).returncode == 0


@pytest.fixture
def disk(tmp_path):
    """A disk of 64 kB of its own; only the administrator of a Linux machine may make one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if sys.platform != "linux" or os.geteuid() != 0 or not mount(folder, "size=64k"):
        pytest.skip("no right to mount a file system")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


NET = eq.Sequential(eq.Dense(4), eq.Relu(), eq.Dense(1))
X = np.sin(np.arange(150, dtype=np.float32)).reshape(50, 3)


def gram(folder):
    return np.asarray(eq.gram(NET, jnp.asarray(X), kinds=("ntk",), tile=10, store=folder).ntk)


def test_a_real_disk_that_is_full_then_free_then_read_only(disk):
    filler = disk / "filler"
    filler.write_bytes(bytes(57_344))  # two pages of 4 kB are left, for a manifest and a tile
    with pytest.raises(ValueError, match=r"`store`: tile-\d+-\d+ cannot be written .*No space left on device"):
        gram(disk / "store")
    there = len(list((disk / "store").glob("tile-*")))
    assert there < 15 and not list((disk / "store").glob(".writing*"))
    filler.unlink()
    assert mount(disk, "size=256k", remount=True)
    expected = np.asarray(eq.gram(NET, jnp.asarray(X), kinds=("ntk",), tile=10).ntk)
    np.testing.assert_array_equal(gram(disk / "store"), expected)
    with Site() as site:
        assert mount(disk, "size=256k,ro", remount=True)
        np.testing.assert_array_equal(gram(disk / "store"), expected)  # nothing is to be written
        with pytest.raises(ValueError, match="`store`: .* cannot be used .*Read-only file system"):
            gram(disk / "other")
        with pytest.raises(DataDirectoryError, match="Read-only file system"):
            obtain(toy(site), disk, progress=False)
        assert not site.asked
    with pytest.raises(ValueError, match="`store`: .* cannot be used .*Read-only file system"):
        Members(disk / "store2", SETTINGS, SHAPES)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written(tmp_path, monkeypatch):
    store = Tiles(tmp_path / "tiles", KEY)
    store.tile((0, 0), lambda: values(3))
    for name in ("tiles", "members"):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name).chmod(0o500)
    try:
        np.testing.assert_array_equal(Tiles(tmp_path / "tiles", KEY).tile((0, 0), lambda: None), values(3))
        with pytest.raises(ValueError, match="`store`: tile-00000-00001 cannot be written .*Permission denied"):
            store.tile((0, 1), lambda: values(3))
        with pytest.raises(ValueError, match="`store`: .* cannot be used .*Permission denied"):
            Members(tmp_path / "members", SETTINGS, SHAPES)
    finally:
        for name in ("tiles", "members"):
            (tmp_path / name).chmod(0o700)


def test_a_read_only_folder_is_named(tmp_path, monkeypatch):
    """What the system says on a read-only mount, whoever runs the tests."""
    whole = Tiles(tmp_path / "tiles", KEY).tile((0, 0), lambda: values(3))

    def refuse(*_, **__):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr("tempfile.mkstemp", refuse)
    store = Tiles(tmp_path / "tiles", KEY)
    np.testing.assert_array_equal(store.tile((0, 0), lambda: None), whole)
    with pytest.raises(ValueError, match="`store`: tile-00000-00001 cannot be written .*Read-only file system"):
        store.tile((0, 1), lambda: values(3))
    with pytest.raises(ValueError, match="`store`: .* cannot be used .*Read-only file system"):
        Members(tmp_path / "members", SETTINGS, SHAPES)


def test_a_tile_that_cannot_be_read_is_computed_again(tmp_path, caplog):
    store = Tiles(tmp_path, KEY)
    (tmp_path / "tile-00000-00000").mkdir()  # as good as a bad sector
    with pytest.raises(ValueError, match="tile-00000-00000 cannot be written"):
        store.tile((0, 0), lambda: values(3))
    assert "tile-00000-00000 cannot be read (Is a directory); it is computed again" in caplog.text


def test_only_what_nobody_writes_is_left_over(tmp_path):
    """While files are written, another process may open the store and tidy up."""
    (tmp_path / ".writing-abc").write_bytes(b"half")
    remove_left_over(tmp_path)
    assert not list(tmp_path.iterdir())
    script = (
        "import sys, pathlib\nfrom eqbook._files import remove_left_over\n"
        "folder = pathlib.Path(sys.argv[1])\nprint('ready', flush=True)\n"
        "while not (folder / 'stop').exists():\n    remove_left_over(folder)"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE) as other:
        try:
            other.stdout.readline()
            for k in range(300):
                write_whole(tmp_path / "file", b"%d" % k)
                assert (tmp_path / "file").read_bytes() == b"%d" % k
        finally:
            (tmp_path / "stop").touch()
    assert visible(tmp_path) == ["file", "stop"]

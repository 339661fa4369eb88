"""The data directory: which one, and one clear error if it is missing or cannot be written."""

import errno
import os
import tempfile
import threading

import pytest

from eqbook.data import DataDirectoryError
from eqbook.data.fetch import fetch
from eqbook.data.store import data_directory, locked, make_writable, remove_leftovers


def test_argument_before_variable_before_cache(monkeypatch, tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    monkeypatch.setenv("EQBOOK_DATA_DIR", str(tmp_path / "b"))
    assert data_directory(tmp_path / "a") == tmp_path / "a"
    assert data_directory() == tmp_path / "b"
    for unset in ("", None):
        monkeypatch.setenv("EQBOOK_DATA_DIR", "") if unset == "" else monkeypatch.delenv("EQBOOK_DATA_DIR")
        monkeypatch.setattr("pooch.os_cache", lambda name: tmp_path / "cache" / name)
        assert data_directory() == tmp_path / "cache" / "eqbook"


def test_home_is_expanded(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "images").mkdir()
    assert data_directory("~/images") == tmp_path / "images"


@pytest.mark.parametrize("missing", ["nowhere", "file", ""])
def test_missing_directory_is_named(monkeypatch, tmp_path, missing, toy):
    (tmp_path / "file").write_text("")
    path = str(tmp_path / missing) if missing else ""
    with pytest.raises(DataDirectoryError, match="`data_dir`: expected an existing directory, got .*mkdir -p"):
        fetch(toy.data_set, path)
    if path:
        monkeypatch.setenv("EQBOOK_DATA_DIR", path)
        with pytest.raises(DataDirectoryError, match=f"`EQBOOK_DATA_DIR`: .*{missing}"):
            fetch(toy.data_set)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_read_only_directory(store, toy):
    store.chmod(0o500)
    try:
        with pytest.raises(DataDirectoryError, match="Permission denied.*set EQBOOK_DATA_DIR"):
            fetch(toy.data_set, store)
    finally:
        store.chmod(0o700)
    assert not list(store.iterdir())


def test_folder_that_cannot_be_created(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataDirectoryError, match="expected a directory that can be written, got: Not a directory"):
        make_writable(tmp_path / "file" / "toy")


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS])
def test_read_only_file_system_stops_before_any_download(monkeypatch, store, toy, site, code):
    """What the system says on a read-only mount, also to root, who may run the tests."""
    site.serve(toy)

    def refuse(*args, **kwargs):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    with pytest.raises(DataDirectoryError, match=f"got: {os.strerror(code)}; make it writable, or set EQBOOK_DATA_DIR"):
        fetch(toy.at(site.address), store)
    assert not site.requests


def test_complete_read_only_directory_is_enough(monkeypatch, store, toy):
    (store / "toy").mkdir()
    for name, content in toy.contents.items():
        (store / "toy" / name).write_bytes(content)
    monkeypatch.setattr("eqbook.data.obtain.make_writable", lambda folder: pytest.fail("nothing is to be written"))
    fetch(toy.data_set, store)


def test_disk_that_fills_up(monkeypatch, store, toy, site):
    site.serve(toy)

    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("pathlib.Path.write_bytes", full)
    with pytest.raises(DataDirectoryError, match="cannot write train-images-idx3-ubyte: No space left.*free space"):
        fetch(toy.at(site.address), store)
    assert [path.name for path in (store / "toy").iterdir()] == ["train-images-idx3-ubyte.gz.part"]  # arrived, and kept
    monkeypatch.undo()
    site.requests.clear()
    fetch(toy.at(site.address), store)  # there is room again: nothing that had arrived is asked for
    assert site.requests[0] == ("/train-images-idx3-ubyte.gz", f"bytes={site.sent['/train-images-idx3-ubyte.gz']}-")
    assert sorted(path.name for path in (store / "toy").iterdir()) == sorted(toy.contents)


def test_two_at_once_download_once(store, toy, site):
    site.serve(toy)
    threads = [threading.Thread(target=fetch, args=(toy.at(site.address), store, False)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(path for path, _ in site.requests) == sorted(site.files)


def test_lock_is_released_after_an_error(store):
    pytest.importorskip("fcntl")
    with pytest.raises(KeyError), locked(store):
        raise KeyError
    with locked(store):
        pass
    assert not list(store.iterdir())


def test_folder_in_place_of_a_temporary_file_is_named(store):
    (store / "tmpabcdefgh").mkdir()
    with pytest.raises(DataDirectoryError, match="tmpabcdefgh`: expected a temporary file .*got: a folder; delete it"):
        remove_leftovers(store)

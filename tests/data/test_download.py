"""Fetching over HTTP from a server that breaks off, truncates, alters, or ignores Range."""

import gzip
import io
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

from eqbook.data import UnreachableError, download
from eqbook.data.fetch import fetch
from eqbook.data.verify import unpack

IMAGES = "train-images-idx3-ubyte"
PATH = f"/{IMAGES}.gz"
CHUNK = download._CHUNK


def names(store):
    return sorted(path.name for path in (store / "toy").iterdir())


def at(toy, *addresses):
    return replace(toy.data_set, addresses=addresses)


def fails(toy, site, store):
    """Fetch with a site that misbehaves and return the error's text."""
    with pytest.raises(UnreachableError) as caught:
        fetch(at(toy, site.address), store)
    return str(caught.value)


def check(images, toy):
    got = (images.train_images[..., 0], images.train_labels, images.test_images[..., 0], images.test_labels)
    for array, expected in zip(got, toy.arrays, strict=True):
        np.testing.assert_array_equal(array, expected)
    assert images.train_images.shape == (20, 28, 28, 1) and images.train_labels.dtype == np.int32


def test_first_call_downloads_and_second_does_not(toy, site, store):
    site.serve(toy)
    check(fetch(at(toy, site.address), store), toy)
    assert names(store) == sorted(toy.contents)
    site.files.clear()
    site.requests.clear()
    check(fetch(at(toy, site.address), store), toy)
    assert site.requests == []


def test_interrupted_download_resumes_with_the_missing_bytes(toy, site, store):
    site.serve(toy)
    site.break_after[PATH] = CHUNK + 100  # whole chunks are kept
    text = fails(toy, site, store)
    assert f"{CHUNK} bytes are kept, the next call resumes" in text
    assert names(store) == [f"{IMAGES}.gz.part"]
    assert (store / "toy" / f"{IMAGES}.gz.part").read_bytes() == site.files[PATH][:CHUNK]

    site.break_after.clear()
    site.requests.clear()
    check(fetch(at(toy, site.address), store), toy)
    assert site.requests[0] == (PATH, f"bytes={CHUNK}-")
    assert site.sent[PATH] == len(site.files[PATH]) + 100  # over both calls: only the broken chunk was sent twice
    assert names(store) == sorted(toy.contents)


def test_mirror_goes_on_where_the_official_place_broke_off(toy, site, store):
    site.serve(toy, "/official/")
    site.serve(toy, "/mirror/")
    site.break_after[f"/official{PATH}"] = CHUNK
    check(fetch(at(toy, f"{site.address}official/", f"{site.address}mirror/"), store), toy)
    assert (f"/mirror{PATH}", f"bytes={CHUNK}-") in site.requests
    assert names(store) == sorted(toy.contents)


def test_server_without_ranges_sends_all_again(toy, site, store):
    site.serve(toy)
    site.break_after[PATH] = CHUNK
    fails(toy, site, store)
    site.break_after.clear()
    site.ranges = False
    check(fetch(at(toy, site.address), store), toy)


def test_reply_with_another_range_is_refused(toy, site, store, monkeypatch):
    site.serve(toy)
    site.break_after[PATH] = CHUNK
    fails(toy, site, store)
    site.break_after.clear()
    real = download._resume_at

    def lying(reply, have):
        reply.headers["Content-Range"] = "bytes 0-99/100"
        return real(reply, have)

    monkeypatch.setattr(download, "_resume_at", lying)
    assert f"asked for bytes {CHUNK}- and sent 'bytes 0-99/100'" in fails(toy, site, store)


def test_ctrl_c_keeps_the_part_and_nothing_else(toy, site, store, monkeypatch):
    site.serve(toy)

    def stop(bar, n):
        raise KeyboardInterrupt

    monkeypatch.setattr(download.tqdm, "update", stop)
    with pytest.raises(KeyboardInterrupt):
        fetch(at(toy, site.address), store)
    assert names(store) == [f"{IMAGES}.gz.part"]
    monkeypatch.undo()
    check(fetch(at(toy, site.address), store), toy)
    assert site.requests[1] == (PATH, f"bytes={CHUNK}-")


def test_killed_process_leaves_a_part_that_the_next_one_resumes(toy, site, store):
    site.serve(toy)
    site.stall_after[PATH] = CHUNK
    code = (
        "from pathlib import PosixPath, WindowsPath\n"
        "from eqbook.data.fetch import fetch\n"
        "from eqbook.data.registry import DataFile, DataSet\n"
        f"fetch({at(toy, site.address)!r}, {str(store)!r})"
    )
    part = store / "toy" / f"{IMAGES}.gz.part"
    with subprocess.Popen([sys.executable, "-c", code]) as process:
        deadline = time.monotonic() + 60
        while not (part.exists() and part.stat().st_size == CHUNK):
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
        process.kill()
    assert len(names(store)) == 2  # the part, and the temporary file that nobody could remove
    site.stall_after.clear()
    check(fetch(at(toy, site.address), store), toy)
    assert names(store) == sorted(toy.contents)
    assert site.requests[1] == (PATH, f"bytes={CHUNK}-")


def altered(toy):
    content = bytearray(toy.contents[IMAGES])
    content[-1] ^= 1
    return gzip.compress(bytes(content))


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (altered, "expected content with sha256 "),
        (lambda toy: toy.packed(IMAGES)[:-2000], "damaged gzip data"),  # truncated on the server
        (lambda toy: toy.packed(IMAGES) + b"more", "damaged gzip data"),
        (lambda toy: b"<html>please log in</html>", "expected 15696 bytes when unpacked, got 26 bytes"),
        (lambda toy: gzip.compress(bytes(10**7)), "expected 15696 bytes when unpacked, got more"),
        (lambda toy: bytes(10**6), "the server sent more than"),
        (lambda toy: b"", "expected 15696 bytes when unpacked, got 0 bytes"),
    ],
    ids=["altered", "truncated", "extended", "login page", "bomb", "endless", "empty"],
)
def test_altered_download_is_refused_and_deleted(toy, site, store, body, said):
    site.serve(toy)
    site.files[PATH] = body(toy)
    assert said in fails(toy, site, store)
    assert names(store) == []
    site.serve(toy)  # once the server is in order, so are we
    check(fetch(at(toy, site.address), store), toy)


def test_unpacking_is_bounded():
    """A packed file of 10 kB must not fill the memory with what it unpacks to."""
    assert len(unpack(io.BytesIO(gzip.compress(bytes(10**7))), 100, "bomb")) == 101


def test_altered_at_one_place_is_fetched_from_the_next(toy, site, store):
    site.serve(toy, "/bad/")
    site.serve(toy, "/good/")
    site.files[f"/bad{PATH}"] = altered(toy)
    check(fetch(at(toy, f"{site.address}bad/", f"{site.address}good/"), store), toy)
    assert names(store) == sorted(toy.contents)


@pytest.mark.parametrize("part", [b"rubbish", bytes(10**5)], ids=["shorter", "longer"])
def test_rubbish_part_is_deleted_once_it_is_found_out(toy, site, store, part):
    site.serve(toy)
    (store / "toy").mkdir()
    (store / "toy" / f"{IMAGES}.gz.part").write_bytes(part)
    fails(toy, site, store)
    assert names(store) == []
    check(fetch(at(toy, site.address), store), toy)


def test_altered_file_on_disk_is_replaced(toy, site, store):
    site.serve(toy)
    fetch(at(toy, site.address), store)
    path = store / "toy" / IMAGES
    path.write_bytes(path.read_bytes()[:-1] + b"\x00\x00")
    check(fetch(at(toy, site.address), store), toy)
    assert path.read_bytes() == toy.contents[IMAGES]


def test_altered_file_on_disk_is_never_used(toy, store):
    (store / "toy").mkdir()
    for name, content in toy.contents.items():
        (store / "toy" / name).write_bytes(content)
    (store / "toy" / IMAGES).write_bytes(toy.contents[IMAGES][:-1])
    with pytest.raises(UnreachableError, match="1 of 4 files.*\n.*\n.*got 15695 bytes; delete it and fetch it again"):
        fetch(toy.data_set, store)


def test_files_placed_by_hand_packed_or_not(toy, store):
    (store / "toy").mkdir()
    for number, (name, content) in enumerate(toy.contents.items()):
        # the last case is what a browser leaves that unpacks and keeps the name
        file, body = [(name, content), (f"{name}.gz", toy.packed(name)), (f"{name}.gz", content)][number % 3]
        (store / "toy" / file).write_bytes(body)
    before = names(store)
    check(fetch(toy.data_set, store), toy)
    assert names(store) == before


def test_nothing_reachable_says_what_to_do(toy, site, store, unused_address):
    text = fails(toy, site, store)
    assert "the server answered 404" in text
    with pytest.raises(UnreachableError) as caught:
        fetch(at(toy, unused_address, site.address), store)
    text = str(caught.value)
    assert "`fetch_toy`: 4 of 4 files of Toy are missing" in text
    assert f"{unused_address}: the connection failed: Connection refused" in text
    assert str(store / "toy") in text and "EQBOOK_DATA_DIR" in text and "load_sample" in text
    for file in toy.data_set.files:
        assert f"{file.name}  {file.size} bytes, sha256 {file.sha256}" in text
    assert names(store) == []


@pytest.fixture
def unused_address():
    import socket

    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        yield f"http://127.0.0.1:{unused.getsockname()[1]}/"


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("progress", "terminal", "shown"), [(True, True, True), (True, False, False), (False, True, False)]
)
def test_progress_only_on_a_terminal(toy, site, store, monkeypatch, progress, terminal, shown):
    site.serve(toy)
    stream = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    fetch(at(toy, site.address), store, progress=progress)
    assert (IMAGES in stream.getvalue()) is shown
    assert shown or stream.getvalue() == ""

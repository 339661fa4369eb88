"""Fetching over HTTP from a server that breaks off, truncates, alters, or ignores Range."""

import contextlib
import gzip
import hashlib
import io
import os
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
import requests

from eqbook.data import UnreachableError, download
from eqbook.data.fetch import fetch
from eqbook.data.obtain import obtain
from eqbook.data.registry import DataFile, DataSet, Edition
from eqbook.data.verify import unpack

IMAGES = "train-images-idx3-ubyte"
PATH = f"/{IMAGES}.gz"
CHUNK = download._CHUNK


def names(store):
    return sorted(path.name for path in (store / "toy").iterdir())


def fails(toy, site, store):
    """Fetch with a site that misbehaves and return the error's text."""
    with pytest.raises(UnreachableError) as caught:
        fetch(toy.at(site.address), store)
    return str(caught.value)


def check(images, toy):
    got = (images.train_images[..., 0], images.train_labels, images.test_images[..., 0], images.test_labels)
    for array, expected in zip(got, toy.arrays, strict=True):
        np.testing.assert_array_equal(array, expected)
    assert images.train_images.shape == (20, 28, 28, 1) and images.train_labels.dtype == np.int32


def test_first_call_downloads_and_second_does_not(toy, site, store):
    site.serve(toy)
    check(fetch(toy.at(site.address), store), toy)
    assert names(store) == sorted(toy.contents)
    site.files.clear()
    site.requests.clear()
    check(fetch(toy.at(site.address), store), toy)
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
    check(fetch(toy.at(site.address), store), toy)
    assert site.requests[0] == (PATH, f"bytes={CHUNK}-")
    assert site.sent[PATH] == len(site.files[PATH]) + 100  # over both calls: only the broken chunk was sent twice
    assert names(store) == sorted(toy.contents)


def test_mirror_goes_on_where_the_official_place_broke_off(toy, site, store):
    site.serve(toy, "/official/")
    site.serve(toy, "/mirror/")
    site.break_after[f"/official{PATH}"] = CHUNK
    check(fetch(toy.at(f"{site.address}official/", f"{site.address}mirror/"), store), toy)
    assert (f"/mirror{PATH}", f"bytes={CHUNK}-") in site.requests
    assert names(store) == sorted(toy.contents)


def test_paths_are_in_the_order_of_the_edition(toy, site, store):
    """Not in that of arrival: here the first file comes last."""
    site.serve(toy)
    (store / "toy").mkdir()
    for name in list(toy.contents)[1:]:
        (store / "toy" / name).write_bytes(toy.contents[name])
    for _ in range(2):
        assert list(obtain(toy.at(site.address), store)[1]) == list(toy.contents)


def test_server_without_ranges_sends_all_again(toy, site, store):
    site.serve(toy)
    site.break_after[PATH] = CHUNK
    fails(toy, site, store)
    site.break_after.clear()
    site.ranges = False
    check(fetch(toy.at(site.address), store), toy)


def test_length_that_is_no_number_is_passed_over(tmp_path):
    reply = requests.Response()
    reply.headers["Content-Length"], reply.raw = "many", io.BytesIO(b"content")
    download._save(reply, tmp_path / "part", 0, 10, progress=False)
    assert (tmp_path / "part").read_bytes() == b"content"


def test_length_of_a_reply_that_is_packed_for_the_way_is_not_that_of_the_file():
    reply = requests.Response()
    reply.headers["Content-Length"] = "10"
    assert download._announced(reply, 5) == 15
    reply.headers["Content-Encoding"] = "gzip"
    assert download._announced(reply, 0) is None


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
        fetch(toy.at(site.address), store)
    assert names(store) == [f"{IMAGES}.gz.part"]
    monkeypatch.undo()
    check(fetch(toy.at(site.address), store), toy)
    assert site.requests[1] == (PATH, f"bytes={CHUNK}-")


def test_killed_process_leaves_a_part_that_the_next_one_resumes(toy, site, store):
    site.serve(toy)
    site.stall_after[PATH] = CHUNK
    code = (
        "from pathlib import PosixPath, WindowsPath\n"
        "from eqbook.data.fetch import fetch\n"
        "from eqbook.data.registry import DataFile, DataSet, Edition\n"
        f"fetch({toy.at(site.address)!r}, {str(store)!r})"
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
    check(fetch(toy.at(site.address), store), toy)
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
    check(fetch(toy.at(site.address), store), toy)


def test_unpacking_is_bounded():
    """A packed file of 10 kB must not fill the memory with what it unpacks to."""
    assert len(unpack(io.BytesIO(gzip.compress(bytes(10**7))), 100, "bomb")) == 101


def test_altered_at_one_place_is_fetched_from_the_next(toy, site, store):
    site.serve(toy, "/bad/")
    site.serve(toy, "/good/")
    site.files[f"/bad{PATH}"] = altered(toy)
    check(fetch(toy.at(f"{site.address}bad/", f"{site.address}good/"), store), toy)
    assert names(store) == sorted(toy.contents)


@pytest.mark.parametrize("part", [b"rubbish", bytes(10**5)], ids=["shorter", "longer"])
def test_rubbish_part_is_deleted_once_it_is_found_out(toy, site, store, part):
    site.serve(toy)
    (store / "toy").mkdir()
    (store / "toy" / f"{IMAGES}.gz.part").write_bytes(part)
    fails(toy, site, store)
    assert names(store) == []
    check(fetch(toy.at(site.address), store), toy)


def test_altered_file_on_disk_is_replaced(toy, site, store):
    site.serve(toy)
    fetch(toy.at(site.address), store)
    path = store / "toy" / IMAGES
    path.write_bytes(path.read_bytes()[:-1] + b"\x00\x00")
    check(fetch(toy.at(site.address), store), toy)
    assert path.read_bytes() == toy.contents[IMAGES]


def test_altered_file_on_disk_is_never_used(toy, store):
    (store / "toy").mkdir()
    for name, content in toy.contents.items():
        (store / "toy" / name).write_bytes(content)
    (store / "toy" / IMAGES).write_bytes(toy.contents[IMAGES][:-1])
    with pytest.raises(UnreachableError, match="(?s)got 15695 bytes; delete it and fetch it again.*1 of 4 files"):
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
        fetch(toy.at(unused_address, site.address), store)
    text = str(caught.value)
    assert text.startswith("Toy is not complete on this machine") and "4 of 4 files are missing" in text
    assert f"{unused_address}: the connection failed: Connection refused" in text
    assert str(store / "toy") in text and "EQBOOK_DATA_DIR" in text and "load_sample" not in text
    for file in toy.files:
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
    fetch(toy.at(site.address), store, progress=progress)
    assert (IMAGES in stream.getvalue()) is shown
    assert shown or stream.getvalue() == ""


def test_redirect_without_encryption_is_refused(toy, site, store, monkeypatch):
    """An address with https must not lead to one without; the reply here says where it came from."""
    site.serve(toy)
    real = download.requests.get

    class Reply:
        def __init__(self, url, **options):
            self.reply = real(url.replace("https:", "http:"), **options)

        def __enter__(self):
            return self.reply

        def __exit__(self, *error):
            self.reply.close()

    monkeypatch.setattr(download.requests, "get", Reply)
    with pytest.raises(UnreachableError, match="led from https to an address without it"):
        fetch(toy.at(site.address.replace("http:", "https:")), store)
    assert names(store) == []


@pytest.mark.parametrize("plain", ["http://b/x", "HTTP://b/x", "ftp://b/x"])
def test_no_step_of_a_redirect_is_without_encryption(tmp_path, monkeypatch, plain):
    """https, http, https again: the address in the middle is not even asked."""
    asked = []

    def send(self, request, **options):
        asked.append(request.url)
        reply = requests.Response()
        reply.url, reply.request, reply.raw = request.url, request, io.BytesIO(b"evil")
        leads = {"https://a/x": "/y", "https://a/y": "//c/x", "https://c/x": plain, "http://b/x": "https://a/z"}
        reply.status_code = 302 if request.url in leads else 200
        reply.headers["Location"] = leads.get(request.url, "")
        return reply

    monkeypatch.setattr(requests.adapters.HTTPAdapter, "send", send)
    with pytest.raises(download.RouteError, match=f"led from https to an address without it, {plain}"):
        download.receive("https://a/x", tmp_path / "part", limit=10, progress=False)
    assert asked == ["https://a/x", "https://a/y", "https://c/x"] and not list(tmp_path.iterdir())
    download.receive("https://a/z", tmp_path / "part", limit=10, progress=False)
    assert (tmp_path / "part").read_bytes() == b"evil"  # an address that is encrypted all the way is taken


def test_server_may_redirect(toy, site, store):
    site.serve(toy, "/elsewhere/")
    site.redirects = {f"/{name}.gz": f"/elsewhere/{name}.gz" for name in toy.contents}
    check(fetch(toy.at(site.address), store), toy)


@pytest.fixture
def plain(site):
    """A data set of one file of 100 kB that is served as it is and known by its md5."""
    content = np.random.default_rng(1).bytes(100_000)
    site.files["/12345?download=1"] = content
    file = DataFile("plain.npz", len(content), md5=hashlib.md5(content).hexdigest(), remote="12345")
    edition = Edition("npz", (file,), (site.address + "{name}?download=1",))
    return content, DataSet("plain", "Plain", (edition,), "none", "nowhere")


def test_plain_file_is_fetched_resumed_and_moved(plain, site, store):
    content, data_set = plain
    path = "/12345?download=1"
    site.break_after[path] = 3 * CHUNK + 5
    with pytest.raises(UnreachableError, match="100000 bytes, md5"):
        obtain(data_set, store)
    part = store / "plain" / "plain.npz.part"
    assert part.read_bytes() == content[: 3 * CHUNK]
    site.break_after.clear()
    edition, paths = obtain(data_set, store)
    assert edition is data_set.editions[0] and paths == {"plain.npz": store / "plain" / "plain.npz"}
    assert paths["plain.npz"].read_bytes() == content
    assert site.requests[-1] == (path, f"bytes={3 * CHUNK}-")
    assert [entry.name for entry in (store / "plain").iterdir()] == ["plain.npz"]


@pytest.mark.parametrize("ranges", [True, False], ids=["ranges", "no ranges"])
@pytest.mark.parametrize("body", [b"<html>please log in</html>", bytes(99_999), bytes(100_001)], ids=len)
def test_part_outlives_a_server_with_a_file_of_another_length(plain, site, store, body, ranges):
    """What was received from one place is not given up for what another one has, before that is known to be better."""
    content, data_set = plain
    path = "/12345?download=1"
    part = store / "plain" / "plain.npz.part"
    part.parent.mkdir()
    part.write_bytes(content[: 3 * CHUNK])
    site.files[path], site.ranges = body, ranges
    with pytest.raises(UnreachableError, match="the server (announced|has at most) [0-9]+ bytes of a file of 100000"):
        obtain(data_set, store)
    assert part.read_bytes() == content[: 3 * CHUNK]
    site.files[path], site.ranges = content, True
    assert obtain(data_set, store)[1]["plain.npz"].read_bytes() == content
    assert site.requests[-1] == (path, f"bytes={3 * CHUNK}-")


def test_altered_plain_file_is_refused(plain, site, store):
    content, data_set = plain
    site.files["/12345?download=1"] = content[:-1] + bytes([content[-1] ^ 1])
    with pytest.raises(UnreachableError, match="expected content with md5 "):
        obtain(data_set, store)
    assert list((store / "plain").iterdir()) == []


def test_digest_of_a_large_file_is_computed_once(plain, store, monkeypatch):
    """It is remembered until the file changes, and computed every time where nothing can be remembered."""
    content, data_set = plain
    monkeypatch.setattr("eqbook.data.verify._LARGE", 1000)
    (store / "plain").mkdir()
    path = store / "plain" / "plain.npz"
    path.write_bytes(content)
    counted = []
    real = hashlib.file_digest
    monkeypatch.setattr(hashlib, "file_digest", lambda *args: counted.append(1) or real(*args))
    for _ in range(3):
        obtain(data_set, store)
    assert len(counted) == 1
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    os.utime(path, ns=(1, 1))
    with pytest.raises(UnreachableError, match="expected content with md5 "):
        verify_again = replace(data_set, editions=(replace(data_set.editions[0], addresses=()),))
        obtain(verify_again, store)


def test_edition_that_came_while_waiting_for_the_lock_is_taken(toy, plain, site, store, monkeypatch):
    """Another process completed the second edition: the first is not fetched beside it."""
    _, data_set = plain
    both = replace(data_set, editions=(data_set.editions[0], toy.data_set.editions[0]))

    @contextlib.contextmanager
    def slow_lock(folder):
        for name, content in toy.contents.items():
            (folder / name).write_bytes(content)
        yield

    monkeypatch.setattr("eqbook.data.obtain.locked", slow_lock)
    edition, paths = obtain(both, store)
    assert edition.name == "idx" and list(paths) == list(toy.contents) and site.requests == []


def test_second_edition_is_taken_if_the_first_cannot_be_had(toy, plain, site, store):
    _, data_set = plain
    site.serve(toy)
    unreachable = replace(data_set.editions[0], addresses=(site.address + "nothing/{name}",))
    both = replace(data_set, editions=(unreachable, toy.at(site.address).editions[0]))
    edition, paths = obtain(both, store)
    assert edition.name == "idx" and set(paths) == set(toy.contents)
    site.files.clear()
    assert obtain(both, store) == (edition, paths)  # now from this machine

"""A data set of 30 images and a web server on this machine that serves it, as badly as a test wants."""

import gzip
import hashlib
import threading
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from eqbook.data.catalogue import IDX_NAMES, MNIST
from eqbook.data.idx import format_idx
from eqbook.data.registry import DataFile, Edition


def pytest_configure(config):
    config.addinivalue_line("markers", "network: downloads the full data sets; runs only with -m network")


def pytest_collection_modifyitems(config, items):
    if "network" in (config.option.markexpr or ""):
        return
    for item in items:
        if item.get_closest_marker("network"):
            item.add_marker(pytest.mark.skip(reason="downloads 290 MB; run with -m network"))


@dataclass
class Toy:
    """A small data set, and the content of its files."""

    arrays: list
    contents: dict  # file name -> unpacked bytes
    data_set: object

    def packed(self, name):
        return gzip.compress(self.contents[name], mtime=0)

    @property
    def files(self):
        return self.data_set.editions[0].files

    def at(self, *addresses, packages=()):
        """The data set with these routes; addresses are those of folders."""
        edition = replace(
            self.data_set.editions[0],
            addresses=tuple(address + "{name}" for address in addresses),
            packages=tuple(packages),
        )
        return replace(self.data_set, editions=(edition,))


@pytest.fixture
def toy():
    rng = np.random.default_rng(0)
    arrays = [
        array
        for n in (20, 10)
        for array in (rng.integers(0, 256, (n, 28, 28), np.uint8), rng.integers(0, 10, n, np.uint8))
    ]
    contents = {name: format_idx(array) for name, array in zip(IDX_NAMES, arrays, strict=True)}
    files = tuple(
        DataFile(name, len(content), hashlib.sha256(content).hexdigest(), gzip=True)
        for name, content in contents.items()
    )
    return Toy(arrays, contents, replace(MNIST, name="toy", title="Toy", editions=(Edition("idx", files),)))


@dataclass
class Site:
    """What the server serves, how it misbehaves, and what it was asked for."""

    files: dict = field(default_factory=dict)  # path -> bytes
    break_after: dict = field(default_factory=dict)  # path -> bytes sent before the connection breaks
    stall_after: dict = field(default_factory=dict)  # path -> bytes sent before the server falls silent
    woken: threading.Event = field(default_factory=threading.Event)  # ends the silence
    redirects: dict = field(default_factory=dict)  # path -> address
    ranges: bool = True  # honour Range
    requests: list = field(default_factory=list)  # (path, Range header or None)
    sent: dict = field(default_factory=dict)  # path -> bytes sent in all
    address: str = ""

    def serve(self, toy, folder="/"):
        self.files |= {f"{folder}{name}.gz": toy.packed(name) for name in toy.contents}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        site, path = self.server.site, self.path
        wanted = self.headers.get("Range")
        site.requests.append((path, wanted))
        if path in site.redirects:
            self.send_response(302)
            self.send_header("Location", site.redirects[path])
            self.send_header("Content-Length", "0")
            return self.end_headers()
        if path not in site.files:
            return self.send_error(404)
        body, start = site.files[path], 0
        if wanted and site.ranges:
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if start >= len(body):
                return self.send_error(416)
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        chunk = body[start:][: site.break_after.get(path, site.stall_after.get(path))]
        site.sent[path] = site.sent.get(path, 0) + len(chunk)
        self.wfile.write(chunk)
        if path in site.stall_after:
            self.wfile.flush()
            site.woken.wait()

    def log_message(self, *args):
        pass


@pytest.fixture
def site():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.site = Site(address=f"http://127.0.0.1:{server.server_port}/")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server.site
    server.site.woken.set()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def store(tmp_path):
    """An existing, empty data directory."""
    folder = tmp_path / "store"
    folder.mkdir()
    return folder

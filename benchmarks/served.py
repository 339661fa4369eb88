"""A data set of two files on a server of this machine that sends them slowly."""

import gzip
import hashlib
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

PIECE, PAUSE = 8192, 0.01  # bytes sent at a time; seconds between


class Site:
    """The server; `data_set` says what it serves, `asked` is what it was asked for: names and first bytes."""

    def __init__(self) -> None:
        rng = np.random.default_rng(1)
        # Numbers of few values, so that the packed file is shorter than the other and not by much.
        contents = {"packed": rng.integers(0, 64, 200_000, np.uint8).tobytes(), "plain": rng.bytes(250_000)}
        files = [
            {
                "name": name,
                "size": len(content),
                "sha256": hashlib.sha256(content).hexdigest(),
                "gzip": name == "packed",
            }
            for name, content in contents.items()
        ]
        self.asked: list[tuple[str, int]] = []
        bodies = {"packed.gz": gzip.compress(contents["packed"], mtime=0), "plain": contents["plain"]}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(bodies, self.asked))
        self._server.daemon_threads = True
        self.data_set: dict[str, Any] = {"address": f"http://127.0.0.1:{self._server.server_port}/", "files": files}

    def __enter__(self) -> "Site":
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _handler(bodies: dict[str, bytes], asked: list[tuple[str, int]]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name, wanted = self.path.removeprefix("/"), self.headers.get("Range")
            start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted else 0
            asked.append((name, start))
            body = bodies[name]
            if wanted and start >= len(body):
                return self.send_error(416)
            self.send_response(206 if wanted else 200)
            if wanted:
                self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
            self.send_header("Content-Length", str(len(body) - start))
            self.end_headers()
            try:
                for at in range(start, len(body), PIECE):
                    self.wfile.write(body[at : at + PIECE])
                    time.sleep(PAUSE)
            except OSError:  # the other side was killed
                return None

        def log_message(self, *arguments: Any) -> None:
            pass

    return Handler

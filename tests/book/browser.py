"""A headless Chromium for the page checks, driven over its debugging pipe: no port, no network."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--window-size=1400,1000",
    # A page that needs the network shall fail here too, not only where there is none.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--remote-debugging-pipe",
)
TIMEOUT = 60.0
# Chromium reads commands from descriptor 3 and answers on 4. A process of its own moves the pipes there: `preexec_fn`
# would fork this one, which a test process with JAX's threads must not do.
LAUNCH = """
import os, sys
read, write = (os.dup(int(fd)) for fd in sys.argv[1:3])
for fd, number in ((read, 3), (write, 4)):
    os.dup2(fd, number)
    os.set_inheritable(number, True)
os.execv(sys.argv[3], sys.argv[3:])
"""


def find_chromium() -> str | None:
    """Return the path of a Chromium or Chrome, or None."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next((path for path in map(shutil.which, names) if path), None)


class Browser:
    """One browser process with one tab; use it in a `with` statement."""

    def __init__(self, executable: str) -> None:
        self.profile = tempfile.mkdtemp(prefix="eqbook-chromium-")
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()

        descriptors = (to_browser, from_browser)
        self.process = subprocess.Popen(
            [sys.executable, "-c", LAUNCH, *map(str, descriptors), executable, *FLAGS]
            + [f"--user-data-dir={self.profile}", "about:blank"],
            pass_fds=descriptors,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        os.set_blocking(self._in, False)
        self._buffer, self._events, self._number, self._session = b"", [], 0, None
        try:
            target = self.command("Target.createTarget", url="about:blank")["targetId"]
            self._session = self.command("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Network", "Runtime"):
                self.command(f"{domain}.enable")
        except BaseException:
            self.close()  # nobody else could: there is no object yet
            raise

    def command(self, method: str, **params: Any) -> dict:
        """Send one command of the DevTools protocol and return its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            reply = self._receive()
            if reply.get("id") == self._number:
                if "error" in reply:
                    raise RuntimeError(f"Chromium refused {method}: {reply['error']}")
                return reply["result"]
            self._events.append(reply)

    def open(self, url: str) -> list[dict]:
        """Load a page, wait for its scripts and its mathematics; return the protocol's events."""
        self._events.clear()
        self.command("Page.navigate", url=url)
        while not any(event.get("method") == "Page.loadEventFired" for event in self._events):
            self._events.append(self._receive())
        self.evaluate("window.MathJax && MathJax.startup ? MathJax.startup.promise.then(() => 1) : 1")
        return list(self._events)

    def evaluate(self, script: str) -> Any:
        """Return the value of a JavaScript expression on the page; a promise is awaited."""
        reply = self.command("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in reply:
            raise RuntimeError(f"a script failed on the page: {reply['exceptionDetails']}")
        return reply["result"].get("value")

    def resize(self, width: int) -> None:
        """Show the page in a window of that width, in CSS pixels."""
        metrics = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
        self.command("Emulation.setDeviceMetricsOverride", **metrics)

    def dom(self) -> str:
        """Return the page as it stands, after its scripts."""
        return self.evaluate("document.documentElement.outerHTML")

    def _receive(self) -> dict:
        end = time.monotonic() + TIMEOUT
        while b"\0" not in self._buffer:
            try:
                chunk = os.read(self._in, 1 << 20)
            except BlockingIOError:
                if time.monotonic() > end:
                    raise TimeoutError(f"Chromium said nothing for {TIMEOUT:.0f} s") from None
                time.sleep(0.002)
                continue
            if not chunk:
                raise RuntimeError("Chromium ended; run it by hand to see why")
            self._buffer += chunk
        message, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(message)

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process and delete its profile."""
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self._in)
        os.close(self._out)
        shutil.rmtree(self.profile, ignore_errors=True)


def file_url(path: Path) -> str:
    """Return the `file://` address of a path."""
    return path.resolve().as_uri()

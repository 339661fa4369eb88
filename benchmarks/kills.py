"""Processes that are killed at random: by the clock, or at a random line of the code that reads and writes files.

A server imports the libraries once and forks a process for each run: what a kill costs is the life of that process, not
its imports. The server starts no device and no thread, so a fork of it is as good as a process that has just imported.
"""

import faulthandler
import itertools
import json
import mmap
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from types import CodeType
from typing import Any

import jax
import numpy as np
from jax._src import compiler

import eqbook
from benchmarks.measure import ROOT

PHASES = ("starting", "working", "compiling", "checking files", "writing files", "ending")
PACKAGE = Path(eqbook.__file__).parent
FILES = {
    str(PACKAGE / name)
    for name in (
        "_files.py", "grams/store.py", "ensembles/store.py", "ensembles/files.py", "results/files.py",
        "data/download.py", "data/routes.py", "data/obtain.py", "data/store.py", "data/verify.py",
    )
}  # fmt: skip
WRITES = {
    "write_whole", "_unfinished", "remove_left_over", "tile", "save_tree", "_save", "keep", "record", "receive",
    "write_atomically", "__call__", "_second_name", "_store", "_fetch_missing", "remove_leftovers",
}  # fmt: skip
NO_FILES = {"describe", "fingerprint"}  # they stand among the others and touch none
OUTSIDE = NO_FILES | {"tile", "__call__", "_fetch_missing"}  # what they call is looked at instead


ENVIRONMENT = {
    "JAX_PLATFORMS": "cpu",
    "EQBOOK_PROFILE": "paper",
    "OPENBLAS_NUM_THREADS": "1",  # a process that forks has one thread
    # Most of a small run is compilation. What was compiled is kept, but for the runs that are told not to use it.
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    "TF_CPP_MIN_LOG_LEVEL": "3",  # or each program that is read names every feature of the processor
}


@dataclass(frozen=True)
class Ended:
    """How a run ended.

    Attributes:
        killed: by SIGKILL; otherwise it came to its end.
        phase: what it did last, one of `PHASES`.
        function: at a kill by line, where.
        seconds: how long it ran.
        arrays: what it found; `None` if it was killed.
        said: what it counted; `None` if it was killed.
    """

    killed: bool
    phase: str
    function: str
    seconds: float
    arrays: dict[str, np.ndarray] | None = None
    said: dict[str, Any] | None = None


class Server:
    """Runs jobs of `benchmarks.victims`, one at a time, each in a process of its own.

    Args:
        scratch: an existing folder for what the processes hand over.
    """

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        environment = os.environ | ENVIRONMENT | {"JAX_COMPILATION_CACHE_DIR": str(scratch / "compiled")}
        command = [sys.executable, "-c", "from benchmarks.kills import serve; serve()"]
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *error: Any) -> None:
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()

    def run(
        self,
        job: str,
        folder: Path,
        delay: float | None = None,
        line: int | None = None,
        compiles: bool = False,
        **more: Any,
    ) -> Ended:
        """Run a job and kill it.

        Args:
            job: name of the job.
            folder: where it keeps its files.
            delay: seconds after which it is killed from outside; `None` for never.
            line: number of the line of code, among those that deal with files, at which it is killed; `None` for never,
                -1 to count them.
            compiles: compile everything anew.
            more: other arguments of the job.

        Raises:
            RuntimeError: if the process fails otherwise; with what it said.
        """
        place = Path(tempfile.mkdtemp(prefix="run-", dir=self.scratch))
        (place / "status").write_bytes(bytes(64))
        spec = {"job": job, "folder": str(folder), "place": str(place), "line": line, "compiles": compiles}
        spec["more"] = more
        began = time.perf_counter()
        self.process.stdin.write(json.dumps(spec) + "\n")
        self.process.stdin.flush()
        number = int(self.process.stdout.readline())
        if delay is not None:
            _kill_after(number, max(0.0, delay - (time.perf_counter() - began)))
        status = int(self.process.stdout.readline())
        seconds = time.perf_counter() - began
        seen = (place / "status").read_bytes()
        phase, function = PHASES[seen[0]], seen[1:].rstrip(b"\0").decode()
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            return Ended(True, phase, function, seconds)
        if status != 0:
            raise RuntimeError(f"{job} failed with status {status}:\n{(place / 'stderr').read_text()}")
        with np.load(place / "arrays.npz") as file:
            arrays = {name: file[name] for name in file.files}
        return Ended(False, phase, function, seconds, arrays, json.loads((place / "said.json").read_text()))


def _kill_after(number: int, seconds: float) -> None:
    """SIGKILL, unless the process ends before; through a handle, which never means another process."""
    try:
        handle = os.pidfd_open(number)
    except ProcessLookupError:
        return
    try:
        time.sleep(seconds)
        signal.pidfd_send_signal(handle, signal.SIGKILL)
    except ProcessLookupError:
        pass
    finally:
        os.close(handle)


def serve() -> None:
    """Fork a process for each line of standard input; print its number, and its status when it has ended."""
    from benchmarks import victims  # with all that it imports

    victims.pages()
    warnings.filterwarnings("ignore", message=r"os\.fork\(\) was called")
    for text in sys.stdin:
        spec = json.loads(text)
        number = os.fork()
        if number == 0:
            os._exit(_child(victims.JOBS[spec["job"]], spec))
        print(number, flush=True)
        print(os.waitpid(number, 0)[1], flush=True)


def _child(job: Any, spec: dict[str, Any]) -> int:
    place = Path(spec["place"])
    with open(os.devnull, "w") as nothing, open(place / "stderr", "w") as errors:
        os.dup2(nothing.fileno(), 1)
        os.dup2(errors.fileno(), 2)
    try:
        with open(place / "status", "r+b") as file:
            status = mmap.mmap(file.fileno(), 0)
        jax.config.update("jax_enable_compilation_cache", not spec["compiles"])
        _watch(status)
        lines = itertools.count(1)
        if spec["line"] is not None:
            tracer = _tracer(lines, spec["line"], status)
            threading.settrace(tracer)
            sys.settrace(tracer)
        faulthandler.enable()
        status[0] = PHASES.index("working")
        arrays, said = job(Path(spec["folder"]), **spec["more"])
        sys.settrace(None)
        status[0] = PHASES.index("ending")
        said["lines"] = next(lines) - 1
        np.savez(place / "arrays.npz", **arrays)
        (place / "said.json").write_text(json.dumps(said))
    except BaseException:  # the parent raises it again
        traceback.print_exc()
        sys.stderr.flush()
        return 1
    return 0


def _phase(code: Any) -> int:
    return PHASES.index("writing files" if code.co_name in WRITES else "checking files")


def _watch(status: mmap.mmap) -> None:
    """From now on, write down the phase of this process: the last one of `PHASES` that any of its threads is in."""
    running, lock = [int(name == "working") for name in PHASES], threading.Lock()

    def mark(phase: int, change: int) -> None:
        with lock:
            running[phase] += change
            status[0] = max(k for k, count in enumerate(running) if count)

    def marked(function: Any, phase: int) -> Any:
        @wraps(function)
        def call(*arguments: Any, **options: Any) -> Any:
            mark(phase, 1)
            try:
                return function(*arguments, **options)
            finally:
                mark(phase, -1)

        return call

    for name, module in list(sys.modules.items()):
        if name.startswith("eqbook"):
            for owner in (module, *(one for one in vars(module).values() if isinstance(one, type))):
                for key, value in list(vars(owner).items()):
                    code = getattr(value, "__code__", None)
                    if isinstance(code, CodeType) and code.co_filename in FILES and code.co_name not in OUTSIDE:
                        setattr(owner, key, marked(value, _phase(code)))
    # Tracing is counted with what surrounds it; this is the part in which the compiler works.
    compiler.compile_or_get_cached = marked(compiler.compile_or_get_cached, PHASES.index("compiling"))


def _tracer(lines: Any, last: int, status: mmap.mmap) -> Any:
    """A trace function that kills its process at a line of the code that deals with files."""

    def local(frame: Any, event: str, _: Any) -> Any:
        if event == "line" and next(lines) == last:
            name = frame.f_code.co_name.encode()[:60]
            status[1 : 1 + len(name)] = name
            status[0] = _phase(frame.f_code)
            os.kill(os.getpid(), signal.SIGKILL)
        return local

    def each(frame: Any, event: str, _: Any) -> Any:
        code = frame.f_code
        return local if code.co_filename in FILES and code.co_name not in NO_FILES else None

    return each

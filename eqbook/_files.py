"""Files that are written whole or not at all, and say themselves whether they are what was written."""

import contextlib
import hashlib
import json
import logging
import operator
import os
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from threading import Lock
from typing import IO, Any, TypeVar

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None

WRITING = ".writing-"  # what the name of an unfinished file begins with
DIGEST = "sha256"
_umask_lock = Lock()
T = TypeVar("T")


def write_whole(path: Path, content: bytes) -> None:
    """Under another name first: a reader finds the whole file or none, and an older one stays until it is replaced."""
    file, temporary = _unfinished(path.parent)
    try:
        with file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            os.chmod(temporary, _mode())  # temporary files are private; results are not
            if fcntl is not None:  # while it is locked: nobody takes it for one that was left over
                os.replace(temporary, path)
        if fcntl is None:  # Windows renames no open file
            os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _mode() -> int:
    """The mode of a new file: what the umask leaves of reading and writing for all."""
    with _umask_lock:
        umask = os.umask(0o077)  # it is known by setting it only; a file made meanwhile is private, not public
        os.umask(umask)
    return 0o666 & ~umask


@cache
def report(text: str) -> None:
    """Say, once, what was found wrong and is put right: on stderr, unless the program has set up logging otherwise."""
    logging.getLogger("eqbook").warning(text)


def unpacked(read: Callable[[], T], tries: int = 100) -> T:
    """What `read` makes of the content of an array's file, whatever other threads read.

    NumPy reads the header of an array as Python code. Some versions of CPython (3.11.7 is one) fail at that with a
    `SystemError`, "recursion depth mismatch", where a garbage collection lets another thread read one in between.
    That says nothing of the file, so it is read again.
    """
    for _ in range(tries - 1):
        with contextlib.suppress(SystemError):
            return read()
    return read()


def not_written(path: Path, error: OSError) -> ValueError:
    """What to say when a file of a store could not be written."""
    return ValueError(
        f"`store`: {path.name} cannot be written to {path.parent} ({error.strerror or error}); free space, or make the "
        "folder writable, and call again: the run goes on from what is there."
    )


def remove_left_over(folder: Path) -> None:
    """Delete the unfinished files of processes that are gone, and none that a process is writing."""
    for path in folder.glob(f"{WRITING}*"):
        with contextlib.suppress(OSError):
            if fcntl is None:
                path.unlink()  # Windows refuses it for an open file
                continue
            with open(path, "r+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()


def _unfinished(folder: Path) -> tuple[IO[bytes], str]:
    """A new file, locked as long as it is open, and its name."""
    while True:
        handle, name = tempfile.mkstemp(dir=folder, prefix=WRITING)
        file = os.fdopen(handle, "wb")
        if fcntl is None:
            return file, name
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(file, fcntl.LOCK_EX)
        if os.path.exists(name):  # else it was taken for one left over, before it was locked
            return file, name
        file.close()


def sealed(content: dict[str, Any]) -> dict[str, Any]:
    """A dictionary as JSON gives it back, with the SHA-256 of its content."""
    content = json.loads(json.dumps(content, default=operator.index))  # integers of NumPy too
    return {**content, DIGEST: _digest(content)}


def is_sealed(content: Any) -> bool:
    """Whether a dictionary, read from JSON, is what was sealed."""
    if not isinstance(content, dict):
        return False
    rest = {name: value for name, value in content.items() if name != DIGEST}
    try:
        return content.get(DIGEST) == _digest(rest)
    except RecursionError:  # lists in lists, deeper than anything that was sealed
        return False


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def in_use(folder: Path) -> IO | None:
    """Say that this process writes to a folder, until the file that is returned is closed or the process ends.

    Returns:
        The open file that holds the lock; `None` where the file system has no locks.

    Raises:
        ValueError: if another process has said so, or the file to lock is a link.
    """
    if fcntl is None:
        return None
    path = folder / ".lock"
    try:
        # Neither emptied nor followed: as a link it may lead to a file that is somebody's work.
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666), "r+b")
    except OSError:
        if not path.is_symlink():
            raise
        raise ValueError(
            f"`store`: expected a file of the store, got a link, {path}; delete it, or choose another folder."
        ) from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise ValueError(
            f"`store`: expected a folder that no other process writes to, got {folder}; wait, or choose another."
        ) from None
    except OSError:
        file.close()
        return None
    return file

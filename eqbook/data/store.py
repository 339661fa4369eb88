"""Where the data live on this machine."""

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pooch

from eqbook.data.errors import DataDirectoryError

try:
    import fcntl
except ImportError:  # Windows has no flock: there two processes must not fetch the same data set at once
    fcntl = None

VARIABLE = "EQBOOK_DATA_DIR"


def data_directory(data_dir: str | os.PathLike[str] | None = None) -> Path:
    """Return the directory that holds one folder per data set.

    It is `data_dir`, else the directory that the environment variable `EQBOOK_DATA_DIR` names, else the
    user's cache directory for `eqbook`. One that is named must exist: a mistyped path would otherwise start a
    download.

    Raises:
        DataDirectoryError: if a directory that was named is missing or is not a directory.
    """
    named, source = data_dir, "data_dir"
    if named is None:
        named, source = os.environ.get(VARIABLE) or None, VARIABLE  # set but empty counts as not set
    if named is None:
        return Path(pooch.os_cache("eqbook"))
    if not isinstance(named, str | os.PathLike):
        raise DataDirectoryError(f"`data_dir`: expected the path of a directory, got {named!r}.")
    path = os.path.expanduser(named)
    if os.path.isdir(path):
        return Path(path)
    got = "which is a file" if os.path.exists(path) else "where nothing is"
    raise DataDirectoryError(
        f"`{source}`: expected an existing directory, got {str(path)!r}, {got}; "
        f"create it (mkdir -p) or name another one."
    )


def make_writable(folder: Path) -> None:
    """Create `folder` if needed and make sure, before any download, that a file can be created in it.

    Raises:
        DataDirectoryError: naming the folder, the reason, and what to do.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise DataDirectoryError(
            f"`{folder}`: expected a directory that can be written, got: {error.strerror}; "
            f"make it writable, or set {VARIABLE} to a directory that is."
        ) from error


def remove_leftovers(folder: Path) -> None:
    """Delete the temporary files of a process that was killed. Call it with the folder locked.

    Raises:
        DataDirectoryError: if one is a folder, or cannot be deleted.
    """
    for path in folder.iterdir():
        # The names that Python's tempfile makes, and those of notes that a digest was checked.
        if re.fullmatch(r"tmp[a-z0-9_]{8}|.+\.checked\.\d+", path.name):
            try:
                path.unlink()
            except OSError as error:
                got = "a folder" if path.is_dir() else error.strerror
                raise DataDirectoryError(
                    f"`{path}`: expected a temporary file that can be deleted, got: {got}; delete it, or move it away."
                ) from error


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes from fetching into `folder` meanwhile; they wait. The lock dies with the process."""
    if fcntl is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        # Some network file systems cannot lock a directory. Then the checks of the content must do.
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)

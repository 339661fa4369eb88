"""Files that are written whole or not at all."""

import os
import tempfile
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None

WRITING = ".writing-"  # what the name of an unfinished file begins with


def write_whole(path: Path, content: bytes) -> None:
    """Under another name first: a reader finds the whole file or none, and an older one stays until it is replaced."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=WRITING)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)  # temporary files are private; results are not
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def in_use(folder: Path) -> IO | None:
    """Say that this process writes to a folder, until the file that is returned is closed or the process ends.

    Returns:
        The open file that holds the lock; `None` where the file system has no locks.

    Raises:
        ValueError: if another process has said so.
    """
    if fcntl is None:
        return None
    file = open(folder / ".lock", "w")  # noqa: SIM115 - the lock lasts as long as the file is open
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

"""Files that are written whole or not at all."""

import os
import tempfile
from pathlib import Path

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

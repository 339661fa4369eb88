"""Reading a file only if it is the published one: bounded unpacking, length, sha256."""

import gzip
import hashlib
import io
import zlib
from pathlib import Path

from eqbook.data.errors import AlteredFileError
from eqbook.data.registry import DataFile

_GZIP_MAGIC = b"\x1f\x8b"


def unpack(stream: io.BufferedIOBase, limit: int, source: str) -> bytes:
    """Return the content of a stream, unpacked if it is gzip, but never more than `limit` + 1 bytes.

    The bound keeps a hostile file of a few kilobytes from filling the memory.

    Args:
        stream: seekable, at its start.
        limit: length that is expected, in bytes.
        source: name of the file, for error messages.

    Raises:
        AlteredFileError: if the gzip data are damaged or end early.
    """
    packed = stream.read(2) == _GZIP_MAGIC
    stream.seek(0)
    try:
        return gzip.GzipFile(fileobj=stream).read(limit + 1) if packed else stream.read(limit + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise AlteredFileError(f"`{source}`: damaged gzip data ({error}); delete it and fetch it again.") from error


def check_content(content: bytes, file: DataFile, source: str) -> bytes:
    """Return `content` if it has the length and the sha256 of the registry.

    Raises:
        AlteredFileError: naming the file, what was expected and what was got.
    """
    if len(content) != file.size:
        got = f"{len(content)} bytes" if len(content) < file.size else "more"
        raise AlteredFileError(
            f"`{source}`: expected {file.size} bytes when unpacked, got {got}; delete it and fetch it again."
        )
    digest = hashlib.sha256(content).hexdigest()
    if digest != file.sha256:
        raise AlteredFileError(
            f"`{source}`: expected content with sha256 {file.sha256}, got {digest}; delete it and fetch it again."
        )
    return content


def read_verified(path: Path, file: DataFile) -> bytes:
    """Return the unpacked content of `path` (an idx file, packed by gzip or not) after checking it.

    Raises:
        AlteredFileError: if it is not the file of the registry, or cannot be read.
    """
    try:
        with path.open("rb") as stream:
            content = unpack(stream, file.size, str(path))
    except OSError as error:
        raise AlteredFileError(
            f"`{path}`: cannot be read ({error.strerror or error}); check its permissions."
        ) from error
    return check_content(content, file, str(path))

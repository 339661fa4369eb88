"""Reading a file only if it is the published one: bounded unpacking, length, digest."""

import gzip
import hashlib
import io
import os
import zlib
from pathlib import Path

from eqbook.data.errors import AlteredFileError
from eqbook.data.registry import DataFile

_GZIP_MAGIC = b"\x1f\x8b"
_LARGE = 10**9  # bytes; from here on a digest takes long enough to remember that it was checked


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
    """Return `content` if it has the length and the digest of the registry.

    Raises:
        AlteredFileError: naming the file, what was expected and what was got.
    """
    _check_size(len(content), file, source)
    _check_digest(hashlib.new(file.digest[0], content).hexdigest(), file, source)
    return content


def read_verified(path: Path, file: DataFile) -> bytes:
    """Return the content of `path`, unpacked if the registry allows gzip, after checking it.

    Raises:
        AlteredFileError: if it is not the file of the registry, or cannot be read.
    """
    try:
        with path.open("rb") as stream:
            content = unpack(stream, file.size, str(path)) if file.gzip else stream.read(file.size + 1)
    except OSError as error:
        raise _unreadable(path, error) from error
    return check_content(content, file, str(path))


def verify(path: Path, file: DataFile) -> None:
    """Check a file of any length without holding it in memory.

    The digest of a large file is computed once: its result is remembered beside the file, in `NAME.checked`, and
    holds as long as the file's length and time of modification stay the same.

    Raises:
        AlteredFileError: if it is not the file of the registry, or cannot be read.
    """
    if file.gzip:  # short, and to be unpacked
        read_verified(path, file)
        return
    try:
        state = path.stat()
        _check_size(state.st_size, file, str(path))
        note = path.with_name(f"{path.name}.checked")
        stamp = f"{state.st_mtime_ns} {' '.join(file.digest)}\n"
        if file.size >= _LARGE and note.exists() and note.read_text(errors="replace") == stamp:
            return
        with path.open("rb") as stream:
            _check_digest(hashlib.file_digest(stream, file.digest[0]).hexdigest(), file, str(path))
    except OSError as error:
        raise _unreadable(path, error) from error
    if file.size >= _LARGE:
        _remember(note, stamp)


def _remember(note: Path, stamp: str) -> None:
    """Write the note whole or not at all; where nothing can be written, the digest is computed again next time."""
    temporary = note.with_name(f"{note.name}.{os.getpid()}")
    try:
        temporary.write_text(stamp)
        os.replace(temporary, note)
    except OSError:
        return


def _check_size(size: int, file: DataFile, source: str) -> None:
    if size != file.size:
        got = f"{size} bytes" if size < file.size else "more"
        unpacked = " when unpacked" if file.gzip else ""
        raise AlteredFileError(
            f"`{source}`: expected {file.size} bytes{unpacked}, got {got}; delete it and fetch it again."
        )


def _check_digest(digest: str, file: DataFile, source: str) -> None:
    algorithm, expected = file.digest
    if digest != expected:
        raise AlteredFileError(
            f"`{source}`: expected content with {algorithm} {expected}, got {digest}; delete it and fetch it again."
        )


def _unreadable(path: Path, error: OSError) -> AlteredFileError:
    return AlteredFileError(f"`{path}`: cannot be read ({error.strerror or error}); check its permissions.")

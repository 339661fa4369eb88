"""Download over HTTP that resumes. It plugs into pooch, which checks the digest and renames the file into place."""

import os
from pathlib import Path
from typing import Any

import requests
from requests.compat import urljoin
from tqdm import tqdm

from eqbook.data.errors import AlteredFileError, RouteError
from eqbook.data.registry import DataFile
from eqbook.data.verify import read_verified, verify

_TIMEOUT = (3.0, 30.0)  # seconds to connect (short: a machine without network goes on to the next route), to read
_CHUNK = 8192  # bytes; a connection that breaks costs the chunk it was in


class ResumableDownload:
    """A pooch downloader for one file.

    Bytes go to `part`, which stays after an interruption, so that the next attempt asks only for the rest.
    Once all bytes are there `part` is checked and given to pooch under the name that it chose (unpacked, if it is
    served packed). It is deleted if it was not good, else by the caller when the file is in its place: pooch computes a
    digest once more, which takes a minute for 12 GB, and a process may be killed meanwhile. A file system without hard
    links gives `part` no second name: there it is renamed, and a process that is killed in that minute loses it.

    Args:
        file: what is expected.
        part: where to collect the bytes.
        progress: show a bar on stderr, if that is a terminal.
    """

    def __init__(self, file: DataFile, part: Path, progress: bool) -> None:
        self.file, self.part, self.progress = file, part, progress

    def __call__(self, url: str, output_file: str, pooch: Any) -> None:
        size = None if self.file.gzip else self.file.size
        receive(url, self.part, limit=self.file.packed_limit, progress=self.progress, size=size)
        try:
            if self.file.gzip:
                Path(output_file).write_bytes(read_verified(self.part, self.file))
            else:
                verify(self.part, self.file)
                _second_name(self.part, Path(output_file))
        except AlteredFileError:
            self.part.unlink(missing_ok=True)
            raise
        finally:
            self.part.with_name(f"{self.part.name}.checked").unlink(missing_ok=True)


def _second_name(path: Path, other: Path) -> None:
    """Not a copy: the file may have 12 GB."""
    other.unlink(missing_ok=True)
    try:
        os.link(path, other)
    except OSError:  # a file system without hard links
        os.replace(path, other)


def receive(url: str, part: Path, limit: int, progress: bool, size: int | None = None) -> None:
    """Bring `part` up to the whole file at `url`, asking only for the bytes it lacks.

    Args:
        url: address of the file.
        part: file to extend; it stays when the transfer breaks off.
        limit: no file longer than this many bytes is accepted.
        progress: show a bar on stderr, if that is a terminal.
        size: length of the whole file in bytes, if it is known: a server that announces another one is left before
            `part` is touched.

    Raises:
        RouteError: if the address cannot be reached, refuses, breaks off, announces another length than `size`, sends
        more than `limit`, or leads from https to another scheme.
    """
    have = part.stat().st_size if part.exists() else 0
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    try:
        hooks = {"response": _stay_encrypted} if url.startswith("https:") else {}
        with requests.get(url, headers=headers, stream=True, timeout=_TIMEOUT, hooks=hooks) as reply:
            if have and reply.status_code == requests.codes.requested_range_not_satisfiable:
                if size is not None and have < size:
                    raise RouteError(f"the server has at most {have} bytes of a file of {size}")
                return  # nothing is missing: the caller checks whether the part is good
            reply.raise_for_status()
            start = _resume_at(reply, have)
            total = _announced(reply, start)
            if size is not None and total not in (None, size):
                raise RouteError(f"the server announced {total} bytes of a file of {size}")
            _save(reply, part, start, limit, progress)
    except requests.RequestException as error:
        kept = f"; {part.stat().st_size} bytes are kept, the next call resumes" if part.exists() else ""
        raise RouteError(f"{_reason(error)}{kept}") from error


def _stay_encrypted(reply: requests.Response, **_: Any) -> None:
    """Raise before a redirect is followed that leads from https to another scheme; called for every reply on the way.

    Raises:
        RouteError: if the reply came from such an address, or leads to one.
    """
    target = urljoin(reply.url, reply.headers.get("Location", "") if reply.is_redirect else "")
    for address in (reply.url, target):
        if not address.lower().startswith("https:"):
            reply.close()
            raise RouteError(f"the server led from https to an address without it, {address[:200]}")


def _resume_at(reply: requests.Response, have: int) -> int:
    """Return the offset at which the reply's bytes belong: `have`, or 0 if the server sends the whole file."""
    if reply.status_code != requests.codes.partial_content:
        return 0
    sent = reply.headers.get("Content-Range", "")
    if not sent.startswith(f"bytes {have}-"):
        raise RouteError(f"the server was asked for bytes {have}- and sent {sent!r}")
    return have


def _announced(reply: requests.Response, start: int) -> int | None:
    """Return the length that the file will have, `None` if the server does not say."""
    if reply.headers.get("Content-Encoding", "identity") != "identity":
        return None  # packed for the way, though we asked not to: the length is that of the packed bytes
    length = reply.headers.get("Content-Length", "")
    return start + int(length) if length.isdecimal() else None


def _save(reply: requests.Response, part: Path, start: int, limit: int, progress: bool) -> None:
    total = _announced(reply, start)
    # disable=None: no bar where stderr is not a terminal
    bar = tqdm(
        total=total, initial=start, unit="B", unit_scale=True, desc=part.stem, disable=None if progress else True
    )
    with bar, part.open("r+b" if start else "wb") as stream:
        stream.seek(0, os.SEEK_END)
        for chunk in reply.iter_content(_CHUNK):
            stream.write(chunk)
            bar.update(len(chunk))
            if stream.tell() > limit:
                break
        size = stream.tell()
    if size > limit:
        part.unlink()
        raise RouteError(f"the server sent more than {limit} bytes")
    if total is not None and size < total:
        raise requests.ConnectionError("broke off")


def _reason(error: requests.RequestException) -> str:
    if isinstance(error, requests.HTTPError):
        return f"the server answered {error.response.status_code} {error.response.reason}"
    if isinstance(error, requests.ConnectTimeout):
        return f"no answer within {_TIMEOUT[0]:g} s"
    if isinstance(error, requests.ReadTimeout):
        return f"no data for {_TIMEOUT[1]:g} s"
    cause: BaseException = error
    while cause.__cause__ or cause.__context__:
        cause = cause.__cause__ or cause.__context__
    return f"the connection failed: {getattr(cause, 'strerror', None) or str(cause)[:200]}"

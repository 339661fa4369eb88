"""The files of a data set: from this machine if they are there, else from the first route that leads to them."""

import contextlib
import os
import sys
from pathlib import Path

from eqbook._files import report
from eqbook.data.errors import AlteredFileError, RouteError, UnreachableError
from eqbook.data.instructions import how_to_place
from eqbook.data.registry import DataFile, DataSet, Edition
from eqbook.data.routes import part_path, routes
from eqbook.data.samples.contents import SAMPLES
from eqbook.data.store import data_directory, locked, make_writable, remove_leftovers
from eqbook.data.verify import verify

Paths = dict[str, Path]


def obtain(
    data_set: DataSet, data_dir: str | os.PathLike[str] | None = None, progress: bool = True
) -> tuple[Edition, Paths]:
    """Return an edition of a data set that is complete and checked, and the path of each of its files by name.

    Editions that are here come first; if none is, they are fetched in their order.

    Args:
        data_set: what is wanted.
        data_dir: directory for data; default the one `EQBOOK_DATA_DIR` names, else the user's cache.
        progress: show progress on stderr, if that is a terminal.

    Raises:
        DataDirectoryError: if the directory is missing or, when something must be fetched, cannot be written.
        UnreachableError: if no edition is complete and no route completes one. It says what to place where.
    """
    folder = data_directory(data_dir) / data_set.name
    found, failures = _look(data_set, folder)
    _remove_parts(found, folder)
    if complete := _complete(found):
        return complete
    make_writable(folder)
    with locked(folder):
        remove_leftovers(folder)
        found, failures = _look(data_set, folder)  # another process may have fetched meanwhile, another edition too
        if complete := _complete(found):
            return complete
        for edition, paths in found.items():
            _fetch_missing(data_set, edition, folder, paths, failures, progress)
            if complete := _complete({edition: paths}):
                return complete
    missing = {edition: [file for file in edition.files if file.name not in found[edition]] for edition in found}
    raise UnreachableError(how_to_place(data_set, folder, missing, failures, data_set.name in SAMPLES))


def _remove_parts(found: dict[Edition, Paths], folder: Path) -> None:
    """Delete the part of a file that is in its place: a process was killed between its last two steps."""
    for edition, paths in found.items():
        for file in edition.files:
            if paths.get(file.name) == folder / file.name:
                with contextlib.suppress(OSError):  # the folder may be one to read from only
                    part_path(folder, file).unlink(missing_ok=True)


def _complete(found: dict[Edition, Paths]) -> tuple[Edition, Paths] | None:
    for edition, paths in found.items():
        if len(paths) == len(edition.files):
            # In the order of the edition, whatever came first: tables of molecules are read one after the other.
            return edition, {file.name: paths[file.name] for file in edition.files}
    return None


def _look(data_set: DataSet, folder: Path) -> tuple[dict[Edition, Paths], list[str]]:
    """Find what is already on this machine; list the copies that were found and are not the published files."""
    failures: list[str] = []
    found = {}
    for edition in data_set.editions:
        found[edition] = _look_for(edition, folder, failures)
        if len(found[edition]) == len(edition.files):
            break  # no need to read the others
    return found, failures


def _look_for(edition: Edition, folder: Path, failures: list[str]) -> Paths:
    places = [folder] + [package.installed for package in edition.packages if package.installed]
    paths: Paths = {}
    for file in edition.files:
        suffixes = ("", ".gz") if file.gzip else ("",)
        for path in (place / (file.name + suffix) for place in places for suffix in suffixes):
            if file.name in paths or not os.path.exists(path):
                continue
            try:
                verify(path, file)
                paths[file.name] = path
            except AlteredFileError as error:
                report(f"found on this machine and not used: {error}")
                failures.append(str(error))
    return paths


def _fetch_missing(
    data_set: DataSet, edition: Edition, folder: Path, paths: Paths, failures: list[str], progress: bool
) -> None:
    """Complete `paths`, going from route to route; a file stays as soon as it has arrived and was checked."""

    def missing() -> list[DataFile]:
        return [file for file in edition.files if file.name not in paths]

    for name, route in routes(edition, folder, progress):
        if not missing():
            return
        if progress and sys.stderr.isatty():
            print(f"{data_set.title}: trying {name}", file=sys.stderr)
        try:
            for file in route(missing()):
                verify(folder / file.name, file)
                paths[file.name] = folder / file.name
                part_path(folder, file).unlink(missing_ok=True)
        except (RouteError, AlteredFileError) as error:
            failures.append(f"{name}: {error}")

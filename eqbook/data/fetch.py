"""Full data sets: from this machine if they are there, else from the first route that leads to them."""

import os
import sys
from pathlib import Path

from eqbook.data.errors import AlteredFileError, RouteError, UnreachableError
from eqbook.data.idx import parse_idx
from eqbook.data.images import ImageSet, image_set
from eqbook.data.instructions import how_to_place
from eqbook.data.registry import FASHION_MNIST, MNIST, DataFile, DataSet
from eqbook.data.routes import part_path, routes
from eqbook.data.store import data_directory, locked, make_writable, remove_leftovers
from eqbook.data.verify import read_verified

_Contents = dict[DataFile, bytes]


def fetch_fashion_mnist(data_dir: str | os.PathLike[str] | None = None, progress: bool = True) -> ImageSet:
    """Return the 60,000 training and 10,000 test images of FashionMNIST (28 x 28, ten kinds of clothes).

    The first call downloads 31 MB and keeps 55 MB; later calls read these files, check their sha256, and need
    no network.

    Args:
        data_dir: directory for data; default the one `EQBOOK_DATA_DIR` names, else the user's cache.
        progress: show progress on stderr, if that is a terminal.

    Raises:
        DataDirectoryError: if the directory is missing or, when something must be fetched, cannot be written.
        UnreachableError: if a file is missing and no route leads to it. It says what to place where.

    References:
        Xiao, Rasul, Vollgraf, "Fashion-MNIST: a novel image dataset for benchmarking machine learning
        algorithms", 2017, https://arxiv.org/abs/1708.07747
    """
    return fetch(FASHION_MNIST, data_dir, progress)


def fetch_mnist(data_dir: str | os.PathLike[str] | None = None, progress: bool = True) -> ImageSet:
    """Return the 60,000 training and 10,000 test images of MNIST (28 x 28, handwritten digits).

    The first call downloads 12 MB and keeps 55 MB; later calls read these files, check their sha256, and need
    no network.

    Args:
        data_dir: directory for data; default the one `EQBOOK_DATA_DIR` names, else the user's cache.
        progress: show progress on stderr, if that is a terminal.

    Raises:
        DataDirectoryError: if the directory is missing or, when something must be fetched, cannot be written.
        UnreachableError: if a file is missing and no route leads to it. It says what to place where.

    References:
        LeCun, Bottou, Bengio, Haffner, "Gradient-based learning applied to document recognition", Proceedings
        of the IEEE 86(11), 1998, https://doi.org/10.1109/5.726791
    """
    return fetch(MNIST, data_dir, progress)


def fetch(data_set: DataSet, data_dir: str | os.PathLike[str] | None = None, progress: bool = True) -> ImageSet:
    """Return a data set of the registry. `fetch_fashion_mnist` and `fetch_mnist` say how it behaves."""
    folder = data_directory(data_dir) / data_set.name
    contents, failures = _read_local(data_set, folder)
    if len(contents) < len(data_set.files):
        make_writable(folder)
        with locked(folder):
            remove_leftovers(folder)
            contents, failures = _read_local(data_set, folder)  # another process may have fetched meanwhile
            _fetch_missing(data_set, folder, contents, failures, progress)
    return image_set(data_set, [parse_idx(contents[file], file.name) for file in data_set.files])


def _read_local(data_set: DataSet, folder: Path) -> tuple[_Contents, list[str]]:
    """Read what is already on this machine; list the copies that were found and are not the published files."""
    places = [folder] + [package.installed for package in data_set.packages if package.installed]
    contents: _Contents = {}
    failures = []
    for file in data_set.files:
        for path in (place / (file.name + suffix) for place in places for suffix in ("", ".gz")):
            if file in contents or not os.path.exists(path):
                continue
            try:
                contents[file] = read_verified(path, file)
            except AlteredFileError as error:
                failures.append(str(error))
    return contents, failures


def _fetch_missing(data_set: DataSet, folder: Path, contents: _Contents, failures: list[str], progress: bool) -> None:
    """Complete `contents`, going from route to route; a file stays as soon as it has arrived and was checked."""

    def missing() -> list[DataFile]:
        return [file for file in data_set.files if file not in contents]

    for name, route in routes(data_set, folder, progress):
        if not missing():
            return
        if progress and sys.stderr.isatty():
            print(f"{data_set.title}: trying {name}", file=sys.stderr)
        try:
            for file in route(missing()):
                contents[file] = read_verified(folder / file.name, file)
                part_path(folder, file).unlink(missing_ok=True)
        except (RouteError, AlteredFileError) as error:
            failures.append(f"{name}: {error}")
    if missing():
        raise UnreachableError(how_to_place(data_set, folder, missing(), failures))

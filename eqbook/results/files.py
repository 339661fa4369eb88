"""Where recorded runs lie, and how their files are read and written."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from eqbook._files import remove_left_over, write_whole

LONGEST = 200  # letters of a name: file systems take some 255, and a file is written under a longer name first


class ResultsError(ValueError):
    """A recorded run that cannot be found, read or written."""


def results_dir() -> Path:
    """The folder of the recorded runs.

    `EQBOOK_RESULTS_DIR` names it. Otherwise it is `book/results` of the book that the working directory belongs to, or
    of the checkout that the package was installed from.

    Raises:
        ResultsError: if there is no such folder.
    """
    named = os.environ.get("EQBOOK_RESULTS_DIR")
    if named:
        try:
            folder = Path(named).expanduser()
        except RuntimeError:  # `~name` without such a user
            folder = Path(named)
        if not folder.is_dir():
            raise ResultsError(f"`EQBOOK_RESULTS_DIR`: expected an existing folder, got {named!r}; create or unset it.")
        return folder
    for root in _books():
        if (root / "book" / "results").is_dir():
            return root / "book" / "results"
    raise ResultsError(
        f"no folder book/results above {Path.cwd()}; run inside a checkout of the book, or set `EQBOOK_RESULTS_DIR`."
    )


def benchmark(case: str, backend: str = "cpu") -> dict[str, Any]:
    """A recorded benchmark, `benchmarks/results/<case>.json` of the book around the working directory.

    Where there is no such book it is the one of the checkout that the package was installed from.
    `EQBOOK_RESULTS_DIR` has no part in it.

    Args:
        case: name of the benchmark, such as `c4_16`.
        backend: where it ran, `"cpu"` or `"gpu"`; records of the latter are `<case>-gpu.json`.

    Raises:
        ResultsError: if a name is not a plain one, or there is no such record, or it cannot be read.
    """
    _check_name("case", case)
    _check_name("backend", backend)
    name = case if backend == "cpu" else f"{case}-{backend}"
    for root in _books():
        if (path := root / "benchmarks" / "results" / f"{name}.json").is_file():
            return load_json(path)
    raise ResultsError(
        f"no benchmarks/results/{name}.json above {Path.cwd()}; run inside a checkout of the book, with the name of a "
        "recorded benchmark."
    )


def _books() -> Iterator[Path]:
    """Roots of books: around the working directory, then the checkout that the package was installed from."""
    here = Path.cwd().resolve()
    for root in (here, *here.parents, Path(__file__).resolve().parents[2]):
        if (root / "_config.yml").is_file():
            yield root


def _check_name(argument: str, name: Any) -> None:
    if not isinstance(name, str) or not name.replace("_", "").isalnum() or len(name.encode()) > LONGEST:
        raise ResultsError(
            f"`{argument}`: expected a name of letters, digits and underscores, {LONGEST} at most, got {name!r}."
        )


def chapter_path(chapter: str, folder: str = "") -> Path:
    """The file of a chapter, in `folder` below `results_dir()`.

    Raises:
        ResultsError: if `chapter` is not a plain name, or there is no results folder.
    """
    _check_name("chapter", chapter)
    return results_dir() / folder / f"{chapter}.json"


def load_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file.

    Raises:
        ResultsError: if the file cannot be read or does not hold one JSON object.
    """
    try:
        content = json.loads(path.read_text(encoding="utf8"))
    except (OSError, ValueError, RecursionError) as error:  # a ValueError is bad UTF-8, JSON, or an endless integer
        raise ResultsError(f"{path.name}: cannot be read as JSON ({error}); restore the file.") from error
    if not isinstance(content, dict):
        raise ResultsError(f"{path.name}: expected one JSON object, got {type(content).__name__}; restore the file.")
    return content


def write_atomically(path: Path, text: str) -> None:
    """Write a file completely or not at all: under a temporary name, then renamed.

    Raises:
        ResultsError: if the folder cannot be written to; nothing is left behind, and an older file stays.
    """
    try:
        remove_left_over(path.parent)
        write_whole(path, text.encode("utf8"))
    except OSError as error:
        raise ResultsError(
            f"{path.name}: cannot be written to {path.parent} ({error.strerror}); make that folder writable, or set "
            "`EQBOOK_RESULTS_DIR` to one that is."
        ) from error

"""Where long computations keep what they have found, if the environment says that they should."""

import os
from collections.abc import Callable
from itertools import count
from pathlib import Path

VARIABLE = "EQBOOK_STORE_DIR"


def store_directory() -> Path | None:
    """The directory that the environment variable `EQBOOK_STORE_DIR` names; `None` if it is not set.

    Raises:
        ValueError: if it does not exist: a mistyped path would otherwise lose hours of work.
    """
    named = os.environ.get(VARIABLE)  # set but empty counts as not set
    if not named:
        return None
    path = Path(named).expanduser().absolute()
    if not path.is_dir():
        raise ValueError(f"`{VARIABLE}`: expected an existing directory, got {named!r}; create it, or unset it.")
    return path


def first_folder(directory: Path, name: str, fits: Callable[[Path], bool]) -> Path:
    """The first of `name-0`, `name-1`, ... that does not exist yet, or that holds the computation."""
    folders = (directory / f"{name}-{number}" for number in count())
    return next(folder for folder in folders if not folder.exists() or fits(folder))

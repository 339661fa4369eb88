"""Recorded runs of the paper profile: written once, read by every build."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from eqbook._files import DIGEST, is_sealed, sealed
from eqbook.profiles import profile
from eqbook.results.circumstances import commit_of, device_name, short_commit, versions
from eqbook.results.files import ResultsError, chapter_path, load_json, write_atomically
from eqbook.results.quantity import Quantity, is_finite


@dataclass(frozen=True)
class Recorded:
    """A recorded run of the paper profile.

    Attributes:
        chapter: name of the chapter.
        settings: sizes and choices of the run.
        values: results, plain numbers, lists and dictionaries.
        versions: versions of Python and of the packages.
        device: what it ran on.
        date: UTC, ISO 8601.
        commit: git commit of the sources, `+dirty` behind it if they were changed, or `unknown`.
        wall_time_s: duration in seconds.
    """

    chapter: str
    settings: dict[str, Any]
    values: dict[str, Any]
    versions: dict[str, str]
    device: str
    date: str
    commit: str
    wall_time_s: float

    def quantity(self, key: str, *inner: str) -> Quantity | None:
        """The value `key` with its uncertainty, or `None` if the run did not record it.

        Args:
            key: name of the value.
            inner: names inside of it, if it is a dictionary.

        Raises:
            ResultsError: if the run recorded something else under this name, such as a list.
        """
        found: Any = self.values
        for name in (key, *inner):
            if not isinstance(found, Mapping) or name not in found:
                return None
            found = found[name]
        try:
            return Quantity.from_json(found)
        except ValueError as error:
            where = "".join(f"[{name!r}]" for name in (key, *inner))
            raise ResultsError(
                f"`{key}`: expected a number in the recorded run of {self.chapter!r}, got {str(found)[:80]}; name a "
                f"key with a number, or read `values{where}` yourself."
            ) from error

    def __str__(self) -> str:
        minutes = self.wall_time_s / 60
        return f"{self.date[:10]}, {self.device}, {minutes:.1f} min, commit {short_commit(self.commit)}"


def write(chapter: str, settings: Mapping[str, Any], values: Mapping[str, Any], wall_time_s: float) -> Path:
    """Record a run of the paper profile in `<results>/<chapter>.json`, completely or not at all.

    Args:
        chapter: name of the chapter, a file name without its ending.
        settings: sizes and choices of the run.
        values: results: numbers, arrays, `Quantity`, lists and dictionaries of these.
        wall_time_s: duration of the run in seconds.

    Returns:
        Path of the file.

    Raises:
        ResultsError: under another profile than `paper`, for a value that JSON cannot hold (NaN included), or if the
            folder cannot be written to.
    """
    if profile() != "paper":
        raise ResultsError(
            f"`EQBOOK_PROFILE`: expected paper, got {profile()}; only runs of the papers' sizes are recorded."
        )
    if not is_finite(wall_time_s) or wall_time_s < 0:
        raise ResultsError(f"`wall_time_s`: expected a duration in seconds, got {wall_time_s!r}.")
    path = chapter_path(chapter)
    for name, entries in (("settings", settings), ("values", values)):
        if not isinstance(entries, Mapping):
            raise ResultsError(f"`{name}`: expected a dictionary, got {entries!r}.")
    try:
        settings, values = _plain("settings", settings), _plain("values", values)
    except RecursionError:
        raise ResultsError(
            "`settings`, `values`: expected numbers, text, and lists and dictionaries of these, got one that "
            "holds itself, or too many within one another."
        ) from None
    record = Recorded(
        chapter=chapter,
        settings=settings,
        values=values,
        versions=versions(),
        device=device_name(),
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        commit=commit_of(Path.cwd()),
        wall_time_s=round(float(wall_time_s), 3),
    )
    content = asdict(record)
    write_atomically(path, json.dumps(sealed(content), indent=1, ensure_ascii=False) + "\n")
    return path


def read(chapter: str) -> Recorded | None:
    """The recorded run of a chapter, or `None` if there is none yet.

    Args:
        chapter: name of the chapter.

    Raises:
        ResultsError: if the folder is missing, or the file is malformed or was changed after it was written.
    """
    path = chapter_path(chapter)
    if not path.exists():
        return None
    content = load_json(path)
    unchanged = is_sealed(content)
    content.pop(DIGEST, None)
    fields = set(Recorded.__dataclass_fields__)
    if set(content) != fields:
        raise ResultsError(
            f"{path.name}: expected the entries {', '.join(sorted(fields))}, got {', '.join(sorted(content))}; "
            "restore the file, or record the run again with EQBOOK_PROFILE=paper."
        )
    if not unchanged or content["chapter"] != chapter:
        raise ResultsError(
            f"{path.name}: was changed after it was recorded (its sha256 does not fit); restore the file, or record "
            "the run again with EQBOOK_PROFILE=paper. Recorded numbers are never typed by hand."
        )
    return Recorded(**content)


def _plain(name: str, value: Any) -> Any:
    """A value as JSON holds it; arrays become lists, quantities dictionaries."""
    if isinstance(value, Quantity):
        return _plain(name, value.to_json())
    if isinstance(value, Mapping):
        if len(set(map(str, value))) < len(value):
            raise ResultsError(f"`{name}`: expected keys that differ as text, got {list(value)}.")
        return {_plain(name, str(key)): _plain(f"{name}[{key!r}]", entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(f"{name}[{index}]", entry) for index, entry in enumerate(value)]
    if isinstance(value, str) and value != value.encode(errors="replace").decode():
        raise ResultsError(f"`{name}`: expected text that UTF-8 can hold, got {value!r}.")
    if isinstance(value, str | bool | type(None)):
        return value
    if hasattr(value, "dtype") and not isinstance(value, np.ma.MaskedArray):  # NumPy and JAX, arrays and scalars
        return _plain(name, _python_numbers(name, value))
    if not is_finite(value):
        raise ResultsError(f"`{name}`: expected finite numbers, text, lists or dictionaries of these, got {value!r}.")
    return value


def _python_numbers(name: str, value: Any) -> Any:
    """The numbers of an array, in lists."""
    try:
        array = np.asarray(value)
        if array.dtype.kind in "biufSUOV":
            # numbers of more than 64 bits stay NumPy's in a list
            return (array.astype(float) if array.dtype.kind == "f" else array).tolist()
    except TypeError:  # keys of random numbers
        pass
    raise ResultsError(f"`{name}`: expected an array of numbers, got dtype {value.dtype}.")

"""The two sizes of every experiment: `quick` for a laptop, `paper` for the papers' settings on a GPU."""

import json
import math
import os
import re
from collections.abc import Iterable, Mapping
from numbers import Number
from pathlib import Path
from typing import Any, Literal, TypeVar

T = TypeVar("T")
PROFILES = ("quick", "paper")
CHANGES = "EQBOOK_SETTINGS"
NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?")
KINDS = (bool, str, Number, (list, tuple), Mapping)


def profile() -> Literal["quick", "paper"]:
    """The profile that the environment variable `EQBOOK_PROFILE` asks for; `quick` if it is not set.

    Raises:
        ValueError: if the variable has another value.
    """
    name = os.environ.get("EQBOOK_PROFILE", "quick")
    if name not in PROFILES:
        raise ValueError(f"`EQBOOK_PROFILE`: expected one of {', '.join(PROFILES)}, got {name!r}; unset it for quick.")
    return name


def choose(*, quick: T, paper: T) -> T:
    """The value that belongs to the present profile.

    Args:
        quick: value for the first build on two cores.
        paper: value for the papers' sizes.
    """
    return {"quick": quick, "paper": paper}[profile()]


def settings(**defaults: Any) -> dict[str, Any]:
    """The settings of a chapter: `defaults`, but for those that the environment variable `EQBOOK_SETTINGS` changes.

    The variable holds a JSON object such as `{"members": 10}`, or the path of a file with one. The file of a recorded
    run serves as well, with the settings of that run. Lists become tuples, and keys numbers where those of the default
    are, at every depth.

    Args:
        defaults: settings of the profile, by name.

    Raises:
        ValueError: if the variable holds neither, names a setting that is not among `defaults` or anything twice, or
            gives text, numbers, truth values, lists and dictionaries in place of one another, or numbers that are not
            finite. `None` may stand for anything, and anything for `None`.
    """
    given = os.environ.get(CHANGES, "").strip()
    if not given:
        return defaults
    changes = _read(given)
    unknown = sorted(set(changes) - set(defaults))
    if unknown:
        raise ValueError(
            f"`{CHANGES}`: expected names among {', '.join(defaults)}, got {', '.join(unknown)}; each chapter has "
            "settings of its own: run one chapter at a time, and take out what it does not have (any more)."
        )
    try:
        return defaults | {name: _like(defaults[name], value, name) for name, value in changes.items()}
    except RecursionError:
        raise ValueError(f"`{CHANGES}`: expected fewer lists within lists than there are.") from None


def _read(given: str) -> dict[str, Any]:
    """The object that the variable holds or names, or the `settings` of a recorded run."""
    is_json = given[0] in '{["' or given in ("null", "true", "false")
    try:
        text = given if is_json else Path(given).expanduser().read_text(encoding="utf-8")
        found = json.loads(text, parse_float=_finite, parse_constant=_finite, object_pairs_hook=_each_once)
    except (OSError, RuntimeError, ValueError) as error:  # `~name` without such a user is a RuntimeError
        raise ValueError(f"`{CHANGES}`: expected a JSON object or the path of a file with one: {error}.") from None
    if isinstance(found, dict) and {"chapter", "settings", "values"} <= set(found):
        found = found["settings"]
    if not isinstance(found, dict):
        raise ValueError(f"`{CHANGES}`: expected a JSON object, got {str(found)[:80]}.")
    return found


def _finite(number: str) -> float:
    if not math.isfinite(value := float(number)):
        raise ValueError(f"{number} is not a finite number")
    return value


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(found := dict(pairs)) < len(pairs):
        raise ValueError(f"a name stands twice among {', '.join(name for name, _ in pairs)}")
    return found


def _like(default: Any, value: Any, name: str) -> Any:
    """`value` as JSON gives it, in the form of `default`: tuples, and keys that are no text."""
    if default is not None and value is not None and _kind(value) is not _kind(default) is not object:
        raise ValueError(f"`{CHANGES}`: expected `{name}` to be like {default!r}, got {value!r}.")
    if isinstance(value, list):
        one_like = _example(default) if isinstance(default, list | tuple) else None
        return tuple(_like(one_like, one, f"{name}[{i}]") for i, one in enumerate(value))
    if isinstance(value, dict):
        known = default if isinstance(default, Mapping) else {}
        entries = [(_key(key, known), one) for key, one in value.items()]
        if len(dict(entries)) < len(entries):
            raise ValueError(f"`{CHANGES}`: expected keys of `{name}` that differ as numbers, got {', '.join(value)}.")
        return {key: _like(known.get(key, _example(known.values())), one, f"{name}[{key!r}]") for key, one in entries}
    return value


def _key(text: str, known: Mapping) -> Any:
    """The key of `known` that a text stands for, or a number if those are numbers; else the text itself."""
    for key in known:
        if str(key) == text:
            return key
    if known and all(isinstance(key, int | float) for key in known) and (found := NUMBER.fullmatch(text)):
        return float(text) if any(found.groups()) else int(text)
    return text


def _kind(default: Any) -> Any:
    return next((kind for kind in KINDS if isinstance(default, kind)), object)


def _example(entries: Iterable) -> Any:
    """One of the entries, if all are of one kind: what others beside them should be like."""
    entries = list(entries)
    return entries[0] if entries and len({str(_kind(entry)) for entry in entries}) == 1 else None

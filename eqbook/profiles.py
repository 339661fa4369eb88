"""The two sizes of every experiment: `quick` for a laptop, `paper` for the papers' settings on a GPU."""

import json
import os
from collections.abc import Mapping
from numbers import Number
from pathlib import Path
from typing import Any, Literal, TypeVar

T = TypeVar("T")
PROFILES = ("quick", "paper")
CHANGES = "EQBOOK_SETTINGS"


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
    run serves as well, with the settings of that run. Lists become tuples.

    Args:
        defaults: settings of the profile, by name.

    Raises:
        ValueError: if the variable holds neither, names a setting that is not among `defaults`, or gives text, numbers,
            lists and dictionaries in place of one another. `None` may stand for anything, and anything for `None`.
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
    return defaults | {name: _like(defaults[name], value, name) for name, value in changes.items()}


def _read(given: str) -> dict[str, Any]:
    """The object that the variable holds or names, or the `settings` of a recorded run."""
    try:
        found = json.loads(given if given.startswith("{") else Path(given).expanduser().read_text(encoding="utf-8"))
    except (OSError, RuntimeError, ValueError) as error:  # `~name` without such a user is a RuntimeError
        raise ValueError(f"`{CHANGES}`: expected a JSON object or the path of a file with one: {error}.") from None
    if not isinstance(found, dict):
        raise ValueError(f"`{CHANGES}`: expected a JSON object, got {found!r}.")
    return found["settings"] if {"chapter", "settings", "values"} <= set(found) else found


def _like(default: Any, value: Any, name: str) -> Any:
    """`value` as JSON gives it, in the form of `default`: tuples, and keys that are no text."""
    kinds = (bool, str, Number, (list, tuple), Mapping)
    kind = next((kind for kind in kinds if isinstance(default, kind)), object)
    if default is not None and value is not None and not isinstance(value, kind):
        raise ValueError(f"`{CHANGES}`: expected `{name}` to be like {default!r}, got {value!r}.")
    if isinstance(value, list):
        return tuple(_like(None, one, name) for one in value)
    if isinstance(value, dict):
        keys = {str(key): key for key in default} if isinstance(default, Mapping) else {}
        return {keys.get(key, key): _like(None, one, name) for key, one in value.items()}
    return value

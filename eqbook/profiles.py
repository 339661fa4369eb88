"""The two sizes of every experiment: `quick` for a laptop, `paper` for the papers' settings on a GPU."""

import os
from typing import Literal, TypeVar

T = TypeVar("T")
PROFILES = ("quick", "paper")


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

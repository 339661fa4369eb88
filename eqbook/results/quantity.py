"""A number with its uncertainty."""

import math
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import Real

from eqbook._checks import check_finite, check_level


@dataclass(frozen=True)
class Quantity:
    """A number and how sure it is.

    Args:
        value: the number; `None` if only an interval is known.
        uncertainty: half-width, shown behind a plus-minus sign.
        interval: lower and upper end, shown as `low to high`.

    Raises:
        ValueError: if a number is not finite, the half-width is negative, both are given, or the ends are exchanged.

    Numbers of NumPy and JAX become Python's.
    """

    value: float | None
    uncertainty: float | None = None
    interval: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if self.interval is not None and not (isinstance(self.interval, tuple | list) and len(self.interval) == 2):
            raise ValueError(f"`interval`: expected (lower, upper), got {self.interval!r}.")
        if self.value is None and self.interval is None:
            raise ValueError("`value`: expected a number, or an `interval`, got neither.")
        for name in ("value", "uncertainty"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, _python_number(name, getattr(self, name)))
        if self.interval is not None:
            object.__setattr__(self, "interval", tuple(_python_number("interval", end) for end in self.interval))
        if self.uncertainty is not None and (self.interval is not None or self.uncertainty < 0):
            raise ValueError("`uncertainty`: expected a half-width of at least 0 and no `interval` beside it.")
        if self.interval is not None and self.interval[0] > self.interval[1]:
            raise ValueError(f"`interval`: expected (lower, upper), got {self.interval}.")

    def __str__(self) -> str:
        if self.uncertainty is not None:
            digits = _decimals(self.uncertainty, self.value)
            return f"{_shown(self.value, digits)} ± {_shown(self.uncertainty, digits)}"
        if self.interval is not None:
            low, high = self.interval
            digits = _decimals(high / 2 - low / 2, low if self.value is None else self.value)
            ends = f"{_shown(low, digits)} to {_shown(high, digits)}"
            return ends if self.value is None else f"{_shown(self.value, digits)} ({ends})"
        whole = 1e4 <= abs(self.value) < 1e15 and self.value == round(self.value)
        return f"{self.value:,.0f}" if whole else f"{self.value:.4g}"

    @classmethod
    def of_draws(cls, value: float, draws: Real[np.ndarray, " n"], level: float = 0.95) -> "Quantity":
        r"""A number, with the ends of the middle `level` of what resampling made of it.

        Args:
            value: the number itself, or `np.median(draws)`.
            draws: resampled values, in any shape.
            level: share of the draws in the interval, between 0 and 1; 1 for all of them.

        Raises:
            ValueError: if there is no draw, a number is not finite, or the level is not between 0 and 1.
        """
        level = 1.0 if is_number(level) and level == 1 else check_level("level", level)
        check_finite("draws", draws)
        if np.size(draws) == 0:
            raise ValueError(f"`draws`: expected at least one number, got shape {np.shape(draws)}.")
        low, high = np.percentile(np.asarray(draws), [50 - 50 * level, 50 + 50 * level])
        return cls(value, interval=(float(low), float(high)))

    def to_json(self) -> dict[str, Any]:
        """A dictionary that `from_json` reads."""
        fields = {"value": self.value, "uncertainty": self.uncertainty, "interval": self.interval}
        return {name: value for name, value in fields.items() if value is not None}

    @classmethod
    def from_json(cls, entry: Any) -> "Quantity":
        """A quantity from a number or from what `to_json` made.

        Raises:
            ValueError: if the entry is neither.
        """
        if is_number(entry):
            return cls(entry)
        if not isinstance(entry, dict) or not entry or set(entry) - {"value", "uncertainty", "interval"}:
            raise ValueError(f"`entry`: expected a number, or value, uncertainty and interval, got {entry!r}.")
        interval = entry.get("interval")
        interval = tuple(interval) if isinstance(interval, list) else interval
        return cls(entry.get("value"), entry.get("uncertainty"), interval)


def is_number(value: Any) -> bool:
    """Whether `value` is a single real number."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def is_finite(value: Any) -> bool:
    """Whether `value` is a single real number that a Python float can hold."""
    try:
        return is_number(value) and math.isfinite(value)
    except OverflowError:  # an integer of more than 308 digits
        return False


def _python_number(name: str, value: Any) -> int | float:
    """A number of Python from one of NumPy's or JAX's, which may be an array without axes."""
    number = value.item() if isinstance(value, np.ndarray | jax.Array) and value.ndim == 0 else value
    if not is_finite(number):
        raise ValueError(f"`{name}`: expected a finite number, got {value!r}.")
    return int(number) if isinstance(number, int | np.integer) else float(number)


def _decimals(width: float, value: float) -> int:
    """Decimal places that show two significant digits of an uncertainty; of a sure number four digits, 3 at least."""
    if width > 0:
        return max(0, 1 - math.floor(math.log10(float(f"{width:.1e}"))))  # 0.0996 is shown as 0.10
    return 3 if value == 0 else max(3, 3 - math.floor(math.log10(abs(value))))


def _shown(number: float, digits: int) -> str:
    """A number with so many decimal places; by its power of ten where that would be a row of zeros."""
    if digits <= 12 and abs(number) < 1e15:
        return f"{number:.{digits}f}"
    # as many digits as an uncertainty far below the number shows of it
    more = digits + math.floor(math.log10(abs(number))) if digits > 12 and number else 0
    return f"{number:.{min(max(3, more), 16)}e}"

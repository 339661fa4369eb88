"""A number with its uncertainty."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Quantity:
    """A number and how sure it is.

    Args:
        value: the number; `None` if only an interval is known.
        uncertainty: half-width, shown behind a plus-minus sign.
        interval: lower and upper end, shown as `low to high`.

    Raises:
        ValueError: if a number is not finite, the half-width is negative, both are given, or the ends are exchanged.
    """

    value: float | None
    uncertainty: float | None = None
    interval: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if self.interval is not None and not (isinstance(self.interval, tuple | list) and len(self.interval) == 2):
            raise ValueError(f"`interval`: expected (lower, upper), got {self.interval!r}.")
        given = [self.value, self.uncertainty, *(self.interval or ())]
        numbers = [*(number for number in given[:2] if number is not None), *given[2:]]
        if not numbers or not all(is_number(number) and np.isfinite(number) for number in numbers):
            raise ValueError(f"`value`: expected finite numbers, got {given}.")
        if self.value is None and self.interval is None:
            raise ValueError("`value`: expected a number, or an `interval`, got neither.")
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
            digits = _decimals((high - low) / 2, low if self.value is None else self.value)
            ends = f"{_shown(low, digits)} to {_shown(high, digits)}"
            return ends if self.value is None else f"{_shown(self.value, digits)} ({ends})"
        return f"{self.value:.4g}"

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


def _decimals(width: float, value: float) -> int:
    """Decimal places that show two significant digits of an uncertainty; of a sure number four digits, 3 at least."""
    if width > 0:
        return max(0, 1 - math.floor(math.log10(width)))
    return 3 if value == 0 else max(3, 3 - math.floor(math.log10(abs(value))))


def _shown(number: float, digits: int) -> str:
    """A number with so many decimal places; by its power of ten where that would be a row of zeros."""
    return f"{number:.{digits}f}" if digits <= 12 and abs(number) < 1e15 else f"{number:.3e}"

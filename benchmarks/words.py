"""Names and numbers as the tables show them."""

from collections.abc import Callable, Iterable
from typing import Any

from benchmarks.cases import CASES

JUDGED = "✓ met, ✗ missed."
OTHERS = {
    "scaling": "growth of the cost",
    "ensembles": "ensemble of CNNs",
    "ensembles_dense": "ensemble of dense networks",
}


def label(name: str) -> str:
    """The name that the book has for a record, such as `C₄, 16 × 16` for `c4_16`."""
    return CASES[name].label if name in CASES else OTHERS[name]


def device(records: dict[str, dict[str, Any]]) -> str:
    """The kind of device that all records are from, `CPU` or `GPU`."""
    (kind,) = {record["circumstances"]["backend"] for record in records.values()}
    return kind.upper()


def number(value: float) -> str:
    """Three digits, without an exponent above 1: `2,220`."""
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 100 else f"{rounded:.3g}"


def seconds(value: float) -> str:
    """A duration in a unit that suits it, with three digits."""
    units = ((1, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
    factor, unit = next((one for one in units if value >= one[0]), units[-1])
    scaled = float(f"{value / factor:.3g}")
    return f"{number(scaled) if scaled >= 100 else f'{scaled:#.3g}'} {unit}"


def size(value: float) -> str:
    """Bytes of memory in a unit that suits them."""
    return f"{value / 2**30:.2f} GiB" if value >= 2**30 else f"{value / 2**20:.0f} MiB"


def amount(value: float, unit: str = "") -> str:
    """A large number in millions, or in units such as `B` with a prefix."""
    if not unit:
        return f"{number(value / 1e6)} million" if value >= 1e6 else number(value)
    scales = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1, ""))
    factor, prefix = next((one for one in scales if value >= one[0]), scales[-1])
    return f"{number(value / factor)} {prefix}{unit}"


def spread(time: dict[str, Any]) -> tuple[str, str, str, int]:
    """Median, shortest and longest time, and the number of runs."""
    return *(seconds(time[f"{which}_s"]) for which in ("median", "best", "worst")), time["runs"]


def error(value: float, digits: int = 1) -> str:
    """A relative difference: `1.1e-06`, or `0`."""
    return f"{value:.{digits}e}" if value else "0"


def judged(goal: dict[str, Any], show: Callable[[float], str] = number) -> str | None:
    """A target and whether it was met, as `JUDGED` says; `None` without one."""
    if goal["target"] is None:
        return None
    return f"{show(goal['target'])} {'✓' if goal['met'] else '✗'}"


def grouped(rows: Iterable[tuple[str, tuple]]) -> list[str | tuple]:
    """Rows of a table below their headings, those of one heading together.

    Args:
        rows: pairs of a heading and a row.
    """
    groups: dict[str, list[tuple]] = {}
    for heading, row in rows:
        groups.setdefault(heading, []).append(row)
    return [line for heading, members in groups.items() for line in (heading, *members)]

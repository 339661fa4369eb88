"""The papers' own numbers, each with the place it was read from."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from eqbook.results.files import ResultsError, chapter_path, load_json
from eqbook.results.quantity import Quantity, is_number


@dataclass(frozen=True)
class PaperValue:
    """A number, or a curve, that a paper prints.

    Attributes:
        value: number or list of numbers; `None` if the paper gives only a band.
        uncertainty: what the paper gives behind a plus-minus sign, or `None`.
        interval: a band that the paper draws, two numbers or two lists, or `None`.
        paper: authors, title, year.
        place: figure, table or page.
        how: how the number was read, and what the paper leaves open about it.
    """

    value: float | list[float] | None
    uncertainty: float | None
    interval: list | None
    paper: str
    place: str
    how: str

    def quantity(self, index: int | None = None) -> Quantity:
        """The number, or entry `index` of the curve, with its uncertainty.

        Raises:
            ResultsError: if the curve has no such entry, or there is no curve, or one and no `index`.
        """
        given = [self.value, *(self.interval or ())]
        curves = [entry for entry in given if isinstance(entry, list)]
        if index is None and curves:
            raise ResultsError(f"`index`: expected an entry of a curve of {len(curves[0])}, got None.")
        if index is not None:
            size = len(curves[0]) if curves else 0
            if not isinstance(index, int | np.integer) or isinstance(index, bool) or not -size <= index < size:
                expected = f"0 .. {size - 1}" if curves else "None for a single number"
                raise ResultsError(f"`index`: expected {expected}, got {index!r}.")

        def at(entry):
            return entry if index is None or entry is None else entry[index]

        interval = None if self.interval is None else (at(self.interval[0]), at(self.interval[1]))
        return Quantity(at(self.value), self.uncertainty, interval)


def paper_values(chapter: str) -> dict[str, PaperValue]:
    """The papers' numbers for a chapter, by name, each with its source.

    Args:
        chapter: name of the chapter.

    Raises:
        ResultsError: if the file is missing or malformed.
    """
    path = chapter_path(chapter, "papers")
    if not path.exists():
        raise ResultsError(f"papers/{path.name}: not found in {path.parent}; restore it from the book's sources.")
    content = load_json(path)
    if not isinstance(content.get("values"), dict) or not isinstance(content.get("paper"), str):
        raise ResultsError(f"papers/{path.name}: expected the entries `paper` (text) and `values` (by name).")
    return {name: _paper_value(path.name, content["paper"], name, entry) for name, entry in content["values"].items()}


def _paper_value(file: str, paper: str, name: str, entry: Any) -> PaperValue:
    wanted, optional = {"value", "place", "how"}, {"uncertainty", "interval"}
    if not isinstance(entry, dict) or not wanted <= set(entry) <= wanted | optional:
        raise ResultsError(f"papers/{file}: `{name}`: expected the entries value, place and how, got {entry!r}.")
    value, interval = entry["value"], entry.get("interval")
    if interval is not None and not (isinstance(interval, list) and len(interval) == 2):
        raise ResultsError(f"papers/{file}: `{name}`: expected an interval of two ends, got {interval!r}.")
    curves = [*([] if value is None else [value]), *(interval or [])]
    sizes = {len(curve) if isinstance(curve, list) else 0 for curve in curves}
    numbers = [number for curve in curves for number in (curve if isinstance(curve, list) else [curve])]
    if len(sizes) != 1 or not numbers or not all(is_number(number) for number in numbers):
        raise ResultsError(f"papers/{file}: `{name}`: expected numbers, or lists of one length, got {curves!r}.")
    found = PaperValue(value, entry.get("uncertainty"), interval, paper, entry["place"], entry["how"])
    try:
        for index in range(len(curves[0])) if isinstance(curves[0], list) else (None,):
            found.quantity(index)
    except ValueError as error:
        raise ResultsError(f"papers/{file}: `{name}`: {error}") from None
    return found

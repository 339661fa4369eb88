"""Tables of results, foremost that of three columns: the paper, the recorded run, this build."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from eqbook.profiles import profile
from eqbook.results.quantity import Quantity
from eqbook.results.record import read

WHOLE = 34  # characters up to which a cell is not broken: a number with its interval
SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")


@dataclass(frozen=True)
class Row:
    """One line of a comparison.

    Attributes:
        label: what the number is, in words.
        build: what this build has found.
        key: name of the value in the recorded run, or `None`; of a value inside of another one, both names.
        paper: what the paper says, or `None` if it says nothing.
        record: name of another recorded run for this row; `None` is that of the table.
    """

    label: str
    build: Quantity | None
    key: str | tuple[str, ...] | None = None
    paper: Quantity | None = None
    record: str | None = None


class Table:
    """Rows under a head: shows itself as a table in a notebook, and as text elsewhere.

    Args:
        head: names of the columns; that of the labels is often empty.
        rows: each with a cell for every column; or a text alone, a heading of the rows that follow. A cell is text, a
            `Quantity`, an integer, a float, shown with three digits, or `None`, shown as a dash.
        caption: a sentence above the table.
        note: what stands below it: settings, what intervals mean.

    A notebook shows `*a*` and `d_B`, symbols of one letter, in italics and with its subscript, C₄ with one large enough
    to read, and a hyphen in front of a number as a minus.

    Attributes:
        rows: the cells as text.

    Raises:
        ValueError: if head, rows, caption or note are of another kind, there is no row, or one has more or fewer cells
            than the head.
    """

    def __init__(
        self, head: Sequence[str], rows: Iterable[str | Sequence[Any]], caption: str = "", note: str = ""
    ) -> None:
        for name, value in (("caption", caption), ("note", note)):
            if not isinstance(value, str):
                raise ValueError(f"`{name}`: expected text, got {value!r}.")
        if isinstance(head, str) or not isinstance(head, Iterable):
            raise ValueError(f"`head`: expected the names of the columns, got {head!r}.")
        if isinstance(rows, str) or not isinstance(rows, Iterable):
            raise ValueError(f"`rows`: expected a list of rows, got {rows!r}.")
        rows = list(rows)
        for row in rows:
            if not isinstance(row, Iterable):
                raise ValueError(f"`rows`: expected each to be a text or a list of cells, got {row!r}.")
        self.head, self.caption, self.note = tuple(map(str, head)), caption, note
        self.rows = tuple(row if isinstance(row, str) else tuple(map(_text, row)) for row in rows)
        if not self.rows:
            raise ValueError("`rows`: expected at least one row, got none.")
        for row in self.rows:
            if not isinstance(row, str) and len(row) != len(self.head):
                raise ValueError(f"`rows`: expected {len(self.head)} cells, as many as in {self.head}, got {row}.")

    def __repr__(self) -> str:
        lines = [self.head, *(row for row in self.rows if not isinstance(row, str))]
        widths = [max(len(line[column]) for line in lines) for column in range(len(self.head))]

        def line(row: str | tuple[str, ...]) -> str:
            if isinstance(row, str):
                return row
            return "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()

        return "\n".join(part for part in (*map(line, (self.head, *self.rows)), self.caption, self.note) if part)

    def _repr_html_(self) -> str:
        lines = [row for row in self.rows if not isinstance(row, str)]
        columns = [_of_words(line[column] for line in lines) for column in range(len(self.head))]
        head = "".join(
            f'<th scope="col"{_class(words)}>{_markup(cell)}</th>' for cell, words in zip(self.head, columns)
        )
        parts = [f"<figcaption>{_markup(self.caption)}</figcaption>"] if self.caption else []
        parts.append(f'<div><table class="table"><thead><tr>{head}</tr></thead><tbody>')
        for row in self.rows:
            if isinstance(row, str):
                heading = f'<th scope="rowgroup" colspan="{len(self.head)}"><span>{_markup(row)}</span></th>'
                parts.append(f"<tr>{heading}</tr>")
            else:
                cells = "".join(
                    f"<td{_class(words, len(cell) <= WHOLE)}>{_markup(cell)}</td>"
                    for cell, words in zip(row[1:], columns[1:])
                )
                parts.append(f'<tr><th scope="row"><span>{_markup(row[0])}</span></th>{cells}</tr>')
        parts.append("</tbody></table></div>")
        if self.note:
            parts.append(f"<p>{_markup(self.note)}</p>")
        return f'<figure class="eqbook-table">{"".join(parts)}</figure>'


class Comparison(Table):
    """A table with three columns: paper, recorded run, this build."""

    def __init__(self, rows: Iterable[str | Sequence[Any]], caption: str, note: str = "") -> None:
        super().__init__(("", "paper", "recorded run", "this build"), rows, caption, note)

    def without_record(self) -> Table:
        """The same without the column of the recorded run, for a chapter that has none yet."""
        rows = [row if isinstance(row, str) else (*row[:2], row[3]) for row in self.rows]
        return Table((*self.head[:2], self.head[3]), rows, self.caption, self.note)


def comparison(
    rows: Sequence[Row | str], chapter: str, note: str = "", caption: str = "Beside the paper."
) -> Comparison:
    """Set this build beside the recorded run and the paper.

    Args:
        rows: the lines of the table; a text alone is a heading of those that follow.
        chapter: name of the chapter, whose recorded run fills the middle column.
        note: stands below the table, in front of what says where the numbers come from, each record with its date,
            device, time and commit; for example what an interval means.
        caption: a sentence above the table.

    Returns:
        An object that shows itself as a table.

    Raises:
        ResultsError: if the recorded run is malformed, or holds something else than a number under a row's key.
        ValueError: if there is no row, or something else among them, or note or caption are no text.
    """
    if isinstance(rows, str) or not isinstance(rows, Iterable):
        raise ValueError(f"`rows`: expected a list of at least one `Row`, got {rows!r}.")
    rows = list(rows)  # a generator gives its rows once, and they are gone over twice
    lines = [row for row in rows if not isinstance(row, str)]
    if not lines:
        raise ValueError("`rows`: expected a list of at least one `Row`, got none.")
    for row in lines:
        if not isinstance(row, Row):
            raise ValueError(f"`rows`: expected each to be a `Row`, got {row!r}.")
        names = row.key if isinstance(row.key, tuple) else (row.key,)
        if not isinstance(row.label, str) or not all(isinstance(name, str | None) for name in (*names, row.record)):
            raise ValueError(f"`rows`: expected `label` to be text, `key` and `record` text or None, got {row!r}.")
        for name, value in (("build", row.build), ("paper", row.paper)):
            if not isinstance(value, Quantity | None):
                raise ValueError(
                    f"`rows`: expected `{name}` to be a `Quantity` or None, got {value!r} in {row.label!r}."
                )
    if not isinstance(note, str):
        raise ValueError(f"`note`: expected text, got {note!r}.")
    recorded = read(chapter)
    others = {row.record: read(row.record) for row in lines if row.record is not None}

    def cells(row: Row | str) -> str | tuple:
        if isinstance(row, str):
            return row
        run = recorded if row.record is None else others[row.record]
        names = row.key if isinstance(row.key, tuple) else (row.key,)
        middle = "not recorded" if run is None or None in names or not names else run.quantity(*names)
        return row.label, row.paper, middle, row.build

    about = "no recorded run of the paper profile yet" if recorded is None else f"recorded run: {recorded}"
    about += "".join(f"; rows from {name}: {run}" for name, run in others.items() if run is not None)
    note = f"{note} This build: {profile()} profile; {about}.".strip()
    return Comparison(map(cells, rows), caption, note)


def _text(cell: Any) -> str:
    if cell is None:
        return "–"
    if isinstance(cell, int | np.integer) and not isinstance(cell, bool):
        return f"{cell:,}"
    return f"{cell:.3g}" if isinstance(cell, float | np.floating) else str(cell)


def _of_words(cells: Iterable[str]) -> bool:
    """Whether most cells of a column are text, which begins at the left, and no number with a unit or an interval."""
    said = [cell for cell in cells if cell and cell != "–"]
    numbers = [cell for cell in said if cell[0].isdigit() or cell[0] in "+-−(<>±"]
    return 2 * sum(len(re.findall(r"\b(?!to\b)[^\W\d_]{2,}", cell)) < 2 for cell in numbers) < len(said)


def _markup(text: str) -> str:
    """HTML of a text; a space next to an equals sign is no place to break a line."""
    text = re.sub(r"(?<![\w).])-(?=\.?\d)|(?<=\de)-(?=\d)", "−", text)
    text = re.sub(r"(?<=\w) = (?=\S)", "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}", escape(text))
    text = re.sub(r"[₀-₉]+", lambda found: f"<sub>{found[0].translate(SUBSCRIPTS)}</sub>", text)
    text = re.sub(r"(?<!\w)\*([^\W\d_])\*(?!\w)", r"<i>\1</i>", text)
    return re.sub(r"\b([^\W\d_])_([^\W_])\b", r"<i>\1</i><sub>\2</sub>", text)


def _class(words: bool, whole: bool = False) -> str:
    names = " ".join(name for name, given in (("words", words), ("whole", whole and not words)) if given)
    return f' class="{names}"' if names else ""

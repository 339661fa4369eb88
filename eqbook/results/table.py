"""The three columns: the paper, the recorded run, this build."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from eqbook.profiles import profile
from eqbook.results.quantity import Quantity
from eqbook.results.record import read


@dataclass(frozen=True)
class Row:
    """One line of a comparison.

    Attributes:
        label: what the number is, in words.
        build: what this build has found.
        key: name of the value in the recorded run, or `None`.
        paper: what the paper says, or `None` if it says nothing.
        record: name of another recorded run for this row; `None` is that of the table.
    """

    label: str
    build: Quantity | None
    key: str | None = None
    paper: Quantity | None = None
    record: str | None = None


class Comparison:
    """Three columns: paper, recorded run, this build. Shows itself as a table in a notebook, and as text."""

    head = ("", "paper", "recorded run", "this build")

    def __init__(self, rows: Sequence[tuple[str, str, str, str]], caption: str) -> None:
        self.rows, self.caption = tuple(rows), caption

    def __repr__(self) -> str:
        lines = [self.head, *self.rows]
        widths = [max(len(line[column]) for line in lines) for column in range(4)]
        text = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines]
        return "\n".join([*text, self.caption])

    def _repr_html_(self) -> str:
        head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in self.head)
        body = "".join(
            f'<tr><th scope="row">{escape(row[0])}</th>'
            + "".join(f'<td style="white-space: nowrap">{escape(cell)}</td>' for cell in row[1:])
            + "</tr>"
            for row in self.rows
        )
        return (
            f'<table class="eqbook-comparison table"><caption>{escape(self.caption)}</caption>'
            f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        )


def comparison(rows: Sequence[Row], chapter: str, note: str = "") -> Comparison:
    """Set this build beside the recorded run and the paper.

    Args:
        rows: the lines of the table.
        chapter: name of the chapter, whose recorded run fills the middle column.
        note: put behind the description of the recorded run; says for example what an interval means.

    Returns:
        An object that shows itself as a table.

    Raises:
        ResultsError: if the recorded run is malformed, or holds something else than a number under a row's key.
        ValueError: if there is no row, or something else among them, or the note is no text.
    """
    if not isinstance(rows, Iterable):
        raise ValueError(f"`rows`: expected a list of at least one `Row`, got {rows!r}.")
    rows = list(rows)  # a generator gives its rows once, and they are gone over twice
    if not rows:
        raise ValueError("`rows`: expected a list of at least one `Row`, got none.")
    for row in rows:
        if not isinstance(row, Row):
            raise ValueError(f"`rows`: expected each to be a `Row`, got {row!r}.")
        if not isinstance(row.label, str) or not all(isinstance(name, str | None) for name in (row.key, row.record)):
            raise ValueError(f"`rows`: expected `label` to be text, `key` and `record` text or None, got {row!r}.")
        for name, value in (("build", row.build), ("paper", row.paper)):
            if not isinstance(value, Quantity | None):
                raise ValueError(
                    f"`rows`: expected `{name}` to be a `Quantity` or None, got {value!r} in {row.label!r}."
                )
    if not isinstance(note, str):
        raise ValueError(f"`note`: expected text, got {note!r}.")
    recorded = read(chapter)
    others = {row.record: read(row.record) for row in rows if row.record is not None}

    def cells(row: Row) -> tuple[str, str, str, str]:
        run = recorded if row.record is None else others[row.record]
        middle = "not recorded" if run is None or row.key is None else _or_dash(run.quantity(row.key))
        return row.label, _or_dash(row.paper), middle, _or_dash(row.build)

    about = "no recorded run of the paper profile yet" if recorded is None else f"recorded run: {recorded}"
    text = f"This build: {profile()} profile; {about}."
    return Comparison([cells(row) for row in rows], f"{text} {note}".strip())


def _or_dash(quantity: Quantity | None) -> str:
    return "–" if quantity is None else str(quantity)

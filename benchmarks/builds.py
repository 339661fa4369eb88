"""Two builds of the book from nothing, compared file by file: `python -m benchmarks.builds FIRST SECOND`.

FIRST and SECOND are clones of one commit, in each of which `make book` has run. All files must be equal byte for byte,
but for empty lines and numbers in the text of pages: the dates and times of the build, and the times that pages
measure. Each kind of line with such a number goes into the record without its numbers, so that a reader can see that
it speaks of time. Of the words that the search knows those that begin with a digit may differ, too, and the file with
the digest of the settings is not compared.
"""

import argparse
import json
import re
import sys
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from typing import Any

from benchmarks.machine import circumstances
from benchmarks.report import RESULTS, Table
from eqbook._files import write_whole
from eqbook.results.circumstances import commit_of, short_commit

NAME = "builds"
NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?")
TAG = re.compile(r"<[^>]*>")
INDEX = "searchindex.js"  # lists the words of all pages, numbers as well
IGNORED = {".buildinfo"}  # a digest of the settings, in which the folder of the build appears


@dataclass
class Comparison:
    """How the files of two builds differ.

    Attributes:
        equal: how many are equal byte for byte.
        numbers: lines with different numbers, without them and each kind once, by the file's name; the search index,
            which lists all words, has none.
        other: names of files that differ in anything else, or that one build lacks.
    """

    equal: int = 0
    numbers: dict[str, list[str]] = field(default_factory=dict)
    other: list[str] = field(default_factory=list)


def compare(first: Path, second: Path) -> Comparison:
    """Compare two folders.

    Args:
        first: what one build has written, `_build/html` for example.
        second: what the other has written.
    """
    files = [{p.relative_to(root).as_posix() for p in root.rglob("*") if p.is_file()} for root in (first, second)]
    found = Comparison(other=sorted((files[0] ^ files[1]) - IGNORED))
    for name in sorted((files[0] & files[1]) - IGNORED):
        one, two = ((root / name).read_bytes() for root in (first, second))
        if one == two:
            found.equal += 1
            continue
        lines = different_numbers(name, one, two)
        if lines is None:
            found.other.append(name)
        else:
            found.numbers[name] = lines
    return found


def different_numbers(name: str, one: bytes, two: bytes) -> list[str] | None:
    """The lines in which two versions of a file have different numbers; `None` if they differ in anything else.

    Args:
        name: of the file.
        one: the file.
        two: the file, as the other build made it.
    """
    if Path(name).name == INDEX:
        return [] if without_numbers(one.decode()) == without_numbers(two.decode()) else None
    if Path(name).suffix != ".html":
        return None
    # A kernel sends what it prints in pieces, and now and then a piece ends with an empty line.
    sides = [[line for line in page.decode().splitlines() if line.strip()] for page in (one, two)]
    if sides[0] == sides[1]:
        return []
    if len(sides[0]) != len(sides[1]):
        return None
    found = []
    for pair in zip(*sides):
        if pair[0] == pair[1]:
            continue
        masked = [NUMBER.sub("#", TAG.sub(" ", line)) for line in pair]
        # Numbers of other lengths move the columns of a table. What is in tags, figures and links, must be equal.
        if "".join(masked[0].split()) != "".join(masked[1].split()) or len({*map(tags, pair)}) > 1:
            return None
        found.append(" ".join(unescape(masked[0]).split()))
    return list(dict.fromkeys(found)) or None


def tags(line: str) -> tuple[str, ...]:
    """The tags of a line of HTML."""
    return tuple(TAG.findall(line))


def without_numbers(index: str) -> dict[str, Any]:
    """The search index without the words that begin with a digit."""
    found = json.loads(index.removeprefix("Search.setIndex(").removesuffix(")"))
    found["terms"] = {term: places for term, places in found["terms"].items() if not term[:1].isdigit()}
    return found


def record(first: Path, second: Path) -> dict[str, Any]:
    """The comparison of two clones in which the book has been built, as it is kept.

    Raises:
        ValueError: if they are one folder, or not at one commit without changes, or a book is missing.
    """
    if first.resolve() == second.resolve():
        raise ValueError(f"expected two clones, got {first.resolve()} twice.")
    commits = [commit_of(root) for root in (first, second)]
    if commits[0] != commits[1] or "+" in commits[0] or commits[0] == "unknown":
        raise ValueError(f"expected two clones of one commit without changes, got {commits[0]} and {commits[1]}.")
    books = [root / "_build" / "html" for root in (first, second)]
    for book in books:
        if not (book / "index.html").is_file():
            raise ValueError(f"expected a book in {book}; run `make book` in that clone.")
    found = compare(*books)
    about = circumstances() | {"commit": commits[0]}
    return {"case": NAME, "smoke": False, "circumstances": about, **vars(found)}


def summary(kept: dict[str, Any]) -> str:
    """How many files differ, and in what."""
    equal, numbers, other = kept["equal"], len(kept["numbers"]), kept["other"]
    more = ", ".join(other) or "none"
    return f"{equal} files are equal, {numbers} differ in numbers or empty lines, in anything else: {more}"


def table(kept: dict[str, Any]) -> Table:
    """One row for each file that is not equal byte for byte."""
    rows = [(Path(name).stem, str(len(lines)), "; ".join(lines)) for name, lines in kept["numbers"].items()]
    about = kept["circumstances"]
    caption = f"{about['date'][:10]}, {about['processor']}, commit {short_commit(about['commit'])}."
    return Table(("page", "lines", "the lines, each number as #"), rows, caption)


def main(given: list[str] | None = None) -> int:
    """Run from the command line; the exit status is 1 if the builds differ in anything but numbers."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.builds", description=__doc__)
    parser.add_argument("first", type=Path, help="a clone in which `make book` has run")
    parser.add_argument("second", type=Path, help="another one, of the same commit")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of the record; default benchmarks/results")
    options = parser.parse_args(given)
    kept = record(options.first, options.second)
    options.output.mkdir(parents=True, exist_ok=True)
    write_whole(options.output / f"{NAME}.json", (json.dumps(kept, indent=1) + "\n").encode())
    print(table(kept))
    print(summary(kept))
    return int(bool(kept["other"]))


if __name__ == "__main__":
    sys.exit(main())

"""Every chapter has the parts that the reader is promised: its time, a checked statement, exercises with solutions."""

import re
from pathlib import Path

import pytest
import yaml
from chapters import is_chapter, read_chapter

BOOK = Path(__file__).resolve().parents[2] / "book"
FOLDERS = ("theory", "experiments")
CHAPTERS = [path for folder in FOLDERS for path in sorted((BOOK / folder).glob("*.md"))]
STATEMENT = re.compile(r"^(?::::+|```+)\{prf:(?:theorem|proposition|lemma|corollary)\}", re.M)
TIME = re.compile(r"^Runs in about \d+ s on two CPU cores", re.M)


@pytest.fixture(params=CHAPTERS, ids=lambda path: path.stem)
def chapter(request):
    return request.param


def cells(path, kind="code"):
    extensions = yaml.safe_load((BOOK.parent / "_config.yml").read_text())["parse"]["myst_enable_extensions"]
    return [cell.source for cell in read_chapter(path, extensions).cells if cell.cell_type == kind]


def test_says_how_long_it_runs_and_is_stopped_when_it_hangs(chapter):
    assert is_chapter(chapter)
    text = chapter.read_text()
    assert TIME.search(text), "no line `Runs in about N s on two CPU cores`"
    front_matter = yaml.safe_load(text.split("---")[1])
    # Training in a paper profile may take longer; the limit is for each cell.
    longest = 3600 if "paper profile" in text else 600
    assert 10 <= front_matter["execution"]["timeout"] <= longest


def test_checks_something(chapter):
    assert any(re.search(r"^\s*assert |assert_\w+\(", code, re.M) for code in cells(chapter))


@pytest.mark.parametrize("path", [p for p in CHAPTERS if p.parent.name == "experiments"], ids=lambda path: path.stem)
def test_settings_can_be_changed_from_outside(path):
    """One tagged cell, in which the dictionary passes through `eq.settings` and is shown."""
    (cell,) = re.findall(r"^:tags: \[settings\]\n\n(.*?)^```", path.read_text(), re.S | re.M)
    assert re.match(r"settings = eq\.settings\(\n", cell) and "print(" in cell


def test_exercises_have_executed_solutions(chapter):
    text = chapter.read_text()
    exercises = re.findall(r"\{exercise(?:-start)?\}[^\n]*\n:label: (\S+)", text)
    assert len(exercises) >= 2
    for label in exercises:
        solution = re.search(rf"\{{solution-start\}} {label}\n(.*?)\{{solution-end\}}", text, re.S)
        assert solution, f"no gated solution of {label}"
        assert "{code-cell}" in solution[1], f"the solution of {label} runs nothing"


@pytest.mark.parametrize("path", [p for p in CHAPTERS if p.parent.name == "theory"], ids=lambda path: path.stem)
def test_theory_states_and_proves(path):
    text = path.read_text()
    assert STATEMENT.search(text)
    assert "{prf:proof}" in text

"""Runs the paper profile of an experiment, from its first cell to its last, with its sizes cut and no download.

The quick profile is run by the chapter's own test. What only the paper profile does (fetching, recording, reading back)
would otherwise be run for the first time on an expensive machine.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jupytext
import matplotlib
import pytest

import eqbook as eq

BOOK = Path(__file__).resolve().parents[2] / "book"


def code_cells(chapter: str) -> list[Any]:
    """The code cells of an experiment."""
    notebook = jupytext.read(BOOK / "experiments" / f"{chapter}.md")
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def is_settings(cell: Any) -> bool:
    """Whether this is the one visible cell that makes the dictionary `settings`."""
    return "settings" in cell.metadata.get("tags", [])


@pytest.fixture
def paper_settings(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], dict[str, Any]]:
    """A function that returns the settings of a chapter's paper profile."""

    def settings(chapter: str) -> dict[str, Any]:
        monkeypatch.setenv("EQBOOK_PROFILE", "paper")
        (cell,) = filter(is_settings, code_cells(chapter))
        names: dict[str, Any] = {"eq": eq}
        exec(cell.source, names)
        return names["settings"]

    return settings


@pytest.fixture
def run_paper_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A function that runs a chapter's paper profile and returns its names and its recorded run.

    `cut` replaces settings by name, `fetched` says which sample stands for the data that `eq.data.fetch_*` would load,
    and cells that contain one of the strings in `skip` are left out: checks that do not depend on the profile. Tiny
    runs show nothing significant: claims may fail, but only after the table beside the paper's numbers was made.
    """

    def run(chapter: str, cut: Mapping[str, Any], fetched: Mapping[str, str] = {}, skip: tuple[str, ...] = ()):
        (tmp_path / "papers").mkdir()
        source = BOOK / "results" / "papers" / f"{chapter}.json"
        (tmp_path / "papers" / source.name).write_text(source.read_text())
        monkeypatch.setenv("EQBOOK_PROFILE", "paper")
        monkeypatch.setenv("EQBOOK_RESULTS_DIR", str(tmp_path))
        for function, sample in fetched.items():
            monkeypatch.setattr(f"eqbook.data.{function}", lambda *_, sample=sample, **__: eq.data.load_sample(sample))
        names: dict[str, Any] = {"__name__": "chapter"}
        for cell in code_cells(chapter):
            if any(text in cell.source for text in skip):
                continue
            try:
                exec(compile(cell.source, chapter, "exec"), names)
            except AssertionError:
                assert "comparison" in names, "only claims about the outcome may fail, and they come after the record"
            if is_settings(cell):
                assert set(cut) <= set(names["settings"]), "a setting that is cut is not there"
                names["settings"].update(cut)
        assert not jax.config.jax_enable_x64
        return names, eq.results.read(chapter)

    with matplotlib.rc_context():
        matplotlib.use("agg")
        yield run

"""Chapters as tests: `pytest --nbmake book/` runs every MyST notebook below `book/`.

A chapter that passes hands its outputs to the execution cache that the build reads; a chapter whose outputs are in
that cache already (executed by an earlier test or build with the same package, versions and profile) is reported as
CACHED and not executed again. `EQBOOK_NO_CACHE=1` executes it all the same.
"""

import copy
import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import nbmake.nb_run
import pytest
from nbmake.pytest_items import NbMakeFailureRepr, NotebookFailedException, NotebookItem

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "book" / "_ext"))

import chapters  # noqa: E402
import execution_cache  # noqa: E402

STASH = pytest.StashKey()


def pytest_configure(config):
    """Refuse what would harm the sources; set the environment of the chapters."""
    if not config.getoption("nbmake", False):
        return
    if config.getoption("overwrite", False):
        raise pytest.UsageError("`--overwrite` would write JSON over the Markdown of a chapter; run without it.")
    config.stash[STASH] = execution_cache.prepare(ROOT)


def pytest_collect_file(file_path, parent):
    """Collect the Markdown notebooks of the book, which nbmake alone would not see."""
    inside = (ROOT / "book") in file_path.parents and file_path.suffix == ".md"
    if parent.config.getoption("nbmake", False) and inside and chapters.is_chapter(file_path):
        return ChapterFile.from_parent(parent, path=file_path)
    return None


class ChapterFile(pytest.File):
    """A Markdown file with one test: itself."""

    def collect(self):
        yield ChapterItem.from_parent(self, filename=str(self.path))


class ChapterItem(NotebookItem):
    """One chapter, executed in its own folder as the build does it."""

    def runtest(self):
        option = self.config.option
        notebook = chapters.read_chapter(self.path, _myst_extensions())
        # These options change what is run: the result is then no business of the cache.
        plain = not (option.nbmake_kernel or option.nbmake_find_import_errors)
        cache = _open_cache(self.config.stash[STASH]) if plain else None
        if cache and not os.environ.get("EQBOOK_NO_CACHE") and _is_cached(cache, notebook):
            self.user_properties.append(("chapter", "cached"))
            return
        started = time.perf_counter()
        result = _execute(self.path, notebook, option)
        if result.error is not None:
            raise NotebookFailedException(result)
        _refuse_stderr(result.nb)
        seconds = time.perf_counter() - started
        self.user_properties.append(("chapter", f"{seconds:.1f}"))
        if cache:
            _hand_over(cache, self.path, chapters.executed_copy(notebook, result.nb), seconds)

    def repr_failure(self, excinfo, style=None):
        chapter = self.path.relative_to(ROOT)
        if isinstance(excinfo.value, NotebookFailedException):
            result = excinfo.value.args[0]
            place = _place(result.nb, result.error.failing_cell_index)
            text = f"{chapter}, {place}:\n{result.error.trace}"
            return NbMakeFailureRepr(text, f"{place}: {result.error.summary}")
        if isinstance(excinfo.value, ValueError):
            return NbMakeFailureRepr(str(excinfo.value), str(excinfo.value).splitlines()[0])
        return super().repr_failure(excinfo, style)

    def reportinfo(self):
        return self.path, 0, str(self.path.relative_to(ROOT))


def _myst_extensions():
    import yaml

    return yaml.safe_load((ROOT / "_config.yml").read_text())["parse"]["myst_enable_extensions"]


def _open_cache(folder):
    from jupyter_cache import get_cache

    return get_cache(str(folder))


def _is_cached(cache, notebook):
    try:
        cache.get_cache_bundle(cache.match_cache_notebook(notebook).pk)
    except KeyError:
        return False
    return True


def _execute(path, notebook, option):
    """Run a notebook with nbmake, whose own reader knows JSON only. Paper profiles have no limit of time."""

    def read(*_):
        copied = copy.deepcopy(notebook)
        if os.environ.get("EQBOOK_PROFILE") == "paper":
            copied.metadata.setdefault("execution", {})["timeout"] = -1  # none
        return copied

    original = nbmake.nb_run.nbformat
    nbmake.nb_run.nbformat = SimpleNamespace(read=read)
    try:
        return nbmake.nb_run.NotebookRun(
            path,
            option.nbmake_timeout,
            verbose=bool(option.verbose),
            kernel=option.nbmake_kernel,
            find_import_errors=option.nbmake_find_import_errors,
        ).execute()
    finally:
        nbmake.nb_run.nbformat = original


def _refuse_stderr(notebook):
    """Raise where the build would: a page carries no warnings of libraries."""
    for index, cell in enumerate(notebook.cells):
        tags = cell.metadata.get("tags", [])
        if cell.cell_type != "code" or {"remove-stderr", "remove-output", "remove-cell"} & set(tags):
            continue
        text = "".join(out.text for out in cell.outputs if out.output_type == "stream" and out.name == "stderr")
        if text:
            raise ValueError(f"{_place(notebook, index)} writes to stderr, which the build refuses:\n{text}")


def _hand_over(cache, path, notebook, seconds):
    from jupyter_cache.base import CacheBundleIn

    bundle = CacheBundleIn(notebook, str(path), data={"execution_seconds": seconds})
    cache.cache_notebook_bundle(bundle, check_validity=False, overwrite=True)


def _place(notebook, index):
    """Return where a cell stands: its number among the code cells, and its line in the Markdown file."""
    if index < 0:
        return "an unknown cell"
    number = sum(cell.cell_type == "code" for cell in notebook.cells[: index + 1])
    return f"code cell {number} (line {notebook.metadata.source_map[index] + 1})"


def pytest_report_teststatus(report, config):
    """Show a chapter that was not executed again as such; it counts as passed."""
    if report.when == "call" and report.passed and ("chapter", "cached") in report.user_properties:
        return "passed", "c", "CACHED"
    return None


def pytest_terminal_summary(terminalreporter):
    """List which chapters ran, for how long, and which came from the cache."""
    reports = [r for r in terminalreporter.getreports("passed") if "chapter" in dict(r.user_properties)]
    if not reports:
        return
    terminalreporter.section("chapters")
    for report in reports:
        seconds = dict(report.user_properties)["chapter"]
        how = "CACHED, not executed again" if seconds == "cached" else f"executed in {seconds} s"
        terminalreporter.line(f"{report.nodeid.split('::')[0]}: {how}")

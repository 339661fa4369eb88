"""`pytest --nbmake book/`: what turns it red, what it reports, what it hands over to the build."""

import re

import pytest
from small_book import FRONT_MATTER, SmallBook, cell

COUNT_RUNS = cell("with open('runs.txt', 'a') as file:\n    file.write('x')\nprint('ran')")


@pytest.fixture
def book(tmp_path):
    return SmallBook.create(tmp_path)


def runs(book):
    """How often the counting chapter was executed; it writes into the folder in which it runs."""
    return len((book.root / "book" / "runs.txt").read_text())


def test_failing_check_names_chapter_and_cell_and_is_not_cached(book):
    path = book.write("bad", COUNT_RUNS, "Some text.\n\n", cell("residual = 2\nassert residual < 1, 'theorem broken'"))
    line = path.read_text().splitlines().index("residual = 2") + 1
    status, output = book.test()
    assert status == 1
    assert f"book/bad.md, code cell 2 (line {line})" in output
    assert "theorem broken" in output
    assert "FAILED book/bad.md" in output and f"code cell 2 (line {line}): AssertionError: theorem broken" in output
    assert book.test()[0] == 1
    assert runs(book) == 2, "the second run must execute the failing chapter again"


def test_passing_chapter_is_executed_once_until_something_changes(book):
    path = book.write("good", COUNT_RUNS)
    status, output = book.test("-v")
    assert status == 0 and "good.md PASSED" in output and "good.md: executed in" in output
    path.write_text(path.read_text() + "\nOnly words.\n")
    status, output = book.test("-v")
    assert status == 0 and "1 passed" in output
    assert "good.md CACHED" in output and "good.md: CACHED, not executed again" in output
    assert runs(book) == 1

    # What else changes the key, `test_execution_cache` asks for each part of it.
    (book.root / "eqbook" / "__init__.py").write_text("VALUE = 2\n")
    assert "CACHED" not in book.test()[1]
    assert runs(book) == 2
    path.write_text(path.read_text() + cell("1 + 1"))
    assert "CACHED" not in book.test()[1]
    assert runs(book) == 3
    assert "CACHED" not in book.test(EQBOOK_NO_CACHE="1")[1]
    assert runs(book) == 4


def test_overwrite_is_refused(book):
    path = book.write("good", COUNT_RUNS)
    before = path.read_text()
    status, output = book.test("--overwrite")
    assert status == 4 and "`--overwrite`" in output
    assert path.read_text() == before and not (book.root / "book" / "runs.txt").exists()


SILENT = {
    "stderr": (cell("import sys\nprint('noise', file=sys.stderr)"), FRONT_MATTER, "writes to stderr"),
    "nested": (f":::{{note}}\n{cell('1 / 0')}:::\n", FRONT_MATTER, "shows 1 code cells and the build runs 0"),
    "allowed": (cell("1 / 0"), FRONT_MATTER.replace("timeout: 60", "allow_errors: true"), "`allow_errors`"),
    "off": (cell("1"), FRONT_MATTER.replace("execution:", "mystnb:\n  execution_mode: 'off'\nexecution:"), "`mystnb"),
    "timeout": (cell("import time\ntime.sleep(60)"), FRONT_MATTER.replace("60", "1"), "code cell 1"),
}


@pytest.fixture(scope="module")
def silent(tmp_path_factory):
    """What a run over all of them says: status, output."""
    book = SmallBook.create(tmp_path_factory.mktemp("silent"))
    for name, (text, front, _) in SILENT.items():
        book.write(name, text, front=front)
    return book.test()


@pytest.mark.parametrize("name", SILENT)
def test_silent_failures_are_failures(silent, name):
    status, output = silent
    assert status == 1 and f"{len(SILENT)} failed" in output and f"FAILED book/{name}.md" in output
    section = re.search(rf"^_+ book/{name}\.md _+\n(.*?)^(?:_+ book/|=+ short test summary)", output, re.M | re.S)
    assert SILENT[name][2] in section[1]


@pytest.mark.slow
def test_a_paper_profile_has_no_limit_of_time(book):
    book.write("long", cell("import time\ntime.sleep(3)"), front=FRONT_MATTER.replace("60", "1"))
    assert book.test()[0] == 1
    assert book.test(EQBOOK_PROFILE="paper")[0] == 0


def test_only_notebooks_are_collected(book):
    book.write("prose", "No code.\n", front="# {title}\n\n")
    assert book.test()[0] == 5  # no tests were collected


def test_invalid_front_matter_is_reported(book):
    book.write("broken", front="---\nkernelspec: [\n---\n# {title}\n")
    status, output = book.test()
    assert status != 0 and "broken.md is not valid YAML" in output

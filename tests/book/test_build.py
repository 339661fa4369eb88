"""The build: it shares what was executed with the tests, refuses warnings every time, links and offers notebooks."""

import re

import nbformat
import pytest
from bs4 import BeautifulSoup
from page_checks import links
from small_book import SmallBook, cell

CHAPTER = (
    """A theorem with two proofs, and $\\Pi(g)$.

:::{prf:theorem} Of the test
:label: thm-one

$a = b$.
:::

:::{prf:proof}
See {prf:ref}`thm-one`.
:::

:::{prf:lemma}
:label: lem-two

$c = d$.
:::

:::{prf:proof}
Again.
:::

:::{exercise}
:label: ex-one

Do it.
:::

:::{solution-start} ex-one
:class: dropdown
:::

""",
    cell("print('solved')"),
    ":::{solution-end}\n:::\n\n",
    cell("import random\nwith open('runs.txt', 'a') as file:\n    file.write('x')\nprint('token', random.random())"),
)


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    """A chapter that was tested, then built."""
    book = SmallBook.create(tmp_path_factory.mktemp("book"))
    book.write("chapter", *CHAPTER)
    status, output = book.test()
    assert status == 0, output
    status, output = book.build()
    assert status == 0, output
    return book


def token(book):
    text = BeautifulSoup(book.page("chapter"), "html.parser").get_text()
    return text.split("token ")[1].split()[0]


def test_build_reads_what_the_test_executed(book):
    assert (book.root / "book" / "runs.txt").read_text() == "x"
    assert token(book)


def test_statements_are_shown_and_have_ids_of_their_own(book):
    soup = BeautifulSoup(book.page("chapter"), "html.parser")
    ids = [element["id"] for element in soup.select("article [id]")]
    assert sorted(ids) == sorted(set(ids))
    assert len(soup.select(".theorem-content")) == 1 and "Theorem 1" in soup.get_text()
    assert "Do it." in soup.select_one(".exercise").get_text() and "solved" in soup.select_one(".solution").get_text()


def test_notebook_lies_beside_the_page(book):
    html = book.root / "_build" / "html"
    file = html / "book" / "chapter.ipynb"
    notebook = nbformat.read(file, as_version=4)
    nbformat.validate(notebook)
    assert [c.source for c in notebook.cells if c.cell_type == "code"][0] == "print('solved')"
    assert 'href="chapter.ipynb"' in book.page("chapter")
    assert 'href="index.ipynb"' not in book.page("index")
    assert links(html / "book" / "chapter.html", html, {}) == []


def test_test_reads_what_the_build_executed(book):
    """The last test that uses this book: it changes it."""
    first = token(book)
    (book.root / "eqbook" / "__init__.py").write_text("VALUE = 2\n")
    status, output = book.build()
    assert status == 0, output
    assert (book.root / "book" / "runs.txt").read_text() == "xx"
    second = token(book)
    assert second != first, "the page must show the outputs of the changed package"
    assert "chapter.md: CACHED" in book.test()[1]
    assert (book.root / "book" / "runs.txt").read_text() == "xx"

    assert book.test(EQBOOK_NO_CACHE="1")[0] == 0
    assert book.build()[0] == 0
    assert (book.root / "book" / "runs.txt").read_text() == "xxx"
    third = token(book)
    assert third != second, "the page must show the outputs of the latest run"

    status, output = book.build()
    assert status == 0 and "0 added, 0 changed, 0 removed" in output, "nothing changed: nothing is read again"
    assert token(book) == third


WARNINGS = {
    "reference": ("See {ref}`nowhere`.\n", "undefined label"),
    "stderr": (cell("import sys\nprint('noise', file=sys.stderr)"), "stderr was found"),
}


def test_a_second_build_warns_as_the_first_did(tmp_path):
    """Each of the two by itself: with `-W` any one warning fails the build."""
    book = SmallBook.create(tmp_path)
    for name, (text, _) in WARNINGS.items():
        book.write(name, text)
    for _ in range(2):
        status, output = book.build()
        assert status != 0
        for name, (_, message) in WARNINGS.items():
            assert re.search(rf"book/{name}\.md.*WARNING: .*{message}", output), output


def test_a_second_build_fails_as_the_first_did(tmp_path):
    """A cell that fails ends the build."""
    book = SmallBook.create(tmp_path)
    book.write("chapter", cell("assert 1 > 2, 'broken'"))
    for _ in range(2):
        status, output = book.build()
        assert status != 0
        assert "AssertionError: broken" in output

"""The built pages, in a browser: typeset, offline, linked, searchable, downloadable, legible in the dark.

They need `_build/html` (`make book`) and Chromium, and are skipped without; `make check-pages` requires both.
"""

import os
from pathlib import Path

import jupytext
import nbformat
import pytest
import yaml
from bs4 import BeautifulSoup
from chapters import is_chapter
from page_checks import (
    figures,
    inline_code,
    layout,
    links,
    mathematics,
    open_page,
    open_under_policy,
    printed,
    remote,
    remote_in_css,
    sliders,
)
from served import serve

ROOT = Path(__file__).resolve().parents[3]
HTML = ROOT / "_build" / "html"


def documents():
    """Return the documents of the table of contents, without suffix."""
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text())
    return [toc["root"], *(chapter["file"] for part in toc["parts"] for chapter in part["chapters"])]


def chapters():
    return [name for name in documents() if (ROOT / f"{name}.md").is_file() and is_chapter(ROOT / f"{name}.md")]


def distinct():
    """All documents; slow are those whose scripts others have too: all but the first one, the API and sliders."""

    def is_common(name):
        source = ROOT / f"{name}.md"
        return name not in ("book/index", "book/reference/api") and "plotting.slider(" not in source.read_text()

    return [pytest.param(name, marks=pytest.mark.slow if is_common(name) else ()) for name in documents()]


@pytest.fixture(autouse=True, scope="module")
def built():
    if (HTML / "index.html").is_file():
        return
    reason = "the book is not built: make book"
    if os.environ.get("EQBOOK_PAGES") == "required":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="module")
def address():
    with serve(HTML) as address:
        yield address


@pytest.mark.parametrize("name", documents())
def test_page_is_typeset_offline_and_legible(name, browser):
    dom, asked = open_page(browser, HTML / f"{name}.html")
    assert mathematics(dom) == []
    assert remote(dom) == []
    assert asked == [], "the page asked the network for these"
    assert figures(dom, browser) == []
    assert layout(browser) == []
    assert printed(dom) == []
    assert sliders(browser) == []


@pytest.mark.parametrize("name", documents())
def test_page_has_no_inline_code(name):
    assert inline_code(BeautifulSoup((HTML / f"{name}.html").read_text(encoding="utf8"), "html.parser")) == []


@pytest.mark.parametrize("name", distinct())
def test_page_works_under_a_strict_content_security_policy(name, browser, address):
    dom, refused = open_under_policy(browser, f"{address}/{name}.html")
    assert refused == []
    assert mathematics(dom) == []
    assert sliders(browser) == []


def test_style_sheets_load_nothing_remote():
    sheets = list(HTML.rglob("*.css"))
    assert sheets
    found = {str(s.relative_to(HTML)): remote_in_css(s.read_text(encoding="utf8")) for s in sheets}
    assert {sheet: addresses for sheet, addresses in found.items() if addresses} == {}


def test_links_and_images_exist():
    pages = [page for page in sorted(HTML.rglob("*.html")) if "_static" not in page.parts]
    read = {}
    found = {str(page.relative_to(HTML)): links(page, HTML, read) for page in pages}
    assert {page: broken for page, broken in found.items() if broken} == {}


def test_every_document_was_built():
    assert [name for name in documents() if not (HTML / f"{name}.html").is_file()] == []


@pytest.mark.parametrize("word", ["Pi", "equivariance"])
def test_search_works_without_a_server(word, browser):
    dom, asked = open_page(browser, HTML / "search.html", f"?q={word}")
    browser.evaluate(
        "new Promise(done => { const wait = () => document.querySelector('#search-results li a') || --tries < 0"
        " ? done(1) : setTimeout(wait, 50); let tries = 200; wait(); })"
    )
    results = BeautifulSoup(browser.dom(), "html.parser").select("#search-results li a")
    assert results, f"searching for {word} found nothing"
    assert asked == []
    for result in results:
        assert (HTML / result["href"].split("#")[0].split("?")[0]).is_file(), result["href"]


@pytest.mark.parametrize("name", chapters())
def test_chapter_offers_itself_as_a_notebook(name):
    page = BeautifulSoup((HTML / f"{name}.html").read_text(encoding="utf8"), "html.parser")
    file = HTML / f"{name}.ipynb"
    assert page.select(f'a[href="{file.name}"]'), "no link to the notebook on the page"
    notebook = nbformat.read(file, as_version=4)
    nbformat.validate(notebook)
    # Read by jupytext, not by the reader that the build used to write it.
    source = jupytext.read(ROOT / f"{name}.md", fmt="md:myst")

    def code(nb):
        return [cell.source for cell in nb.cells if cell.cell_type == "code"]

    assert code(notebook) == code(source) != []
    assert notebook.metadata.kernelspec.name == "python3"

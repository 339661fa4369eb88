"""Two builds from nothing, in two folders, differ in the times that they print, and in nothing else."""

import json
import re

from small_book import SmallBook, cell

CHAPTERS = {
    "first": (
        "A {prf:ref}`thm-one`, and {doc}`second`.\n\n:::{prf:theorem} One\n:label: thm-one\n\n$a = b$.\n:::\n\n",
        cell(
            "import matplotlib.pyplot as plt\nfrom eqbook import plotting\nplotting.use_style()\n"
            "fig, axes = plt.subplots()\naxes.plot([1, 2], label='a')\naxes.fill_between([0, 1], 0, 1, hatch='/')\n"
            "plt.close(fig)\nfig"
        ),
    ),
    "second": ("```{code-cell} ipython3\n:tags: [hide-input]\n\nprint(list(range(3)))\n```\n",),
}
# The execution table says when a chapter ran and for how long.
TIMES = re.compile(rb"\d{4}-\d\d-\d\d \d\d:\d\d|<p>\d+\.\d+</p>")


def without_times(name, content):
    """What must be equal: everything but the times, which the search index lists as numbers."""
    if name != "searchindex.js":
        return TIMES.sub(b"", content)
    index = json.loads(content.decode().removeprefix("Search.setIndex(").removesuffix(")"))
    index["terms"] = {term: places for term, places in index["terms"].items() if not term.isdigit()}
    return index


def test_two_builds_are_equal(tmp_path):
    pages = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        book = SmallBook.create(tmp_path / name)
        for chapter, parts in CHAPTERS.items():
            book.write(chapter, *parts)
        (book.root / "book" / "status.md").write_text("# Status\n\n```{nb-exec-table}\n```\n")
        (book.root / "_toc.yml").write_text((book.root / "_toc.yml").read_text() + "  - file: book/status\n")
        status, output = book.build()
        assert status == 0, output
        html = book.root / "_build" / "html"
        pages.append({str(p.relative_to(html)): p.read_bytes() for p in html.rglob("*") if p.is_file()})
    first, second = pages
    assert first.keys() == second.keys()
    assert any(TIMES.search(content) for content in first.values()), "no times were found: what are they now?"
    differing = [name for name in first if without_times(name, first[name]) != without_times(name, second[name])]
    assert differing == []

"""Two builds from nothing, in two folders, differ in the times that they print, and in nothing else."""

import pytest
from small_book import SmallBook, cell

from benchmarks.builds import compare, record

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


@pytest.mark.slow
def test_two_builds_are_equal(tmp_path):
    books = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        book = SmallBook.create(tmp_path / name)
        for chapter, parts in CHAPTERS.items():
            book.write(chapter, *parts)
        (book.root / "book" / "status.md").write_text("# Status\n\n```{nb-exec-table}\n```\n")
        (book.root / "_toc.yml").write_text((book.root / "_toc.yml").read_text() + "  - file: book/status\n")
        status, output = book.build()
        assert status == 0, output
        books.append(book.root / "_build" / "html")
    found = compare(*books)
    assert found.other == []
    # The execution table says when a chapter ran and for how long.
    assert set(found.numbers) <= {"book/status.html", "searchindex.js"}
    assert found.equal > 30 and "book/status.html" in found.numbers


INDEX = 'Search.setIndex({{"terms":{{"book":0,"{}":0,"{}":1}}}})'


@pytest.mark.parametrize(
    ("name", "one", "two", "expected"),
    [
        ("a.html", "<p>in 0.52 s,\n 1,200 a second</p>", "<p>in 12.1 s,\n 9 a second</p>", ["in # s,", "# a second"]),
        ("a.html", "<p>  3 s</p>", "<p>12 s</p>", ["# s"]),
        ("a.html", "<p>about 3 s</p>", "<p>about three s</p>", None),
        ("a.html", "one\ntwo", "one", None),
        ("a.html", "one\n\ntwo", "one\ntwo", []),
        ("a.html", "<p>[1, 2]</p>", "<p>[1 3]</p>", None),
        ("a.html", '<a href="p1.html">x</a>', '<a href="p2.html">x</a>', None),
        ("a.html", '<path d="M 1 2"/> 3 s', '<path d="M 1 4"/> 5 s', None),
        ("a.svg", '<path d="M 1 2"/>', '<path d="M 1 4"/>', None),
        ("a.png", b"\xff\x00", b"\xff\x01", None),
        ("searchindex.js", INDEX.format("123", "word"), INDEX.format("45", "word"), []),
        ("searchindex.js", INDEX.format("123", "word"), INDEX.format("123", "other"), None),
    ],
)
def test_what_differs_is_found(tmp_path, name, one, two, expected):
    for folder, content in (("first", one), ("second", two)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
        (tmp_path / folder / "same").write_text("same")
    found = compare(tmp_path / "first", tmp_path / "second")
    assert found.equal == 1
    assert found.numbers == ({} if expected is None else {name: expected})
    assert found.other == ([name] if expected is None else [])
    (tmp_path / "second" / "same").unlink()
    assert "same" in compare(tmp_path / "first", tmp_path / "second").other


def test_only_clones_of_one_commit_are_recorded(tmp_path):
    with pytest.raises(ValueError, match="expected two clones, got .* twice"):
        record(tmp_path, tmp_path)
    (tmp_path / "other").mkdir()
    with pytest.raises(ValueError, match="clones of one commit"):
        record(tmp_path, tmp_path / "other")

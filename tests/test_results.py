"""Recorded runs: written completely or not at all, read back only if nobody touched them."""

import json
import math
import os
import re
import subprocess

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eqbook import results
from eqbook.results import Quantity, ResultsError, Row, circumstances

SETTINGS = {"members": 3, "channels": (8, 16), "at_once": None}
VALUES = {
    "plain": 1.5,
    "array": np.arange(3.0),
    "jax": jnp.float32(0.5),
    "sure": Quantity(3.75, 0.1),
    "band": Quantity(3.75, interval=(3.5, 3.875)),
    "nested": {"curve": [np.int64(1), 2]},
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("EQBOOK_RESULTS_DIR", str(tmp_path))
    monkeypatch.setenv("EQBOOK_PROFILE", "paper")
    return tmp_path


def test_what_is_written_is_read_back(folder):
    path = results.write("some_chapter", SETTINGS, VALUES, 12.34567)
    assert path == folder / "some_chapter.json" and os.listdir(folder) == ["some_chapter.json"]
    recorded = results.read("some_chapter")
    assert recorded.settings == {"members": 3, "channels": [8, 16], "at_once": None}
    assert recorded.values["array"] == [0.0, 1.0, 2.0] and recorded.values["nested"] == {"curve": [1, 2]}
    assert recorded.quantity("jax") == Quantity(0.5) and recorded.quantity("sure") == VALUES["sure"]
    assert recorded.quantity("band") == VALUES["band"] and recorded.quantity("other") is None
    assert set(recorded.versions) == {"python", "jax", "jaxlib", "numpy", "flax", "optax", "eqbook"}
    assert recorded.wall_time_s == 12.346 and recorded.device and recorded.date.endswith("+00:00")


def test_a_second_run_replaces_the_first(folder):
    results.write("chapter", {}, {"a": 1}, 1)
    results.write("chapter", {}, {"a": 2}, 1)
    assert results.read("chapter").values == {"a": 2}


def test_the_folder_may_begin_with_a_tilde(folder, monkeypatch):
    monkeypatch.setenv("HOME", str(folder.parent))
    monkeypatch.setenv("EQBOOK_RESULTS_DIR", f"~/{folder.name}")
    assert results.write("chapter", {}, {}, 1) == folder / "chapter.json"


def test_a_folder_of_nobody_is_missed_with_an_error(folder, monkeypatch):
    monkeypatch.setenv("EQBOOK_RESULTS_DIR", "~nobody-of-this-name")
    with pytest.raises(ResultsError, match="`EQBOOK_RESULTS_DIR`: expected an existing folder"):
        results.read("chapter")


def test_nothing_recorded_is_none(folder):
    assert results.read("chapter") is None


@pytest.mark.parametrize("name", ["quick", None])
def test_only_the_paper_profile_writes(folder, monkeypatch, name):
    monkeypatch.setenv("EQBOOK_PROFILE", name) if name else monkeypatch.delenv("EQBOOK_PROFILE")
    with pytest.raises(ResultsError, match="`EQBOOK_PROFILE`: expected paper, got quick"):
        results.write("chapter", {}, {}, 1)
    assert os.listdir(folder) == []


NOT_IN_JSON = [
    math.nan,
    math.inf,
    np.array([1.0, np.nan]),
    object(),
    1 + 2j,
    {"deep": [math.nan]},
    {1: 2, "1": 3},
    {"\ud800": 1},
    "\ud800",
    10**400,
    np.datetime64("2020-01-01", "ns"),
    jax.random.key(0),
]


@pytest.mark.parametrize("value", [*NOT_IN_JSON, np.ma.masked_array([1.0, 2.0], [0, 1])])
def test_values_that_json_cannot_hold(folder, value):
    with pytest.raises(ResultsError, match=r"`values\['bad'\]"):
        results.write("chapter", {}, {"bad": value}, 1)
    assert os.listdir(folder) == []


def test_numbers_wider_than_those_of_python(folder):
    wide = {
        "long": np.longdouble(0.5),
        "many": np.ones(2, np.longdouble),
        "half": jnp.ones(2, jnp.bfloat16),
        "int": 10**20,
    }
    results.write("chapter", {}, wide, 1)
    recorded = results.read("chapter")
    assert recorded.values == {"long": 0.5, "many": [1.0, 1.0], "half": [1.0, 1.0], "int": 10**20}
    assert recorded.quantity("int") == Quantity(1e20) and recorded.quantity("long") == Quantity(0.5)


@pytest.mark.parametrize("seconds", [-1, math.nan, "1", None, True, 10**400])
def test_bad_wall_time(folder, seconds):
    with pytest.raises(ResultsError, match="`wall_time_s`"):
        results.write("chapter", {}, {}, seconds)


@pytest.mark.parametrize("chapter", ["", "../escape", "a/b", "a.json", None, 300 * "a"])
def test_bad_chapter_name(folder, chapter):
    with pytest.raises(ResultsError, match="`chapter`"):
        results.write(chapter, {}, {}, 1)


def test_truncated_file(folder):
    path = results.write("chapter", SETTINGS, VALUES, 1)
    path.write_text(path.read_text()[:-40])
    with pytest.raises(ResultsError, match=r"chapter\.json: cannot be read as JSON"):
        results.read("chapter")


def test_altered_number(folder):
    path = results.write("chapter", SETTINGS, VALUES, 1)
    path.write_text(path.read_text().replace('"plain": 1.5', '"plain": 1.6'))
    with pytest.raises(ResultsError, match="was changed after it was recorded"):
        results.read("chapter")


def test_file_of_another_chapter(folder):
    results.write("chapter", SETTINGS, VALUES, 1).rename(folder / "other.json")
    with pytest.raises(ResultsError, match="was changed"):
        results.read("other")


@pytest.mark.parametrize("text", ["[1]", "3", '{"chapter": "chapter"}', "\xff", '{"chapter": ' + 5000 * "1" + "}"])
def test_malformed_file(folder, text):
    (folder / "chapter.json").write_text(text, encoding="latin1")
    with pytest.raises(ResultsError, match=r"chapter\.json"):
        results.read("chapter")


def test_reformatted_file_is_the_same_run(folder):
    path = results.write("chapter", SETTINGS, VALUES, 1)
    path.write_text(json.dumps(json.loads(path.read_text()), indent=4, sort_keys=True))
    assert results.read("chapter").values["plain"] == 1.5


def test_missing_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("EQBOOK_RESULTS_DIR", str(tmp_path / "missing"))
    with pytest.raises(ResultsError, match="`EQBOOK_RESULTS_DIR`: expected an existing folder"):
        results.read("chapter")


@pytest.mark.parametrize("step", ["create", "rename"])
def test_folder_that_cannot_be_written_to(folder, monkeypatch, step):
    results.write("chapter", {}, {"a": 1}, 1)

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    # Not by permissions: the superuser, whom tests may run as, is not bound by them.
    target = "tempfile.mkstemp" if step == "create" else "os.replace"
    monkeypatch.setattr(target, refuse)
    with pytest.raises(ResultsError, match=r"chapter\.json: cannot be written to .*Permission denied"):
        results.write("chapter", {}, {"a": 2}, 1)
    assert os.listdir(folder) == ["chapter.json"] and results.read("chapter").values == {"a": 1}


def test_folder_is_found_from_inside_the_book(monkeypatch, tmp_path):
    monkeypatch.delenv("EQBOOK_RESULTS_DIR", raising=False)
    (tmp_path / "book" / "results").mkdir(parents=True)
    (tmp_path / "book" / "experiments").mkdir()
    (tmp_path / "_config.yml").touch()
    monkeypatch.chdir(tmp_path / "book" / "experiments")
    assert results.results_dir() == tmp_path / "book" / "results"


def test_folder_is_found_by_the_package_elsewhere_or_missed_with_an_error(monkeypatch, tmp_path):
    monkeypatch.delenv("EQBOOK_RESULTS_DIR", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("eqbook.results.files.__file__", str(tmp_path / "site" / "eqbook" / "results" / "files.py"))
    with pytest.raises(ResultsError, match="`EQBOOK_RESULTS_DIR`"):
        results.results_dir()
    (tmp_path / "site" / "book" / "results").mkdir(parents=True)
    (tmp_path / "site" / "_config.yml").touch()
    assert results.results_dir() == tmp_path / "site" / "book" / "results"


def test_benchmark_is_found_beside_the_book_and_missed_with_an_error(monkeypatch, tmp_path):
    folder = tmp_path / "benchmarks" / "results"
    folder.mkdir(parents=True)
    (tmp_path / "book").mkdir()
    (tmp_path / "_config.yml").touch()
    (folder / "case_2.json").write_text('{"s": 1.5}')
    (folder / "case_2-gpu.json").write_text('{"s": 0.5}')
    (folder / "torn.json").write_text('{"s": 1')
    monkeypatch.chdir(tmp_path / "book")
    assert results.benchmark("case_2") == {"s": 1.5} and results.benchmark("case_2", "gpu") == {"s": 0.5}
    with pytest.raises(ResultsError, match="`backend`: expected a name of letters"):
        results.benchmark("case_2", "/gpu")
    for case, message in (
        ("other", r"no benchmarks/results/other\.json .* run inside a checkout"),
        ("../case_2", "`case`: expected a name of letters"),
        ("torn", r"torn\.json: cannot be read as JSON"),
    ):
        with pytest.raises(ResultsError, match=message):
            results.benchmark(case)


def test_commit(tmp_path):
    assert circumstances.commit_of(tmp_path) == "unknown"
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(tmp_path)]
    (tmp_path / "file").write_text("1")
    for command in (["init", "-q"], ["add", "file"], ["commit", "-q", "-m", "one"]):
        subprocess.run([*git, *command], check=True)
    commit = circumstances.commit_of(tmp_path)
    assert re.fullmatch(r"[0-9a-f]{40}", commit)
    (tmp_path / "file").write_text("2")
    assert circumstances.commit_of(tmp_path) == commit + "+dirty"


def test_changed_sources_are_seen_in_the_caption(folder, monkeypatch):
    assert circumstances.short_commit("unknown") == "unknown"
    monkeypatch.setattr(results.record, "commit_of", lambda folder: 40 * "a" + "+dirty")
    results.write("chapter", SETTINGS, VALUES, 90)
    assert str(results.read("chapter")).endswith("commit aaaaaaaaaaaa+dirty")


def test_records_do_not_make_a_commit_dirty(tmp_path):
    def git(*arguments):
        done = subprocess.run(["git", *arguments], cwd=tmp_path, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    git("init", "-q")
    for name in ("code.py", "benchmarks/results/a.json", "book/results/b.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("one")
    git("add", ".")
    git("-c", "user.name=n", "-c", "user.email=e", "commit", "-q", "-m", "one")
    commit = git("rev-parse", "HEAD")
    for name in ("benchmarks/results/a.json", "book/results/b.json"):
        (tmp_path / name).write_text("two")
    assert circumstances.commit_of(tmp_path) == circumstances.commit_of(tmp_path / "book") == commit
    (tmp_path / "code.py").write_text("two")
    assert circumstances.commit_of(tmp_path / "book") == commit + "+dirty"


def test_commit_without_git(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert circumstances.commit_of(tmp_path) == "unknown"


def test_quantity_of_draws():
    draws = np.random.default_rng(0).permutation(1001)
    assert Quantity.of_draws(7, draws) == Quantity(7, interval=(25.0, 975.0))
    assert Quantity.of_draws(np.float32(0.5), draws.reshape(7, 143), level=0.5) == Quantity(
        0.5, interval=(250.0, 750.0)
    )
    assert Quantity.of_draws(np.median(draws), draws, level=1) == Quantity(500.0, interval=(0.0, 1000.0))
    assert Quantity.of_draws(1, [2.0]).interval == (2.0, 2.0)
    for value, given, level, message in (
        (1, [], 0.9, "`draws`: expected at least one"),
        (1, [np.nan], 0.9, "`draws`: expected finite"),
        (np.nan, [1.0], 0.9, "`value`: expected a finite"),
        (1, [1.0], 95, "`level`: expected a number between 0 and 1"),
        (1, [1.0], 0, "`level`: expected a number between 0 and 1"),
    ):
        with pytest.raises(ValueError, match=message):
            Quantity.of_draws(value, given, level)


@pytest.mark.parametrize(
    ("quantity", "text"),
    [
        (Quantity(3.14159), "3.142"),
        (Quantity(3.14159, 0.0123), "3.142 ± 0.012"),
        (Quantity(3.85, 0.12), "3.85 ± 0.12"),
        (Quantity(71.4, 23.0), "71 ± 23"),
        (Quantity(4.0, 0.0), "4.000 ± 0.000"),
        (Quantity(0.0, 0.0), "0.000 ± 0.000"),
        (Quantity(-1250.0, 0.0), "-1250.000 ± 0.000"),
        (Quantity(2e-4, 0.0), "0.0002000 ± 0.0000000"),
        (Quantity(-0.012345, 0.0), "-0.01235 ± 0.00000"),
        (Quantity(2e-4, interval=(2e-4, 2e-4)), "0.0002000 (0.0002000 to 0.0002000)"),
        (Quantity(None, interval=(2e-4, 2e-4)), "0.0002000 to 0.0002000"),
        (Quantity(2e-30, 0.0), "2.000e-30 ± 0.000e+00"),
        (Quantity(3.978, interval=(3.908, 3.991)), "3.978 (3.908 to 3.991)"),
        (Quantity(None, interval=(2.82, 3.67)), "2.82 to 3.67"),
        (Quantity(1e-30, 2e-31), "1.000e-30 ± 2.000e-31"),
        (Quantity(2e200, interval=(1e200, 3e200)), "2.000e+200 (1.000e+200 to 3.000e+200)"),
        (Quantity(0.0, interval=(-1e308, 1e308)), "0 (-1.000e+308 to 1.000e+308)"),
        (Quantity(99.96, 0.0996), "99.96 ± 0.10"),
        (Quantity(1.0000000000123, 1e-13), "1.00000000001230e+00 ± 1.000e-13"),
        (Quantity(np.int8(100), interval=(np.int8(-100), np.int8(100))), "100 (-100 to 100)"),
    ],
)
def test_quantity_as_text(quantity, text):
    assert str(quantity) == text
    assert Quantity.from_json(json.loads(json.dumps(quantity.to_json()))) == quantity


def test_a_quantity_holds_numbers_of_python():
    made = Quantity(jnp.float32(1), None, [np.float64(0), np.array(2.0)])
    assert made == Quantity(1.0, None, (0.0, 2.0)) and hash(made) == hash(Quantity(1.0, None, (0.0, 2.0)))
    assert [type(number) for number in (made.value, *made.interval)] == [float] * 3
    assert type(Quantity(np.int64(3)).value) is int and Quantity(10**20).value == 10**20


@pytest.mark.parametrize(
    "arguments",
    [
        (10**400,),
        (1.0, "a"),
        (np.ones(1),),
        (math.nan,),
        (None,),
        ("1",),
        (1.0, -0.1),
        (1.0, math.inf),
        (1.0, None, (2.0, 1.0)),
        (1.0, 0.1, (0.0, 2.0)),
        (1.0, None, (1.0,)),
        (1.0, None, (None, 2.0)),
    ],
)
def test_bad_quantity(arguments):
    with pytest.raises(ValueError, match="`value`|`uncertainty`|`interval`"):
        Quantity(*arguments)


@pytest.mark.parametrize("entry", [{}, {"value": 1, "unit": "s"}, "1", [1]])
def test_quantity_from_bad_json(entry):
    with pytest.raises(ValueError, match="`entry`"):
        Quantity.from_json(entry)


def test_paper_values_of_the_book():
    values = results.paper_values("fashion_mnist")
    assert len(values["osp_mnist_c4"].value) == 11
    assert values["osp_table_ensemble_c4"].quantity() == Quantity(3.85, 0.12)
    assert str(values["osp_mnist_members_c4"].quantity(10)) == "2.82 to 3.67"
    assert all(value.paper and value.place and value.how for value in values.values())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "not found"),
        ("{", "cannot be read"),
        ('{"values": {}}', "`paper`"),
        ('{"paper": "p", "values": {"a": {"value": 1}}}', "`a`: expected the entries"),
        ('{"paper": "p", "values": {"a": {"value": "1", "place": "", "how": ""}}}', "`a`: expected numbers"),
        (
            '{"paper": "p", "values": {"a": {"value": [1, 2], "interval": [[1], [2]], "place": "", "how": ""}}}',
            "one length",
        ),
        *(
            (f'{{"paper": "p", "values": {{"a": {{{entry}, "place": "", "how": ""}}}}}}', message)
            for entry, message in (
                ('"value": 1, "interval": [1, 2, 3]', "two ends"),
                ('"value": 1, "interval": 3', "two ends"),
                ('"value": 1, "interval": [2, 0]', "`a`: `interval`"),
                ('"value": 1, "uncertainty": -1', "`a`: `uncertainty`"),
                ('"value": []', "expected numbers"),
            )
        ),
    ],
)
def test_bad_paper_values(folder, text, message):
    (folder / "papers").mkdir()
    if text is not None:
        (folder / "papers" / "chapter.json").write_text(text)
    with pytest.raises(ResultsError, match=message):
        results.paper_values("chapter")


def test_comparison_before_any_run(folder, monkeypatch):
    monkeypatch.setenv("EQBOOK_PROFILE", "quick")
    table = results.comparison(
        [Row("a < b", Quantity(2.0), "plain", Quantity(1.0, 0.1)), Row("only here", None)], "chapter"
    )
    assert table.rows == (("a < b", "1.00 ± 0.10", "not recorded", "2"), ("only here", "–", "not recorded", "–"))
    assert "no recorded run" in table.note and "quick profile" in repr(table)
    html = table._repr_html_()
    assert (
        "a &lt; b" in html and html.count("<tr>") == 3 and ">not recorded</td>" in html and 'class="whole">2<' in html
    )


def test_comparison_with_a_run(folder):
    results.write("chapter", SETTINGS, VALUES, 90)
    table = results.comparison(
        [Row("x", Quantity(2.0), "band"), Row("y", Quantity(2.0), "other")], "chapter", "A note."
    )
    assert [row[2] for row in table.rows] == ["3.75 (3.50 to 3.88)", "–"]
    assert table.caption == "Beside the paper." and table.note.startswith("A note. This build: ")
    assert "1.5 min" in table.note and repr(table).endswith(table.note)
    assert "<p>A note. This build: " in table._repr_html_()


def test_rows_under_headings(folder):
    table = results.comparison(["above", Row("x", Quantity(2.0)), "below", Row("y", None)], "chapter")
    assert table.rows == ("above", ("x", "–", "not recorded", "2"), "below", ("y", "–", "not recorded", "–"))
    assert repr(table).splitlines()[1:3] == ["above", "x  –      not recorded  2"]
    assert table._repr_html_().count('<th scope="rowgroup" colspan="4">') == 2


def test_a_comparison_without_a_record(folder):
    table = results.comparison(["above", Row("x", Quantity(2.0), None, Quantity(1.0))], "chapter", "A note.")
    shorter = table.without_record()
    assert shorter.head == ("", "paper", "this build") and shorter.rows == ("above", ("x", "1", "2"))
    assert (shorter.caption, shorter.note) == (table.caption, table.note)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(10000.0, "10,000"), (-2e5, "-200,000"), (12345.6, "1.235e+04"), (9999.0, "9999"), (0.5, "0.5")],
)
def test_large_whole_numbers_are_written_out(value, expected):
    assert str(Quantity(value)) == expected


def test_a_table_of_any_cells():
    table = results.Table(("", "n", "value"), [("a<b", 12345, 0.123456), ("c", None, Quantity(1.0, 0.1))], "Above.")
    assert table.rows == (("a<b", "12,345", "0.123"), ("c", "–", "1.00 ± 0.10"))
    assert repr(table).splitlines() == [
        "     n       value", "a<b  12,345  0.123", "c    –       1.00 ± 0.10", "Above.",
    ]  # fmt: skip
    html = table._repr_html_()
    assert "<figcaption>Above.</figcaption>" in html and "a&lt;b" in html and "<p>" not in html
    assert '<td class="whole">0.123</td>' in html
    html = results.Table(("", "", ""), [("x", "word", "1 " * 18), ("y", "other", "2")])._repr_html_()
    assert results.Table(("", ""), [("x", "word"), ("y", None)])._repr_html_().count('class="words"') == 4
    mostly = results.Table(("", "", ""), [("a", "34 runs", "-1"), ("b", "word", "2"), ("c", "word", "none")])
    assert mostly._repr_html_().count('<td class="words">') == 3  # the second column, and not the third
    assert '<td class="words">word</td>' in html and f"<td>{'1 ' * 18}</td>" in html


def test_markup_of_a_table():
    rows = [
        ("C₁₆, k = 2", "-1.5e-05 (-2 to 3)", "0.9 of the scale"),
        ("d_B < x-1", Quantity(-0.5, 0.1), "2 of all runs"),
    ]
    table = results.Table(("*a* and A*b*c", "p_", "well-known"), rows, "Of C₄.", "* as_is, 2-3")
    html = table._repr_html_()
    for part in (
        "C<sub>16</sub>, k\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}2", "<i>d</i><sub>B</sub> &lt; x-1",
        "−1.5e−05 (−2 to 3)", "−0.50 ± 0.10", "<i>a</i> and A*b*c", ">p_<", "well-known",
        "<figcaption>Of C<sub>4</sub>.</figcaption>", "<p>* as_is, 2-3</p>", '<td class="words">0.9 of the scale</td>',
    ):  # fmt: skip
        assert part in html, part
    assert table.rows[0][1] == "-1.5e-05 (-2 to 3)" and "C₁₆, k = 2" in repr(table)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((("", "a"), []), "`rows`: expected at least one row"),
        ((("", "a"), [("x",)]), r"`rows`: expected 2 cells, as many as in \('', 'a'\), got \('x',\)"),
        ((("", "a"), [3]), "`rows`: expected each to be a text or a list of cells, got 3"),
        ((("", "a"), 3), "`rows`: expected a list of rows, got 3"),
        (("ab", [("x", "y")]), "`head`: expected the names"),
        ((("", "a"), [("x", "y")], None), "`caption`: expected text, got None"),
        ((("", "a"), [("x", "y")], "", 3), "`note`: expected text, got 3"),
    ],
)
def test_a_table_of_something_else(arguments, message):
    with pytest.raises(ValueError, match=message):
        results.Table(*arguments)


def test_a_row_of_another_run(folder):
    for name, value in (("some_chapter", 1.0), ("another_run", 2.0)):
        results.write(name, SETTINGS, {"x": Quantity(value)}, 1.0)
    rows = [
        Row("own", None, "x"),
        Row("other", None, "x", record="another_run"),
        Row("none", None, "x", record="no_run"),
    ]
    table = results.comparison(rows, "some_chapter")
    assert [row[2] for row in table.rows] == [str(Quantity(1.0)), str(Quantity(2.0)), "not recorded"]
    own, other = (str(results.read(name)) for name in ("some_chapter", "another_run"))
    assert table.note.endswith(f"recorded run: {own}; rows from another_run: {other}.")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (Row(None, None), "`label` to be text"),
        (Row("x", 2.0), "`build` to be a `Quantity` or None, got 2.0 in 'x'"),
        (Row("x", None, "key", 2.0), "`paper` to be a `Quantity`"),
        (Row("x", None, 3), "`key` and `record` text or None"),
        (Row("x", None, "key", record=3), "`key` and `record` text or None"),
    ],
)
def test_a_row_of_something_else(folder, row, message):
    with pytest.raises(ValueError, match=f"`rows`: expected .*{message}"):
        results.comparison([row], "chapter")


def test_a_list_that_holds_itself(folder):
    endless = []
    endless.append(endless)
    with pytest.raises(ResultsError, match="holds itself"):
        results.write("chapter", SETTINGS, {"x": endless}, 1)
    deep = []
    for _ in range(600):
        deep = [deep]
    with pytest.raises(ResultsError, match="or too many within one another"):
        results.write("chapter", SETTINGS, {"x": deep}, 1)
    assert results.read("chapter") is None


@pytest.mark.parametrize(
    "rows", [[], (), (row for row in ()), None, 3], ids=["list", "tuple", "generator", "None", "3"]
)
def test_comparison_without_rows(folder, rows):
    with pytest.raises(ValueError, match="`rows`: expected a list of at least one `Row`, got (none|None|3)"):
        results.comparison(rows, "chapter")


@pytest.mark.parametrize("rows", ["abc", ["only a heading"]])
def test_comparison_of_headings_alone(folder, rows):
    with pytest.raises(ValueError, match="`rows`: expected a list of at least one `Row`"):
        results.comparison(rows, "chapter")


def test_comparison_with_a_note_that_is_no_text(folder):
    with pytest.raises(ValueError, match="`note`: expected text, got None"):
        results.comparison([Row("x", Quantity(2.0))], "chapter", None)
    with pytest.raises(ValueError, match="`caption`: expected text"):
        results.comparison([Row("x", Quantity(2.0))], "chapter", caption=3)


def test_comparison_takes_rows_from_a_generator(folder):
    rows = [Row("x", Quantity(2.0)), Row("y", Quantity(3.0))]
    assert results.comparison((row for row in rows), "chapter").rows == results.comparison(rows, "chapter").rows
    assert len(results.comparison(iter(rows), "chapter").rows) == 2


@pytest.mark.parametrize("key", ["array", "nested", "text"])
def test_a_recorded_value_that_is_no_number_is_named_with_its_chapter(folder, key):
    results.write("chapter", SETTINGS, VALUES | {"text": "none"}, 1)
    with pytest.raises(
        ResultsError, match=f"`{key}`: expected a number in the recorded run of 'chapter', got .*; name"
    ):
        results.read("chapter").quantity(key)
    with pytest.raises(ResultsError, match=f"`{key}`: expected a number"):
        results.comparison([Row("x", None, key)], "chapter")


def test_a_value_inside_of_a_recorded_one_has_both_names(folder):
    found = Quantity(2.0, interval=(1.5, 2.5))
    results.write("chapter", SETTINGS, VALUES | {"size 4": {"mae": found, "sets": 2}}, 1)
    recorded = results.read("chapter")
    assert recorded.quantity("size 4", "mae") == found and recorded.quantity("size 4", "sets") == Quantity(2.0)
    assert recorded.quantity("size 4", "rmse") is recorded.quantity("size 5", "mae") is None
    assert recorded.quantity("jax", "mae") is None
    with pytest.raises(ResultsError, match="`size 4`: expected a number"):
        recorded.quantity("size 4")
    (row,) = results.comparison([Row("x", None, ("size 4", "mae"))], "chapter").rows
    assert row[2] == str(found)
    for key in ((), ("size 4", None)):
        (row,) = results.comparison([Row("x", None, key)], "chapter").rows
        assert row[2] == "not recorded"
    with pytest.raises(ValueError, match="`key` and `record` text or None"):
        results.comparison([Row("x", None, ("size 4", 3))], "chapter")


def test_an_entry_of_a_curve_is_named_by_an_integer():
    curve = results.paper_values("fashion_mnist")["osp_mnist_c4"]
    with pytest.raises(ResultsError, match="`index`: expected 0 .. 10, got True"):
        curve.quantity(True)

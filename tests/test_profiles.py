"""The profile comes from the environment, and an unknown one is an error."""

import json

import pytest

import eqbook as eq


def test_default_is_quick(monkeypatch):
    monkeypatch.delenv("EQBOOK_PROFILE", raising=False)
    assert eq.profile() == "quick" and eq.choose(quick=1, paper=2) == 1


def test_paper(monkeypatch):
    monkeypatch.setenv("EQBOOK_PROFILE", "paper")
    assert eq.profile() == "paper" and eq.choose(quick=1, paper=2) == 2


@pytest.mark.parametrize("name", ["", "fast", "Quick"])
def test_unknown_profile(monkeypatch, name):
    monkeypatch.setenv("EQBOOK_PROFILE", name)
    with pytest.raises(ValueError, match=f"`EQBOOK_PROFILE`: expected one of quick, paper, got '{name}'"):
        eq.profile()


DEFAULTS = {
    "members": 100,
    "sizes": (1, 2),
    "epochs": {4: 10, 8: 5},
    "data": "full",
    "at_once": None,
    "rate": 0.5,
    "cause": ("mnist", 40),
    "by_group": {"C4": {8: (1, 2)}},
    "pairs": ({4: 1}, {8: 2}),
}


def test_settings_are_those_of_the_profile_if_nothing_is_asked_for(monkeypatch):
    for value in (None, "", " "):
        monkeypatch.setenv("EQBOOK_SETTINGS", value) if value is not None else monkeypatch.delenv(
            "EQBOOK_SETTINGS", raising=False
        )
        assert eq.settings(**DEFAULTS) == DEFAULTS


def test_settings_are_changed_by_name_and_keep_their_form(monkeypatch):
    asked = {"members": 3, "sizes": [4, 5.5, None], "epochs": {"4": 1, "8": 2}, "at_once": [1, [2]], "data": None}
    asked |= {"cause": ["x", 5, "y"], "by_group": {"D4": {"8": [3], "16": [4]}}, "pairs": [{"4": 5}, {"32": 6}]}
    monkeypatch.setenv("EQBOOK_SETTINGS", json.dumps(asked))
    changed = {"members": 3, "sizes": (4, 5.5, None), "epochs": {4: 1, 8: 2}, "at_once": (1, (2,)), "data": None}
    changed |= {"cause": ("x", 5, "y"), "by_group": {"D4": {8: (3,), 16: (4,)}}, "pairs": ({4: 5}, {32: 6})}
    found = eq.settings(**DEFAULTS)
    assert found == DEFAULTS | changed and list(found) == list(DEFAULTS)


def test_keys_that_the_profile_does_not_have_are_numbers_too(monkeypatch):
    monkeypatch.setenv("EQBOOK_SETTINGS", '{"epochs": {"4": 1, "16": 2, "1024": 3}}')
    assert eq.settings(**DEFAULTS)["epochs"] == {4: 1, 16: 2, 1024: 3}


def test_keys_are_numbers_where_those_of_the_default_are(monkeypatch):
    monkeypatch.setenv("EQBOOK_SETTINGS", '{"shifts": {"-1": 2, "3": 4}, "rates": {"0.5": 1, "1e-3": 2, "4": 3}}')
    found = eq.settings(shifts={0: 1}, rates={0.25: 1})
    assert found == {"shifts": {-1: 2, 3: 4}, "rates": {0.5: 1, 1e-3: 2, 4: 3}}
    monkeypatch.setenv("EQBOOK_SETTINGS", '{"names": {"1": 2}, "shifts": {"x": 3, "0.5": 4}}')
    assert eq.settings(names={"a": 1}, shifts={0: 1}) == {"names": {"1": 2}, "shifts": {"x": 3, 0.5: 4}}


def test_settings_of_a_recorded_run(monkeypatch, tmp_path):
    """A file with an object, and a record: what `write` has written is read back to the same values."""
    monkeypatch.setenv("EQBOOK_PROFILE", "paper")
    monkeypatch.setenv("EQBOOK_RESULTS_DIR", str(tmp_path))
    used = DEFAULTS | {"members": 7, "epochs": {4: 2, 8: 1}}
    record = eq.results.write("some", used, {"value": 1.0}, 1.0)
    (tmp_path / "plain.json").write_text('{"rate": 1}')
    monkeypatch.setenv("EQBOOK_SETTINGS", str(record))
    assert eq.settings(**DEFAULTS) == used
    monkeypatch.setenv("EQBOOK_SETTINGS", str(tmp_path / "plain.json"))
    assert eq.settings(**DEFAULTS) == DEFAULTS | {"rate": 1}


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ('{"member": 3}', "expected names among members, sizes, .*, got member; each chapter"),
        ("[1]", r"expected a JSON object, got \[1\]"),
        ("null", "expected a JSON object, got None"),
        ('{"members": NaN}', "expected a JSON object or .*: NaN is not a finite number"),
        ('{"rate": 1e999}', "expected a JSON object or .*: 1e999 is not a finite number"),
        (
            '{"rate": 1, "data": "x", "rate": 2}',
            "expected a JSON object or .*: a name stands twice among rate, data, rate",
        ),
        ('{"chapter": "x", "settings": 5, "values": {}}', "expected a JSON object, got 5"),
        ('{"at_once": ' + 900 * "[" + 900 * "]" + "}", "expected fewer lists within lists"),
        ('{"epochs": {"16": 1, "016": 2}}', "expected keys of `epochs` that differ as numbers, got 16, 016"),
        ('{"epochs": {"4": "x"}}', r"expected `epochs\[4\]` to be like 10, got 'x'"),
        ('{"epochs": {"16": "x"}}', r"expected `epochs\[16\]` to be like 10, got 'x'"),
        ('{"sizes": [1, "x"]}', r"expected `sizes\[1\]` to be like 1, got 'x'"),
        ("{1}", "expected a JSON object or the path"),
        ("~nobody-of-this-name/a.json", "expected a JSON object or the path of a file with one: "),
        ("nowhere.json", "expected a JSON object or the path of a file with one: .*nowhere.json"),
        ('{"members": "3"}', "expected `members` to be like 100, got '3'"),
        ('{"members": true}', "expected `members` to be like 100, got True"),
        ('{"sizes": [1, false]}', r"expected `sizes\[1\]` to be like 1, got False"),
        ('{"sizes": 3}', r"expected `sizes` to be like \(1, 2\), got 3"),
        ('{"epochs": [3]}', r"expected `epochs` to be like \{4: 10, 8: 5\}, got \[3\]"),
        ('{"data": 3}', "expected `data` to be like 'full', got 3"),
    ],
)
def test_settings_that_cannot_be_meant(monkeypatch, asked, message):
    monkeypatch.setenv("EQBOOK_SETTINGS", asked)
    with pytest.raises(ValueError, match="`EQBOOK_SETTINGS`: " + message):
        eq.settings(**DEFAULTS)

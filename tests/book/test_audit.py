"""The audit of the locked versions: a vulnerability fails it, and what was not checked is not called sound."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOUND = {"name": "a", "version": "1.0", "vulns": []}
VULNERABLE = {"name": "b", "version": "2.0", "vulns": [{"id": "CVE-1", "fix_versions": ["2.1"]}]}
SKIPPED = {"name": "c", "skip_reason": "not found"}


@pytest.fixture
def audit():
    return runpy.run_path(str(ROOT / ".ci" / "audit.py"))


def test_a_report_is_split(audit):
    checked, unchecked, found = audit["read_report"]({"dependencies": [SOUND, VULNERABLE, SKIPPED]})
    assert (checked, unchecked, found) == (["a", "b"], ["c"], ["b 2.0: CVE-1, mended in 2.1"])


@pytest.mark.parametrize(
    ("answer", "code", "words"),
    [
        ({"dependencies": [SOUND]}, 0, "1 packages checked, 0 known"),
        ({"dependencies": [SOUND, VULNERABLE]}, 1, "CVE-1"),
        ({"dependencies": [SKIPPED]}, 0, "NOT CHECKED, no advisories at this index: 1 packages, c"),
        ("no network", 0, "NOT CHECKED: no network"),
    ],
    ids=["sound", "vulnerable", "skipped", "offline"],
)
def test_the_exit_code_says_whether_a_vulnerability_is_known(audit, monkeypatch, capsys, answer, code, words):
    main = audit["main"]
    monkeypatch.setitem(main.__globals__, "ask", lambda lock, folder: answer)
    assert main("constraints.txt") == code
    assert words in capsys.readouterr().out

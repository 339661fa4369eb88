"""The profile comes from the environment, and an unknown one is an error."""

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

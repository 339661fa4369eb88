"""Every entry of the catalogue is refused, in words that say what was wrong."""

import pytest
from hostile.catalogue import CATALOGUE


@pytest.fixture(autouse=True)
def paper_profile(monkeypatch, tmp_path):
    """So that what is recorded is refused for its values, and lands nowhere."""
    monkeypatch.setenv("EQBOOK_PROFILE", "paper")
    monkeypatch.setenv("EQBOOK_RESULTS_DIR", str(tmp_path))


def test_names_are_unique_and_there_are_hundreds():
    names = [name for name, *_ in CATALOGUE]
    assert len(set(names)) == len(names) > 300  # as the page on large runs says


@pytest.mark.parametrize("call, words", [pytest.param(call, words, id=name) for name, call, *words in CATALOGUE])
def test_refused(call, words):
    with pytest.raises(ValueError) as caught:
        call()
    message = str(caught.value)
    missing = [word for word in words if word not in message]
    assert not missing, f"{message!r} does not contain {missing}"

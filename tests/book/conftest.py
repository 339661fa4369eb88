"""What the tests of the book's machinery share: its modules on the path, and the browser."""

import os
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "book" / "_ext")]


def skip_or_fail(reason: str) -> None:
    """Skip, or fail where the page checks are required (`EQBOOK_PAGES=required`: `make check-pages` and CI)."""
    if os.environ.get("EQBOOK_PAGES") == "required":
        pytest.fail(f"the page checks are required here, but {reason}", pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def browser():
    from browser import Browser, find_chromium

    executable = find_chromium()
    if executable is None:
        skip_or_fail("no Chromium was found; on Debian: apt-get install chromium")
    with Browser(executable) as running:
        yield running

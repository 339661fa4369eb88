"""Which tests run: without `--all` no slow ones, and of `every(k)` one case of k."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
import pytest

@pytest.mark.slow
def test_slow():
    pass

@pytest.mark.every(3)
@pytest.mark.parametrize("one", range(2))
@pytest.mark.parametrize("two", range(5))
def test_cases(one, two):
    pass

def test_usual():
    pass
"""


@pytest.fixture
def collected(tmp_path):
    shutil.copy(Path(__file__).with_name("conftest.py"), tmp_path)
    (tmp_path / "test_it.py").write_text(TESTS)

    def run(*arguments):
        command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-W", "error", *arguments]
        found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert found.returncode == 0, found.stdout + found.stderr
        return [line.partition("::")[2] for line in found.stdout.splitlines() if "::" in line]

    return run


def test_slow_tests_and_most_cases_are_left_out_unless_all_are_asked_for(collected):
    few, many = collected(), collected("--all")
    assert len(many) == 12 and {"test_slow", "test_usual"} < set(many)
    assert len(few) == 5 and "test_slow" not in few and "test_usual" in few
    assert few == [name for name in many if name in few], "the order is that of the file"
    cases = [name for name in few if name.startswith("test_cases")]
    assert {name[-2] for name in cases} == {"0", "1"}, "no value of an argument is left out by its position"


@pytest.mark.every(2)
@pytest.mark.parametrize("name", ["test_slow", "test_cases"])
def test_a_test_that_is_named_runs_whole(collected, name):
    assert len(collected(f"test_it.py::{name}")) == (1 if name == "test_slow" else 10)

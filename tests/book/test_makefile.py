"""The Makefile explains itself, and refuses a Python that is too old before it makes anything."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def tree(tmp_path):
    for name in ("Makefile", "constraints.txt", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def make(tree, *arguments):
    done = subprocess.run(["make", *arguments], cwd=tree, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


def test_help_names_every_target(tree):
    status, output = make(tree)
    text = (ROOT / "Makefile").read_text()
    targets = text.split(".PHONY:")[1].splitlines()[0].split()
    assert status == 0
    assert [target for target in targets if target != "help" and f"make {target}" not in output] == []


@pytest.mark.parametrize("script", ["#!/bin/sh\ncase $1 in --version) echo Python 3.9.2;; *) exit 1;; esac\n", None])
def test_an_unfit_python_is_refused_with_what_to_do(tree, script):
    python = tree / "python-old"
    if script:
        python.write_text(script)
        python.chmod(0o755)
    status, output = make(tree, "book", f"PYTHON={python}")
    assert status != 0
    assert "needs Python 3.11 or newer" in output and "make PYTHON=" in output and "book" in output
    assert ("Python 3.9.2" in output) == bool(script)
    assert not (tree / ".venv").exists()


def test_constraints_are_names_and_versions():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert [line for line in lines if "==" not in line or "://" in line or line.startswith("-")] == []
    names = {line.split("==")[0] for line in lines}
    assert "neural-tangents" in names and not {"tensorflow", "tf2jax"} & names

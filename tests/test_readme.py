"""What the README shows a newcomer runs, and names only what exists."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf8")


def test_python_code_runs():
    blocks = re.findall(r"```python\n(.*?)```", README, re.S)
    assert blocks
    names = {}
    for block in blocks:
        exec(block, names)
    assert names["k"].ntk.shape == (20, 20) and names["law"].train_mean(t=10.0).shape == (20, 1)


def test_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf8")
    targets = set(re.findall(r"\bmake ([a-z-]+)", README))
    assert {"book", "test", "serve"} <= targets
    assert all(re.search(rf"^{target}:", makefile, re.M) for target in targets)


def test_linked_files_exist():
    links = re.findall(r"\]\((?!https?://)([^)#]+)\)", README)
    assert links and all((ROOT / link).exists() for link in links)

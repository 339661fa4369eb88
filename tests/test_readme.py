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
    run, law, eq = names["run"], names["law"], names["eq"]
    rows = eq.gram(names["net"], names["x_new"], names["x"]).ntk
    expected = law.mean(rows, t=50, schedule=eq.GradientDescent(1e-2))
    # What the README calls counterparts: 4 standard errors, and 1 / width of a mean that is of order 1.
    assert (abs(run.mean("new")[-1] - expected) < 4 * run.standard_error("new")[-1] + 4 / 512).all()


def test_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf8")
    targets = set(re.findall(r"\bmake ([a-z-]+)", README))
    assert {"book", "test", "serve"} <= targets
    assert all(re.search(rf"^{target}:", makefile, re.M) for target in targets)


def test_linked_files_exist():
    links = re.findall(r"\]\((?!https?://)([^)#]+)\)", README)
    assert links and all((ROOT / link).exists() for link in links)

"""The paper profile of the FashionMNIST chapter, end to end, with its sizes cut and no download.

The quick profile is run by the chapter's own test. What only the paper profile does (fetching, recording, reading back)
would otherwise be run for the first time on an expensive machine.
"""

from pathlib import Path

import jax
import jupytext
import matplotlib
import pytest

import eqbook as eq

CHAPTER = Path(__file__).resolve().parents[2] / "book" / "experiments" / "fashion_mnist.md"
CUT = {100: 4, 60_000: 48, 10_000: 24, 10: 3, (32, 64): (2, 3), 128: 32, 500: 50}


@pytest.fixture
def paper_profile(tmp_path, monkeypatch):
    (tmp_path / "papers").mkdir()
    source = CHAPTER.parents[1] / "results" / "papers" / "fashion_mnist.json"
    (tmp_path / "papers" / source.name).write_text(source.read_text())
    monkeypatch.setenv("EQBOOK_PROFILE", "paper")
    monkeypatch.setenv("EQBOOK_RESULTS_DIR", str(tmp_path))
    monkeypatch.setattr("eqbook.profiles.choose", lambda *, quick, paper: CUT.get(paper, paper))
    for name in ("fashion_mnist", "mnist"):
        monkeypatch.setattr(f"eqbook.data.fetch_{name}", lambda progress, name=name: eq.data.load_sample(name))
    with matplotlib.rc_context():
        matplotlib.use("agg")
        yield tmp_path


def run_cells(cells):
    """Execute cells one after the other; tiny runs show nothing significant, so failed claims pass here."""
    names, failed = {"__name__": "chapter"}, 0
    for cell in cells:
        try:
            exec(compile(cell.source, str(CHAPTER), "exec"), names)
        except AssertionError:
            assert "comparison" in names, "only claims about the outcome may fail, and they come after the record"
            failed += 1
    return names, failed


def test_paper_profile_records_what_it_measured(paper_profile):
    # The check of the proposition does not depend on the profile and takes a while: left to the chapter's own test.
    cells = [cell for cell in jupytext.read(CHAPTER).cells if cell.cell_type == "code"]
    names, _ = run_cells([cell for cell in cells if "coupling_residual" not in cell.source])
    recorded = eq.results.read("fashion_mnist")
    assert recorded.settings["members"] == 4 and recorded.settings["at_once"] is None
    assert recorded.settings["batch_size"] == 32 and recorded.settings["epochs"] == 3
    for key, quantity in names["quantities"].items():
        assert recorded.quantity(key) == quantity
    assert recorded.values["curves"]["osp"]["MNIST"]["2"] == names["osp"]["MNIST"][2].tolist()
    columns = [row[2:] for row in names["comparison"].rows]
    assert all(middle == build for middle, build in columns), "this build is the recorded run"
    assert "recorded run: " in names["comparison"].caption
    assert not jax.config.jax_enable_x64


def test_the_settings_of_the_paper_are_those_of_the_paper(monkeypatch):
    monkeypatch.setenv("EQBOOK_PROFILE", "paper")
    cells = [cell for cell in jupytext.read(CHAPTER).cells if cell.cell_type == "code"]
    names = {}
    exec(
        "import eqbook as eq\n" + next(cell.source for cell in cells if "settings" in cell.metadata.get("tags", [])),
        names,
    )
    settings = names["settings"]
    assert (settings["members"], settings["train_images"], settings["epochs"]) == (100, 60_000, 10)
    assert names["sizes"][-1] == 100 and {5, 10} < set(names["sizes"])

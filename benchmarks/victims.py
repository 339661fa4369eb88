"""What is killed: four jobs, small, and slowed down by sleeping so that their files are written over a second or so.

Each returns what it found, as arrays, and what it counted.
"""

import json
import os
import time
import warnings
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import jupytext
import matplotlib
import matplotlib.pyplot  # noqa: F401 - once, before the forks
import numpy as np
import optax

import eqbook as eq
import eqbook.metrics  # a submodule is imported when it is first used: here, before the forks
import eqbook.networks
import eqbook.plotting
import eqbook.results
from benchmarks.measure import ROOT
from eqbook.data.obtain import obtain
from eqbook.data.registry import DataFile, DataSet, Edition
from eqbook.ensembles.programs import Programs
from eqbook.ensembles.store import Store as Members
from eqbook.grams.store import Store as Tiles

Found = tuple[dict[str, np.ndarray], dict[str, Any]]
NET = eq.Sequential(eq.Dense(8, b_std=0.3), eq.Relu(), eq.Dense(2))
INPUTS, TILE = 40, 6
EPOCHS, CHUNKS = 10, 2
CHAPTER, CHAPTER_EPOCHS = "ising", 3
CUT = dict(
    train_configurations=4, watched=5, draws=128, widths=(3, 4, 5), sizes=(2, 4), records=(1, CHAPTER_EPOCHS),
    lazy_widths=(3, 5), small_members=3, control_members=4, resamples=3, at_once=4,
)  # fmt: skip
SETTINGS = "settings = eq.settings("  # how the cell of the settings begins
SKIP = ("subplots(", "variations = {", "moved_inputs")  # figures, and checks that do not depend on the profile


@cache
def pages() -> tuple[list[str], bytes]:
    """The cells of the chapter and the numbers of its paper, read once: all runs are of the same chapter."""
    book = ROOT / "book"
    cells = jupytext.read(book / "experiments" / f"{CHAPTER}.md").cells
    sources = [cell.source for cell in cells if cell.cell_type == "code"]
    paper = (book / "results" / "papers" / f"{CHAPTER}.json").read_bytes()
    return [source for source in sources if not any(text in source for text in SKIP)], paper


def inputs(rows: int = INPUTS) -> np.ndarray:
    """Vectors that need no random numbers."""
    return np.sin(np.arange(rows * 3, dtype=np.float32).reshape(rows, 3) ** 2)


def gram(folder: Path) -> Found:
    """A Gram matrix with a store; counts the tiles that it computes."""
    made, original = [], Tiles.tile

    def tile(self, place, compute):
        def slowly():
            time.sleep(0.02)
            made.append(place)
            return compute()

        return original(self, place, slowly)

    Tiles.tile = tile
    k = eq.gram(NET, jnp.asarray(inputs()), tile=TILE, store=folder / "store")
    return {"nngp": np.asarray(k.nngp), "ntk": np.asarray(k.ntk)}, {"made": len(made)}


def ensemble(folder: Path) -> Found:
    """An ensemble with a store; counts the epochs that each chunk is trained for."""
    trained = _count_epochs(0.02)
    x = jnp.asarray(inputs(12))
    run = eq.train_ensemble(
        NET, jax.random.key(0), x, jnp.cos(x[:, :2]), members=2 * CHUNKS, epochs=EPOCHS, optimizer=optax.adam(1e-2),
        batch_size=4, at_once=2, watch={"x": x}, record=[0, 4, EPOCHS], checkpoint_every=2, store=folder / "store",
    )  # fmt: skip
    leaves = {f"params{k}": np.asarray(leaf) for k, leaf in enumerate(jax.tree.leaves(run.params))}
    return {"losses": run.losses, "outputs": run.outputs["x"], **leaves}, {"trained": trained}


def _count_epochs(pause: float) -> dict[str, int]:
    """From now on: epochs that are trained, for each folder and chunk."""
    trained, advance, init, here = defaultdict(int), Programs.advance, Members.__init__, []

    def opened(self, folder, *more):
        here.append(Path(folder).name)
        init(self, folder, *more)

    def counted(self, chunk, member, first, last):
        time.sleep(pause)
        trained[f"{here[-1]}/{chunk}"] += last - first
        return advance(self, chunk, member, first, last)

    Members.__init__, Programs.advance = opened, counted
    return trained


def download(folder: Path, data_set: dict[str, Any]) -> Found:
    """Two files from a server, one of them packed."""
    (folder / "data").mkdir(parents=True, exist_ok=True)
    files = tuple(DataFile(**file) for file in data_set["files"])
    edition = Edition("files", files, (data_set["address"] + "{name}",))
    _, paths = obtain(DataSet("toy", "Toy", (edition,), "none", "nowhere"), folder / "data", progress=False)
    return {name: np.frombuffer(path.read_bytes(), np.uint8) for name, path in paths.items()}, {}


def chapter(folder: Path, cells: list[str] | None = None) -> Found:
    """The paper profile of a chapter, its sizes cut, from its first cell to the one that records.

    `EQBOOK_STORE_DIR` is set, as it is by one who fears for hours of computation.

    Args:
        folder: where its ensembles are kept, and the recorded run.
        cells: those of another chapter.
    """
    matplotlib.use("agg")
    warnings.simplefilter("ignore")
    results = folder / "results"
    (results / "papers").mkdir(parents=True, exist_ok=True)
    (results / "papers" / f"{CHAPTER}.json").write_bytes(pages()[1])
    os.environ["EQBOOK_RESULTS_DIR"] = str(results)
    if cells is None:  # nearly all of the time would be compilation
        jax.config.update("jax_disable_most_optimizations", True)
    os.environ["EQBOOK_STORE_DIR"] = str(folder)
    trained = _count_epochs(0.0)
    names: dict[str, Any] = {"__name__": "chapter"}
    if cells is None and not any(source.startswith(SETTINGS) for source in pages()[0]):
        raise RuntimeError(f"{CHAPTER}: expected a cell that begins with {SETTINGS!r}; its sizes would not be cut.")
    for source in cells or pages()[0]:
        # Networks this small show nothing: a claim may fail, and none comes before the record.
        exec(compile(source.split("comparison = ")[0], CHAPTER, "exec"), names)
        if source.startswith(SETTINGS):
            if missing := set(CUT) - set(names["settings"]):
                raise RuntimeError(f"{CHAPTER}: expected the settings {sorted(missing)}; their sizes would not be cut.")
            names["settings"].update(CUT)
        if "eq.results.write(" in source:
            break
    recorded = eq.results.read(CHAPTER)
    text = json.dumps([recorded.settings, recorded.values], sort_keys=True).encode()
    return {"recorded": np.frombuffer(text, np.uint8)}, {"trained": trained}


JOBS = {"gram": gram, "ensemble": ensemble, "download": download, "chapter": chapter}

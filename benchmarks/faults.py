"""Killed, again and again, and gone on: `python -m benchmarks.faults [--kills N] [--output FOLDER]`.

A Gram matrix, an ensemble, a download and a chapter are killed with SIGKILL at random, up to four times in a row, and
then left to finish. What they find must be what an undisturbed run has found, bit for bit; what was kept before a kill
must be used and not be made again; and no half-written file may be left. The record is written after each run, so that
this script goes on from it when it is killed itself.
"""

import argparse
import hashlib
import json
import shutil
import sys
import tempfile
import time
from collections import Counter
from contextlib import nullcontext
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.kills import FILES, PHASES, Ended, Server
from benchmarks.machine import circumstances
from benchmarks.measure import RESULTS
from benchmarks.report import Table
from benchmarks.served import Site
from benchmarks.victims import CHAPTER, CHAPTER_EPOCHS, EPOCHS, INPUTS, TILE
from eqbook._files import is_sealed, sealed, write_whole
from eqbook.data.store import locked
from eqbook.results.circumstances import short_commit

KILLS, SEED = 50, 20_261_121
ROW = 4  # kills in a row, at most, before a run is left to finish
COMPILES = 5  # every fifth run compiles all of its programs anew; of a chapter, none: that takes long
KINDS = {
    "download": "download",
    "gram": "Gram matrix",
    "ensemble": "ensemble",
    "chapter": "chapter, paper profile, sizes cut",
}
NAME = "faults"


MORE: dict[str, dict[str, Any]] = {}  # arguments of a kind that are not the usual ones


class Lost(AssertionError):
    """A run did not survive."""


def arguments(kind: str, site: Site) -> dict[str, Any]:
    """What a job is called with, beside its folder."""
    return ({"data_set": site.data_set} if kind == "download" else {}) | MORE.get(kind, {})


def kept(kind: str, folder: Path, site: Site) -> dict[str, int]:
    """What is there before a run: tiles, epochs of each chunk, or bytes of each file and of each part of one."""
    if kind == "gram":
        return {"tiles": len(list((folder / "store").glob("tile-*")))}
    if kind == "download":
        site.asked.clear()
        there = {path.name: path.stat().st_size for path in (folder / "data").rglob("*") if path.is_file()}
        arrived = {file["name"]: there[file["name"]] for file in site.data_set["files"] if file["name"] in there}
        parts = {name: size for name, size in there.items() if name.endswith(".part")}
        # A part may outlive the kill that came between the arrival of its file and its removal.
        return arrived | {name: size for name, size in parts.items() if _file_of(name) not in arrived}
    found = {}
    for path in folder.glob("*/state-*.npz"):
        with np.load(path, allow_pickle=False) as file:  # the last leaves are two epochs: done, and recorded
            leaves = sorted((name for name in file.files if name.startswith("leaf")), key=lambda name: int(name[4:]))
            found[f"{path.parent.name}/{int(path.stem[6:])}"] = int(file[leaves[-2]])
    return found


def _file_of(name: str) -> str:
    """The file that a request or a part belongs to."""
    return name.removesuffix(".part").removesuffix(".gz")


def gone(before: dict[str, int], now: dict[str, int]) -> list[str]:
    """Of what was kept before a run, what is there no more, or less of it; a part may have become its file."""
    return [name for name, size in before.items() if now.get(name, 0) < size and _file_of(name) not in now]


def made_again(kind: str, before: dict[str, int], said: dict[str, Any], site: Site) -> int:
    """How much of what was kept was made once more: tiles, epochs or bytes."""
    if kind == "gram":
        side = -(-INPUTS // TILE)
        return said["made"] - (side * (side + 1) // 2 - before["tiles"])
    if kind == "download":  # of a part the rest may be asked for, of a file that has arrived nothing
        return sum(
            size
            for name, size in before.items()
            if any(
                _file_of(asked) == _file_of(name) and (start < size or not name.endswith(".part"))
                for asked, start in site.asked
            )
        )
    epochs = EPOCHS if kind == "ensemble" else CHAPTER_EPOCHS
    return sum(max(0, done + said["trained"].get(chunk, 0) - epochs) for chunk, done in before.items())


def torn(folder: Path) -> bool:
    """Whether the recorded run of the chapter is there and is not whole."""
    recorded = folder / "results" / f"{CHAPTER}.json"
    return recorded.exists() and not is_sealed(json.loads(recorded.read_text(encoding="utf8")))


def half_written(folder: Path) -> list[str]:
    """Unfinished files."""
    names = [
        path.name for path in folder.rglob("*") if path.name.startswith((".writing-", "tmp")) or ".part" in path.name
    ]
    return names


def differing_bits(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> int:
    """Bits in which arrays differ; all of them where shape or dtype do."""
    total = 0
    for name, array in expected.items():
        other = found.get(name)
        if other is None or (other.shape, other.dtype) != (array.shape, array.dtype):
            total += 8 * array.nbytes
            continue
        one, two = (np.ascontiguousarray(x).reshape(-1).view(np.uint8) for x in (array, other))
        total += int(np.unpackbits(one ^ two).sum())
    return total


def undisturbed(server: Server, kind: str, folder: Path, **more: Any) -> Ended:
    """A run that nobody kills, its lines counted; the second of two, which finds its programs compiled."""
    first = server.run(kind, folder / "first", compiles=False, **more)
    second = server.run(kind, folder / "second", line=-1, **more)
    if bits := differing_bits(second.arrays, first.arrays):
        raise Lost(f"{kind}: two undisturbed runs differ in {bits} bits")
    return second


def chain(server: Server, kind: str, number: int, left: int, plain: Ended, folder: Path, site: Site) -> dict[str, Any]:
    """One run: killed up to `ROW` times, then left to finish and compared.

    Args:
        server: starts the processes.
        kind: which job.
        number: of the chain; decides all that is random.
        left: kills that are still wanted.
        plain: the undisturbed run.
        folder: an empty folder.
        site: the server of the downloads.

    Raises:
        Lost: if anything of it is wrong.
    """
    rng = np.random.default_rng([SEED, list(KINDS).index(kind), number])
    more = arguments(kind, site)
    compiles = kind in ("gram", "ensemble") and number % COMPILES == COMPILES - 1
    # A run that compiles takes longer: how long is not known before, and longer delays than that kill nothing.
    life = plain.seconds * (3 if compiles else 1)
    found: dict[str, Any] = {"kills": 0, "clock": 0, "line": 0, "phases": Counter(), "functions": Counter()}
    wanted = min(left, ROW)
    while True:
        before = kept(kind, folder, site)
        if found["kills"] == wanted:
            end = server.run(kind, folder, compiles=compiles, **more)
        elif rng.random() < 0.5:
            end = server.run(kind, folder, delay=rng.uniform(0, life), compiles=compiles, **more)
        else:
            line = int(rng.integers(1, plain.said["lines"] + 1))
            end = server.run(kind, folder, line=line, compiles=compiles, **more)
        if not end.killed:
            break
        if kind == "download" and (again := made_again(kind, before, {}, site)):
            raise Lost(f"{kind}, run {number}: {again} bytes were sent again before a kill; see {folder}")
        if names := gone(before, kept(kind, folder, site)):
            raise Lost(f"{kind}, run {number}: a killed process has lost {names}; see {folder}")
        found["kills"] += 1
        found["line" if end.function else "clock"] += 1
        found["phases"][end.phase] += 1
        if torn(folder):
            raise Lost(f"{kind}, run {number}: half of a recorded run was left; see {folder}")
        if end.function:
            found["functions"][end.function] += 1
    again, bits = made_again(kind, before, end.said, site), differing_bits(end.arrays, plain.arrays)
    names = half_written(folder)
    if bits or again or names:
        raise Lost(f"{kind}, run {number}: {bits} bits differ, {again} made again, unfinished: {names}; see {folder}")
    size = 8 * sum(array.nbytes for array in end.arrays.values())
    return found | {"runs": 1, "resumed": int(found["kills"] > 0), "bits": size, "differing_bits": bits, "again": again}


def add(total: dict[str, Any], one: dict[str, Any]) -> dict[str, Any]:
    """Counts of one more run; what is a dictionary is added entry by entry."""
    return {
        key: dict(Counter(total.get(key, {})) + Counter(value))
        if isinstance(value, dict)
        else total.get(key, 0) + value
        for key, value in one.items()
    }


def survive(
    kinds: list[str],
    kills: int,
    scratch: Path,
    path: Path | None = None,
    show: bool = False,
    server: Server | None = None,
) -> dict[str, Any]:
    """Kill each kind of job so many times.

    Args:
        kinds: some of `KINDS`.
        kills: of each.
        scratch: an existing folder.
        path: record to write, and to go on from if it is there; `None` for none.
        show: whether to print each run.
        server: one that is running; `None` starts one.

    Returns:
        The record.

    Raises:
        Lost: at the first run that did not survive.
    """
    sources()
    record = load_partial(path, kills)
    with Server(scratch) if server is None else nullcontext(server) as server, Site() as site:
        for kind in kinds:
            total = record["kinds"].get(kind, {"kills": 0, "runs": 0})
            if total["kills"] >= kills:
                continue
            more = arguments(kind, site)
            plain = undisturbed(server, kind, scratch / f"{kind}-plain", **more)
            while total["kills"] < kills:
                folder = scratch / f"{kind}-{total['runs']:03d}"
                began = time.perf_counter()
                one = chain(server, kind, total["runs"], kills - total["kills"], plain, folder, site)
                shutil.rmtree(folder, ignore_errors=True)
                total = record["kinds"][kind] = add(total, one) | {"seconds": round(plain.seconds, 3)}
                if path is not None:
                    record = save(path, record, kind)
                if show:
                    took = f"{time.perf_counter() - began:.1f} s"
                    print(
                        f"{kind}: {total['kills']} kills, {total['runs']} runs, {dict(one['phases'])}, {took}",
                        flush=True,
                    )
    return record


def save(path: Path, record: dict[str, Any], kind: str) -> dict[str, Any]:
    """Write what was found of one kind into the record, in which other processes may write of other kinds."""
    with locked(path.parent):
        others = load_partial(path, record["wanted"])["kinds"]
        record = record | {"kinds": {**record["kinds"], **others, kind: record["kinds"][kind]}}
        write_whole(path, (json.dumps(sealed(record), indent=1) + "\n").encode())
    return record


@cache
def sources() -> str:
    """Digest of the code that is tried and of the code that tries it, as they were when this process began."""
    own = [Path(__file__).with_name(f"{name}.py") for name in (NAME, "kills", "served", "victims")]
    return hashlib.sha256(b"".join(path.read_bytes() for path in [*map(Path, sorted(FILES)), *own])).hexdigest()


def load_partial(path: Path | None, kills: int) -> dict[str, Any]:
    """The record so far, or a new one; the sources are part of it, so that numbers of two versions are never added."""
    head = {"case": NAME, "seed": SEED, "wanted": kills, "sources": sources()}
    if path is not None and path.is_file():
        found = json.loads(path.read_text(encoding="utf8"))
        if is_sealed(found) and all(found.get(key) == value for key, value in head.items()):
            return {key: value for key, value in found.items() if key != "sha256"}
    return head | {"smoke": False, "circumstances": circumstances(), "kinds": {}}


def load(folder: Path = RESULTS) -> dict[str, Any] | None:
    """The record; `None` if there is none, or none that is whole and complete."""
    path = folder / f"{NAME}.json"
    found = json.loads(path.read_text(encoding="utf8")) if path.is_file() else None
    whole = is_sealed(found) and set(found["kinds"]) == set(KINDS)
    return found if whole and all(one["kills"] >= found["wanted"] for one in found["kinds"].values()) else None


def table(record: dict[str, Any]) -> Table:
    """What was killed, when, and what came of it."""
    rows = []
    for kind, name in KINDS.items():
        one = record["kinds"][kind]
        phases = ", ".join(f"{phase} {one['phases'][phase]}" for phase in PHASES if phase in one["phases"])
        rows.append(
            (name, f"{one['kills']} ({one['line']})", phases, f"{one['resumed']} of {one['runs']}", str(one["again"]),
             f"{one['differing_bits']} of {one['bits']:,}")
        )  # fmt: skip
    head = ("what was killed", "kills (by line)", "while", "runs resumed", "made again", "differing bits")
    about = record["circumstances"]
    return Table(head, rows, f"{about['date'][:10]}, {about['processor']}, commit {short_commit(about['commit'])}.")


def main(given: list[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.faults", description=__doc__)
    parser.add_argument("kinds", nargs="*", metavar="kind", help=f"any of {', '.join(KINDS)}; default: all")
    parser.add_argument("--kills", type=int, default=KILLS, help="of each kind")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of the record; default benchmarks/results")
    options = parser.parse_args(given)
    options.output.mkdir(parents=True, exist_ok=True)
    run = partial(survive, options.kinds or list(KINDS), options.kills, path=options.output / f"{NAME}.json", show=True)
    with tempfile.TemporaryDirectory(prefix="eqbook-faults-") as scratch:
        record = run(Path(scratch))
    print(table(record) if set(record["kinds"]) == set(KINDS) else json.dumps(record["kinds"], indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())

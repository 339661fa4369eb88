"""The table of the page "Performance": `python -m benchmarks.kernels [case ...] [--smoke] [--no-memory]`.

Each case measures the memory of `eqbook` and of its peer in a process of its own, checks that both give one answer,
times them in turn, prints what was reached beside what was aimed at, and writes a record.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import jax

from benchmarks.cases import CASES, Case, entries
from benchmarks.checks import WrongAnswer, check
from benchmarks.counts import count
from benchmarks.machine import circumstances, limits
from benchmarks.measure import RESULTS, alternate, memory
from benchmarks.peers import PEERS, ours
from benchmarks.report import record_path
from benchmarks.settings import configure
from eqbook._files import write_whole

ROUNDS, BUDGET = 7, 20.0  # at most; seconds after which no further round begins


def run(case: Case, smoke: bool = False, with_memory: bool = True, machine: dict[str, float] | None = None) -> dict:
    """The record of a case, the answer checked.

    Args:
        case: the case, already the tiny one if `smoke`.
        smoke: whether this is only a try.
        with_memory: whether to measure memory.
        machine: its limits, from `benchmarks.machine.limits`; the fraction reached is left out without them.

    Raises:
        WrongAnswer: if `eqbook` and the peer differ.
    """
    record = {
        "case": case.name,
        "title": case.title,
        "smoke": smoke,
        "network": str(case.net),
        "inputs": {"shape": case.shape, "dtype": "float32", "n": case.n},
        "entries": entries(case.n),
        "circumstances": circumstances(),
    }
    # Memory first: on an accelerator, the other process must find it free.
    used = _memory(case, smoke) if with_memory else {}
    jax.clear_caches()  # what another case has compiled would not be compiled again
    x = case.inputs()
    calls = {"ours": lambda: ours(case.net)(x)}
    if case.peer:
        peer, few = PEERS[case.peer](case.net), case.inputs(case.peer_n)
        calls["peer"] = lambda: peer(few)
    checks, times = alternate(calls, ROUNDS, BUDGET, lambda found: check(case, found["ours"], found.get("peer")))
    record["checks"] = [vars(one) for one in checks]
    record["ours"] = times["ours"].record() | {"s_per_entry": times["ours"].typical / entries(case.n)}
    if case.peer:
        computed = entries(len(few))
        record["peer"] = times["peer"].record() | {
            "name": case.peer,
            "entries": computed,
            # A peer that is slow computes fewer entries, and its time is scaled by their number.
            "scaled": computed != entries(case.n),
            "s_per_entry": times["peer"].typical / computed,
        }
    record["memory"] = used
    if machine is not None:
        work = count(case.net, case.shape, case.n)
        fraction = work.least_seconds(machine) / record["ours"]["s_per_entry"]
        record["limit"] = machine | {**vars(work), "fraction": fraction}
    record["targets"] = _targets(case, record)
    return record


def _memory(case: Case, smoke: bool) -> dict[str, Any]:
    sizes = [case.n] if case.more_n is None else [case.n, case.more_n]
    used = {"ours": {str(n): memory(case.name, "ours", n, smoke) for n in sizes}}
    if case.peer:
        n = case.n if case.peer_n is None else case.peer_n
        used["peer"] = {str(n): memory(case.name, case.peer, n, smoke)}
    return used


def _targets(case: Case, record: dict) -> list[dict[str, Any]]:
    reached = {"seconds_per_entry": record["ours"]["s_per_entry"]}
    if case.peer:
        reached["ratio"] = record["peer"]["s_per_entry"] / record["ours"]["s_per_entry"]
    if record["memory"]:
        reached["bytes"] = max(record["memory"]["ours"].values())
    found = []
    # Ratios are aimed at on two cores: on an accelerator the peers of small cases take the time of starting a program.
    elsewhere = {"ratio"} if record["circumstances"]["backend"] != "cpu" else set()
    for what, value in reached.items():
        target = None if what in elsewhere else case.targets.get(what)
        met = None if target is None else (value >= target if what == "ratio" else value < target)
        found.append({"what": what, "reached": value, "target": target, "met": met})
    return found


def show(record: dict) -> None:
    """Print a record."""
    print(f"\n{record['case']}: {record['title']}, n = {record['inputs']['n']}")
    for one in record["checks"]:
        print(f"  {one['what']}: {one['difference']:.1e} (bound {one['bound']:.1e})")
    for who in ("ours", "peer"):
        if who in record:
            t = record[who]
            name = t.get("name", "eqbook") + (f", {t['entries']} entries" if t.get("scaled") else "")
            spread = f"median {t['median_s']:.4g} s, {t['best_s']:.4g} to {t['worst_s']:.4g}, {t['runs']} runs"
            compiled = "within the spread" if t["compile_s"] is None else f"{t['compile_s']:.3g} s"
            cost = f"processor {t['cpu_s']:.4g} s; compilation {compiled}"
            print(f"  {name}: {spread}; {cost}; {t['s_per_entry']:.3g} s per entry")
    for who, sizes in record["memory"].items():
        print(f"  memory, {who}: " + ", ".join(f"{size / 2**20:.0f} MiB at n = {n}" for n, size in sizes.items()))
    if "limit" in record:
        work = record["limit"]
        print(
            f"  per entry {work['operations']:.3g} operations, {work['bytes']:.3g} bytes: "
            f"{work['fraction']:.0%} of the machine's limit"
        )
    for one in record["targets"]:
        aim = "" if one["target"] is None else f" (target {one['target']:.4g}: {'met' if one['met'] else 'MISSED'})"
        print(f"  {one['what']}: {one['reached']:.4g}{aim}")


def write(record: dict, folder: Path, name: str) -> Path:
    """Write a record, those of an accelerator beside those of a processor, and return where it is."""
    folder.mkdir(parents=True, exist_ok=True)
    path = record_path(folder, name, record["circumstances"]["backend"])
    write_whole(path, (json.dumps(record, indent=1) + "\n").encode())
    return path


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line; 1 if an answer was wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kernels", description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="case", help=f"any of {', '.join(CASES)}; default: all that fit")
    parser.add_argument("--smoke", action="store_true", help="two tiny inputs; nothing is written")
    parser.add_argument("--no-memory", action="store_true", help="leave out memory; written only to --output")
    parser.add_argument("--output", type=Path, default=None, help="folder of the records; default benchmarks/results")
    options = parser.parse_args(arguments)
    if unknown := set(options.cases) - set(CASES):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; expected some of {', '.join(CASES)}")
    configure()
    on_cpu = jax.default_backend() == "cpu"
    chosen = options.cases or [name for name, case in CASES.items() if not (on_cpu and case.accelerator_only)]
    machine, failed = limits(), []
    print("limits: " + ", ".join(f"{name} {value:.3g}" for name, value in machine.items()))
    for name in chosen:
        case = CASES[name].smoke() if options.smoke else CASES[name]
        try:
            record = run(case, options.smoke, not options.no_memory, machine)
        except WrongAnswer as error:
            print(f"\nWRONG ANSWER: {error}")
            failed.append(name)
            continue
        show(record)
        folder = options.output or (None if options.smoke or options.no_memory else RESULTS)
        if folder is not None:
            write(record, folder, name)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

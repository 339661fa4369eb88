"""The records as tables and figures, for the book."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cases import CASES, YARDSTICK
from benchmarks.counts import count
from benchmarks.measure import RESULTS
from benchmarks.words import JUDGED, amount, device, error, grouped, judged, label, number, seconds, size, spread
from eqbook.results.circumstances import short_commit
from eqbook.results.table import Table

# Networks of the sweeps of `benchmarks.scaling`.
SWEPT = {
    "n_fcn": "dense",
    "n_pool": "CNN, pool",
    "n_so3": "SO(3)",
    "size": "CNN, pool",
    "depth": "CNN, pool, 8 × 8",
    "group": "C₁, C₂, C₄, D₄; 16 × 16",
    "bandwidth": "SO(3)",
    "depth_32": "CNN, pool, 32 × 32",
}


def load(backend: str = "cpu", folder: Path = RESULTS) -> dict[str, dict[str, Any]]:
    """Records of the cases by name, in the order of the table; those that were only a try are left out.

    Args:
        backend: `"cpu"` or `"gpu"`.
        folder: where the records lie.
    """
    found = {}
    for name in CASES:
        record = load_one(name, backend, folder)
        if record is not None:
            found[name] = record
    return found


def load_scaling(backend: str = "cpu", folder: Path = RESULTS) -> dict[str, Any] | None:
    """The record of the sweeps; `None` if there is none."""
    return load_one("scaling", backend, folder)


def record_path(folder: Path, name: str, backend: str) -> Path:
    """Where a record lies: those of an accelerator beside those of a processor."""
    return folder / f"{name}{'' if backend == 'cpu' else '-' + backend}.json"


def load_one(name: str, backend: str = "cpu", folder: Path = RESULTS) -> dict[str, Any] | None:
    """A record; `None` if there is none, or only one of a try."""
    path = record_path(folder, name, backend)
    record = json.loads(path.read_text(encoding="utf8")) if path.is_file() else {"smoke": True}
    return None if record["smoke"] else record


PROJECTED = ", its time projected from other numbers of inputs"
NETWORKS = "All convolutions of images have filters of 3 × 3 pixels. L is the bandwidth of signals on the sphere."


def cases() -> Table:
    """The networks and inputs behind the names of the cases."""
    times = "\N{NO-BREAK SPACE}×\N{NO-BREAK SPACE}"
    rows = [(case.label, case.title.replace(" × ", times), case.n) for case in CASES.values()]
    return Table(("case", "network; one input", "inputs n"), rows, "What is timed.", NETWORKS)


def speed(records: dict[str, dict[str, Any]]) -> Table:
    """Times of whole matrices beside those of each peer."""
    compared = {name: record for name, record in records.items() if "peer" in record}
    aimed = any(aims(record)["ratio"]["target"] is not None for record in compared.values())
    rows = []
    for name, record in compared.items():
        peer, ratio = record["peer"], aims(record)["ratio"]
        # Fewer entries were computed than the case has: the time of all of them is a projection.
        heading = peer["name"] + (PROJECTED if peer["scaled"] else "")
        times = seconds(peer["s_per_entry"] * record["entries"]), seconds(record["ours"]["median_s"])
        rows.append((heading, (label(name), *times, number(ratio["reached"]), judged(ratio))[: 4 + aimed]))
    head = ("case", "peer", "eqbook", "times as fast", "target")[: 4 + aimed]
    caption = f"{device(records)}: time of a whole matrix, beside the peer's."
    return Table(head, grouped(rows), caption, JUDGED if aimed else "")


def goals(records: dict[str, dict[str, Any]]) -> Table:
    """Time of an entry and peak memory, and what was aimed at."""
    rows = []
    for name, record in records.items():
        row = [label(name)]
        for what, show in (("seconds_per_entry", seconds), ("bytes", size)):
            goal = aims(record).get(what)
            row += [None, None] if goal is None else [show(goal["reached"]), judged(goal, show)]
        rows.append(row)
    head = ("case", "time of an entry", "target", "peak memory", "target")
    caption = f"{device(records)}: time of an entry and peak memory of eqbook, beside the targets."
    return Table(head, rows, caption, f"{JUDGED} {pace(records)}".strip())


def aims(record: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What was reached and aimed at, by its name: any of `ratio`, `seconds_per_entry`, `bytes`."""
    return {one["what"]: one for one in record["targets"]}


def pace(records: dict[str, dict[str, Any]]) -> str:
    """How long a peer took beside its time on the machine for which the targets in seconds were set; CPUs only."""
    found = {
        name: records[name]["peer"]["median_s"] / there
        for name, there in YARDSTICK.items()
        if name in records and "peer" in records[name] and records[name]["circumstances"]["backend"] == "cpu"
    }
    if not found:
        return ""
    times = ", ".join(f"{seconds(YARDSTICK[name])} ({label(name)})" for name in found)
    return (
        f"Targets in seconds are those of another machine with two cores. There neural-tangents took {times}; in this "
        f"record it took so many times as long: {', '.join(f'{factor:.2g}' for factor in found.values())}."
    )


def spreads(records: dict[str, dict[str, Any]]) -> Table:
    """Median and spread of the times, by who computes."""
    rows = [
        (record[who].get("name", "eqbook"), (label(name), *spread(record[who]), seconds(record[who]["cpu_s"])))
        for who in ("peer", "ours")
        for name, record in records.items()
        if who in record
    ]
    head = ("case", "median", "shortest", "longest", "runs", "processor")
    return Table(head, grouped(rows), f"{device(records)}: times of the calls that were measured.")


def costs(records: dict[str, dict[str, Any]]) -> Table:
    """Compilation, memory, and the fraction of the machine's limit."""
    rows = []
    for name, record in records.items():
        n = str(record["inputs"]["n"])
        theirs, mine = ({**record["memory"].get(who, {})} for who in ("peer", "ours"))
        compiled = [_compilation(record[who]) if who in record else None for who in ("peer", "ours")]
        held = next((size(value) + ("" if k == n else f" (n = {k})") for k, value in theirs.items()), None)
        own = size(mine.pop(n)) if mine else None
        fraction = f"{record['limit']['fraction']:.0%}" if "limit" in record else None
        rows.append((label(name), *compiled, held, own, fraction))
        rows += [(f"{label(name)} (n = {k})", None, None, None, size(value), None) for k, value in mine.items()]
    head = ("case", "peer compiles", "eqbook compiles", "peer's memory", "eqbook's memory", "of the limit")
    note = "n in brackets: another number of inputs than the case has."
    return Table(head, rows, f"{device(records)}: compilation, peak memory, share of the limit.", note)


def _compilation(time: dict[str, Any]) -> str:
    return "within the spread" if time["compile_s"] is None else seconds(time["compile_s"])


def agreement(records: dict[str, dict[str, Any]]) -> Table:
    """The checks that came before the times: the larger difference of both kernels, off the diagonal and on it."""
    found: dict[tuple[str, str], dict[str, list]] = {}
    for name, record in records.items():
        for one in record["checks"]:
            what, other = one["what"].split(", against ")
            row, place = label(name), what.split(" ", 1)[1]
            if place.startswith("at "):  # two other inputs than those of the case
                row, place = f"{row}, {place.removeprefix('at ')}", "off the diagonal"
            found.setdefault((f"against {other}", row), {}).setdefault(place, []).append(one)
    rows = [
        (heading, (row, *(cell for where in ("off", "on") for cell in _worst(places.get(f"{where} the diagonal", [])))))
        for (heading, row), places in found.items()
    ]
    head = ("case", "off the diagonal", "bound", "on the diagonal", "bound")
    return Table(head, grouped(rows), f"{device(records)}: largest differences of NNGP and NTK.")


def _worst(checks: list[dict[str, Any]]) -> tuple[str | None, str | None]:
    """The check that comes nearest to its bound."""
    if not checks:
        return None, None
    worst = max(checks, key=lambda one: one["difference"] / one["bound"])
    return error(worst["difference"]), error(worst["bound"])


def circumstances(records: dict[str, dict[str, Any]]) -> Table:
    """Where, with what and when records were made."""
    made = []
    for name, record in records.items():
        about = record["circumstances"]
        packages = ", ".join(f"{package} {version}" for package, version in about["versions"].items())
        place = f"{about['processor']}, {about['cores']} cores; JAX on {about['devices']}"
        row = (label(name), about["date"][:16].replace("T", " "), f"{about['load']:.1f}", short_commit(about["commit"]))
        made.append((place, packages, row))
    alike = {packages for _, packages, _ in made}
    rows = [(place if len(alike) == 1 else f"{place}; {packages}", row) for place, packages, row in made]
    note = f"Versions: {alike.pop()}." if len(alike) == 1 else ""
    return Table(("record", "date (UTC)", "load", "commit"), grouped(rows), f"{device(records)}: the records.", note)


def traffic(name: str, record: dict[str, Any]) -> Table:
    """What a recursion of the case that stores both kernels behind each layer would have to move, on this device."""
    case = CASES[name]
    moved, rate = count(case.net, case.shape, case.n, stored=True).bytes, record["limit"]["cached_bytes_per_s"]
    rows = [
        ("K and Θ behind all layers", amount(moved, "B")),
        ("rate of sums of arrays in the cache", amount(rate, "B/s")),
        ("time to move K and Θ", seconds(moved / rate)),
        ("time of an entry by eqbook", seconds(record["ours"]["s_per_entry"])),
    ]
    return Table(("what", "how much"), rows, f"{device({name: record})}: an entry of “{case.label}”.")


def slope(rows: Sequence[dict[str, Any]]) -> float:
    """Exponent of the growth between the last two points of a sweep."""
    (x0, y0), (x1, y1) = ((row["value"], row["s_per_entry"]) for row in rows[-2:])
    return float(np.log(y1 / y0) / np.log(x1 / x0))


def growth(record: dict[str, Any]) -> Table:
    """The far end of each sweep: work, time, exponent, and the fraction of the limit."""
    rows = []
    for name, sweep in record["sweeps"].items():
        last = sweep["rows"][-1]
        exponent = f"{slope(sweep['rows']):.1f}".replace("-0.0", "0.0")
        work = amount(last["operations"]), amount(last["bytes"], "B")
        time = seconds(last["s_per_entry"]), f"{last['fraction']:.0%}"
        rows.append((sweep["axis"], (swept(name, sweep), last["value"], *work, *time, exponent)))
    head = ("network", "up to", "operations", "bytes", "time", "of the limit", "exponent")
    note = "Exponent: that of the growth of the time between the last two points."
    return Table(head, grouped(rows), f"{device({'': record})}: an entry at the far end of each curve.", note)


def swept(name: str, sweep: dict[str, Any]) -> str:
    """The network of a sweep, named as in the table of cases."""
    return SWEPT.get(name, sweep["title"])


def rates(record: dict[str, Any]) -> Table:
    """The machine's limits, in words."""
    limits = record["limits"]
    rows = [
        ("sums of arrays that fit the second-level cache", amount(limits["cached_bytes_per_s"], "B/s")),
        ("sums of arrays in memory", amount(limits["memory_bytes_per_s"], "B/s")),
        ("polynomials in registers", f"{number(limits['operations_per_s'] / 1e9)} × 10⁹ operations/s"),
    ]
    return Table(("measured with", "rate"), rows, f"{device({'': record})}: the rates behind the limits.")


def scaling_figure(record: dict[str, Any]) -> Any:
    """Log-log plots of the time of an entry, with the machine's limit as a dashed line."""
    import matplotlib.pyplot as plt

    panels: dict[str, list] = {}
    for key, sweep in record["sweeps"].items():
        panels.setdefault(sweep["axis"], []).append((key, sweep))
    columns = min(3, len(panels))
    figure, axes = plt.subplots(-(-len(panels) // columns), columns, figsize=(8, 5.2), squeeze=False)
    for axis in axes.flat[len(panels) :]:
        axis.set_axis_off()
    for axis, (name, sweeps) in zip(axes.flat, panels.items()):
        for key, sweep in sweeps:
            values = [row["value"] for row in sweep["rows"]]
            (line,) = axis.loglog(values, [row["s_per_entry"] for row in sweep["rows"]], "o-", label=swept(key, sweep))
            axis.loglog(values, [row["limit_s"] for row in sweep["rows"]], "--", color=line.get_color())
        axis.set(xlabel=name, ylabel="seconds per entry" if axis in axes[:, 0] else None)
        if len(sweeps) == 1:
            axis.set_title(swept(*sweeps[0]), fontsize=8)
            axis.set_xticks(values, map(str, values))
            axis.set_xticks([], minor=True)
        else:
            axis.set_ylim(top=axis.get_ylim()[1] * 10 ** (0.6 * len(sweeps)))  # room for the legend
            axis.legend(fontsize=7, loc="upper left")
    return figure

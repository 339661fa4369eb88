"""The records as tables and figures, for the book."""

import json
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cases import CASES, YARDSTICK
from benchmarks.measure import RESULTS
from eqbook.results.circumstances import short_commit
from eqbook.results.table import Table

MISSING = "–"


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


def seconds(value: float) -> str:
    """A duration in a unit that suits it."""
    units = ((1, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
    factor, unit = next((one for one in units if value >= one[0]), units[-1])
    return f"{value / factor:.3g} {unit}"


def size(value: float) -> str:
    """Bytes in a unit that suits them."""
    return f"{value / 2**30:.2f} GiB" if value >= 2**30 else f"{value / 2**20:.0f} MiB"


SHOWN = {
    "ratio": ("{} times as fast", "{:.3g}".format),
    "seconds_per_entry": ("{} an entry", seconds),
    "bytes": ("{} of memory", size),
}


def speed(records: dict[str, dict[str, Any]]) -> Table:
    """One row for each case: both times, what was reached, what was aimed at."""
    rows = []
    for record in records.values():
        ours, peer, n = record["ours"], record.get("peer"), record["inputs"]["n"]
        theirs = MISSING
        if peer:
            # Fewer entries were computed than the case has: the time of all of them is a projection.
            about = "about " if peer["scaled"] else ""
            theirs = about + seconds(peer["s_per_entry"] * record["entries"])
        aims = [one for one in record["targets"] if one["target"] is not None or one["what"] == "ratio"]
        aimed = aims or record["targets"]
        reached = [SHOWN[one["what"]][0].format(SHOWN[one["what"]][1](one["reached"])) for one in aimed]
        target = [
            MISSING
            if one["target"] is None
            else SHOWN[one["what"]][1](one["target"]) + (" (met)" if one["met"] else " (missed)")
            for one in aimed
        ]
        title = f"{record['title']}, n = {n}"
        name = peer["name"] if peer else MISSING
        rows.append((title, name, theirs, seconds(ours["median_s"]), "; ".join(reached), "; ".join(target)))
    return Table(("case", "peer", "peer's time", "eqbook's time", "reached", "target"), rows, pace(records))


def pace(records: dict[str, dict[str, Any]]) -> str:
    """How long a peer took beside its time on the machine for which the targets in seconds were set; CPUs only."""
    found = {
        name: records[name]["peer"]["median_s"] / there
        for name, there in YARDSTICK.items()
        if name in records and "peer" in records[name] and records[name]["circumstances"]["backend"] == "cpu"
    }
    if not found:
        return ""
    each = ", ".join(f"{factor:.2g} ({name})" for name, factor in found.items())
    return (
        "Targets in seconds are those of another machine with two cores. There neural-tangents took "
        f"{', '.join(seconds(YARDSTICK[name]) for name in found)}; "
        f"in this record it took so many times as long: {each}."
    )


def details(records: dict[str, dict[str, Any]]) -> Table:
    """Median and spread of the times, compilation, memory, and the fraction of the machine's limit."""
    rows = []
    for record in records.values():
        for who in ("peer", "ours"):
            if who not in record:
                continue
            t = record[who]
            used = ", ".join(f"{size(v)} (n = {n})" for n, v in record["memory"].get(who, {}).items()) or MISSING
            fraction = f"{record['limit']['fraction']:.0%}" if who == "ours" and "limit" in record else MISSING
            spread = f"{seconds(t['median_s'])}, {seconds(t['best_s'])} to {seconds(t['worst_s'])}, {t['runs']} runs"
            name = t.get("name", "eqbook")
            case = f"{record['case']}, {name}"
            compiled = "within the spread" if t["compile_s"] is None else seconds(t["compile_s"])
            rows.append((case, spread, seconds(t["cpu_s"]), compiled, used, fraction))
    return Table(("case", "wall time", "processor time", "compilation", "peak memory", "of the limit"), rows)


def agreement(records: dict[str, dict[str, Any]]) -> Table:
    """The checks that came before the times."""
    rows = [
        (record["case"], one["what"], f"{one['difference']:.1e}", f"{one['bound']:.1e}")
        for record in records.values()
        for one in record["checks"]
    ]
    return Table(("case", "what", "largest difference", "bound"), rows)


def circumstances(records: dict[str, dict[str, Any]]) -> str:
    """Where, with what and when records were made; those made alike share a paragraph."""
    alike: dict[str, list[str]] = {}
    for name, record in records.items():
        about = record["circumstances"]
        packages = ", ".join(f"{package} {version}" for package, version in about["versions"].items())
        place = f"{about['processor']}, {about['cores']} cores; JAX on {about['devices']}"
        text = f"{place}\n{packages}\ncommit {short_commit(about['commit'])}"
        alike.setdefault(text, []).append(f"{name} ({about['date'][:16]}, load {about['load']:.1f})")
    lines = "\n\n".join(f"{text}\n{', '.join(names)}" for text, names in alike.items()).splitlines()
    return "\n".join(textwrap.fill(line, 95, subsequent_indent="  ", break_on_hyphens=False) for line in lines)


def slope(rows: Sequence[dict[str, Any]]) -> float:
    """Exponent of the growth between the last two points of a sweep."""
    (x0, y0), (x1, y1) = ((row["value"], row["s_per_entry"]) for row in rows[-2:])
    return float(np.log(y1 / y0) / np.log(x1 / x0))


def growth(record: dict[str, Any]) -> Table:
    """The far end of each sweep: work, time, exponent, and the fraction of the limit."""
    rows = []
    for sweep in record["sweeps"].values():
        last = sweep["rows"][-1]
        rows.append(
            (
                sweep["title"],
                f"{sweep['axis']} = {last['value']}",
                f"{last['operations']:.3g}",
                f"{last['bytes']:.3g}",
                seconds(last["s_per_entry"]),
                f"{last['fraction']:.0%}",
                f"{slope(sweep['rows']):.1f}",
            )
        )
    head = ("network", "at", "operations", "bytes", "time", "of the limit", "exponent")
    return Table(head, rows, "All per entry. The exponent is that of the time between the last two points.")


def scaling_figure(record: dict[str, Any]) -> Any:
    """Log-log plots of the time of an entry, with the machine's limit as a dashed line."""
    import matplotlib.pyplot as plt

    panels: dict[str, list] = {}
    for sweep in record["sweeps"].values():
        panels.setdefault(sweep["axis"], []).append(sweep)
    columns = min(3, len(panels))
    figure, axes = plt.subplots(-(-len(panels) // columns), columns, figsize=(8, 5.2), squeeze=False)
    for axis in axes.flat[len(panels) :]:
        axis.set_axis_off()
    for axis, (name, sweeps) in zip(axes.flat, panels.items()):
        for sweep in sweeps:
            values = [row["value"] for row in sweep["rows"]]
            (line,) = axis.loglog(values, [row["s_per_entry"] for row in sweep["rows"]], "o-", label=sweep["title"])
            axis.loglog(values, [row["limit_s"] for row in sweep["rows"]], "--", color=line.get_color())
        axis.set(xlabel=name, ylabel="seconds per entry" if axis in axes[:, 0] else None)
        if len(sweeps) == 1:
            axis.set_title(sweeps[0]["title"], fontsize=8)
            axis.set_xticks(values, map(str, values))
            axis.set_xticks([], minor=True)
        else:
            axis.set_ylim(top=axis.get_ylim()[1] * 10 ** (0.6 * len(sweeps)))  # room for the legend
            axis.legend(fontsize=7, loc="upper left")
    return figure

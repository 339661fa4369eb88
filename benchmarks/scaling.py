"""How the cost of an entry grows: `python -m benchmarks.scaling [sweep ...] [--smoke]`.

Each sweep changes one thing: the number of inputs, the size of the images, the depth, the group, or the bandwidth. The
record holds seconds, operations and bytes per entry, the fraction of the machine's limit that was reached, and that
limit, measured in the same run. The figure is drawn from the record.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import matplotlib

import eqbook as eq
from benchmarks.cases import ARORA, FCN, POOL, SPHERE, Case, entries, pooled, roto_translations
from benchmarks.counts import count
from benchmarks.kernels import write
from benchmarks.machine import circumstances, limits
from benchmarks.measure import RESULTS, alternate
from benchmarks.peers import ours
from benchmarks.report import scaling_figure
from benchmarks.settings import configure
from eqbook import plotting

ROUNDS, BUDGET = 5, 4.0


@dataclass(frozen=True)
class Sweep:
    """Networks that differ in one number.

    Attributes:
        title: what is computed.
        axis: what changes.
        points: for each value the network, the shape of one input, and how many inputs.
    """

    title: str
    axis: str
    points: tuple[tuple[int, eq.Sequential, tuple[int, ...], int], ...]


def _sphere(bandwidth: int) -> tuple[int, ...]:
    return 2 * bandwidth, 2 * bandwidth - 1, 10


GROUPS = (eq.cyclic(1), eq.cyclic(2), eq.cyclic(4), eq.dihedral(4))
# As many inputs as give each core full blocks of pairs, where the size allows.
SWEEPS = {
    "n_fcn": Sweep(
        "3 relu layers, d = 784", "inputs n", tuple((n, FCN, (784,), n) for n in (125, 250, 500, 1000, 2000, 4000))
    ),
    "n_pool": Sweep(
        "3 convolutions, pool, 16x16x3", "inputs n", tuple((n, POOL, (16, 16, 3), n) for n in (2, 4, 8, 16, 32, 64))
    ),
    "n_so3": Sweep("SO(3), L = 6", "inputs n", tuple((n, SPHERE, _sphere(6), n) for n in (8, 16, 32, 64, 128, 256))),
    "size": Sweep(
        "3 convolutions, pool",
        "side of the image",
        tuple((side, POOL, (side, side, 3), n) for side, n in ((4, 90), (8, 64), (16, 24), (32, 12))),
    ),
    "depth": Sweep(
        "convolutions, pool, 8x8x3", "convolutions", tuple((d, pooled(d), (8, 8, 3), 45) for d in (1, 2, 4, 8, 16))
    ),
    "group": Sweep(
        "lift, relu, conv, relu, pool, 16x16x3",
        "order of the group",
        tuple((group.order, roto_translations(group), (16, 16, 3), 16) for group in GROUPS),
    ),
    "bandwidth": Sweep(
        "SO(3)", "bandwidth L", tuple((degree, SPHERE, _sphere(degree), 64) for degree in (2, 3, 4, 6, 8, 12))
    ),
}
# Depth 21 of Arora et al. 2019 beside shallower networks, for an accelerator.
ACCELERATED = {
    "depth_32": Sweep(
        "convolutions, pool, 32x32x3",
        "convolutions",
        tuple((d, ARORA if d == 20 else pooled(d), (32, 32, 3), 64) for d in (1, 2, 5, 10, 20)),
    )
}


def measure(sweep: Sweep, machine: dict[str, float]) -> dict[str, Any]:
    """The record of a sweep."""
    rows = []
    for value, net, shape, n in sweep.points:
        jax.clear_caches()
        x = Case("", "", "", net, shape, n).inputs()
        _, times = alternate({"ours": lambda net=net, x=x: ours(net)(x)}, ROUNDS, BUDGET)
        work, seconds = count(net, shape, n), times["ours"].typical / entries(n)
        rows.append(
            {"value": value, "shape": shape, "n": n, "s_per_entry": seconds, **vars(work)}
            | {"limit_s": work.least_seconds(machine), "fraction": work.least_seconds(machine) / seconds}
            | times["ours"].record()
        )
        print(f"  {value}: {seconds:.3g} s per entry, {rows[-1]['fraction']:.0%} of the limit", flush=True)
    return {"title": sweep.title, "axis": sweep.axis, "rows": rows}


def smoke(sweep: Sweep) -> Sweep:
    """The two smallest points, with two inputs each."""
    return Sweep(sweep.title, sweep.axis, tuple((value, net, shape, 2) for value, net, shape, _ in sweep.points[:2]))


def run(sweeps: dict[str, Sweep]) -> dict[str, Any]:
    """The record of all sweeps."""
    record = {"circumstances": circumstances(), "limits": limits(), "sweeps": {}}
    for name, sweep in sweeps.items():
        print(f"{name}: {sweep.title}", flush=True)
        record["sweeps"][name] = measure(sweep, record["limits"])
    return record


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line."""
    known = SWEEPS | ACCELERATED
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=__doc__)
    parser.add_argument("sweeps", nargs="*", metavar="sweep", help=f"any of {', '.join(known)}; default: all that fit")
    parser.add_argument("--smoke", action="store_true", help="two tiny points of each sweep; nothing is written")
    parser.add_argument("--output", type=Path, default=None, help="folder of the record; default benchmarks/results")
    options = parser.parse_args(arguments)
    if unknown := set(options.sweeps) - set(known):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; expected some of {', '.join(known)}")
    configure()
    fitting = SWEEPS if jax.default_backend() == "cpu" else known
    chosen = {name: known[name] for name in options.sweeps or fitting}
    if options.smoke:
        chosen = {name: smoke(sweep) for name, sweep in chosen.items()}
    record = run(chosen) | {"smoke": options.smoke}
    folder = options.output or (None if options.smoke or options.sweeps else RESULTS)
    if folder is None:
        print("nothing written: a part of the sweeps is no record; name a folder with --output")
        return 0
    path = write(record, folder, "scaling")
    matplotlib.use("Agg")
    plotting.use_style()
    # A file of its own has no page around it whose text colour it could take: grey is seen on light and dark.
    svg = plotting.to_svg(scaling_figure(record), "cost of an entry").replace("currentColor", plotting.NEUTRAL)
    path.with_suffix(".svg").write_text(svg + "\n", encoding="utf8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

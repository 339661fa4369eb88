"""Members of an ensemble side by side, against one after the other: `python -m benchmarks.ensembles [--smoke]`.

Two cases, see `benchmarks.members`: convolutional networks on pictures, and networks of dense layers on spins. The peer
is what one writes without an ensemble in mind: Flax layers, one jitted step with donated buffers, called in a loop over
steps and members. Both start from the same parameters and see the same batches, and must arrive at the same outputs
before anything is timed.
"""

import argparse
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import eqbook as eq
from benchmarks.kernels import write
from benchmarks.machine import circumstances
from benchmarks.measure import RESULTS, alternate, timed
from benchmarks.members import CASES, SMOKE, Pictures, Spins
from benchmarks.report import load_one
from benchmarks.settings import configure
from benchmarks.words import JUDGED, device, error, judged, label, number, seconds, spread
from eqbook.ensembles.epoch import init_member, member_keys
from eqbook.results.table import Table
from eqbook.testing import relative_error

TARGETS = {"cpu": 2.0, "gpu": 10.0}  # times as fast as the peer
ROUNDS, BUDGET = 7, 75.0  # at most; seconds after which no further round begins
Case = Pictures | Spins


def ensemble(case: Case) -> Callable[[int], Any]:
    """`eqbook`: trains the first members; returns their parameters, stacked."""
    (x, y), key = case.data(), jax.random.key(0)
    net, rule = case.net(), case.optimizer()

    def run(members: int) -> Any:
        trained = eq.train_ensemble(
            net, key, x, y, members=members, epochs=case.epochs, record=[case.epochs], optimizer=rule, loss=case.loss,
            batch_size=None if case.batch == len(x) else case.batch, progress=False, **case.options(),
        )  # fmt: skip
        return case.translate(trained.params)

    return run


def one_after_the_other(case: Case) -> Callable[[int], list[Any]]:
    """The peer: a loop in Python over members and steps."""
    (x, y), key, rule = case.data(), jax.random.key(0), case.optimizer()
    net, drawn = case.peer(), case.net()
    full = case.batch == len(x)

    @partial(jax.jit, donate_argnums=(0, 1))
    def step(params, state, x, y, rows):
        inputs, targets = (x, y) if full else (x[rows], y[rows])
        gradient = jax.grad(lambda p: case.function(net.apply(p, inputs), targets))(params)
        updates, state = rule.update(gradient, state, params)
        return optax.apply_updates(params, updates), state

    start, shuffle = jax.jit(rule.init), jax.jit(lambda key: jax.random.permutation(key, len(x)))

    def run(members: int) -> list[Any]:
        found = []
        for m in range(members):
            init, training = member_keys(key, jnp.uint32(m))
            params = case.translate(init_member(drawn, init, x[:1]))
            state = start(params)
            for epoch in range(case.epochs):
                order = None if full else np.asarray(shuffle(jax.random.fold_in(training, epoch)))
                for rows in [None] if full else order.reshape(-1, case.batch):
                    params, state = step(params, state, x, y, rows)
            found.append(jax.block_until_ready(params))
        return found

    return run


def check(case: Case, ours: Callable, peer: Callable) -> dict[str, Any]:
    """Outputs of the first members, trained both ways.

    Raises:
        AssertionError: if they differ by more than rounding.
    """
    members = min(2, case.members)
    x, _ = case.data()
    net = case.peer()
    outputs = jax.vmap(net.apply, (0, None))(ours(members), x[:64])
    expected = np.stack([net.apply(params, x[:64]) for params in peer(members)])
    difference, bound = relative_error(outputs, expected), case.bound()
    assert difference <= bound, f"the members differ: {difference:.1e} (bound {bound:.1e})"
    return {"what": f"outputs of {members} members, against the loop", "difference": difference, "bound": bound}


def peak() -> float:
    """Operations per second of a product of large matrices, on all cores or one accelerator."""
    n = 2048 if jax.default_backend() == "cpu" else 8192
    a, product = jnp.ones((n, n), jnp.float32), jax.jit(jnp.matmul)
    return 2 * n**3 / min(timed(lambda: product(a, a))[1] for _ in range(12))


def run(name: str, case: Case, smoke: bool = False) -> dict[str, Any]:
    """The record of a case, the answer checked."""
    ours, peer = ensemble(case), one_after_the_other(case)
    record = {"case": name, "smoke": smoke, "size": vars(case), "options": case.options()}
    record["circumstances"] = circumstances()
    shapes = jax.eval_shape(case.peer().init, jax.random.key(0), case.data()[0][:1])
    record["parameters"] = sum(leaf.size for leaf in jax.tree.leaves(shapes))
    record["checks"] = [check(case, ours, peer)]
    calls = {"ours": lambda: ours(case.members), "peer": lambda: peer(case.members)}
    _, times = alternate(calls, 2 if smoke else ROUNDS, 0 if smoke else BUDGET)
    fastest = peak()
    for who, time in times.items():
        rate = case.operations() * case.members / time.typical
        record[who] = time.record() | {"operations_per_s": rate, "fraction": rate / fastest}
    record["peak_operations_per_s"] = fastest
    ratio, target = times["peer"].typical / times["ours"].typical, TARGETS.get(jax.default_backend())
    record["targets"] = [{"what": "ratio", "reached": ratio, "target": target, "met": bool(target and ratio >= target)}]
    return record


def show(record: dict[str, Any]) -> None:
    """Print a record."""
    one, (goal,) = record["checks"][0], record["targets"]
    print(f"{record['size']['members']} members of {record['parameters']:,} parameters, {record['size']}")
    print(f"  {one['what']}: {one['difference']:.1e} (bound {one['bound']:.1e})")
    for who, name in (("ours", "eqbook"), ("peer", "loop")):
        t = record[who]
        print(
            f"  {name}: median {t['median_s']:.4g} s, {t['best_s']:.4g} to {t['worst_s']:.4g}, {t['runs']} runs; "
            f"processor {t['cpu_s']:.4g} s; {t['operations_per_s']:.3g} operations/s, {t['fraction']:.0%} of the peak"
        )
    print(f"  {goal['reached']:.2f} times as fast (target {goal['target']}: {'met' if goal['met'] else 'MISSED'})")


def load(backend: str = "cpu", folder: Path = RESULTS) -> dict[str, dict[str, Any]]:
    """The records by case; those that are not there, or only of a try, are left out."""
    found = {name: load_one(name, backend, folder) for name in CASES}
    return {name: record for name, record in found.items() if record is not None}


def table(records: dict[str, dict[str, Any]]) -> Table:
    """Both sides of each record, and what was reached beside what was aimed at."""
    rows = []
    for name, record in records.items():
        (goal,), times = record["targets"], [seconds(record[who]["median_s"]) for who in ("peer", "ours")]
        rows.append((label(name), *times, f"{goal['reached']:.3g}", judged(goal)))
    (members,) = {record["size"]["members"] for record in records.values()}
    caption = f"{device(records)}: time to train {members} networks."
    return Table(("", "loop", "eqbook", "times as fast", "target"), rows, caption, JUDGED)


def details(records: dict[str, dict[str, Any]]) -> Table:
    """Spread and rates of both sides; the note has the check of their outputs."""
    rows: list[str | tuple] = []
    found = []
    for name, record in records.items():
        size, (one,) = record["size"], record["checks"]
        batches = f" in batches of {size['batch']}" if "batch" in size else f", {size['epochs']} steps of all"
        told = "".join(f", {option}={value}" for option, value in record["options"].items())
        title = label(name)
        rows.append(
            f"{title[0].upper()}{title[1:]}: {record['parameters']:,} parameters, {size['images']} examples"
            f"{batches}{told}"
        )
        for who, side in (("peer", "loop"), ("ours", "eqbook")):
            time = record[who]
            rate = number(time["operations_per_s"] / 1e9)
            rows.append((side, *spread(time)[1:], seconds(time["cpu_s"]), rate, f"{time['fraction']:.0%}"))
        found.append(f"{title} {error(one['difference'], 0)} (bound {error(one['bound'], 0)})")
    head = ("", "shortest", "longest", "runs", "processor", "10⁹ operations/s", "of the peak")
    note = f"Relative difference of two members' outputs on both sides: {'; '.join(found)}."
    return Table(head, rows, f"{device(records)}: spread, processor time and rates.", note)


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ensembles", description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="case", help=f"any of {', '.join(CASES)}; default: all")
    parser.add_argument("--smoke", action="store_true", help="tiny ensembles; nothing is written")
    parser.add_argument("--members", type=int, help="fewer of them, for a try; nothing is written")
    parser.add_argument("--wide", type=int, help="members at a time on an accelerator")
    parser.add_argument("--output", type=Path, default=None, help="folder of the records; default benchmarks/results")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.cases if name not in CASES]
    if unknown:
        parser.error(f"unknown case {unknown[0]!r}; expected any of {', '.join(CASES)}")
    configure()
    tried = options.smoke or options.members is not None
    for name in options.cases or CASES:
        case = SMOKE[name] if options.smoke else CASES[name]()
        case = replace(case, members=options.members or case.members, wide=options.wide or case.wide)
        record = run(name, case, smoke=tried)
        show(record)
        folder = options.output or (None if tried else RESULTS)
        if folder is not None:
            write(record, folder, name)
    return 0


if __name__ == "__main__":
    sys.exit(main())

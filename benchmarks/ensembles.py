"""Members of an ensemble side by side, against one after the other: `python -m benchmarks.ensembles [--smoke]`.

100 convolutional networks of about 120,000 parameters on images of 28 by 28 pixels. The peer is what one writes without
an ensemble in mind: Flax layers, one jitted step with donated buffers, called in a loop over batches and members. Both
start from the same parameters and see the same batches, and must arrive at the same outputs before anything is timed.
"""

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

import eqbook as eq
from benchmarks.kernels import write
from benchmarks.machine import circumstances
from benchmarks.measure import RESULTS, alternate, timed
from benchmarks.report import Table, load_one, seconds
from benchmarks.settings import configure
from eqbook.ensembles import cross_entropy
from eqbook.ensembles.epoch import init_member, member_keys
from eqbook.networks import PatchConv, mean_pool
from eqbook.testing import relative_error, tolerance

SIDE, CLASSES = 28, 10
TARGETS = {"cpu": 2.0, "gpu": 10.0}  # times as fast as the peer
ROUNDS, BUDGET = 7, 75.0  # at most; seconds after which no further round begins


@dataclass(frozen=True)
class Size:
    """How much is trained, and on a CPU how: see `options`."""

    members: int = 100
    images: int = 512
    batch: int = 64
    channels: tuple[int, int] = (32, 64)
    hidden: int = 32
    width: int = 1
    part: int = 8
    wide: int = 100


SMOKE = Size(3, 64, 32, (4, 8), 8, 1, 16)


class CNN(nn.Module):
    """Convolution, relu, means over 2 by 2 pixels, twice; then two dense layers."""

    channels: tuple[int, int]
    hidden: int
    flax: bool  # layers of Flax throughout; the parameters are the same

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        for k, channels in enumerate(self.channels):
            if self.flax:
                x = nn.avg_pool(nn.relu(nn.Conv(channels, (3, 3), name=f"Conv_{k}")(x)), (2, 2), (2, 2))
            else:
                x = mean_pool(nn.relu(PatchConv(channels, name=f"Conv_{k}")(x)))
        x = nn.relu(nn.Dense(self.hidden)(x.reshape(len(x), -1)))
        return nn.Dense(CLASSES)(x)


def data(size: Size) -> tuple[jax.Array, jax.Array]:
    """Random images and classes."""
    images, classes = jax.random.split(jax.random.key(1))
    x = jax.random.uniform(images, (size.images, SIDE, SIDE, 1))
    return x, jax.random.randint(classes, (size.images,), 0, CLASSES)


def options(size: Size) -> dict[str, int]:
    """What `train_ensemble` is told: what its docstring advises for such networks on a CPU, and on an accelerator."""
    if jax.default_backend() == "cpu":
        return {"at_once": size.width, "part": size.part}
    return {"at_once": min(size.wide, size.members)}


def optimizer() -> optax.GradientTransformation:
    """Of both."""
    return optax.sgd(0.02, momentum=0.9)


def ensemble(size: Size) -> Callable[[int], dict[str, Any]]:
    """`eqbook`: an epoch of the first members; returns their parameters, stacked."""
    (x, y), key = data(size), jax.random.key(0)
    net, rule = CNN(size.channels, size.hidden, flax=False), optimizer()

    def run(members: int) -> dict[str, Any]:
        return eq.train_ensemble(
            net, key, x, y, members=members, epochs=1, record=[1], optimizer=rule, loss="cross_entropy",
            batch_size=size.batch, progress=False, **options(size),
        ).params  # fmt: skip

    return run


def one_after_the_other(size: Size) -> Callable[[int], list[Any]]:
    """The peer: a loop in Python over members and batches."""
    (x, y), key, rule = data(size), jax.random.key(0), optimizer()
    net = CNN(size.channels, size.hidden, flax=True)

    @partial(jax.jit, donate_argnums=(0, 1))
    def step(params, state, x, y, rows):
        gradient = jax.grad(lambda p: cross_entropy(net.apply(p, x[rows]), y[rows]))(params)
        updates, state = rule.update(gradient, state, params)
        return optax.apply_updates(params, updates), state

    start, shuffle = jax.jit(rule.init), jax.jit(lambda key: jax.random.permutation(key, size.images))

    def run(members: int) -> list[Any]:
        found = []
        for m in range(members):
            init, training = member_keys(key, jnp.uint32(m))
            params = init_member(net, init, x[:1])
            state = start(params)
            for rows in np.asarray(shuffle(jax.random.fold_in(training, 0))).reshape(-1, size.batch):
                params, state = step(params, state, x, y, rows)
            found.append(jax.block_until_ready(params))
        return found

    return run


def check(size: Size, ours: Callable, peer: Callable) -> dict[str, Any]:
    """Outputs of the first members after an epoch, trained both ways.

    Raises:
        AssertionError: if they differ by more than rounding: each of the steps adds up at most as many terms as there
            are pixels in a batch.
    """
    members = min(2, size.members)
    x, _ = data(size)
    net = CNN(size.channels, size.hidden, flax=True)
    outputs = jax.vmap(net.apply, (0, None))(ours(members), x[:64])
    expected = np.stack([net.apply(params, x[:64]) for params in peer(members)])
    bound = size.images // size.batch * tolerance(jnp.float32, size.batch * SIDE**2)
    difference = relative_error(outputs, expected)
    assert difference <= bound, f"the members differ: {difference:.1e} (bound {bound:.1e})"
    return {
        "what": f"outputs of {members} members after an epoch, against the loop",
        "difference": difference,
        "bound": bound,
    }


def operations(size: Size) -> int:
    """Multiplications and additions in an epoch of one member, gradients included, as the plain sums have them."""
    (c1, c2), pixels = size.channels, SIDE**2
    first, second = pixels * 9 * c1, pixels // 4 * 9 * c1 * c2
    dense = pixels // 16 * c2 * size.hidden + size.hidden * CLASSES
    # Two products for each layer's gradient; the first layer has no inputs to differentiate in.
    return 2 * size.images * (2 * first + 3 * (second + dense))


def peak() -> float:
    """Operations per second of a product of large matrices, on all cores or one accelerator."""
    n = 2048 if jax.default_backend() == "cpu" else 8192
    a, product = jnp.ones((n, n), jnp.float32), jax.jit(jnp.matmul)
    return 2 * n**3 / min(timed(lambda: product(a, a))[1] for _ in range(12))


def run(size: Size, smoke: bool = False) -> dict[str, Any]:
    """The record, the answer checked."""
    ours, peer = ensemble(size), one_after_the_other(size)
    record = {"case": "ensembles", "smoke": smoke, "size": vars(size), "options": options(size)}
    record["circumstances"] = circumstances()
    shapes = jax.eval_shape(CNN(size.channels, size.hidden, True).init, jax.random.key(0), data(size)[0][:1])
    record["parameters"] = sum(leaf.size for leaf in jax.tree.leaves(shapes))
    record["checks"] = [check(size, ours, peer)]
    calls = {"ours": lambda: ours(size.members), "peer": lambda: peer(size.members)}
    _, times = alternate(calls, 2 if smoke else ROUNDS, 0 if smoke else BUDGET)
    fastest = peak()
    for who, time in times.items():
        rate = operations(size) * size.members / time.typical
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


def load(backend: str = "cpu", folder: Path = RESULTS) -> dict[str, Any] | None:
    """The record; `None` if there is none, or only one of a try."""
    return load_one("ensembles", backend, folder)


def table(record: dict[str, Any]) -> Table:
    """Both sides of a record."""
    rows = []
    for who, name in (("peer", "one after the other"), ("ours", "eqbook")):
        t = record[who]
        spread = f"{seconds(t['best_s'])} to {seconds(t['worst_s'])}, {t['runs']} runs"
        rate = f"{t['operations_per_s']:.3g}"
        rows.append((name, seconds(t["median_s"]), spread, seconds(t["cpu_s"]), rate, f"{t['fraction']:.0%}"))
    one, (goal,), size = record["checks"][0], record["targets"], record["size"]
    judged = "" if goal["target"] is None else f" (target {goal['target']:g}, {'met' if goal['met'] else 'missed'})"
    told = "".join(f", {name}={value}" for name, value in record["options"].items())
    caption = (
        f"{size['members']} members of {record['parameters']:,} parameters, {size['images']} images in batches of "
        f"{size['batch']}{told}: {goal['reached']:.2f} times as fast{judged}. {one['what'].capitalize()}: relative "
        f"difference {one['difference']:.0e} (bound {one['bound']:.0e})."
    )
    head = ("members", "median time", "spread", "processor time", "operations per second", "of the peak")
    return Table(head, rows, caption)


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ensembles", description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="a tiny ensemble; nothing is written")
    parser.add_argument("--members", type=int, help="fewer of them, for a try; nothing is written")
    parser.add_argument("--wide", type=int, default=Size.wide, help="members at a time on an accelerator")
    parser.add_argument("--output", type=Path, default=None, help="folder of the record; default benchmarks/results")
    options = parser.parse_args(arguments)
    configure()
    size = SMOKE if options.smoke else Size()
    size = replace(size, members=options.members or size.members, wide=options.wide)
    tried = options.smoke or options.members is not None
    record = run(size, smoke=tried)
    show(record)
    folder = options.output or (None if tried else RESULTS)
    if folder is not None:
        write(record, folder, "ensembles")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Random layer stacks against the literal recursion: a right kernel, or an error that says what is wrong.

`python -m benchmarks.fuzz` runs 2,000 cases and writes `benchmarks/results/fuzz.json`. Every case is one call of
`eq.gram` on a random network and random inputs (`benchmarks.draw`). What it returns is compared, entry by entry, with
the recursion as it is written, over all pairs and in float64; what it raises must be a `ValueError` that names a layer
or an argument and says what was expected. A run that was stopped goes on where it was.
"""

import argparse
import hashlib
import json
import re
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import eqbook as eq
from benchmarks.draw import Seeded, rand_case
from benchmarks.machine import circumstances
from benchmarks.measure import RESULTS, ROOT
from benchmarks.stacks import LAYERS, Call, Case
from eqbook._files import write_whole
from eqbook.grams.plan import choose
from eqbook.kernels import pair_kernel

CASES = 2000
FINITE = 4  # of one case in so many the finite network is made too
# Of sqrt(K_ii K_jj). In float32 the bound of tests/grams/test_methods.py. Half precision is computed in float32 and
# rounded, by up to 2^-11 of the entry. Integers are computed in float64.
BOUNDS = {"float32": 1e-5, "float16": 1e-5 + 2.0**-11} | dict.fromkeys(("float64", "int32", "uint8"), 1e-10)
# Where features are parallel (one number at each pixel, say) the derivative of a relu jumps, and the NTK knows their
# angle to the square root of a rounding. Such a case must be within that, and within the bound with a smooth function.
EPSILON = dict.fromkeys(("float32", "float16"), 2.0**-23) | dict.fromkeys(("float64", "int32", "uint8"), 2.0**-52)
# A clear message names a layer, an argument in backticks, or the network's output ...
NAMED = re.compile(r"`[\w.\[\]']+`|\b(" + "|".join((*LAYERS, "Sequential", "layer")) + r")\b")
# ... and says what was expected, or what to do.
EXPLAINED = re.compile(r"expected|needs|end it with|no infinite-width limit is known")


@dataclass(frozen=True)
class Outcome:
    """What became of a case.

    Attributes:
        result: `"kernel"` for right numbers, `"refused"` for a clear error, `"wrong"` for anything else.
        layers: names of the layers in the stack.
        method: of the Gram matrix, empty if it was refused.
        kink: whether the NTK is within the square root of a rounding only, because a relu sees parallel features.
        dtype: of the inputs.
        difference: largest, in units of the geometric mean of both variances.
        message: the error, or what is wrong.
        rounded: whether rounding decides: entries are off, but when one of their inputs moves by a rounding, kernels
            move as far, as behind a LayerNorm that divides a variance of 0 by itself.
    """

    result: str
    layers: tuple[str, ...]
    dtype: str
    method: str = ""
    difference: float = 0.0
    message: str = ""
    kink: bool = False
    rounded: bool = False


def try_case(case: Case, finite: bool = True) -> Outcome:
    """Call `eq.gram` on a case, and judge what it does. Wants 64-bit types.

    Args:
        case: the case.
        finite: whether the network must also have parameters and outputs at finite width.
    """
    about = partial(Outcome, layers=tuple(sorted(case.names())), dtype=case.dtype)
    x1, x2 = case.inputs()
    try:
        net = case.net()
        found = eq.gram(net, x1, x2, case.kinds, tile=case.tile)
    except ValueError as error:
        message = str(error)
        clear = NAMED.search(message) and EXPLAINED.search(message)
        return about("refused" if clear else "wrong", message=message if clear else f"unclear: {error!r}")
    except Exception as error:  # noqa: BLE001 - finding these is what the run is for
        return about("wrong", message=f"{type(error).__name__}: {error}")
    if case.spoilt and case.spoilt != "objects":
        return about("wrong", message=f"inputs with {case.spoilt} were accepted")
    complaint = _form(found, case.kinds, x1, x2)
    if complaint:
        return about("wrong", message=complaint)
    about = partial(about, method=_method(net, x1))
    differences = _differences(net, x1, x2, found)
    bound, largest = BOUNDS[case.dtype], float(np.max([np.max(one) for one in differences.values()]))
    about = partial(about, difference=largest)
    off = [kind for kind, one in differences.items() if not (one <= bound).all()]  # NaN is off, too
    if off == ["ntk"] and largest <= bound + np.sqrt(8 * EPSILON[case.dtype]) and smooth(case) != case:
        other = try_case(smooth(case), finite=False)
        if other.result == "kernel" and not (other.kink or other.rounded):
            about, off = partial(about, kink=True), []
    if off:
        excuses = _excuses(net, x1, x2)
        if not all((one <= np.maximum(bound, excuses[kind])).all() for kind, one in differences.items()):
            return about("wrong", message=f"{' and '.join(off)}: off by {largest:.2e} of the scale, bound {bound:.2e}")
        about = partial(about, rounded=True)
    complaint = _finite_network(net, x1.shape) if finite else ""
    return about("wrong" if complaint else "kernel", message=complaint)


def smooth(case: Case) -> Case:
    """The same with smooth functions in place of relus."""

    def swapped(value: Any) -> Any:
        if not isinstance(value, Call):
            return {"leaky": "tanh"}.get(value, value) if isinstance(value, str) else value
        name = "Erf" if value.name == "Relu" else value.name
        return Call(name, tuple(map(swapped, value.args)), value.options)

    return replace(case, layers=tuple(map(swapped, case.layers)))


def _method(net: eq.Sequential, x: np.ndarray) -> str:
    """Name of the method that `eq.gram` takes."""
    dtype = np.promote_types(x.dtype, np.float32) if np.issubdtype(x.dtype, np.floating) else np.dtype(float)
    chosen = choose(net, jax.ShapeDtypeStruct(x.shape[1:], dtype), "auto")
    core = getattr(chosen, "core", chosen)
    inner = getattr(core, "core", None)
    return type(core).__name__ if inner is None else f"{type(core).__name__}({type(inner).__name__})"


# The oracle is compiled quickly, and without the rearrangements that could hide, or share, an error.
_plainly = partial(
    jax.jit,
    static_argnums=0,
    compiler_options={"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True},
)


@_plainly
def _pairs(net: eq.Sequential, x1: jax.Array, x2: jax.Array) -> tuple[jax.Array, jax.Array]:
    k = jax.vmap(jax.vmap(partial(pair_kernel, net), (None, 0)), (0, None))(x1, x2)
    return k.nngp, k.ntk


@_plainly
def _itself(net: eq.Sequential, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    k = jax.vmap(lambda z: pair_kernel(net, z, z))(x)
    return k.nngp, k.ntk


def literal(net: eq.Sequential, x: np.ndarray) -> dict[str, np.ndarray]:
    """The recursion over all pairs of a batch, `[n, n]`, in float64; an input meets itself as one object."""
    x = np.asarray(x, float)
    nngp, ntk = map(np.asarray, _pairs(net, x, x))
    if not any(isinstance(layer, eq.LiftS2) for layer in _all_layers(net)):
        return {"nngp": nngp, "ntk": ntk}
    # On SO(3) an input with itself is integrated by a rule of its own.
    same = (x[:, None] == x).all(axis=tuple(range(2, x.ndim + 1)))
    own = map(np.asarray, _itself(net, x))
    return {kind: np.where(same, k[:, None], m) for kind, k, m in zip(("nngp", "ntk"), own, (nngp, ntk))}


def _all_layers(net: eq.Sequential) -> list:
    return [
        one for layer in net.layers for one in (_all_layers(layer) if isinstance(layer, eq.Sequential) else [layer])
    ]


def _form(found: eq.Gram, kinds: tuple, x1: np.ndarray, x2: Any) -> str:
    """What is wrong with kernels whatever their values should be, if anything."""
    dtype = x1.dtype.name if np.issubdtype(x1.dtype, np.floating) else "float64"
    shape = (len(x1), len(x1 if x2 is None else x2))
    for kind in ("nngp", "ntk"):
        matrix = getattr(found, kind)
        if (matrix is None) != (kind not in kinds):
            return f"{kind}: returned, or not, against `kinds` = {kinds}"
        if matrix is None:
            continue
        if matrix.dtype != dtype or matrix.shape != shape:
            return f"{kind}: dtype {matrix.dtype} and shape {matrix.shape} for {dtype} and {shape}"
        if not np.isfinite(matrix).all():
            return f"{kind}: entries that are not finite"
        if x2 is None and not np.array_equal(matrix, matrix.T):
            return f"{kind}: not symmetric"
    return ""


def _differences(net: eq.Sequential, x1: np.ndarray, x2: Any, found: eq.Gram) -> dict[str, np.ndarray]:
    """Of each kernel that was asked for, the distances from the recursion in units of the scale, `[n1, n2]`."""
    expected = _expected(net, x1, x2)
    return {
        kind: np.abs(np.asarray(getattr(found, kind), float) - matrix) / scale
        for kind, (matrix, scale) in expected.items()
        if getattr(found, kind) is not None
    }


def _expected(net: eq.Sequential, x1: np.ndarray, x2: Any) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """The recursion's kernels and their scale, `[n1, n2]`."""
    every, dtype = _every(x1, x2)
    block = np.s_[:] if x2 is None else np.s_[: len(x1), len(x1) :]
    return {kind: (own[block], _scale(own, every, dtype)[block]) for kind, own in literal(net, every).items()}


def _every(x1: np.ndarray, x2: Any) -> tuple[np.ndarray, str]:
    """Both batches as one, in float64, and the dtype that they are computed in."""
    dtype = x1.dtype.name if np.issubdtype(x1.dtype, np.floating) else "float64"
    return np.asarray(x1 if x2 is None else np.concatenate([x1, x2]), float), dtype


def _scale(own: np.ndarray, inputs: np.ndarray, dtype: str) -> np.ndarray:
    """What a difference is small beside: geometric means of variances, `[n, n]`.

    Some kernels are 0 by symmetry, an odd function averaged over a group with -1 for example, and the computed ones are
    rounding: of numbers of the size of 1 and of the inputs' squares.
    """
    floor = 8 * EPSILON[dtype] * (1 + float(np.mean(np.square(inputs, dtype=float)))) / BOUNDS[dtype]
    variances = np.maximum(np.diag(own), 0)  # one that is 0 may come out below
    return np.maximum(np.sqrt(np.outer(variances, variances)), floor)


def _excuses(net: eq.Sequential, x1: np.ndarray, x2: Any) -> dict[str, np.ndarray]:
    """How far entries may be off because rounding decides one of their two inputs, in units of the scale, `[n1, n2]`.

    An input is decided by rounding as far as entries, any of them, move when it alone moves by a rounding. The entry
    in question may stay: where a signal of variance 0 is divided by itself, only its sign moves.
    """
    every, dtype = _every(x1, x2)
    at_rest, rng = literal(net, every), np.random.default_rng(0)
    moves = {kind: np.zeros(len(every)) for kind in at_rest}
    for one in np.unique(every, axis=0):
        same = (every == one).all(axis=tuple(range(1, every.ndim)))  # equal inputs stay equal
        for _ in range(8):
            roundings = EPSILON[dtype] * rng.choice([-1, 1], one.shape)
            others = literal(net, np.where(same.reshape(-1, *[1] * one.ndim), one * (1 + roundings), every))
            for kind, other in others.items():
                shift = np.abs(other - at_rest[kind]) / _scale(at_rest[kind], every, dtype)
                moves[kind][same] = np.maximum(moves[kind][same], shift.max())
    block = np.s_[:] if x2 is None else np.s_[: len(x1), len(x1) :]
    return {kind: 8 * np.maximum.outer(move, move)[block] for kind, move in moves.items()}


def _finite_network(net: eq.Sequential, shape: tuple[int, ...]) -> str:
    """What a kernel is known for must be a network, too: its parameters and outputs have shapes."""
    try:
        jax.eval_shape(lambda key, x: net.apply(net.init(key, x.shape), x), jax.random.key(0), jnp.zeros(shape))
    except Exception as error:  # noqa: BLE001 - see above
        return f"the finite network fails: {type(error).__name__}: {error}"
    return ""


def run_seed(seed: int) -> Outcome:
    """The case of a seed."""
    return try_case(rand_case(Seeded(seed)), finite=seed % FINITE == 0)


def summary(outcomes: dict[int, Outcome]) -> dict[str, Any]:
    """The record: counts, the largest differences, and whatever was wrong."""
    kernels = [one for one in outcomes.values() if one.result == "kernel"]
    kinks, rounded = [one for one in kernels if one.kink], [one for one in kernels if one.rounded]
    plain = [one for one in kernels if not (one.kink or one.rounded)]
    dtypes = sorted({one.dtype for one in plain})
    by_dtype = {dtype: [one.difference for one in plain if one.dtype == dtype] for dtype in dtypes}
    by_layer = {}
    for layer in LAYERS:
        have = [one for one in outcomes.values() if layer in one.layers]
        right = [one.difference for one in have if one in plain and BOUNDS[one.dtype] == 1e-10]
        by_layer[layer] = {
            "cases": len(have),
            "kernels": sum(one.result == "kernel" for one in have),
            "refused": sum(one.result == "refused" for one in have),
            "largest_float64_difference": max(right, default=0.0),
        }
    return {
        "cases": len(outcomes),
        "kernels": len(kernels),
        "refused": sum(one.result == "refused" for one in outcomes.values()),
        "wrong": {str(seed): asdict(one) for seed, one in outcomes.items() if one.result == "wrong"},
        "different_messages": len({_pattern(one.message) for one in outcomes.values() if one.result == "refused"}),
        "methods": dict(Counter(one.method for one in kernels).most_common()),
        "dtypes": {
            dtype: {"kernels": len(found), "largest_difference": max(found), "bound": BOUNDS[dtype]}
            for dtype, found in by_dtype.items()
        },
        "kinks": {"cases": len(kinks), "largest_difference": max((one.difference for one in kinks), default=0.0)},
        "rounded": {"cases": len(rounded), "largest_difference": max((one.difference for one in rounded), default=0.0)},
        "layers": by_layer,
    }  # fmt: skip


def _pattern(message: str) -> str:
    """A message without its numbers and layers, so that equal complaints count once."""
    return re.sub(r"\([^()]*\)|\d+|layer :?", "", re.sub(r"\([^()]*\)", "", message))


def main(arguments: list[str] | None = None) -> None:
    """Run the cases that are not in the log yet, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=CASES)
    parser.add_argument("--out", type=Path, default=RESULTS / "fuzz.json")
    parser.add_argument("--log", type=Path, help="outcomes so far, a line of JSON each; the record's name if not given")
    parser.add_argument("--share", type=int, default=0, help="which of the shares this process takes")
    parser.add_argument("--shares", type=int, default=1, help="processes that share the cases")
    given = parser.parse_args(arguments)
    log = given.log or given.out.with_suffix(".log.jsonl")
    jax.config.update("jax_enable_x64", True)
    if log.exists() and not log.read_text().endswith("\n"):  # cut off in a line, which is run again
        with log.open("a") as file:
            file.write("\n")
    outcomes = _read(log)
    todo = [seed for seed in range(given.cases) if seed not in outcomes and seed % given.shares == given.share]
    started = time.process_time()
    for done, seed in enumerate(todo, 1):
        outcomes[seed] = run_seed(seed)
        with log.open("a") as file:  # one line at a time: several shares may write to it
            file.write(json.dumps({"seed": seed, "sources": sources(), **asdict(outcomes[seed])}) + "\n")
        if outcomes[seed].result == "wrong":
            print(f"seed {seed}: {outcomes[seed].message}\n  {rand_case(Seeded(seed))}", flush=True)
        if done % 50 == 0 or done == len(todo):
            _write(given.out, _read(log), given.cases)
            used = time.process_time() - started
            print(f"{done} of {len(todo)}, {used / done:.2f} CPU-s a case", file=sys.stderr, flush=True)
        if done % 200 == 0:  # thousands of programs add up to gigabytes
            jax.clear_caches()
    _write(given.out, _read(log), given.cases)


def _write(path: Path, outcomes: dict[int, Outcome], cases: int) -> None:
    kept = {seed: one for seed, one in sorted(outcomes.items()) if seed < cases}
    record = {"planned": cases, **summary(kept), "circumstances": circumstances()}
    write_whole(path, (json.dumps(record, indent=1) + "\n").encode())


@cache
def sources() -> str:
    """Digest of the package, and of the code that draws the cases and judges them, as they were when this began."""
    own = (Path(__file__).with_name(f"{name}.py") for name in ("draw", "fuzz", "stacks"))
    code = [*sorted((ROOT / "eqbook").rglob("*.py")), *own]
    return hashlib.sha256(b"".join(path.read_bytes() for path in code)).hexdigest()


def _read(log: Path) -> dict[int, Outcome]:
    """Outcomes so far; a line that was cut off is passed over, and one that other code has written."""
    found = {}
    for line in log.read_text().splitlines() if log.exists() else ():
        try:
            entry = json.loads(line)
        except json.JSONDecodeError:
            continue
        if entry.pop("sources", None) != sources():
            continue
        seed = entry.pop("seed")
        found[seed] = Outcome(**{**entry, "layers": tuple(entry["layers"])})
    return found


if __name__ == "__main__":
    main()

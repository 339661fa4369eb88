r"""The recursion of `displacements` as one kernel of a GPU, which keeps every layer in registers.

For one pair of images and one displacement the recursion is one of images `[h, w]`, in which no other displacement
takes part. A thread holds one column of K and one of Theta. A filter reads rows from the thread's own registers, and
columns from those of the threads beside it. Nothing is written between the input and the pool: what is read are the
images, and the standard deviations of their pixels at each relu.

The kernel is written in Pallas, for Triton, whose arrays have sides that are powers of two.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jaxtyping import Array, Bool, Float, Int

from eqbook.grams.methods.program import Affine, Interval, Pointwise, Program
from eqbook.grams.methods.steps import Pair
from eqbook.kernels.correlation import SNAP, horner, polynomials
from eqbook.kernels.rules import rule
from eqbook.layers import Conv, Relu

THREADS = 32  # of a warp, which can read each other's registers
WARPS = 4  # of a program, at most: neighbouring displacements, which read the same deviations
REACH = 3  # pixels that a filter may reach to a side
PROGRAMS = 2**13  # to start at least, where there are enough rows of displacements

Rows = Float[Array, "rows lanes"]


class Unit(NamedTuple):
    """A layer with weights and the relu behind it, if there is one; `count` equal ones in a row."""

    affine: Affine
    relu: bool
    positive: bool
    count: int


def units(program: Program, sides: tuple[int, int]) -> tuple[Unit, ...] | None:
    """The steps of a program for this kernel; `None` if it holds other steps, or images are larger than a warp.

    Args:
        program: with geometry.
        sides: of the images.
    """
    steps, found = list(program.steps), []
    if max(sides) > THREADS or not steps:
        return None
    while steps:
        step = steps.pop(0)
        if not isinstance(step, Affine) or max(*step.low, *step.high) > REACH:
            return None
        relu = bool(steps) and isinstance(steps[0], Pointwise)
        positive = relu and steps[0].positive
        if relu and steps.pop(0).rule is not rule(Relu(), positive):
            return None
        unit = Unit(step, relu, positive, 1)
        # The first one differs: there is no NTK in front of it.
        if len(found) > 1 and found[-1]._replace(count=1) == unit:
            unit = unit._replace(count=found.pop().count + 1)
        found.append(unit)
    return tuple(found)


class Layout(NamedTuple):
    """How displacements lie on threads.

    Attributes:
        sides: of the images.
        spans: how many displacements there are along rows and columns.
        first: the first of them.
        groups: displacements side by side in a warp.
        warps: of a program.
        splits: programs that share the rows of displacements of one pair.
    """

    sides: tuple[int, int]
    spans: tuple[int, int]
    first: tuple[int, int]
    groups: int
    warps: int
    splits: int

    @property
    def lanes(self) -> int:
        """Threads of a program."""
        return THREADS * self.warps

    @property
    def rows(self) -> int:
        """Registers of a thread for one column: a power of two."""
        return 2 ** math.ceil(math.log2(self.sides[0]))

    @property
    def blocks(self) -> int:
        """How often the threads of a program begin anew for one row of displacements."""
        return -(-self.spans[1] // (self.groups * self.warps))


def arrange(sides: tuple[int, int], spans: tuple[int, int], first: tuple[int, int], pairs: int) -> Layout:
    """The layout for so many pairs."""
    groups = THREADS // sides[1]
    warps = max(k for k in (1, 2, WARPS) if k == 1 or k * groups <= spans[1])
    wanted = min(spans[0], -(-PROGRAMS // pairs))
    splits = min(k for k in range(wanted, spans[0] + 1) if spans[0] % k == 0)
    return Layout(sides, spans, first, groups, warps, splits)


class Machine(NamedTuple):
    """What a GPU does in one instruction; elsewhere, for tests, JAX does it.

    Attributes:
        pick: values `[rows, lanes]` of other threads of the warp, given their numbers in it `[1, lanes]`.
        down: row `t + offset` in the place of each row t, of `[rows, lanes]`; modulo `wrap`, or 0 where there is none.
        inverse: 1 / x.
        root: the square root.
        hidden: the same numbers, of which the compiler does not know what they are: where it knows that four lie side
            by side in memory, it gives them to one thread.
    """

    pick: Callable[[Rows, Array], Rows]
    down: Callable[[Rows, int, int | None], Rows]
    inverse: Callable[[Rows], Rows]
    root: Callable[[Rows], Rows]
    hidden: Callable[[Array], Array]


def kernels(
    units: Sequence[Unit],
    layout: Layout,
    one: tuple[Float[Array, "pairs c h w"], Float[Array, "pairs relus h w"]],
    two: tuple[Float[Array, "pairs c h w"], Float[Array, "pairs relus h w"]],
    weights: tuple[Float[np.ndarray, "h h"], Float[np.ndarray, "w w"]],
    ntk: bool,
    interpret: bool = False,
) -> Pair:
    r"""$\sum_\delta \sum_t w(\delta, t) K(t, t + \delta)$ behind the units, and the same of the NTK, `[pairs]`.

    Args:
        units: the layers.
        layout: which thread computes what.
        one: images, and the standard deviation of each pixel at each relu.
        two: the same of the other images.
        weights: of rows and of columns, `[displacement modulo the side, pixel]`.
        ntk: whether the NTK is asked for.
        interpret: run by JAX, on any device.
    """
    pairs, channels = one[0].shape[:2]
    machine = _any() if interpret else _gpu()
    run = partial(_kernel, tuple(units), layout, channels, one[1].shape[1], ntk, machine)
    arguments = [leaf.ravel() for leaf in (*one, *two, *(jnp.asarray(table, one[0].dtype) for table in weights))]
    arguments = [leaf if leaf.size else jnp.zeros(1, leaf.dtype) for leaf in arguments]
    shape = jax.ShapeDtypeStruct((pairs * layout.splits * layout.lanes,), one[0].dtype)
    options = {"interpret": True} if interpret else _options(layout.warps)
    found = pl.pallas_call(run, [shape] * (2 if ntk else 1), grid=(layout.splits, pairs), **options)(*arguments)
    sums = [part.reshape(pairs, -1).sum(1) for part in found]
    return sums[0], sums[1] if ntk else None


class _Place(NamedTuple):
    """Which pixels the threads of a program hold: rows `[rows, 1]` and columns `[1, lanes]`, of both images."""

    rows: Int[Array, "rows 1"]
    other_rows: Int[Array, "rows 1"]
    columns: Int[Array, "1 lanes"]
    other_columns: Int[Array, "1 lanes"]
    thread: Int[Array, "1 lanes"]


def _kernel(
    units: tuple[Unit, ...],
    layout: Layout,
    channels: int,
    relus: int,
    ntk: bool,
    machine: Machine,
    x1: Any,
    s1: Any,
    x2: Any,
    s2: Any,
    row_weights: Any,
    column_weights: Any,
    *outputs: Any,
) -> None:
    """One program: some rows of displacements of one pair."""
    h, w = layout.sides
    part, pair = pl.program_id(0), pl.program_id(1)
    lane = machine.hidden(jnp.arange(layout.lanes, dtype=jnp.int32))[None]
    rows = jnp.arange(layout.rows, dtype=jnp.int32)[:, None]
    thread, warp = _rem(lane, THREADS), _div(lane, THREADS)
    columns, group = _rem(thread, w), jnp.minimum(_div(thread, w), layout.groups - 1)
    used = thread < layout.groups * w
    image, deviation = pair * (channels * h * w), pair * (relus * h * w)

    def displacement(k: Array, totals: tuple[Array, ...]) -> tuple[Array, ...]:
        down = _rem(part * (layout.spans[0] // layout.splits) + _div(k, layout.blocks) + layout.first[0], h)
        number = _rem(k, layout.blocks) * (layout.groups * layout.warps) + warp * layout.groups + group
        right = _rem(number + layout.first[1], w)
        place = _Place(rows, _rem(rows + down, h), columns, _rem(columns + right, w), thread)

        def read(ref: Any, base: Array, other: bool) -> Rows:
            i, j = (place.other_rows, place.other_columns) if other else (place.rows, place.columns)
            return ref[base + jnp.minimum(i, h - 1) * w + j]

        def channel(c: Array, total: Rows) -> Rows:
            base = image + c * (h * w)
            return total + read(x1, base, False) * read(x2, base, True)

        zero = jnp.zeros((len(rows), layout.lanes), jnp.float32)
        fields = (_repeat(channels, channel, zero) * (1 / channels),)
        passed = 0
        for unit in units:

            def layer(k: Array, fields: tuple[Rows, ...], unit: Unit = unit, passed: int = passed) -> tuple[Rows, ...]:
                base = deviation + (passed + k) * (h * w)
                roots = (read(s1, base, False), read(s2, base, True)) if unit.relu else ()
                return _behind(unit, layout.sides, place, fields, ntk, roots, machine)

            fields = layer(0, fields) if unit.count == 1 else _repeat(unit.count, layer, fields)
            passed += unit.count * unit.relu
        counted = used & (number < layout.spans[1]) & (rows < h)
        by_row = row_weights[down * h + jnp.minimum(rows, h - 1)]
        weight = jnp.where(counted, by_row * column_weights[right * w + columns], 0.0)
        # Another field may hold anything where there is no pixel.
        sums = [jnp.sum(jnp.where(counted, field, 0.0) * weight, 0) for field in fields]
        return tuple(total + added for total, added in zip(totals, sums))

    steps = layout.spans[0] // layout.splits * layout.blocks
    zero = jnp.zeros(layout.lanes, jnp.float32)
    totals = _repeat(steps, displacement, (zero,) * len(outputs))
    for output, total in zip(outputs, totals):
        output[(pair * layout.splits + part) * layout.lanes + lane[0]] = total


def _behind(
    unit: Unit,
    sides: tuple[int, int],
    place: _Place,
    fields: tuple[Rows, ...],
    ntk: bool,
    roots: tuple[Rows, ...],
    machine: Machine,
) -> tuple[Rows, ...]:
    """K and Theta, or K alone, behind a unit; `roots` are the standard deviations in front of its relu."""
    layer = unit.affine.layer
    W2, b2 = layer.W_std**2, layer.b_std**2
    if isinstance(layer, Conv):
        W2 /= layer.fan
        fields = _windows(unit.affine, layer.padding, sides, place, fields, machine)
    nngp = W2 * fields[0] + b2
    theta = nngp + W2 * fields[1] if len(fields) > 1 else nngp
    if unit.relu:
        correlation = nngp
        for root in roots:  # one after the other: for the inverse of their product a GPU may take 0
            correlation = correlation * jnp.where(root > 0, machine.inverse(root), 0.0)
        value, slope = _relu(correlation, nngp, unit.positive, machine)
        nngp, theta = roots[0] * roots[1] * value, theta * slope
    return (nngp, theta) if ntk else (nngp,)


def _windows(
    step: Affine, padding: str, sides: tuple[int, int], place: _Place, fields: tuple[Rows, ...], machine: Machine
) -> tuple[Rows, ...]:
    """Sums over a filter's positions."""
    (h, w), wrap = sides, padding == "CIRCULAR"
    down, right = ([k for k in range(-low, high + 1) if k] for low, high in zip(step.low, step.high, strict=True))

    def both(here: Array, there: Array, offset: int, inside: Interval) -> Bool[Array, "..."]:
        return _within(here + offset, inside) & _within(there + offset, inside)

    totals = fields
    for offset in right:
        column = place.columns + offset
        if wrap:
            column = _rem(column + w, w)
        held = _within(column, (0, w))
        if padding == "SAME":
            held &= both(place.columns, place.other_columns, offset, step.inside[1])
        thread = jnp.where(_within(column, (0, w)), place.thread - place.columns + column, place.thread)
        weight = jnp.where(held, 1.0, 0.0)
        totals = tuple(total + weight * machine.pick(field, thread) for total, field in zip(totals, fields))
    fields = totals
    for offset in down:
        moved = [machine.down(field, offset, h if wrap else None) for field in fields]
        if padding == "SAME":
            held = both(place.rows, place.other_rows, offset, step.inside[0])
            moved = [jnp.where(held, field, 0.0) for field in moved]
        totals = tuple(total + field for total, field in zip(totals, moved))
    return totals


def _relu(r: Rows, c: Rows, positive: bool, machine: Machine) -> tuple[Rows, Rows]:
    """`eqbook.kernels.correlation.relu_correlation`, in operations that the kernel has."""
    p, q = polynomials(np.dtype(np.float32))
    eps, tiny = float(np.finfo(np.float32).eps), float(np.finfo(np.float32).tiny)
    z = 0.5 - 0.5 * jnp.abs(r)
    z = jnp.where(z <= SNAP / 4 * eps, tiny, z)
    root = machine.root(z)
    rise = root * z * horner(q, z, 1 / math.pi)
    angle = root * horner(p, z, 1 / math.pi)
    if positive:
        return rise + (0.5 - z), 0.5 - angle
    return rise + jnp.where(c < 0, 0.0, 0.5 - z), jnp.where(c < 0, angle, 0.5 - angle)


def _within(k: Array, interval: Interval) -> Bool[Array, "..."]:
    return (k >= interval[0]) & (k < interval[1])


def _repeat(count: int, step: Callable, start: Any) -> Any:
    # The type of the counter is given: with 64-bit types on it would be another one.
    return jax.lax.fori_loop(np.int32(0), np.int32(count), step, start)


def _div(a: Array, b: int) -> Array:
    # Not `//`, which looks after signs: no number here is below 0.
    return jax.lax.div(a, jnp.full_like(a, b))


def _rem(a: Array, b: int) -> Array:
    return jax.lax.rem(a, jnp.full_like(a, b))


@cache
def trusted(rows: int, warps: int) -> bool:
    """Whether rows lie in a thread's registers in their order, and columns in the threads in theirs, as assumed here.

    Triton promises neither. So it is looked at, once for each shape of arrays.
    """
    machine, lanes = _gpu(), THREADS * warps

    def kernel(x: Any, picked: Any, moved: Any) -> None:
        lane = machine.hidden(jnp.arange(lanes, dtype=jnp.int32))[None]
        places = jnp.arange(rows, dtype=jnp.int32)[:, None] * lanes + lane
        values, thread = x[places], _rem(lane, THREADS)
        picked[places] = machine.pick(values * 2, _rem(thread + 1, THREADS))
        moved[places] = machine.down(values * 3, 1, None)

    x = np.arange(rows * lanes, dtype=np.float32).reshape(rows, lanes)
    beside = np.roll(x.reshape(rows, warps, THREADS), -1, 2).reshape(rows, lanes)
    below = np.append(x[1:], np.zeros((1, lanes), np.float32), 0)
    shape = jax.ShapeDtypeStruct((x.size,), x.dtype)
    try:
        found = jax.jit(pl.pallas_call(kernel, [shape] * 2, grid=(1,), **_options(warps)))(x.ravel())
    except Exception:  # noqa: BLE001 - whatever a compiler says that has no Triton
        return False
    return np.array_equal(found[0], 2 * beside.ravel()) and np.array_equal(found[1], 3 * below.ravel())


def _options(warps: int) -> dict[str, Any]:
    from jax.experimental.pallas import triton

    return {"compiler_params": triton.CompilerParams(num_warps=warps, num_stages=1)}


@cache
def _gpu() -> Machine:
    from jax.experimental.pallas import triton

    def asm(text: str, constraints: str, *values: Array, pack: int = 1) -> Array:
        like = jax.ShapeDtypeStruct(values[0].shape, values[0].dtype)
        (found,) = triton.elementwise_inline_asm(
            text, args=values, constraints=constraints, pack=pack, result_shape_dtypes=[like]
        )
        return found

    def pick(values: Rows, thread: Array) -> Rows:
        text = "shfl.sync.idx.b32 $0, $1, $2, 0x1f, 0xffffffff;"
        return asm(text, "=f,f,r", values, jnp.broadcast_to(thread, values.shape))

    def down(values: Rows, offset: int, wrap: int | None) -> Rows:
        # The rows of a thread are registers: moving them is a matter of their names.
        count, lines = len(values), []
        for t in range(count):
            seen = (t + offset) % wrap if wrap and t < wrap else t + offset
            lines.append(f"mov.b32 ${t}, {f'${count + seen}' if 0 <= seen < count else '0f00000000'};")
        return asm(" ".join(lines), ",".join(["=f"] * count + ["f"] * count), values, pack=count)

    return Machine(
        pick,
        down,
        partial(asm, "rcp.approx.ftz.f32 $0, $1;", "=f,f"),
        partial(asm, "sqrt.approx.ftz.f32 $0, $1;", "=f,f"),
        partial(asm, "mov.b32 $0, $1;", "=r,r"),
    )


@cache
def _any() -> Machine:
    def pick(values: Rows, thread: Array) -> Rows:
        warps = values.reshape(len(values), -1, THREADS)
        places = jnp.broadcast_to(thread, values.shape).reshape(warps.shape)
        return jnp.take_along_axis(warps, places, 2).reshape(values.shape)

    def down(values: Rows, offset: int, wrap: int | None) -> Rows:
        rows = jnp.arange(len(values)) + offset
        if wrap:
            rows = jnp.where(jnp.arange(len(values)) < wrap, rows % wrap, rows)
        moved = jnp.take(values, jnp.clip(rows, 0, len(values) - 1), 0)
        return jnp.where(_within(rows, (0, len(values)))[:, None], moved, 0.0)

    return Machine(pick, down, lambda x: 1 / x, jnp.sqrt, lambda x: x)

"""The kernel: all layers of some displacements of one pair of images."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from eqbook.grams.methods.program import Affine, Interval
from eqbook.grams.methods.registers.layout import Layout, Unit
from eqbook.grams.methods.registers.machine import THREADS, Machine, Rows, by_jax, div, gpu, options, rem, within
from eqbook.grams.methods.steps import Pair
from eqbook.kernels.correlation import SNAP, horner, polynomials
from eqbook.layers import Conv


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
    from jax.experimental import pallas as pl  # here: importing it takes long, and few need it

    pairs, channels = one[0].shape[:2]
    machine = by_jax() if interpret else gpu()
    run = partial(_kernel, tuple(units), layout, channels, one[1].shape[1], ntk, machine)
    arguments = [leaf.ravel() for leaf in (*one, *two, *(jnp.asarray(table, one[0].dtype) for table in weights))]
    arguments = [leaf if leaf.size else jnp.zeros(1, leaf.dtype) for leaf in arguments]
    shape = jax.ShapeDtypeStruct((pairs * layout.splits * layout.lanes,), one[0].dtype)
    how = {"interpret": True} if interpret else options(layout.warps)
    found = pl.pallas_call(run, [shape] * (2 if ntk else 1), grid=(layout.splits, pairs), **how)(*arguments)
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
    from jax.experimental.pallas import program_id

    h, w = layout.sides
    part, pair = program_id(0), program_id(1)
    lane = machine.hidden(jnp.arange(layout.lanes, dtype=jnp.int32))[None]
    rows = jnp.arange(layout.rows, dtype=jnp.int32)[:, None]
    thread, warp = rem(lane, THREADS), div(lane, THREADS)
    columns, group = rem(thread, w), jnp.minimum(div(thread, w), layout.groups - 1)
    used = thread < layout.groups * w
    image, deviation = pair * (channels * h * w), pair * (relus * h * w)

    def displacement(k: Array, totals: tuple[Array, ...]) -> tuple[Array, ...]:
        down = rem(part * (layout.spans[0] // layout.splits) + div(k, layout.blocks) + layout.first[0], h)
        number = rem(k, layout.blocks) * (layout.groups * layout.warps) + warp * layout.groups + group
        right = rem(number + layout.first[1], w)
        place = _Place(rows, rem(rows + down, h), columns, rem(columns + right, w), thread)

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
        return within(here + offset, inside) & within(there + offset, inside)

    totals = fields
    for offset in right:
        column = place.columns + offset
        if wrap:
            column = rem(column + w, w)
        held = within(column, (0, w))
        if padding == "SAME":
            held &= both(place.columns, place.other_columns, offset, step.inside[1])
        thread = jnp.where(within(column, (0, w)), place.thread - place.columns + column, place.thread)
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


def _repeat(count: int, step: Callable, start: Any) -> Any:
    # The type of the counter is given: with 64-bit types on it would be another one.
    return jax.lax.fori_loop(np.int32(0), np.int32(count), step, start)

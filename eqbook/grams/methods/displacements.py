r"""Networks on images that end with a pool, global or local, without ever holding all pairs of pixels.

A convolution moves both pixels together, $K'(t, t') = \frac{1}{|F|} \sum_{y \in F} K(t + y, t' + y)$, and every other
layer acts on each pair of pixels alone: the displacement $\delta = t' - t$ never changes. For each of the $hw$
displacements, taken modulo the sides of the image, the recursion is one of images `[h, w]`, run from the input to the
output before the next displacement begins. A pair of inputs then takes $O(hw)$ memory where its pairs of pixels are
$(hw)^2$. Pairs of inputs lie along the last axis, where a processor's vector units find them.

A local pool needs the pairs of pixels that one of its windows holds: $(2p - 1)^2$ displacements for windows of $p$ by
$p$ pixels.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from eqbook.grams import workers
from eqbook.grams.methods import registers
from eqbook.grams.methods.images import LANES, field_size
from eqbook.grams.methods.near import helps
from eqbook.grams.methods.pixels import near_walk
from eqbook.grams.methods.program import Affine, Interval, Program
from eqbook.grams.methods.steps import Field, Pair, Scales, Walk, add, at, stored, variances
from eqbook.kernels.spatial import window_sum
from eqbook.layers import AvgPool, Conv

Features = tuple[Float[Array, "h w c n"], list[Scales]]


def _variance_gather(step: Affine, variance: Field) -> Field:
    """The mean over a filter's positions, on the grid of the image: 0 outside of the layer's output."""
    if not isinstance(step.layer, Conv):
        return variance
    conv = step.layer
    cut = tuple(slice(*interval) for interval in step.inside)
    total = window_sum(variance[cut], conv.filter_shape, (1, 1), conv.padding, 1) / conv.fan
    shrinks = conv.padding == "VALID"
    starts = [start + (low if shrinks else 0) for (start, _), low in zip(step.inside, step.low, strict=True)]
    sides = variance.shape[:2]
    border = [(s, side - s - size) for s, side, size in zip(starts, sides, total.shape[:2], strict=True)]
    return jnp.pad(total, [*border, (0, 0)])


def _only(inside: tuple[Interval, Interval], scale: Field) -> Field:
    """The scale inside of a rectangle of pixels, 0 elsewhere."""
    cut = tuple(slice(*interval) for interval in inside)
    border = [(start, side - stop) for (start, stop), side in zip(inside, scale.shape)]
    # Not written into zeros: XLA for GPUs takes these for the zeros that other parts of the program compare with, and
    # lets them be read after they are overwritten.
    return jnp.pad(scale[cut], [*border, (0, 0)])


def _copies(pairs: int, h: int, w: int) -> int:
    """How many displacements to take side by side: a divisor of the width that fills a field.

    On a CPU no more than keep the vector units busy: each copy of the inputs has to be made, and read from memory.
    """
    most = min(2 * field_size() // (h * w), workers.entries(8 * LANES, 2**22))
    return max(k for k in range(1, w + 1) if w % k == 0 and (k == 1 or k * pairs <= most))


def _weight(
    sides: tuple[int, int], shift: tuple[Int[Array, ""], Int[Array, "*lanes"]], axis: int, step: int, inside: Interval
) -> Bool[Array, "h_or_1 w_or_1 lanes_or_1"]:
    """Whether the pixels `t + step` and `t' + step` are inside, with `t' = t + shift` modulo the side, for each t."""
    t = jnp.arange(sides[axis])[:, None]
    both = [(u >= inside[0]) & (u < inside[1]) for u in (t + step, (t + shift[axis]) % sides[axis] + step)]
    weight = both[0] & both[1]  # [side, lanes or 1]
    return weight[:, None] if axis == 0 else weight[None]


def _held(side: int, inside: Interval, window: int, stride: int) -> Float[np.ndarray, "side side"]:
    """How many windows hold both pixel t and pixel t + shift modulo the side, over all pairs in all windows."""
    starts = np.arange(inside[0], inside[1] - window + 1, stride)[:, None]
    pixels = np.arange(side)
    holds = (pixels >= starts) & (pixels < starts + window)  # [windows, side]
    both = [np.sum(holds & np.roll(holds, -shift, 1), 0) for shift in pixels]
    return np.stack(both) / (len(starts) * window**2)


@dataclass(frozen=True)
class Displacements:
    """Kernels in front of the head for pairs of images, averaged over all pairs of pixels.

    Attributes:
        program: steps of the body, with their geometry.
        local: a pool in front of `Flatten`: the mean, over its windows, of the average over pairs of pixels in one.
        near: whether the pairs are near each other.
        in_registers: whether one kernel of a GPU runs all layers, see `registers`; it has no derivatives.
    """

    program: Program
    local: AvgPool | None = None
    near: bool = False
    in_registers: bool = False
    by_rows: ClassVar[bool] = False
    width: ClassVar[int] = LANES
    apart: ClassVar[bool] = False

    def prepare(self, x: Float[Array, "n h w c"]) -> Features:
        """Images with the batch axis last, and the scales of each pointwise step at each of their pixels."""
        x = jnp.moveaxis(x, 0, -1)
        _, scales = variances(self.program.steps, jnp.sum(x * x, 2) / x.shape[2], _variance_gather)
        if self.in_registers:
            scales = [step[:1] for step in scales]  # the inverse is computed there
        # Scales of 0 outside of a layer's output: what comes of such pixels is finite, and left out at the end.
        grids = zip(scales, self.program.grids, strict=True)
        return x, [tuple(_only(inside, scale) for scale in step) for step, inside in grids]

    def pairs(self, one: Features, two: Features, true: Bool[Array, ""], ntk: bool, part: Any = None) -> Pair:
        """NNGP and NTK, `[pairs]`, for features with the pairs along their last axis; terms are displacements."""
        if self.in_registers:
            return self._by_registers(one, two, ntk)
        h, w, channels, pairs = one[0].shape
        copies = self._copies(pairs, (h, w))
        held = [jnp.asarray(table, one[0].dtype) for table in self._tables((h, w))]
        aside = jnp.repeat(jnp.arange(copies), pairs) if copies > 1 else 0

        def spread(inputs: tuple[Features, Features]) -> tuple[Features, Features]:
            # Few pairs leave vector units idle: neighbouring displacements then lie side by side with the pairs.
            one, two = inputs
            one = jax.tree.map(lambda leaf: jnp.concatenate([leaf] * copies, -1), one)
            two = jax.tree.map(lambda leaf: jnp.concatenate([jnp.roll(leaf, -k, 1) for k in range(copies)], -1), two)
            # Two copies in each direction: a slice of them is the image, moved around the torus.
            return one, jax.tree.map(lambda leaf: jnp.concatenate([jnp.concatenate([leaf, leaf], 0)] * 2, 1), two)

        # On a CPU not fused with what picks the inputs, which would then be done for each copy.
        inputs = one, two
        one, torus = stored(true, spread, inputs)
        full = self.program.inside == ((0, h), (0, w))

        def collect(total: Pair, place: Int[Array, ""]) -> tuple[Pair, None]:
            corner = self._corner(place, (h, w), copies)
            shift = corner[0], corner[1] + aside

            def moved(leaf: Array) -> Array:
                return jax.lax.dynamic_slice(leaf, (*corner, *[0] * (leaf.ndim - 2)), (h, w, *leaf.shape[2:]))

            walk = Walk(
                _pad,
                lambda step, field: _gather(step, field, shift),
                lambda index: (one[1][index], tuple(map(moved, torus[1][index]))),
                ntk,
                true,
            )
            pair = walk.run(self.program.steps, (jnp.sum(one[0] * moved(torus[0]), 2) / channels, None))

            def pool(field: Field) -> Field:
                if held:
                    weight = held[0][corner[0]][:, None, None] * held[1][corner[1]][:, None]
                    return jnp.sum(jnp.sum(field * weight, 1), 0)
                if not full:
                    for axis in (0, 1):
                        field = field * _weight((h, w), shift, axis, 0, self.program.inside[axis]).astype(field.dtype)
                # Rows first: added up in one row, a thousand float32 terms lose two digits.
                return jnp.sum(jnp.mean(field, 1), 0)

            def summed(field: Field) -> Float[Array, " pairs"]:
                sums = pool(field)
                if self.near:  # equal pixels come from elsewhere
                    sums = jnp.where((corner[0] == 0) & (shift[1] == 0), 0, sums)
                return sums.reshape(copies, pairs).sum(0)

            return add(total, at(pair, summed)), None

        zero = jnp.zeros(pairs, one[0].dtype)
        places = jnp.arange(self._terms((h, w), copies)) if part is None else part
        total, _ = jax.lax.scan(collect, (zero, zero if ntk else None), places)
        if not held:
            count = math.prod(stop - start for start, stop in self.program.inside)
            total = at(total, lambda sums: sums * (w / count**2))
        if not self.near:
            return total
        here = True if part is None else (part == self._centre((h, w))).any()
        return add(total, at(self._equal_pixels(*inputs, true, ntk), lambda kernel: jnp.where(here, kernel, 0)))

    def on(self, devices: Sequence[jax.Device], x: Array) -> "Displacements":
        """The same in registers, if inputs like `x` can be computed so on these devices."""
        sides = x.shape[1:3]
        if x.dtype != jnp.float32 or registers.units(self.program, sides) is None:
            return self
        layout = self._layout(sides, 1)
        able = all(registers.trusted(layout.rows, layout.warps, device) for device in devices)
        return replace(self, in_registers=True) if able else self

    def _layout(self, sides: tuple[int, int], pairs: int) -> registers.Layout:
        first = (0, 0)
        if self.local is not None:
            first = tuple((1 - length) % side for length, side in zip(self.local.window, sides, strict=True))
        return registers.arrange(sides, self._spans(sides), first, pairs)

    def _by_registers(self, one: Features, two: Features, ntk: bool) -> Pair:
        """`pairs` in one kernel."""
        h, w, _, pairs = one[0].shape
        weights = self._tables((h, w))
        if not weights:
            grid = zip((h, w), self.program.inside, strict=True)
            held = [(np.arange(side) >= start) & (np.arange(side) < stop) for side, (start, stop) in grid]
            both = [np.stack([here & np.roll(here, -k) for k in range(len(here))]) for here in held]
            # A mean, not a sum divided at the end, which may leave the range of numbers.
            weights = [pairs / here.sum() ** 2 for pairs, here in zip(both, held, strict=True)]

        def by_pairs(features: Features) -> tuple[Array, Array]:
            x, scales = features
            roots = jnp.stack([step[0] for step in scales], 2) if scales else x[:, :, :0]
            return tuple(jnp.transpose(leaf, (3, 2, 0, 1)) for leaf in (x, roots))

        units, layout = registers.units(self.program, (h, w)), self._layout((h, w), pairs)
        interpret = jax.devices()[0].platform == "cpu"  # in tests
        return registers.kernels(units, layout, by_pairs(one), by_pairs(two), weights, ntk, interpret)

    def _equal_pixels(self, one: Features, two: Features, true: Bool[Array, ""], ntk: bool) -> Pair:
        """What equal pixels contribute to the mean, for inputs that are near each other, `[pairs]`."""
        (x1, s1), (x2, s2) = one, two

        def scales(index: int) -> tuple[Scales, Scales]:
            cut = tuple(slice(*interval) for interval in self.program.grids[index])
            return tuple(tuple(scale[cut] for scale in side[index]) for side in (s1, s2))

        pair = near_walk(x1, x2, scales, ntk, true).kernels(self.program.steps)
        held = self._tables(x1.shape[:2])
        if not held:
            return at(pair, lambda field: jnp.mean(field, (0, 1)) / math.prod(field.shape[:2]))
        rows, columns = (table[0, slice(*inside)] for table, inside in zip(held, self.program.inside, strict=True))
        weight = jnp.asarray(np.outer(rows, columns)[:, :, None], x1.dtype)
        return at(pair, lambda field: jnp.sum(jnp.sum(field * weight, 1), 0))

    def nearer(self) -> "Displacements | None":
        """For pairs that are near each other."""
        return replace(self, near=True, in_registers=False) if helps(self.program.steps) else None

    def terms(self, shape: tuple[int, ...], pairs: int) -> int:
        """The number of displacements, or of groups of them where pairs are few."""
        if self.in_registers:
            return 1
        return self._terms(shape[:2], self._copies(pairs, shape[:2]))

    def lanes(self, shape: tuple[int, ...]) -> int:
        """A field of one displacement fits the second-level cache several times; or what is read fits the memory."""
        if self.in_registers:
            return max(1, 2**25 // ((shape[2] + len(self.program.grids)) * shape[0] * shape[1]))
        return max(1, field_size() // (shape[0] * shape[1]))

    def _copies(self, pairs: int, sides: tuple[int, int]) -> int:
        """How many neighbouring displacements lie side by side; those of a local pool, odd in number, are single."""
        return 1 if self.local else _copies(pairs, *sides)

    def _tables(self, sides: tuple[int, int]) -> list[np.ndarray]:
        """Of a local pool, for rows and for columns: the weight of each pixel at each displacement."""
        if self.local is None:
            return []
        return list(map(_held, sides, self.program.inside, self.local.window, self.local.strides))

    def _spans(self, sides: tuple[int, int]) -> tuple[int, ...]:
        """How many displacements there are along rows and columns: -(p - 1) .. p - 1 for local windows of length p."""
        if self.local is None:
            return sides
        return tuple(min(side, 2 * length - 1) for side, length in zip(sides, self.local.window, strict=True))

    def _centre(self, sides: tuple[int, int]) -> int:
        """The term that holds the displacement 0."""
        if self.local is None:
            return 0
        rows, columns = self.local.window
        return (rows - 1) * self._spans(sides)[1] + columns - 1

    def _terms(self, sides: tuple[int, int], copies: int) -> int:
        """The number of displacements, or of groups of `copies` of them."""
        return math.prod(self._spans(sides)) // copies

    def _corner(self, place: Array, sides: tuple[int, int], copies: int) -> tuple[Array, Array]:
        """The displacement of a term, the first of its group. Arithmetic: read from an array it would slow the loop."""
        columns = self._spans(sides)[1] // copies
        corner = place // columns, place % columns * copies
        if self.local is None:
            return corner
        return tuple((k - length + 1) % side for k, length, side in zip(corner, self.local.window, sides, strict=True))


def _pad(step: Affine, field: Field) -> Field:
    """The field of one displacement with the border that the filter reaches."""
    if not isinstance(step.layer, Conv):
        return field
    border = [*zip(step.low, step.high, strict=True), (0, 0)]
    return jnp.pad(field, border, mode="wrap" if step.layer.padding == "CIRCULAR" else "constant")


def _gather(step: Affine, padded: Field, shift: tuple[Int[Array, ""], Int[Array, ""]]) -> Field:
    """The mean over a filter's positions of the field of one displacement."""
    if not isinstance(step.layer, Conv):
        return padded
    h, w = (side - low - high for side, low, high in zip(padded.shape, step.low, step.high))

    def weight(axis: int, offset: int) -> Array | None:
        # A filter position counts where both pixels that it sees are inside. At the centre they always are, or the
        # value is not used; inside an image that VALID shrinks, so they are too.
        if offset == 0 or step.layer.padding != "SAME":
            return None
        return _weight((h, w), shift, axis, offset, step.inside[axis]).astype(padded.dtype)

    def weighted(part: Field, by: Array | None) -> Field:
        return part if by is None else part * by

    def rows(column: int) -> Field:
        cuts = range(step.low[0] + step.high[0] + 1)
        parts = [weighted(padded[i : i + h, column : column + w], weight(0, i - step.low[0])) for i in cuts]
        return sum(parts[1:], parts[0])

    columns = [weighted(rows(j), weight(1, j - step.low[1])) for j in range(step.low[1] + step.high[1] + 1)]
    return sum(columns[1:], columns[0]) * (1 / step.layer.fan)

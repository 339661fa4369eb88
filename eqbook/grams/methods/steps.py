"""Running a program: the same walk for the kernels of pairs and for the variances of single inputs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from eqbook.grams.methods.program import Affine, Branch, Pointwise
from eqbook.kernels.rules import Scales

Field = Float[Array, "..."]
Pair = tuple[Field, Field | None]  # NNGP and NTK; the NTK of an input is 0, and stays `None` if it is not asked for


def at(pair: Pair, change: Callable[[Field], Field]) -> Pair:
    """The same change of both kernels; the one that is not asked for stays `None`."""
    return tuple(None if kernel is None else change(kernel) for kernel in pair)


def across(parts: list[Pair]) -> tuple:
    """From the pairs of several workers to a pair of lists."""
    return tuple(None if kernels[0] is None else kernels for kernels in zip(*parts, strict=True))


def same(step: Affine, field: Field) -> Field:
    """The field as it is: the mean over a filter's positions where there are no pixels."""
    return field


def add(one: tuple, two: tuple) -> tuple:
    """Sum of two pairs, or of more than pairs; what is missing is 0."""
    both = zip(one, two, strict=True)
    return tuple(a if b is None else b if a is None else a + b for a, b in both)


def affine(step: Affine, pair: Pair, gather: Callable[[Field], Field], ntk: bool) -> Pair:
    r"""$K' = \sigma_W^2 A(K) + \sigma_b^2$, $\Theta' = K' + \sigma_W^2 A(\Theta)$; `gather` is $A$."""
    W2, b2 = step.layer.W_std**2, step.layer.b_std**2
    nngp = W2 * gather(pair[0]) + b2
    if not ntk:
        return nngp, None
    return nngp, nngp if pair[1] is None else nngp + W2 * gather(pair[1])


def pointwise(step: Pointwise, pair: Pair, one: Scales, two: Scales) -> Pair:
    r"""$K' = E[\sigma(u)\sigma(v)]$, $\Theta' = \Theta\, E[\sigma'(u)\sigma'(v)]$."""
    nngp, derivative = step.rule.dual(one, two, pair[0])
    return nngp, None if pair[1] is None else pair[1] * derivative


def variances(steps: Sequence, variance: Field, gather: Callable[[Affine, Field], Field]) -> tuple[Field, list[Scales]]:
    """Variances of single inputs through the steps, and the scales that each pointwise step needs.

    Args:
        steps: of a program.
        variance: of the inputs.
        gather: the mean over a filter's positions, given the step.
    """
    scales: list[Scales] = []
    for step in steps:
        if isinstance(step, Affine):
            variance = step.layer.W_std**2 * gather(step, variance) + step.layer.b_std**2
        elif isinstance(step, Pointwise):
            scales.append(step.rule.scales(variance))
            variance = step.rule.variance(variance)
        else:
            added, inner = variances(step.steps, variance, gather)
            variance, scales = variance + added, scales + inner
    return variance, scales


def stored(true: Any, compute: Callable, arrays: Any) -> Any:
    """`compute(arrays)`, whose result a compiler has to store; on a CPU it has to store the arrays first, too.

    Args:
        true: the traced value `True`, of which a compiler does not know that it is.
        compute: function of arrays.
        arrays: its argument.
    """
    if jax.default_backend() != "cpu":
        return jax.lax.optimization_barrier(compute(arrays))
    # On the CPU the compiler drops barriers before it fuses. A branch that is always taken holds it back.
    nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(compute, arrays))
    return jax.lax.cond(true, compute, lambda _: nothing, arrays)


@dataclass(frozen=True)
class Walk:
    """The kernels of pairs through a program.

    A compiler that fuses a window sum with the nonlinearity in front of it computes that nonlinearity once for each
    filter position. `stage` keeps them apart: what a window sum reads is computed and stored first.

    Attributes:
        pad: the border that a filter needs, given the step and a field.
        gather: the mean over a filter's positions, given the step and a field with its border.
        scales: scales of both inputs at a pointwise step, given its index.
        ntk: whether the NTK is asked for.
        true: the traced value `True`, of which a compiler does not know that it is.
    """

    pad: Callable[[Affine, Field], Field]
    gather: Callable[[Affine, Field], Field]
    scales: Callable[[int], tuple[Scales, Scales]]
    ntk: bool
    true: Any

    def run(self, steps: Sequence, pair: Pair) -> Pair:
        """Kernels behind the steps."""
        place, padded = 0, bool(steps) and isinstance(steps[0], Affine)
        if padded:
            pair = at(pair, partial(self.pad, steps[0]))
        while place < len(steps):
            step = steps[place]
            if isinstance(step, Branch):
                pair = add(pair, self.run(step.steps, pair))
                place, padded = place + 1, False
                continue
            end = place + 1
            # Signs take more arithmetic, for which the window sum is worth storing.
            signed = end < len(steps) and isinstance(steps[end], Pointwise) and not steps[end].positive
            while not signed and end < len(steps) and isinstance(steps[end], Pointwise):
                end += 1
            # The border for the next filter belongs to what is stored: reading it then takes no test.
            after = steps[end] if end < len(steps) and isinstance(steps[end], Affine) else None
            pair = self.stage(steps[place:end], pair, padded, after)
            place, padded = end, after is not None
        return pair

    def stage(self, steps: Sequence, pair: Pair, padded: bool, after: Affine | None) -> Pair:
        """One window sum and the pointwise steps behind it, stored with the border that the step after it needs."""

        def compute(pair: Pair) -> Pair:
            for step in steps:
                if isinstance(step, Pointwise):
                    pair = self.pointwise(step, pair)
                    continue
                if not padded:
                    pair = at(pair, partial(self.pad, step))
                pair = self.affine(step, pair)
            return pair if after is None else at(pair, partial(self.pad, after))

        return stored(self.true, compute, pair)

    def affine(self, step: Affine, pair: Pair) -> Pair:
        """Behind a layer with weights."""
        return affine(step, pair, partial(self.gather, step), self.ntk)

    def pointwise(self, step: Pointwise, pair: Pair) -> Pair:
        """Behind a nonlinearity."""
        return pointwise(step, pair, *self.scales(step.index))

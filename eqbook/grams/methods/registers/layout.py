"""What the kernel computes, and which thread computes what."""

import math
from typing import NamedTuple

from eqbook.grams.methods.program import Affine, Pointwise, Program
from eqbook.grams.methods.registers.machine import THREADS
from eqbook.kernels.rules import rule
from eqbook.layers import Relu

WARPS = 4  # of a program, at most: neighbouring displacements, which read the same deviations
REACH = 3  # pixels that a filter may reach to a side
PROGRAMS = 2**13  # to start at least, where there are enough rows of displacements


class Unit(NamedTuple):
    """A layer with weights and the relu behind it, if there is one; `count` equal ones in a row."""

    affine: Affine
    relu: bool
    positive: bool
    count: int


def units(program: Program, sides: tuple[int, int]) -> tuple[Unit, ...] | None:
    """The steps of a program for this kernel; `None` if it cannot run them, or images are larger than a warp.

    It runs layers with weights, whose filters reach `REACH` pixels at most, and a relu behind each.

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
        if relu and not _is_relu(steps.pop(0)):
            return None
        unit = Unit(step, relu, positive, 1)
        # The first one differs: there is no NTK in front of it.
        if len(found) > 1 and found[-1]._replace(count=1) == unit:
            unit = unit._replace(count=found.pop().count + 1)
        found.append(unit)
    return tuple(found)


def _is_relu(step: Pointwise) -> bool:
    dual, relu = step.rule.dual, rule(Relu()).dual
    return getattr(dual, "func", None) is relu.func


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

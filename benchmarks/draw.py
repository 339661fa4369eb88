"""Random cases for `eq.gram`: most of them fit together, many do not.

The choices come from a seed (`Seeded`), or from hypothesis, which then finds the smallest case that fails.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np

from benchmarks.stacks import FUNCTIONS, SPOILT, Call, Case, call

T = TypeVar("T")


class Chooser(Protocol):
    """Where the choices come from."""

    def pick(self, options: Sequence[T]) -> T:
        """One of the options."""


class Seeded:
    """Choices of a pseudo-random generator.

    Args:
        seed: equal seeds give equal choices.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def pick(self, options: Sequence[T]) -> T:
        """One of the options, uniformly."""
        return options[self._random.randrange(len(options))]


def chance(c: Chooser, percent: int) -> bool:
    """True in so many of a hundred choices; hypothesis shrinks towards false."""
    return c.pick(range(100)) >= 100 - percent


@dataclass
class State:
    """Where a stack stands while it is put together.

    Attributes:
        c: the choices.
        domain: on what the features live.
        group: the group of the features, a call.
        gaussian: whether a nonlinearity may follow.
        channels: channels of the features, 0 where they are not counted.
        odd: share, in percent, of choices that need not fit.
    """

    c: Chooser
    domain: str
    channels: int
    odd: int
    group: Call | None = None
    gaussian: bool = False
    layers: list[Call] = field(default_factory=list)

    def pick(self, options: Sequence[T]) -> T:
        return self.c.pick(options)

    def strange(self) -> bool:
        return self.odd > 0 and chance(self.c, self.odd)

    def or_odd(self, good: Sequence[Any], bad: Sequence[Any]) -> Any:
        return self.pick(bad) if self.strange() else self.pick(good)


BAD_NUMBERS = (0, -1, 2.5, True, None, "3", np.nan)
BAD_STDS = (-1.0, np.nan, np.inf, "1", None, 1j, np.ones(2))
BAD_SIDES = (3, (3,), (0, 1), (1, -2), (2.5, 1), "33", None, (1, 2, 3), np.array([3, 3]))
BAD_PADDINGS = ("same", None, 3, ["SAME"])


def _weights(s: State) -> dict[str, Any]:
    options = {}
    if s.pick(range(2)):
        options["W_std"] = s.or_odd((1.3, 0.7, np.float32(1.2), 2), BAD_STDS)
    if s.pick(range(2)):
        options["b_std"] = s.or_odd((0.4, 0.1, 1), BAD_STDS)
    return options


def _channels(s: State, keep: bool = False) -> Any:
    if keep and s.channels:
        return s.or_odd((s.channels,), (s.channels + 1, *BAD_NUMBERS))
    found = s.or_odd((2, 1, 3, np.int64(4)), BAD_NUMBERS)
    s.channels = int(found) if isinstance(found, int | np.integer) and not isinstance(found, bool) else 0
    return found


def _window(s: State, shared: str) -> dict[str, Any]:
    """Filter, strides and padding of a layer on images, as `shared` says: `"keep"` does not change the image."""
    options = {"padding": s.or_odd(("SAME", "CIRCULAR") if shared == "keep" else ("SAME", "VALID"), BAD_PADDINGS)}
    if shared != "keep" and s.pick(range(4)) == 3:
        options["strides"] = s.or_odd(((1, 2), (2, 1), [2, 2]), BAD_SIDES)
    return options


def _filter(s: State) -> Any:
    return s.or_odd(((2, 2), (3, 3), (1, 1), (1, 2), [3, 2]), (*BAD_SIDES, (7, 7)))


def _group_window(s: State) -> dict[str, Any]:
    if s.pick(range(3)):
        return {"filter_shape": s.or_odd(((3, 3), (1, 1), (3, 1)), ((2, 2), (2, 3), *BAD_SIDES))}
    return {"filter_shape": s.or_odd(((2, 2), (1, 1)), ((2, 3), *BAD_SIDES)), "padding": "VALID"}


def nonlinearity(s: State) -> Call:
    """A pointwise layer."""
    kind = s.pick(("Relu", "Erf", "Relu", "LayerNorm", "Activation"))
    if kind != "Activation":
        return call(kind)
    if s.strange():
        return call(kind, s.pick(("not a function", 3, None)), s.pick((12, 0, 1000, 1.5)))
    return call(kind, s.pick(tuple(FUNCTIONS)))


def weights(s: State, keep: bool = False) -> Call:
    """A layer with weights that fits the domain."""
    width = _channels(s, keep)
    if s.domain == "pixels" and s.pick(range(4)):
        kind = s.pick(("Conv", "Conv", "LocallyConnected"))
        return call(kind, width, _filter(s), **_window(s, "keep" if keep else ""), **_weights(s))
    if s.domain in ("plane", "finite") and s.pick(range(4)):
        group = s.or_odd((s.group,), (call("cyclic", 2), call("dihedral", 3), 4, None))
        window = _group_window(s) if s.domain == "plane" else {}
        if keep and "padding" in window:
            window = {"filter_shape": (1, 1)}
        options = window | _weights(s)
        if s.pick(range(3)) == 2:
            options["support"] = s.or_odd(((0,), (0, 1)), ((0, 0), (99,), (-1,), (), 1, (0.5,)))
        return call("GroupConv", group, width, **options)
    if s.domain == "rotations" and s.pick(range(4)):
        return call("SO3Conv", width, **_weights(s))
    return call("Dense", width, **_weights(s))


def start(s: State) -> None:
    """The first layer, which brings the input where the family lives."""
    if s.domain == "plane":
        s.layers.append(call("Lift", s.group, _channels(s), **_group_window(s), **_weights(s)))
    elif s.domain == "finite":
        options = _weights(s)
        if s.pick(range(3)) == 2:
            options["support"] = s.or_odd(((0,), (0, 1), [1, 0]), ((1, 1), (99,), (-1,), (), 3))
        s.layers.append(call("Lift", s.group, _channels(s), **options))
    elif s.domain == "rotations":
        options = _weights(s) | {"quadrature": s.or_odd((2, 3), (0, 1, 2.5, "3"))}
        if s.pick(range(3)) == 2:
            options["bandwidth"] = s.or_odd((1, 2), (0, -1, 1.5, "2", 9))
        s.layers.append(call("LiftS2", _channels(s), **options))
    else:
        return
    s.gaussian = True


def body(s: State, steps: int, depth: int = 0) -> None:
    """Layers that keep the domain."""
    for _ in range(steps):
        if s.strange():
            s.layers.append(any_layer(s))
            s.gaussian = False
            continue
        if s.gaussian and s.pick(range(5)) < 3:
            s.layers.append(nonlinearity(s))
            s.gaussian = s.layers[-1].name == "LayerNorm" and s.strange()
            continue
        kind = s.pick(range(8))
        if kind == 6 and depth == 0 and s.layers:
            s.layers.append(residual(s))
            s.gaussian = False
        elif kind == 7 and depth == 0:
            inner = State(s.c, s.domain, s.channels, s.odd, s.group, s.gaussian)
            body(inner, 1 + s.pick(range(2)), depth + 1)
            s.layers.append(call("Sequential", *inner.layers))
            s.channels, s.gaussian = inner.channels, inner.gaussian
        else:
            s.layers.append(weights(s))
            s.gaussian = True


def residual(s: State) -> Call:
    """A branch that keeps the shape and ends with weights."""
    front = [nonlinearity(s)] if s.gaussian else []
    end = [] if s.strange() else [weights(s, keep=True)]
    return call("Residual", *front, *end)


def any_layer(s: State) -> Call:
    """Some layer with settings of its own that are right, whatever stands before it."""
    makers = {
        "Dense": lambda: call("Dense", 2),
        "Conv": lambda: call("Conv", 2, (2, 2)),
        "LocallyConnected": lambda: call("LocallyConnected", 2, (3, 1)),
        "AvgPool": lambda: call("AvgPool", s.or_odd(((2, 2), (1, 2)), (*BAD_SIDES, (9, 9)))),
        "GlobalAvgPool": lambda: call("GlobalAvgPool"),
        "Flatten": lambda: call("Flatten"),
        "Lift": lambda: call("Lift", call("cyclic", s.pick((2, 3, 4))), 2),
        "Lift on the plane": lambda: call("Lift", call("cyclic", s.pick((2, 3, 4))), 2, (3, 3)),
        "GroupConv": lambda: call("GroupConv", call("cyclic", 2), 2),
        "GroupPool": lambda: call("GroupPool"),
        "LiftS2": lambda: call("LiftS2", 2, quadrature=2),
        "SO3Conv": lambda: call("SO3Conv", 2),
        "SO3Pool": lambda: call("SO3Pool"),
        "Relu": lambda: call("Relu"),
        "LayerNorm": lambda: call("LayerNorm"),
        "Residual": lambda: call("Residual", *([call("Relu")] if s.pick(range(2)) else [])),
        "Sequential": lambda: call("Sequential"),
        "not a layer": lambda: call("not a layer"),
    }
    return makers[s.pick(tuple(makers))]()


def end(s: State) -> None:
    """The layer that leaves a vector, and a head."""
    if s.strange():
        return
    if s.domain == "pixels":
        kind = s.pick(("Flatten", "GlobalAvgPool", "AvgPool", "GlobalAvgPool"))
        if kind == "AvgPool":
            options = {"strides": (1, 1)} if s.pick(range(2)) else {}
            s.layers.append(call("AvgPool", s.or_odd(((2, 2), (1, 2), (2, 1)), (*BAD_SIDES, (9, 9))), **options))
            kind = "Flatten"
        s.layers.append(call(kind))
        s.channels = 0
    elif s.domain != "vectors":
        s.layers.append(call("SO3Pool" if s.domain == "rotations" else "GroupPool"))
    s.domain = "vectors"
    if s.pick(range(4)):
        s.layers.append(weights(s))
        if s.pick(range(2)):
            s.layers.extend([nonlinearity(s), weights(s)])


def rand_group(s: State) -> Call:
    """A group on a finite set, now and then a table that is none."""
    if s.strange():
        bad = [call("table", name, 0) for name in ("loop", "no identity", "repeated", "oblong")]
        return s.pick((*bad, call("cyclic", 0), call("dihedral", 2.5), call("cyclic", "4")))
    if s.pick(range(2)):
        return call(s.pick(("cyclic", "dihedral")), s.pick((2, 3, 1, 4)))
    return call("table", s.pick(("Klein", "Q8", "S3", "C5")), s.pick(range(4)))


FAMILIES = ("vectors", "pixels", "pixels", "pixels", "plane", "finite", "finite", "rotations")


def rand_case(c: Chooser, families: Sequence[str] = FAMILIES) -> Case:
    """A case: two of five fit together by design, the others may have oddities.

    Args:
        c: where the choices come from.
        families: domains of the networks, some of `FAMILIES`.
    """
    domain = c.pick(families)
    odd = c.pick((0, 0, 5, 10, 15))
    channels = c.pick((1, 2, 3))
    s = State(c, domain, channels, odd)
    shape: tuple[int, ...] = (c.pick((3, 1, 5)),)
    if domain == "plane":
        s.group = call(s.pick(("cyclic", "dihedral")), s.or_odd((2, 4, 1), (3, 8)))
        size = s.pick((3, 2, 4) if s.group.name == "cyclic" else (3, 2))
        shape = (size, s.or_odd((size,), (size + 1,)), channels)
    elif domain == "pixels":
        shape = (c.pick((4, 3, 2, 1, 5)), c.pick((3, 4, 5, 1)), channels)
    elif domain == "rotations":
        shape = s.or_odd(((4, 3, channels), (2, 1, channels)), ((3, 3, channels), (4, 4, channels), (6, 5, channels)))
    elif domain == "finite":
        shape, s.group = _finite_set(s)
    start(s)
    if domain == "finite" and len(shape) == 1 and s.layers and isinstance(s.group, Call):
        s.layers[0], shape = _acted_on(s, s.layers[0], shape)
    body(s, 1 + c.pick(range(3 if domain in ("plane", "rotations") else 4)))
    end(s)
    if s.strange():
        s.layers.insert(s.pick(range(len(s.layers) + 1)), any_layer(s))
    sizes = c.pick(((3, None), (4, None), (6, None), (2, 3), (1, 1), (1, None), (7, None)))
    dtype = c.pick((*["float64"] * 5, *["float32"] * 4, "int32", "uint8", "float16"))
    kinds = c.pick((("nngp", "ntk"), ("nngp", "ntk"), ("ntk",), ("nngp",), ("ntk", "nngp")))
    spoilt = s.pick(SPOILT) if s.strange() else ""
    return Case(tuple(s.layers), shape, dtype, sizes, kinds, c.pick((*[None] * 9, 3)), spoilt)


def _finite_set(s: State) -> tuple[tuple[int, ...], Call]:
    group = rand_group(s)
    try:
        order = group.make().order
    except ValueError:
        order = 3
    return (order,), group


def _acted_on(s: State, lift: Call, shape: tuple[int, ...]) -> tuple[Call, tuple[int, ...]]:
    """The lift with an action of another kind, and the inputs that it moves."""
    kind = s.pick(("regular", "regular", "trivial", "turns"))
    if kind == "regular":
        return lift, s.or_odd((shape,), ((shape[0] + 1,), (shape[0], 1, 1)))
    if kind == "turns" and s.group.name == "table":
        return lift, shape
    size = 2 if kind == "turns" else s.pick((3, 2))
    name = "turns" if kind == "turns" else "TrivialAction"
    return Call(lift.name, lift.args, (*lift.options, ("action", call(name, s.group)))), (size,)

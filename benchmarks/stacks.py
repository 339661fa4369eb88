"""Calls of `eq.gram` as data: stacks of layers, inputs and options, whether they fit together or not.

A stack whose settings are refused when a layer is made is a case like any other. `benchmarks.draw` makes random ones.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import eqbook as eq


@dataclass(frozen=True)
class Call:
    """Something to be made by a call: a layer, a group, an action.

    Attributes:
        name: of the maker, an entry of `MAKERS`.
        args: its arguments, among which there may be other calls.
        options: its arguments by name.
    """

    name: str
    args: tuple = ()
    options: tuple[tuple[str, Any], ...] = ()

    def make(self) -> Any:
        """Make it; a `ValueError` of the maker passes through."""
        options = {name: _made(value) for name, value in self.options}
        return MAKERS[self.name](*map(_made, self.args), **options)

    def names(self) -> list[str]:
        """Names of the makers in this call."""
        inner = [*self.args, *(value for _, value in self.options)]
        return [self.name, *(name for value in inner if isinstance(value, Call) for name in value.names())]

    def __repr__(self) -> str:
        options = [f"{name}={value!r}" for name, value in self.options]
        return f"{self.name}({', '.join([*map(repr, self.args), *options])})"


def _made(value: Any) -> Any:
    return value.make() if isinstance(value, Call) else value


def call(name: str, *args: Any, **options: Any) -> Call:
    """A `Call` in the form of one."""
    return Call(name, args, tuple(options.items()))


def _table(name: str, shuffle: int) -> eq.groups.FiniteGroup:
    """A group from a Cayley table whose elements are numbered in another order, so that 0 need not be the identity."""
    table = np.array(TABLES[name])
    if shuffle:
        order = np.random.default_rng(shuffle).permutation(len(table))
        table = np.argsort(order)[table[np.ix_(order, order)]]
    return eq.groups.FiniteGroup(table)


def _quaternions() -> list[list[int]]:
    """1, i, j, k and their negatives, by the products of the first four."""
    units = [[(0, 1), (1, 1), (2, 1), (3, 1)], [(1, 1), (0, -1), (3, 1), (2, -1)]]
    units += [[(2, 1), (3, -1), (0, -1), (1, 1)], [(3, 1), (2, 1), (1, -1), (0, -1)]]
    signed = [(u, s) for s in (1, -1) for u in range(4)]
    return [
        [signed.index((units[a][b][0], units[a][b][1] * s * t)) for b, t in signed] for a, s in signed
    ]  # fmt: skip


TABLES = {
    "Klein": [[i ^ j for j in range(4)] for i in range(4)],
    "Q8": _quaternions(),
    "S3": eq.dihedral(3).table.tolist(),
    "C5": eq.cyclic(5).table.tolist(),
    # Not groups: a loop of order 5 that is not associative, no neutral element, not a Latin square, not square.
    "loop": [[0, 1, 2, 3, 4], [1, 0, 3, 4, 2], [2, 4, 0, 1, 3], [3, 2, 4, 0, 1], [4, 3, 1, 2, 0]],
    "no identity": [[1, 0, 2], [2, 1, 0], [0, 2, 1]],
    "repeated": [[0, 1], [1, 1]],
    "oblong": [[0, 1, 2], [1, 2, 0]],
}


def _turns(group: eq.groups.FiniteGroup) -> eq.groups.MatrixAction:
    """`cyclic` and `dihedral` on the plane; other groups get matrices that do not multiply as they do."""
    n = group.order // 2 if "s" in group.names[-1] else group.order
    angles = 2 * np.pi * np.arange(n) / n
    turns = np.array([[[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]] for a in angles])
    return eq.groups.MatrixAction(group, turns if n == group.order else np.concatenate([turns, turns * [1, -1]]))


def leaky(x: jax.Array) -> jax.Array:
    """A function with a kink, whose dual is a quadrature."""
    return jnp.where(x > 0, x, 0.1 * x)


LAYERS = (
    "Activation", "AvgPool", "Conv", "Dense", "Erf", "Flatten", "GlobalAvgPool", "GroupConv", "GroupPool", "LayerNorm",
    "Lift", "LiftS2", "LocallyConnected", "Relu", "Residual", "SO3Conv", "SO3Pool", "Sequential",
)  # fmt: skip
FUNCTIONS: dict[str, Callable] = {"tanh": jnp.tanh, "sin": jnp.sin, "leaky": leaky, "gelu": jax.nn.gelu}
MAKERS: dict[str, Callable] = {name: getattr(eq, name) for name in (*LAYERS, "cyclic", "dihedral")} | {
    "Activation": lambda name, nodes=12: eq.Activation(FUNCTIONS.get(name, name), nodes),
    "table": _table,
    "RegularAction": eq.groups.RegularAction,
    "TrivialAction": eq.groups.TrivialAction,
    "turns": _turns,
    "not a layer": lambda: eq.Relu,
}


@dataclass(frozen=True)
class Case:
    """One call of `eq.gram`.

    Attributes:
        layers: the stack.
        shape: of one input.
        dtype: of the inputs.
        sizes: numbers of inputs in the first batch and in the second; `None` for no second batch.
        kinds: of Gram matrices.
        tile: inputs on each side of a tile, or `None`.
        spoilt: what is wrong with the inputs, or an empty string.
    """

    layers: tuple[Call, ...]
    shape: tuple[int, ...]
    dtype: str = "float64"
    sizes: tuple[int, int | None] = (4, None)
    kinds: tuple[str, ...] = ("nngp", "ntk")
    tile: int | None = None
    spoilt: str = ""

    def net(self) -> eq.Sequential:
        """The network; a `ValueError` of a layer that cannot be made passes through."""
        return eq.Sequential(*(layer.make() for layer in self.layers))

    def names(self) -> set[str]:
        """Layers in the stack."""
        return {name for layer in self.layers for name in layer.names()} & set(LAYERS)

    def inputs(self) -> tuple[np.ndarray, np.ndarray | None]:
        """The batches: noise, and inputs that are hard in one way each."""
        n1, n2 = self.sizes
        x = hard_inputs(self.shape, n1 + (n2 or 0))
        x = np.abs(8 * x).astype(self.dtype) if np.dtype(self.dtype).kind in "iu" else x.astype(self.dtype)
        x1, x2 = x[:n1], None if n2 is None else x[n1:]
        if self.spoilt == "nan":
            x1 = x1.astype(float if x1.dtype.kind in "iu" else x1.dtype)  # integers have no NaN
            x1.flat[-1] = np.nan
        elif self.spoilt == "inf":
            x2 = np.full(x1.shape, np.inf, float if x1.dtype.kind in "iu" else x1.dtype)
        elif self.spoilt == "empty":
            x1 = x1[:0]
        elif self.spoilt == "no batch axis":
            x1 = x1[0]
        elif self.spoilt == "one more axis":
            x1 = x1[None]
        elif self.spoilt == "other features":
            x2 = np.concatenate([x1, x1], -1)
        elif self.spoilt == "text":
            x1 = x1.astype(str)
        elif self.spoilt == "objects":
            x1 = x1.astype(object)
        elif self.spoilt == "complex":
            x1 = x1.astype(complex)
        return x1, x2


SPOILT = ("nan", "inf", "empty", "no batch axis", "one more axis", "other features", "text", "objects", "complex")


def hard_inputs(shape: tuple[int, ...], n: int) -> np.ndarray:
    """Noise twice; zeros; a mixture; a constant; zeros but for one entry; the first again; `[n, *shape]`.

    Entries are multiples of 1/32, so that every floating dtype holds them.
    """
    rng = np.random.default_rng(0)
    x = np.round(16 * rng.normal(size=(max(n, 7), *shape))) / 16
    x[3] = 0.5 * x[0] - x[1]
    x[2], x[4], x[5], x[6] = 0, 1, 0, x[0]
    x[5].flat[-1] = 2
    return x[:n]

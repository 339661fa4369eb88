"""Finite groups from their Cayley tables."""

import operator
from functools import cached_property

import numpy as np
from jaxtyping import Int

from eqbook._checks import check_known, check_rectangular
from eqbook._shown import shown

MOST_NAMES = 16  # of elements that a group shows


class FiniteGroup:
    r"""A finite group; elements are the indices $0, \dots, |G| - 1$.

    `table[g, h]` is the index of the product $g h$. The identity and the inverses are read off the table.

    Args:
        table: Cayley table, integers, `[order, order]`.
        names: one name for each element; the index if not given.

    Raises:
        ValueError: if the table is not that of a group; the message names the axiom that fails. Also if it is abstract
            (inside `jit`).
    """

    def __init__(self, table: Int[np.ndarray, "order order"], names: tuple[str, ...] | None = None) -> None:
        check_known("table", table)
        check_rectangular("table", table)
        self.table = _check_table(np.asarray(table))
        self.table.setflags(write=False)
        self.order = len(self.table)
        names = tuple(str(g) for g in range(self.order)) if names is None else names
        if not isinstance(names, tuple | list) or len(names) != self.order:
            got = len(names) if isinstance(names, tuple | list) else shown(names)
            raise ValueError(f"`names`: expected {self.order} names, got {got}.")
        if not all(isinstance(name, str) for name in names):
            raise ValueError(f"`names`: expected strings, got {shown(names)}.")
        self.names = tuple(names)

    @cached_property
    def identity(self) -> int:
        """Index of the neutral element."""
        return _identity(self.table)

    @cached_property
    def inverse(self) -> Int[np.ndarray, " order"]:
        r"""`inverse[g]` is the index of $g^{-1}$."""
        # 32 bits: JAX remembers an index of 64 that it has seen, and refuses it when those types are off again.
        inverse = np.argmax(self.table == self.identity, axis=1).astype(np.int32)
        inverse.setflags(write=False)
        return inverse

    @property
    def elements(self) -> range:
        """The indices of all elements."""
        return range(self.order)

    @property
    def is_abelian(self) -> bool:
        """Whether all elements commute."""
        return bool((self.table == self.table.T).all())

    def check_element(self, g: int) -> int:
        """Return `g` if it is an element.

        Raises:
            ValueError: if it is not.
        """
        try:
            element = operator.index(g)  # integers of any kind, and no 1.5
        except TypeError:
            element = -1
        if not 0 <= element < self.order:
            raise ValueError(f"`g`: expected an element 0 .. {self.order - 1}, got {shown(g)}.")
        return element

    def __eq__(self, other: object) -> bool:
        # Names count: cyclic(2) and dihedral(1) share a table, but one turns and the other mirrors.
        return isinstance(other, FiniteGroup) and self.names == other.names and np.array_equal(self.table, other.table)

    def __hash__(self) -> int:
        return hash((self.names, self.table.tobytes()))

    def __repr__(self) -> str:
        names = f"({', '.join(map(repr, self.names[:MOST_NAMES]))}, ...)" if self.order > MOST_NAMES else self.names
        return f"FiniteGroup(order={self.order}, names={names})"


def check_group(name: str, group: object) -> None:
    """Raise unless `group` is a `FiniteGroup`.

    Raises:
        ValueError: naming the argument.
    """
    if not isinstance(group, FiniteGroup):
        raise ValueError(f"`{name}`: expected a group such as eq.cyclic(4), got {shown(group)}.")


def _identity(table: np.ndarray) -> int:
    everything = np.arange(len(table))
    neutral = (table == everything).all(axis=1) & (table.T == everything).all(axis=1)
    if not neutral.any():
        raise ValueError("`table`: expected a Cayley table, got one without a neutral element.")
    return int(np.argmax(neutral))


def _check_table(table: np.ndarray) -> np.ndarray:
    n = len(table) if table.ndim else 0
    if table.ndim != 2 or table.shape != (n, n) or n == 0 or not np.issubdtype(table.dtype, np.integer):
        raise ValueError(
            f"`table`: expected a square array of integers [order, order], "
            f"got shape {table.shape}, dtype {table.dtype}."
        )
    if table.min() < 0 or table.max() >= n:
        raise ValueError(f"`table`: expected entries 0 .. {n - 1}, got {table.min()} .. {table.max()}.")
    if not (np.sort(table, axis=0).T == np.arange(n)).all() or not (np.sort(table, axis=1) == np.arange(n)).all():
        raise ValueError("`table`: expected each element once in every row and column, got a repeated one.")
    _identity(table)
    for g in range(n):  # one g at a time: n^2 memory, not n^3
        if not np.array_equal(table[table[g]], table[g][table]):
            raise ValueError(f"`table`: expected an associative product, got (g h) k != g (h k) for g = {g}.")
    return table.astype(int)  # one dtype for all: equal tables have equal hashes, and small integers would overflow

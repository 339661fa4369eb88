"""Symmetry groups of the regular polygon: rotations, and rotations with reflections."""

import numpy as np

from eqbook._checks import check_int
from eqbook.groups.finite import FiniteGroup

_MOST = 10_000  # elements: a table of 0.8 GB, and 10^12 triples to check


def cyclic(n: int) -> FiniteGroup:
    r"""The cyclic group $C_n$; element $k$ is the rotation by $2\pi k / n$.

    Args:
        n: order of the group.

    Raises:
        ValueError: if `n` is not a positive integer, or too large for a table.
    """
    n = _check_size(n, 1)
    k = np.arange(n)
    return FiniteGroup((k[:, None] + k) % n, tuple("e" if i == 0 else f"r{i}" for i in k))


def dihedral(n: int) -> FiniteGroup:
    r"""The dihedral group $D_n$ of order $2n$; element $k < n$ is $r^k$, element $n + k$ is $r^k s$.

    $r$ is the rotation by $2\pi / n$, $s$ a reflection, and $s r = r^{-1} s$.

    Args:
        n: number of rotations.

    Raises:
        ValueError: if `n` is not a positive integer, or too large for a table.
    """
    n = _check_size(n, 2)
    k, flip = np.arange(2 * n) % n, np.arange(2 * n) // n
    # r^a s^p r^b s^q = r^(a + b or a - b) s^(p + q)
    rotation = (k[:, None] + np.where(flip[:, None], -k, k)) % n
    table = rotation + n * (flip[:, None] ^ flip)
    names = [("e" if i == 0 else f"r{i}") for i in range(n)] + [("s" if i == 0 else f"r{i}s") for i in range(n)]
    return FiniteGroup(table, tuple(names))


def _check_size(n: int, each: int) -> int:
    """`n` as Python's integer, if there is a table of a group with `each` elements for each rotation."""
    n = check_int("n", n, 1)
    if n > _MOST // each:
        raise ValueError(f"`n`: expected at most {_MOST // each}, since the Cayley table grows as n^2, got {n}.")
    return n

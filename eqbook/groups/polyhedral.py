r"""Rotation groups of the tetrahedron, the cube and the icosahedron: the finite subgroups of SO(3) that fix no axis.

Their matrices, in the coordinates chosen here, have entries $(a + b \varphi) / 2$ with integers $a, b$ and the golden
ratio $\varphi^2 = \varphi + 1$. Products are computed with these integers, so that the groups are closed exactly and
their Cayley tables are compared without a tolerance.
"""

import functools

import numpy as np
from jaxtyping import Float64, Int

from eqbook.groups.finite import FiniteGroup

Rotations = tuple[Float64[np.ndarray, "order 3 3"], FiniteGroup]

# (a, b) for the matrix (a + b phi) / 2.
_ONE = (2 * np.eye(3, dtype=int), np.zeros((3, 3), int))
# About (1, 1, 1) by 120 degrees, about z by 180 and by 90, about the corner (0, 1, phi) of an icosahedron by 72.
_THIRD = (2 * np.array([[0, 0, 1], [1, 0, 0], [0, 1, 0]]), _ONE[1])
_HALF = (2 * np.diag([-1, -1, 1]), _ONE[1])
_QUARTER = (2 * np.array([[0, -1, 0], [1, 0, 0], [0, 0, 1]]), _ONE[1])
_FIFTH = (np.array([[-1, 0, 1], [0, 1, -1], [-1, -1, 0]]), np.array([[1, -1, 0], [1, 0, 1], [0, 1, 1]]))


def tetrahedron_rotations() -> Rotations:
    """The 12 rotations of the tetrahedron with corners (1, 1, 1), (1, -1, -1), (-1, 1, -1), (-1, -1, 1).

    They are rotations of the cube of `cube_rotations` and of the icosahedron of `icosahedron_rotations` as well.

    Returns:
        Matrices `[12, 3, 3]`, the identity first, and the group with the same numbering.
    """
    return _closure("third", "half")


def cube_rotations() -> Rotations:
    """The 24 rotations of the cube with faces orthogonal to the axes: the signed permutations of determinant 1.

    Returns:
        Matrices `[24, 3, 3]`, the identity first, and the group with the same numbering.
    """
    return _closure("third", "quarter")


def icosahedron_rotations() -> Rotations:
    r"""The 60 rotations of the icosahedron with corners $(0, \pm 1, \pm \varphi)$ and their cyclic permutations.

    Returns:
        Matrices `[60, 3, 3]`, the identity first, and the group with the same numbering.
    """
    return _closure("third", "half", "fifth")


POLYHEDRA = {"tetrahedron": tetrahedron_rotations, "cube": cube_rotations, "icosahedron": icosahedron_rotations}


@functools.cache
def _closure(*names: str) -> Rotations:
    """All products of generators, breadth first from the identity."""
    generators = [{"third": _THIRD, "half": _HALF, "quarter": _QUARTER, "fifth": _FIFTH}[name] for name in names]
    elements, index = [_ONE], {_key(_ONE): 0}
    for element in elements:  # grows while it is read
        for generator in generators:
            product = _product(generator, element)
            if index.setdefault(_key(product), len(elements)) == len(elements):
                elements.append(product)
    table = np.array([[index[_key(_product(g, h))] for h in elements] for g in elements])
    matrices = np.array([(a + b * (1 + np.sqrt(5)) / 2) / 2 for a, b in elements])
    matrices.setflags(write=False)
    return matrices, FiniteGroup(table, ("e", *(f"g{i}" for i in range(1, len(elements)))))


Exact = tuple[Int[np.ndarray, "3 3"], Int[np.ndarray, "3 3"]]


def _product(left: Exact, right: Exact) -> Exact:
    """(a + b phi) / 2 times (c + d phi) / 2; in a closed set the halves below are integers."""
    (a, b), (c, d) = left, right
    return (a @ c + b @ d) // 2, (a @ d + b @ c + b @ d) // 2


def _key(element: Exact) -> bytes:
    return np.stack(element).tobytes()

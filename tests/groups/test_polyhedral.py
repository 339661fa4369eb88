"""Rotations of the tetrahedron, the cube and the icosahedron: exact groups, and those of the solids named."""

from itertools import permutations, product

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from eqbook.groups import MatrixAction, cube_rotations, icosahedron_rotations, irreps, tetrahedron_rotations
from eqbook.groups.polyhedral import _FIFTH, _HALF, _QUARTER, _THIRD, _product
from eqbook.testing import relative_error, tolerance

GOLDEN = (1 + np.sqrt(5)) / 2
BOUND = tolerance(float, 3)
ICOSAHEDRON = [np.roll((0, a, b * GOLDEN), k) for a, b in product((1, -1), repeat=2) for k in range(3)]
# Maker, corners of the solid, number of rotations of each order, dimensions of the irreducible representations.
SOLIDS = {
    "tetrahedron": (
        tetrahedron_rotations,
        [(1, 1, 1), (1, -1, -1), (-1, 1, -1), (-1, -1, 1)],
        {1: 1, 2: 3, 3: 8},
        [1, 1, 1, 3],
    ),
    "cube": (cube_rotations, list(product((1, -1), repeat=3)), {1: 1, 2: 9, 3: 8, 4: 6}, [1, 1, 2, 3, 3]),
    "icosahedron": (icosahedron_rotations, ICOSAHEDRON, {1: 1, 2: 15, 3: 20, 5: 24}, [1, 3, 3, 4, 5]),
}


@pytest.fixture(params=SOLIDS)
def solid(request):
    return SOLIDS[request.param]


def test_order_and_conjugacy(solid):
    """As many elements of each order as the solid has."""
    make, _, orders, _ = solid
    matrices, group = make()
    assert len(matrices) == group.order == sum(orders.values()) and group.identity == 0

    def order(g):
        power, count = g, 1
        while power != group.identity:
            power, count = int(group.table[power, g]), count + 1
        return count

    found = [order(g) for g in group.elements]
    assert {n: found.count(n) for n in sorted(set(found))} == orders


def test_matrices_are_rotations_and_multiply_as_the_table(solid):
    matrices, group = solid[0]()
    np.testing.assert_array_equal(matrices[0], np.eye(3))
    assert np.abs(matrices @ matrices.transpose(0, 2, 1) - np.eye(3)).max() < BOUND
    assert np.abs(np.linalg.det(matrices) - 1).max() < BOUND
    products = np.einsum("gij,hjk->ghik", matrices, matrices)
    assert np.abs(products - matrices[group.table]).max() < BOUND
    distances = np.linalg.norm(matrices[:, None] - matrices, axis=(2, 3)) + 9 * np.eye(group.order)
    assert distances.min() > 0.8, "all elements differ"
    MatrixAction(group, matrices)


def test_corners_are_permuted(solid):
    make, corners, _, _ = solid
    matrices, _ = make()
    corners = np.array(corners, float)
    for matrix in matrices:
        distance = np.linalg.norm((corners @ matrix.T)[:, None] - corners, axis=-1)
        assert (np.sort(distance, axis=1)[:, 0] < 10 * BOUND).all() and len(set(distance.argmin(1))) == len(corners)


def test_the_cube_turns_by_signed_permutations():
    matrices, _ = cube_rotations()
    signed = [
        np.array(signs)[:, None] * np.eye(3)[list(p)]
        for p in permutations(range(3))
        for signs in product((1, -1), repeat=3)
    ]
    wanted = {matrix.tobytes() for matrix in np.array(signed) + 0.0 if np.linalg.det(matrix) > 0}
    assert {(matrix + 0.0).tobytes() for matrix in matrices} == wanted  # + 0.0: no negative zeros


def test_the_tetrahedron_is_in_both():
    small, _ = tetrahedron_rotations()
    for make in (cube_rotations, icosahedron_rotations):
        large, _ = make()
        assert all(np.abs(large - matrix).max((1, 2)).min() < BOUND for matrix in small)


def test_against_scipy(solid):
    """The same group as that of an independent program, up to the choice of axes: equal distributions of angles."""
    matrices, group = solid[0]()
    theirs = Rotation.create_group({12: "T", 24: "O", 60: "I"}[group.order]).as_matrix()
    angles = [np.sort(np.einsum("gii->g", m)) for m in (matrices, theirs)]
    assert relative_error(*angles) < 10 * BOUND


def test_dimensions_of_irreducible_representations(solid):
    make, _, _, dimensions = solid
    assert sorted(len(irrep.matrices[0]) for irrep in irreps(make()[1])) == dimensions


@pytest.mark.parametrize("generators", [(_THIRD, _HALF), (_THIRD, _QUARTER), (_THIRD, _HALF, _FIFTH)])
def test_products_have_no_remainder(generators):
    """Twice a product is even, entry by entry: nothing is lost by the division."""
    for a, b in generators:
        for c, d in generators:
            assert not ((a @ c + b @ d) % 2).any() and not ((a @ d + b @ c + b @ d) % 2).any()
            whole, golden = _product((a, b), (c, d))
            expected = (a + b * GOLDEN) @ (c + d * GOLDEN) / 4
            assert relative_error((whole + golden * GOLDEN) / 2, expected) < BOUND


def test_nobody_changes_the_matrices():
    with pytest.raises(ValueError, match="read-only"):
        cube_rotations()[0][0] = 0

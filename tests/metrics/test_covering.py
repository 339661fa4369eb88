"""Covering radii: by a fine grid on the circle, by known polytopes, and by the convex hull of quaternions."""

import jax
import numpy as np
import pytest
from scipy.spatial import ConvexHull
from scipy.spatial.transform import Rotation

from eqbook.metrics import cyclic_covering_radius, so3_covering_radius
from eqbook.metrics.covering import rotations_to_quaternions
from eqbook.testing import tolerance


def rotation(angle):
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


@pytest.mark.parametrize(("n", "frequency"), [(n, 1) for n in (1, 2, 3, 4, 8, 12, 16)] + [(3, 3), (4, 3), (12, 3)])
def test_cyclic_by_a_grid_of_the_circle(n, frequency):
    """The grid holds the angles halfway between elements, so that the maximum is met."""
    elements = 2 * np.pi * np.arange(n) / n
    grid = 2 * np.pi * np.arange(8 * n) / (8 * n)
    blocks = range(1, frequency + 1)  # a direct sum: the norm is the largest of its blocks
    distance = np.array(
        [min(max(np.linalg.norm(rotation(m * g) - rotation(m * b), 2) for m in blocks) for b in elements) for g in grid]
    )
    np.testing.assert_allclose(cyclic_covering_radius(n, frequency), distance.max(), rtol=tolerance(float, 4))


def test_cyclic_values_of_the_text():
    np.testing.assert_allclose(
        [cyclic_covering_radius(n) for n in (4, 8, 12, 16)], [0.765, 0.390, 0.261, 0.196], atol=5e-4
    )


def inradius(cosine):
    """Covering radius from the distance of a polytope's facets to the origin."""
    return 2 * np.sqrt(1 - cosine**2)


# D2 is the 16-cell, T the 24-cell, I the 600-cell: cosine = inradius over circumradius of the polytope in R^4.
GOLDEN = (1 + np.sqrt(5)) / 2
POLYTOPES = {"D2": 1 / 2, "T": 1 / np.sqrt(2), "I": GOLDEN**2 / np.sqrt(8)}


@pytest.mark.parametrize("name", POLYTOPES)
def test_subgroups_that_are_regular_polytopes(name):
    found = so3_covering_radius(Rotation.create_group(name).as_matrix())
    assert found.lower <= inradius(POLYTOPES[name]) * (1 + tolerance(float)) and found.upper >= inradius(
        POLYTOPES[name]
    )
    assert found.upper - found.lower <= 1e-3


def by_hull(matrices):
    q = rotations_to_quaternions(matrices)
    return inradius(-ConvexHull(np.concatenate([q, -q])).equations[:, -1].max())


@pytest.mark.parametrize(
    "matrices",
    [
        Rotation.create_group("O").as_matrix(),
        Rotation.create_group("D3").as_matrix(),
        Rotation.random(7, random_state=1).as_matrix(),
        Rotation.random(40, random_state=2).as_matrix(),
    ],
    ids=["O", "D3", "random-7", "random-40"],
)
@pytest.mark.parametrize("tol", [1e-2, 1e-4])
def test_any_subset_against_the_convex_hull(matrices, tol):
    found = so3_covering_radius(matrices, tol)
    exact = by_hull(matrices)
    assert found.lower <= exact * (1 + tolerance(float, 40)) and exact <= found.upper * (1 + tolerance(float, 40))
    assert found.upper - found.lower <= tol


@pytest.mark.parametrize(("number", "seed", "tol"), [(62, 532, 0.5), (44, 1294, 0.2), (50, 820, 0.1)])
def test_points_of_cells_that_were_dropped_are_within_the_radius(number, seed, tol):
    """The furthest rotation lies in a cell that was dropped before the bound became sharp."""
    matrices = Rotation.random(number, random_state=np.random.default_rng(seed)).as_matrix()
    found, exact = so3_covering_radius(matrices, tol), by_hull(matrices)
    assert found.lower <= exact <= found.upper <= found.lower + tol


def test_random_rotations_are_within_the_radius():
    matrices = Rotation.random(10, random_state=3).as_matrix()
    others = Rotation.random(2000, random_state=4).as_matrix()
    nearest = np.linalg.norm(others[:, None] - matrices, ord=2, axis=(-2, -1)).min(1)
    found = so3_covering_radius(matrices)
    assert nearest.max() <= found.upper
    assert nearest.max() > 0.8 * found.lower  # 2,000 random rotations come near the furthest one


def test_too_few_cells_still_give_bounds():
    matrices = Rotation.random(40, random_state=2).as_matrix()
    found, exact = so3_covering_radius(matrices, 1e-6, max_cells=20), by_hull(matrices)
    assert found.lower <= exact <= found.upper and found.upper - found.lower > 1e-6


def test_the_identity_alone_leaves_half_turns_opposite():
    found = so3_covering_radius(np.eye(3)[None])
    np.testing.assert_allclose([found.lower, found.upper], 2, rtol=tolerance(float))


def test_quaternions_give_the_rotation_back():
    R = np.concatenate([Rotation.random(50, random_state=0).as_matrix(), Rotation.create_group("O").as_matrix()])
    q = rotations_to_quaternions(R)
    np.testing.assert_allclose(Rotation.from_quat(q[:, [1, 2, 3, 0]]).as_matrix(), R, atol=tolerance(float, 4))


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: cyclic_covering_radius(0), "n"),
        (lambda: cyclic_covering_radius(4, 5), "frequency"),
        (lambda: cyclic_covering_radius(4, 0), "frequency"),
        (lambda: so3_covering_radius(np.eye(3)), "rotations"),
        (lambda: so3_covering_radius(np.zeros((0, 3, 3))), "rotations"),
        (lambda: so3_covering_radius(-np.eye(3)[None]), "rotations"),
        (lambda: so3_covering_radius(2 * np.eye(3)[None]), "rotations"),
        (lambda: so3_covering_radius(np.eye(3)[None], tol=0), "tol"),
        (lambda: so3_covering_radius(np.eye(3)[None], max_cells=0), "max_cells"),
    ],
)
def test_bad_input(call, argument):
    with pytest.raises(ValueError, match=f"`{argument}`"):
        call()


def test_small_and_large_integers():
    """Of 8 bits twice 100 is -56; and 10^400 is no float."""
    np.testing.assert_allclose(cyclic_covering_radius(np.int8(100)), 2 * np.sin(np.pi / 200), rtol=1e-12)
    assert cyclic_covering_radius(np.int8(100), np.int8(100)) == 2
    assert cyclic_covering_radius(10**400, 10**400) == 2
    np.testing.assert_allclose(cyclic_covering_radius(10**400, 10**395), np.pi * 1e-5, rtol=1e-9)
    rotations = Rotation.create_group("D2").as_matrix()
    assert so3_covering_radius(rotations, 0.1, np.int8(100)) == so3_covering_radius(rotations, 0.1, 100)


def test_abstract_rotations():
    with pytest.raises(ValueError, match="`rotations`: expected numbers, got an abstract value"):
        jax.jit(lambda matrices: so3_covering_radius(matrices).upper)(np.eye(3)[None])

"""Filters of circular harmonics: turned arrays, a representation, independence, and bad input."""

import numpy as np
import pytest

from eqbook.baselines import circular_harmonics, turned_basis
from eqbook.testing import tolerance

ORDERS, SIDES = (4, 8, 16), (3, 5, 7)


@pytest.mark.parametrize("n", ORDERS)
@pytest.mark.parametrize("side", SIDES)
def test_filters_turned_by_90_degrees_are_turned_arrays(n, side):
    basis = turned_basis(n, side)
    np.testing.assert_allclose(
        np.roll(basis, -n // 4, axis=0), np.rot90(basis, axes=(2, 3)), atol=tolerance(float, 2 * side)
    )


def test_turning_is_a_representation():
    """The functions turned by r are one fixed combination, of the angle of r, of those that are not turned."""
    basis = turned_basis(8, 5)
    flat = basis.reshape(8, basis.shape[1], -1)
    maps = np.stack([np.linalg.lstsq(flat[0].T, turned.T, rcond=None)[0].T for turned in flat])
    np.testing.assert_allclose(np.einsum("rpq,qx->rpx", maps, flat[0]), flat, atol=1e-13)
    np.testing.assert_allclose(np.einsum("pq,qs->ps", maps[3], maps[7]), maps[2], atol=1e-12)
    np.testing.assert_allclose(
        maps @ maps.transpose(0, 2, 1), np.broadcast_to(np.eye(len(maps[0])), maps.shape), atol=1e-12
    )


@pytest.mark.parametrize("side", SIDES)
def test_functions_are_independent_and_of_unit_size(side):
    basis = turned_basis(16, side)
    assert np.linalg.matrix_rank(basis[0].reshape(basis.shape[1], -1)) == basis.shape[1]
    np.testing.assert_allclose((basis**2).sum((2, 3)).mean(0), 1, rtol=1e-12)
    assert {3: 6, 5: 11, 7: 18}[side] == basis.shape[1]


def test_filters_at_45_degrees_are_those_at_0_where_both_are_known():
    """A ring of 8 pixels of one radius would be permuted; on the grid only the radial profile differs."""
    functions, frequencies = circular_harmonics(5)
    for psi, m in zip(functions, frequencies):
        inner, corner = psi[2, 3], psi[1, 3]  # at 0 and at 45 degrees
        if m == 0 or abs(inner) < 1e-6:
            continue
        assert abs(np.angle(corner / inner) - m * np.pi / 4) < 1e-12


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: circular_harmonics(4), "kernel_size"),
        (lambda: circular_harmonics(0), "kernel_size"),
        (lambda: circular_harmonics(3.0), "kernel_size"),
        (lambda: circular_harmonics([3]), "kernel_size"),
        (lambda: turned_basis(0, 3), "n"),
        (lambda: turned_basis(4, 2), "kernel_size"),
        (lambda: turned_basis(np.ones(1), 3), "n"),
    ],
)
def test_bad_input(call, argument):
    with pytest.raises(ValueError, match=f"`{argument}`"):
        call()


def test_what_is_refused_does_not_depend_on_earlier_calls():
    """1.0 and True equal 1, so a cache that is asked first would give what it has."""
    assert turned_basis(1, 1) is turned_basis(1, 1) and circular_harmonics(1) is circular_harmonics(1)
    for wrong in (1.0, True):
        for call, argument in (
            (lambda wrong=wrong: turned_basis(wrong, 1), "n"),
            (lambda wrong=wrong: turned_basis(1, wrong), "kernel_size"),
            (lambda wrong=wrong: circular_harmonics(wrong), "kernel_size"),
        ):
            with pytest.raises(ValueError, match=f"`{argument}`: expected an integer"):
                call()

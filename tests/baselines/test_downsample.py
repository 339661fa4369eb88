"""Halving the resolution: by hand, under the symmetries of the square, and bad input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numbers_drawn import normal

import eqbook as eq
from eqbook.baselines import halve
from eqbook.groups import ImageAction
from eqbook.testing import assert_equivariant, relative_error, tolerance


@pytest.mark.parametrize("size", [2, 3, 6, 7])
def test_halving_by_hand_and_under_the_square(size, dtype):
    x = normal(0, (2, size, size, 2), dtype)
    taps = np.array([1, 2, 1]) / 4 if size % 2 else np.array([1, 3, 3, 1]) / 8
    count = (size + 1) // 2
    matrix = np.zeros((count, size + 2))
    for i in range(count):
        matrix[i, 2 * i : 2 * i + len(taps)] = taps
    matrix = matrix[:, 1:-1]  # outside is 0
    expected = np.einsum("ai,bj,nijc->nabc", matrix, matrix, np.asarray(x))
    f = jax.jit(halve)
    assert f(x).shape == (2, count, count, 2)
    assert relative_error(f(x), expected) < tolerance(dtype, 16)
    whole = ImageAction(eq.dihedral(4))
    assert_equivariant(f, x, whole, whole, tolerance(dtype, 16))


def test_halving_keeps_a_constant_in_the_middle():
    np.testing.assert_allclose(halve(jnp.ones((10, 9, 1)))[1:-1, 1:-1], 1, rtol=1e-6)


def test_bytes_are_numbers():
    x = np.full((4, 4, 1), 200, np.uint8)
    np.testing.assert_array_equal(halve(x), halve(x.astype(np.float32)))


@pytest.mark.every(2)
@pytest.mark.parametrize("narrow", [jnp.float16, jnp.bfloat16])
@pytest.mark.parametrize("size", [6, 7])
def test_halving_in_16_bits_is_that_of_wider_numbers(narrow, size):
    """Eight times 1e4 is infinite in float16."""
    x = (1e4 * normal(0, (1, size, size, 1))).astype(narrow)
    halved = halve(x)
    assert halved.dtype == narrow and jnp.isfinite(halved).all()
    np.testing.assert_array_equal(halved, halve(x.astype(jnp.float32)).astype(narrow))


@pytest.mark.parametrize("shape", [(4, 4), (1, 4, 1), (4, 1, 1)])
def test_bad_input(shape):
    with pytest.raises(ValueError, match="`x`: expected images"):
        halve(jnp.ones(shape))

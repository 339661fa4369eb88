"""Checks of arguments: what is no real number is refused, not cut to one."""

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import eqbook as eq
from eqbook._checks import (
    as_float,
    as_number,
    check_finite,
    check_known,
    check_number,
    check_numeric,
    check_rectangular,
    is_abstract,
    joined,
)

NET = eq.Sequential(eq.Dense(4), eq.Relu(), eq.Dense(1))
X = np.ones((2, 3), np.float32)


@pytest.mark.parametrize(
    "value", [1j * X, jnp.asarray(1j * X), [1j, 2.0], 1j, np.complex64(1), X.astype(np.clongdouble), X.astype(">c8")]
)
def test_complex_arrays_are_refused(value):
    with pytest.raises(ValueError, match="`a`: expected real numbers, got dtype complex"):
        as_float(value, "a")


def test_complex_arrays_are_refused_inside_jit():
    with pytest.raises(ValueError, match="expected real numbers, got dtype complex"):
        jax.jit(lambda x: as_float(x))(1j)


@pytest.mark.parametrize(
    "call",
    [
        lambda: eq.kernels.so3.sphere_coefficients(1j * np.ones((1, 4, 3, 1))),
        lambda: eq.kernels.pair_kernel(NET, 1j * X[0], X[0]),
        lambda: NET.apply(NET.init(jax.random.key(0), X.shape), 1j * X),
    ],
    ids=["sphere", "kernel", "network"],
)
def test_no_imaginary_part_is_dropped(call):
    with pytest.raises(ValueError, match="expected real numbers, got dtype complex"):
        call()


@pytest.mark.parametrize("value", [X, X.astype(np.float16), jnp.asarray(X, jnp.bfloat16), X.astype(">f4")])
def test_floating_dtypes_are_kept(value):
    assert as_float(value).dtype == np.dtype(value.dtype).newbyteorder("=")


@pytest.mark.parametrize(
    "value",
    [True, np.True_, jnp.asarray(True), np.array(False), 1j, np.complex128(1), "1", np.str_("1"), np.bytes_(b"1")],
)
def test_what_is_no_number(value):
    with pytest.raises(ValueError, match="`a`: expected a number >= 0"):
        check_number("a", value)


@pytest.mark.parametrize("value", [1, 1.0, np.int8(1), np.float16(1), jnp.bfloat16(1), np.array(1), Fraction(1)])
def test_what_is_a_number(value):
    found = check_number("a", value)
    assert found == 1 and type(found) is float


@pytest.mark.parametrize("value", [1j, np.complex128(1), jnp.asarray(1j), "1", [1, 2]])
def test_a_number_without_its_imaginary_part_is_another(value):
    with pytest.raises(ValueError, match="`a`: expected one number"):
        as_number("a", value)


def test_lists_of_abstract_numbers():
    def inside(a):
        assert is_abstract([[a], [1.0]]) and not is_abstract([1.0, X])
        assert joined("x", [[a, 1.0], [2.0, 3.0]]).shape == (2, 2)
        assert joined("x", X) is X
        check_finite("x", [a, 1.0])
        check_numeric("x", [a, 1.0])
        check_rectangular("x", [[a, 1.0], [2.0, 3.0]])
        with pytest.raises(ValueError, match="`x`: expected an array, got lists that differ in length"):
            joined("x", [[a, 1.0], [2.0]])
        with pytest.raises(ValueError, match="`x`: expected an array of numbers"):
            joined("x", [a, "1"])
        with pytest.raises(ValueError, match="`x`: expected one key, got an abstract value; call this outside of"):
            check_known("x", [1.0, a], "one key")
        return a

    jax.jit(inside)(1.0)
    check_known("x", [1.0, X])

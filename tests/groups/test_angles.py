"""Angles of any size and kind: whole turns are taken away exactly, before anything is rounded."""

from decimal import Decimal
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eqbook.groups import rotate_images
from eqbook.groups.angles import without_turns
from eqbook.testing import relative_error, tolerance

PICTURE = np.random.default_rng(0).normal(size=(5, 5, 1))
KNOWN = [1e17, -1e20, 1e300, 30, -450, 10**30, 10**400, Fraction(30), Fraction(10**30 + 1, 7), Fraction(-1, 3)]
KNOWN += [np.int8(100), np.int8(-100), np.uint8(200), np.int64(10**18 + 1), np.array(10**18 + 1), np.float16(60000)]
KNOWN += [np.float32(1e12), np.longdouble(1e17), jnp.int32(10**9), jnp.bfloat16(1e30), True]
KNOWN += [Decimal("-3600000000000000000000.5"), np.longdouble(2) ** 63 + np.longdouble(1)]


def degrees(angle):
    """The angle modulo 360 in rational numbers."""
    exact = angle.item() if hasattr(angle, "item") else angle
    return float((exact if isinstance(exact, int | Fraction) else Fraction(*exact.as_integer_ratio())) % 360)


@pytest.mark.parametrize("angle", KNOWN, ids=lambda angle: f"{type(angle).__name__} {str(angle)[:25]}")
def test_known_angles(angle):
    found = without_turns(angle)
    assert isinstance(found, float) and abs(found) < 360
    assert found % 360 == pytest.approx(degrees(angle), rel=1e-14)
    expected = rotate_images(PICTURE, degrees(angle), mask=False)
    assert relative_error(rotate_images(PICTURE, angle, mask=False), expected) < tolerance(jnp.float32, 4)


TRACED = [10**9, -(10**9), True, np.float32(1e12), np.float32(-720.5)]
TRACED += [kind(n) for kind in (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32) for n in (100, 127)]
TRACED += [np.uint8(200), np.int8(-100), np.uint16(65_535), np.int32(-(2**31)), np.uint32(4_000_000_000)]


@pytest.mark.parametrize("angle", TRACED, ids=lambda angle: f"{type(angle).__name__} {angle}")
def test_traced_angles(angle):
    found = jax.jit(without_turns)(angle)
    assert found.dtype == jnp.float32 and abs(found) < 360
    assert float(found) % 360 == degrees(angle)


def test_traced_angles_turn_pictures():
    """Integers are not rounded to floats first, which hold no single degrees beyond 2^24."""
    turn = jax.jit(lambda angle: rotate_images(PICTURE, angle, mask=False))
    for angle in (10**9, np.float32(1e12)):
        expected = rotate_images(PICTURE, degrees(angle), mask=False)
        # an angle of up to 360 degrees, rounded, moves places by so much of a pixel
        assert relative_error(turn(angle), expected) < 100 * tolerance(jnp.float32, 4)
    assert float(jax.jit(jax.grad(without_turns))(1000.5)) == 1


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
@pytest.mark.parametrize("order", [1, 3])
def test_a_traced_angle_of_16_bits_is_no_coarser_than_a_known_one(order, dtype):
    """Places computed in 16 bits were off by up to a tenth of a pixel."""
    angle = dtype(200.5)
    turned = jax.jit(lambda angle: rotate_images(PICTURE, angle, order, mask=False))(angle)
    expected = rotate_images(PICTURE, angle, order, mask=False)
    assert relative_error(turned, expected) < 100 * tolerance(jnp.float32, 4)


def test_a_traced_angle_is_as_precise_as_the_images(x64):
    turn = jax.jit(lambda angle: rotate_images(PICTURE, angle, mask=False))
    assert relative_error(turn(jnp.float32(33)), rotate_images(PICTURE, 33, mask=False)) < tolerance(jnp.float64, 100)


WRONG = [None, "30", b"30", [30], [[1], [2, 3]], np.ones(1), 3j, np.nan, np.inf, -np.inf, np.array(None)]
WRONG += [Decimal("inf"), Decimal("nan"), np.longdouble("inf")]


@pytest.mark.parametrize("angle", WRONG, ids=repr)
def test_what_is_no_angle_is_refused(angle):
    with pytest.raises(ValueError, match="`angle`: expected a finite number of degrees, got .*; map over several"):
        rotate_images(PICTURE, angle)


@pytest.mark.parametrize("angle", [3j, np.ones(2)], ids=repr)
def test_what_is_no_angle_is_refused_inside_jit(angle):
    with pytest.raises(ValueError, match="`angle`: expected a finite number of degrees"):
        jax.jit(lambda a: rotate_images(PICTURE, a))(angle)

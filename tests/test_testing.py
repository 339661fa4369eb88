"""The checks themselves: they must fail when they should."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from registry import planar_matrices

import eqbook as eq
from eqbook.testing import (
    assert_below,
    assert_equivariant,
    monte_carlo_z,
    normal_parameters,
    relative_error,
    tolerance,
)

ROTATE = eq.groups.MatrixAction(eq.cyclic(4), planar_matrices(4, False))
TRIVIAL = eq.groups.TrivialAction(eq.cyclic(4))
X = jnp.asarray(np.random.default_rng(0).normal(size=(6, 2)), jnp.float32)


def test_equivariant_functions_pass():
    assert_equivariant(lambda x: jnp.sum(x**2, -1, keepdims=True), X, ROTATE, TRIVIAL)
    assert_equivariant(lambda x: 3 * x, X, ROTATE, ROTATE)


@pytest.mark.parametrize("f, out", [(lambda x: x[:, :1], TRIVIAL), (lambda x: x * jnp.array([1.0, 1.001]), ROTATE)])
def test_others_fail_and_name_the_element(f, out):
    with pytest.raises(AssertionError, match="not equivariant: r1 moves the output by"):
        assert_equivariant(f, X, ROTATE, out)


def test_assert_below(capsys):
    assert_below(1e-3, 1e-2, "error")
    assert capsys.readouterr().out == "error: 0.001 (bound 0.01)\n"
    for bad in (2.0, float("nan")):
        with pytest.raises(AssertionError, match="too large: error"):
            assert_below(bad, 1.0, "error")


def test_tolerance_holds_for_sums_and_stays_small():
    x = np.random.default_rng(0).normal(size=(50, 4096)).astype(np.float32)
    error = np.abs(np.asarray(jnp.sum(x, -1), np.float64) - x.astype(np.float64).sum(-1)) / np.linalg.norm(x, axis=-1)
    assert error.max() < tolerance(np.float32, 4096) < 1e-4


def test_relative_error_wants_one_shape():
    assert relative_error(np.array([3.0, 4.0]), np.array([3.0, 0.0])) == pytest.approx(4 / 3)
    with pytest.raises(ValueError, match=r"`actual`: expected shape \(2,\)"):
        relative_error(np.ones(3), np.ones(2))


@pytest.mark.parametrize("dtype", ["uint8", "int8", "float16", "float32"])
def test_relative_error_is_computed_in_double_precision(dtype):
    """|1 - 2| wraps around in uint8, and the squares overflow in float16: both once hid or made up an error."""
    assert relative_error(np.full(10000, 1, dtype), np.full(10000, 2, dtype)) == 0.5
    if dtype.startswith("float"):
        assert relative_error(np.full(100, 3e3, dtype), np.full(100, 4e3, dtype)) == 0.25


@pytest.mark.parametrize("unit", [1e-320, 1e-170, 1e200, 1e300, 1e-170j, 1e200j])
def test_relative_error_of_numbers_whose_squares_leave_the_range(unit):
    """5e-170 squared is 0 in double precision, and 1e200 squared infinite: both errors were made up."""
    assert relative_error(np.array([3.0, 1.0]) * unit, np.array([3.0, 4.0]) * unit) == pytest.approx(0.6, rel=1e-3)
    assert relative_error(np.ones(2) * unit, np.ones(2) * unit) == 0


def test_relative_error_is_that_of_the_plain_formula_bit_for_bit():
    a, b = np.random.default_rng(0).normal(size=(2, 50, 7))
    for one, other in ((a, b), (a + 1j * b, b), (a * 3e-60, b * 1e80)):
        assert relative_error(one, other) == np.linalg.norm(one - other) / np.linalg.norm(other)


def test_relative_error_of_zero():
    assert relative_error(np.zeros(2), np.zeros(2)) == 0
    assert relative_error(np.ones(2), np.zeros(2)) == np.inf
    assert np.isnan(relative_error(np.array([]), np.array([])))  # nothing was compared: no bound may accept it


def test_assert_equivariant_takes_numpy_and_classes():
    """NumPy's float64 with 64-bit types off; and integer outputs, which must agree exactly."""
    x = np.asarray(X, np.float64)
    assert assert_equivariant(lambda x: 3 * np.asarray(x), x, ROTATE, ROTATE) < 1e-6
    assert assert_equivariant(lambda x: 0 * x, x, ROTATE, ROTATE) == 0
    assert assert_equivariant(lambda x: jnp.asarray(jnp.sum(x**2, -1) > 1, int), x, ROTATE, TRIVIAL) == 0
    with pytest.raises(AssertionError, match="not equivariant: r1"):
        assert_equivariant(lambda x: jnp.argmax(x, -1), x, ROTATE, TRIVIAL)


def test_assert_equivariant_returns_the_largest_residual():
    """The second coordinate changes sign under the first two elements that move anything, not under the last."""
    mirrors = eq.groups.MatrixAction(eq.dihedral(2), planar_matrices(2, True))
    invariant = eq.groups.TrivialAction(eq.dihedral(2))
    assert assert_equivariant(lambda x: x[:, 1:], X, mirrors, invariant, bound=3.0) == pytest.approx(2)


def test_assert_equivariant_wants_one_group():
    with pytest.raises(ValueError, match="`action_out`: expected an action of"):
        assert_equivariant(lambda x: 0 * x[:, 0], X, ROTATE, eq.groups.TrivialAction(eq.cyclic(8)))


def test_monte_carlo_z_wants_draws_of_the_right_shape():
    assert float(monte_carlo_z([1.0, 3.0], 0.0)) == pytest.approx(2)  # mean 2, standard error sqrt(2) / sqrt(2)
    with pytest.raises(ValueError, match="`samples`: expected at least two draws"):
        monte_carlo_z(np.ones((1, 3)), 0.0)
    with pytest.raises(ValueError, match=r"`expected`: expected shape \(3,\) of a draw, got \(4, 1\)"):
        monte_carlo_z(np.ones((2, 3)), np.ones((4, 1)))


def test_monte_carlo_z_wants_real_numbers_that_are_known():
    draws = np.array([1.0, 3.0, 5.0])
    assert float(monte_carlo_z(draws > 2, 0.5)) == pytest.approx(0.5)  # mean 2/3, standard error 1/3
    for samples in (draws + 1j, (draws + 1j).tolist(), jnp.asarray(draws + 1j)):
        with pytest.raises(ValueError, match="`samples`: expected real numbers, got complex ones"):
            monte_carlo_z(samples, 3.0)
    with pytest.raises(ValueError, match="`expected`: expected real numbers, got complex ones"):
        monte_carlo_z(draws, 3j)
    with pytest.raises(ValueError, match="`samples`: expected numbers, got an abstract value"):
        jax.jit(lambda x: monte_carlo_z(x, 3.0))(draws)


@pytest.mark.parametrize("unit", [2.0**-1000, 1.0, 2.0**1000])
def test_monte_carlo_z_has_no_unit(unit):
    draws = np.array([[1.0, 2.0], [3.0, 1.0], [4.0, 7.0]])
    plain = (draws.mean(0) - 2) / (draws.std(0, ddof=1) / np.sqrt(3))
    np.testing.assert_array_equal(monte_carlo_z(unit * draws, 2 * unit), plain)
    assert np.isnan(monte_carlo_z(unit * np.ones(4), unit)) and monte_carlo_z(unit * np.ones(4), 0) == np.inf


def test_monte_carlo_z_is_standard_normal():
    samples = jax.random.normal(jax.random.key(0), (400, 1000)) + 2
    z = monte_carlo_z(samples, 2.0)
    assert abs(z.std() - 1) < 0.1 and abs(z.mean()) < 0.15
    assert np.abs(monte_carlo_z(samples, 2.5)).min() > 4


def test_normal_parameters_are_those_of_random_networks(dtype):
    net = eq.Sequential(eq.Dense(64, b_std=0.1), eq.Relu(), eq.Dense(8))
    params = normal_parameters(net, (1, 3), 0, (500,))
    one = net.init(jax.random.key(0), (1, 3))
    assert jax.tree.structure(params) == jax.tree.structure(one)
    for leaf, own in zip(jax.tree.leaves(params), jax.tree.leaves(one), strict=True):
        assert leaf.shape == (500, *own.shape) and leaf.dtype == own.dtype == dtype
        assert abs(leaf.mean()) < 5 / leaf.size**0.5 and abs(leaf.var() - 1) < 5 * (2 / leaf.size) ** 0.5
    again, other = normal_parameters(net, (1, 3), 0, (500,)), normal_parameters(net, (1, 3), [0, 1], (500,))
    np.testing.assert_array_equal(jax.tree.leaves(params)[0], jax.tree.leaves(again)[0])
    assert np.all(jax.tree.leaves(params)[0] != jax.tree.leaves(other)[0])
    assert jax.tree.leaves(normal_parameters(net, (1, 3), 0))[0].shape == jax.tree.leaves(one)[0].shape


@pytest.mark.parametrize(
    "net, options, message",
    [
        (eq.Dense(3), {}, "`net`: expected a Sequential"),
        (eq.Sequential(eq.Dense(3)), {"draws": 5}, "`draws`: expected a tuple of integers"),
        (eq.Sequential(eq.Dense(3)), {"input_shape": (3,)}, "`input_shape`"),
        *((eq.Sequential(eq.Dense(3)), {"seed": seed}, "`seed`: expected") for seed in (None, -1, 1.5, "a")),
    ],
)
def test_normal_parameters_of_something_else(net, options, message):
    with pytest.raises(ValueError, match=message):
        normal_parameters(**{"net": net, "input_shape": (1, 3), "seed": 0} | options)

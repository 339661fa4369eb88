"""Dual activations against quadrature, and their accuracy where inputs coincide."""

import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, special

import eqbook as eq
from eqbook.kernels import erf_dual, relu_dual
from eqbook.kernels.rules import rule

pytestmark = pytest.mark.usefixtures("x64")


def quadrature(sigma, a, b, c):
    """E[sigma(u) sigma(v)] in polar coordinates of the whitened pair: another route, smooth on both sides of kinks."""
    chol = np.linalg.cholesky([[a, c], [c, b]])

    def integrand(radius, angle):
        u, v = chol @ [radius * np.cos(angle), radius * np.sin(angle)]
        return sigma(u) * sigma(v) * np.exp(-(radius**2) / 2) * radius / (2 * np.pi)

    # The kinks lie on the lines u = 0 and v = 0, that is at fixed angles: cut there.
    kinks = sorted(
        {0, 2 * np.pi} | {float(np.arctan2(-row[0], row[1]) % np.pi) + k * np.pi for row in chol for k in (0, 1)}
    )
    return sum(
        integrate.dblquad(integrand, low, high, 0, 12, epsabs=1e-11, epsrel=1e-11)[0]
        for low, high in zip(kinks, kinks[1:], strict=False)
    )


CASES = [(1.0, 1.0, 0.3), (0.5, 2.0, -0.8), (1.7, 0.2, 0.55), (1.0, 1.0, -0.999)]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    "dual, sigma, derivative",
    [
        (relu_dual, lambda u: max(u, 0.0), lambda u: float(u > 0)),
        (erf_dual, special.erf, lambda u: 2 / np.sqrt(np.pi) * np.exp(-(u**2))),
    ],
    ids=["relu", "erf"],
)
def test_dual_is_the_gaussian_expectation(dual, sigma, derivative, case):
    value, slope = dual(*case)
    np.testing.assert_allclose(value, quadrature(sigma, *case), atol=1e-9)
    np.testing.assert_allclose(slope, quadrature(derivative, *case), atol=1e-9)


@pytest.mark.parametrize("dual", [relu_dual, erf_dual])
@pytest.mark.parametrize("variance", [1e-6, 0.37, 1.0, 3.1, 7.7e5, 1e6, 3.3e6])
@pytest.mark.parametrize("jit", [False, True])
def test_exact_at_coincident_inputs_in_float32(dual, variance, jit):
    """relu: K' = v/2 and Kdot = 1/2 to the last bit, where arccos(c / sqrt(ab)) has lost half of the digits."""
    v32 = jnp.float32(variance)
    value, slope = (jax.jit(dual) if jit else dual)(v32, v32, v32)
    value64, slope64 = dual(*[jnp.float64(v32)] * 3)
    eps = np.finfo(np.float32).eps
    np.testing.assert_allclose(value, value64, rtol=8 * eps)
    np.testing.assert_allclose(slope, slope64, rtol=8 * eps)
    if dual is relu_dual:
        assert float(slope) == 0.5 and float(value) == float(v32) / 2


@pytest.mark.parametrize("dual", [relu_dual, erf_dual])
def test_antipodal_and_zero_inputs(dual):
    value, slope = dual(jnp.float64(2.0), jnp.float64(2.0), jnp.float64(-2.0))
    assert float(value) == pytest.approx(0.0 if dual is relu_dual else -float(dual(2.0, 2.0, 2.0)[0]), abs=1e-15)
    assert np.isfinite(slope)
    zero = jnp.float64(0.0)
    assert float(dual(zero, zero, zero)[0]) == 0
    assert float(dual(zero, jnp.float64(1.0), zero)[0]) == 0


@pytest.mark.parametrize("dual", [relu_dual, erf_dual])
@pytest.mark.parametrize(
    "point", [(1.0, 1.0, 1.0), (1.0, 1.0, -1.0), (0.0, 0.0, 0.0), (0.0, 1.0, 0.0), (1.0, 2.0, 0.5)]
)
def test_gradients_are_finite(dual, point):
    for output in (0, 1):
        gradient = jax.grad(lambda a, b, c, i=output: dual(a, b, c)[i], argnums=(0, 1, 2))(*map(jnp.float64, point))
        assert np.isfinite(gradient).all(), (output, gradient)


@pytest.mark.parametrize("dual", [relu_dual, erf_dual])
def test_gradient_of_the_dual_is_its_derivative_dual(dual):
    """Price's theorem: d E[sigma sigma] / dc = E[sigma' sigma'], also where the inputs coincide or are opposite."""
    for a, b, c in [*CASES, (1.0, 1.0, 1.0), (2.0, 2.0, 2.0), (1.0, 4.0, 2.0), (1.0, 1.0, -1.0), (1.0, 4.0, -2.0)]:
        slope = jax.grad(lambda c, a=a, b=b: dual(jnp.float64(a), jnp.float64(b), c)[0])(c)
        assert float(slope) == pytest.approx(float(dual(a, b, c)[1]), rel=1e-12)


@pytest.mark.parametrize("dtype, variance", [(np.float32, 1e38), (np.float16, 2e4)])
@pytest.mark.parametrize("correlation", [1.0, 0.8, -0.8, -1.0])
def test_relu_dual_of_variances_near_the_largest_number(dtype, variance, correlation):
    a, c = dtype(variance), dtype(correlation * variance)
    nngp, derivative = relu_dual(a, a, c)
    expected = relu_dual(1.0, 1.0, float(c) / float(a))
    epsilon = float(np.finfo(dtype).eps)
    assert abs(float(nngp) / float(a) - float(expected[0])) < 2 * epsilon
    assert abs(float(derivative) - float(expected[1])) < 2 * epsilon


@pytest.mark.every(2)
@pytest.mark.parametrize("method", ["auto", "literal"])
@pytest.mark.parametrize("act", [eq.Relu(), jnp.tanh], ids=["relu", "tanh"])
def test_gram_of_variances_near_the_largest_number(act, method):
    """tanh is the sign there."""
    x = np.sqrt(2) * np.array([[1, 0], [0.8, 0.6], [-1, 0]])
    low, high = (
        eq.gram(
            eq.Sequential(eq.Dense(8, W_std=size), act, eq.Dense(1)), x.astype(dtype), kinds=("nngp",), method=method
        )
        for size, dtype in ((1e19, np.float32), (1e19, np.float64))
    )
    scale = float(high.nngp[0, 0])
    np.testing.assert_allclose(np.asarray(low.nngp, float) / scale, np.asarray(high.nngp) / scale, atol=1e-6)


def test_relu_derivative_of_a_constant_input_is_that_of_an_orthogonal_one():
    for b in (0.0, 1.0):
        assert float(relu_dual(jnp.float64(0.0), jnp.float64(b), jnp.float64(0.0))[1]) == 0.25


def test_erf_dual_of_huge_variances_does_not_overflow():
    """a b is beyond float32, a is not. Saturated, erf is the sign: E[sigma sigma] = 2/pi arcsin(c / sqrt(ab))."""
    a, b, c = jnp.float32(1e20), jnp.float32(4e20), jnp.float32(1e20)
    value, slope = erf_dual(a, b, c)
    assert float(value) == pytest.approx(1 / 3, rel=1e-6)
    assert float(slope) == pytest.approx(4 / np.pi / np.sqrt(12e40), rel=1e-6)


def erf_dual_of_fractions(a, b, c):
    """The formulas with an exact D, which is at least 1 + 2 (a + b)."""
    a, b, c = map(Fraction, (a, b, c))
    root = math.sqrt(max((1 + 2 * a) * (1 + 2 * b) - 4 * c**2, 1 + 2 * (a + b)))
    return 2 / math.pi * math.atan2(2 * c, root), 4 / math.pi / root


def erf_dual_of_correlations(a, b, c):
    """The same dual as Gram matrices take it."""
    made = rule(eq.Erf())
    return made.dual(made.scales(a), made.scales(b), c)


VARIANCES = [*np.logspace(-3, 19, 23), 2.0**25, 1.5 * 2.0**24]
ACUTE = [0, 0.1, 0.9, 0.9999, 1 - 1e-5, 1]
CORRELATIONS = [*ACUTE, *(-r for r in ACUTE)]


@pytest.mark.parametrize("dual", [erf_dual, erf_dual_of_correlations])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_erf_has_all_digits_for_equal_variances(dual, dtype):
    """Where inputs coincide, where they are opposite, near that, and in between."""
    a = np.repeat(np.asarray(VARIANCES, dtype), len(CORRELATIONS))
    c = np.asarray(np.tile(CORRELATIONS, len(VARIANCES)) * a, dtype)
    found = jax.jit(dual)(jnp.asarray(a), jnp.asarray(a), jnp.asarray(c))
    exact = np.transpose([erf_dual_of_fractions(*map(float, one)) for one in zip(a, a, c, strict=True)])
    np.testing.assert_allclose(found, exact, rtol=16 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dual", [erf_dual, erf_dual_of_correlations])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("ratio", [1.001, 1.7, 30.0, 1e6])
def test_erf_is_that_of_a_covariance_within_rounding(dual, dtype, ratio):
    """For unlike variances: at large ones the dual of a rounded covariance is all that there is to have."""
    a = np.repeat(np.asarray(VARIANCES, dtype), len(CORRELATIONS))
    b = (dtype(ratio) * a).astype(dtype)
    largest = np.sqrt(a.astype(float)) * np.sqrt(b.astype(float))
    c = (np.tile(CORRELATIONS, len(VARIANCES)) * largest).astype(dtype)
    found = np.array(jax.jit(dual)(jnp.asarray(a), jnp.asarray(b), jnp.asarray(c)), float)
    eps = np.finfo(dtype).eps
    near = [
        [erf_dual_of_fractions(*map(float, one)) for one in zip(a, b, c + turn * 8 * eps * largest, strict=True)]
        for turn in (-1, 0, 1)
    ]
    low, high = np.min(near, 0).T, np.max(near, 0).T
    assert (found >= low - 16 * eps * np.abs(low)).all()
    assert (found <= high + 16 * eps * np.abs(high)).all()


def test_erf_dual_is_odd_in_the_covariance_to_the_last_bit():
    for a, b, c in [*CASES, (3.7e6, 3.7e6, 3.7e6), (2.0, 8.0, 4.0)]:
        value, slope = erf_dual(*map(jnp.float32, (a, b, c)))
        assert erf_dual(*map(jnp.float32, (a, b, -c))) == (-value, slope)


def test_second_derivative_of_erf_at_covariance_0():
    """The slope is 4 / (pi sqrt D) and D = 9 - 4c^2 for unit variances."""
    second = jax.grad(jax.grad(lambda c: erf_dual(jnp.float64(1.0), jnp.float64(1.0), c)[1]))(0.0)
    assert float(second) == pytest.approx(16 / np.pi / 27, rel=1e-12)


@pytest.mark.parametrize("share", [1.0, 0.5, -1.0])
@pytest.mark.parametrize("variance", [5e37, 9e37, 1.6e38])
def test_erf_where_the_sum_of_two_variances_overflows(variance, share):
    """Saturated, erf is the sign: E[sigma sigma] = 2/pi arcsin of the correlation, here `share`."""
    value, _ = erf_dual(*map(jnp.float32, (variance, variance, share * variance)))
    assert float(value) == pytest.approx(2 / np.pi * np.arcsin(share), rel=1e-6)


@pytest.mark.parametrize("share", [1.0, 0.5, -0.5])
def test_erf_beyond_the_dtype_is_not_0(share):
    value, slope = erf_dual(*map(jnp.float32, (3e38, 3e38, share * 3e38)))
    assert np.isnan(value) and np.isnan(slope)

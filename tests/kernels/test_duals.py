"""Dual activations against quadrature, and their accuracy where inputs coincide."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, special

from eqbook.kernels import erf_dual, relu_dual

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
    """Price's theorem: d E[sigma sigma] / dc = E[sigma' sigma'], also where the inputs coincide."""
    for a, b, c in [*CASES, (1.0, 1.0, 1.0), (2.0, 2.0, 2.0), (1.0, 4.0, 2.0)]:
        slope = jax.grad(lambda c, a=a, b=b: dual(jnp.float64(a), jnp.float64(b), c)[0])(c)
        assert float(slope) == pytest.approx(float(dual(a, b, c)[1]), rel=1e-12)


def test_relu_derivative_of_a_constant_input_is_that_of_an_orthogonal_one():
    for b in (0.0, 1.0):
        assert float(relu_dual(jnp.float64(0.0), jnp.float64(b), jnp.float64(0.0))[1]) == 0.25


def test_erf_dual_of_huge_variances_does_not_overflow():
    """a b is beyond float32, a is not. Saturated, erf is the sign: E[sigma sigma] = 2/pi arcsin(c / sqrt(ab))."""
    a, b, c = jnp.float32(1e20), jnp.float32(4e20), jnp.float32(1e20)
    value, slope = erf_dual(a, b, c)
    assert float(value) == pytest.approx(1 / 3, rel=1e-6)
    assert float(slope) == pytest.approx(4 / np.pi / np.sqrt(12e40), rel=1e-6)

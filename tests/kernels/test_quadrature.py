"""Duals by quadrature: equal to the closed forms where there are any, and converging."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numbers_drawn import normal

import eqbook as eq
from eqbook.kernels import erf_dual, quadrature_dual, relu_dual
from eqbook.kernels.quadrature import gauss_hermite

CASES = [(1.0, 1.0, 0.3), (0.5, 2.0, -0.8), (1.0, 1.0, 1.0), (1.0, 1.0, -1.0), (0.7, 0.2, 0.0)]


def test_nodes_integrate_polynomials_exactly():
    """n nodes are exact up to degree 2n - 1: the Gaussian moments are the double factorials."""
    z, w = gauss_hermite(6)
    for degree, moment in {0: 1, 1: 0, 2: 1, 4: 3, 6: 15, 8: 105, 10: 945, 11: 0}.items():
        np.testing.assert_allclose(np.sum(w * z**degree), moment, atol=1e-10)


@pytest.mark.parametrize("case", CASES)
def test_erf_by_quadrature_is_its_dual(case, x64):
    ours = quadrature_dual(jax.scipy.special.erf, 48, *map(jnp.float64, case))
    np.testing.assert_allclose(ours, erf_dual(*map(jnp.float64, case)), rtol=1e-6, atol=1e-14)


def test_error_falls_exponentially_for_erf_and_slowly_for_relu(x64):
    a, b, c = map(jnp.float64, (1.0, 1.0, 0.3))
    errors = {
        name: [abs(float(quadrature_dual(f, n, a, b, c)[0] - dual(a, b, c)[0])) for n in (8, 16, 32)]
        for name, f, dual in (("erf", jax.scipy.special.erf, erf_dual), ("relu", jax.nn.relu, relu_dual))
    }
    assert errors["erf"][1] < errors["erf"][0] / 20 and errors["erf"][2] < errors["erf"][1] / 20
    assert 1e-6 < errors["relu"][2] < 0.02


def test_zero_variance(x64):
    zero, one = jnp.float64(0.0), jnp.float64(1.0)
    np.testing.assert_allclose(quadrature_dual(jnp.cos, 32, zero, zero, zero)[0], 1.0, rtol=1e-13)
    np.testing.assert_allclose(quadrature_dual(jnp.cos, 32, zero, one, zero)[0], np.exp(-0.5), rtol=1e-13)


def test_activation_in_a_network_equals_the_closed_form(x64):
    x = normal(0, (4, 3))
    numeric = eq.Sequential(eq.Dense(1), eq.Activation(jax.scipy.special.erf), eq.Dense(1))
    exact = eq.Sequential(eq.Dense(1), eq.Erf(), eq.Dense(1))
    np.testing.assert_allclose(eq.gram(numeric, x).ntk, eq.gram(exact, x).ntk, rtol=1e-6)

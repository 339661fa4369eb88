"""Duals by quadrature: equal to the closed forms where there are any, and converging."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numbers_drawn import normal
from scipy import integrate

import eqbook as eq
from eqbook.kernels import erf_dual, quadrature_dual, relu_dual
from eqbook.kernels.polar import polar_rule
from eqbook.kernels.reach import largest_stds

CASES = [(1.0, 1.0, 0.3), (0.5, 2.0, -0.8), (1.0, 1.0, 1.0), (1.0, 1.0, -1.0), (0.7, 0.2, 0.0)]


def leaky(u):
    return jnp.where(u > 0, u, 0.2 * u)


def leaky_dual(a, b, c):
    """From relu's: u = u+ - (-u)+ with slopes 1 and 0.2 on the two sides."""
    (k, d), (mixed, d_mixed) = relu_dual(a, b, c), relu_dual(a, b, -c)
    return (1 + 0.2**2) * k - 2 * 0.2 * mixed, (1 + 0.2**2) * d + 2 * 0.2 * d_mixed


def square_dual(a, b, c):
    """Fourth moments of a Gaussian pair."""
    return a * b + 2 * c**2, 4 * c


CLOSED = {
    "erf": (jax.scipy.special.erf, erf_dual),
    "relu": (jax.nn.relu, relu_dual),
    "leaky relu": (leaky, leaky_dual),
    "square": (jnp.square, square_dual),
}


def test_weights_integrate_moments():
    """E[rho^2] = 2 and E[rho^4] = 8 for radii of two dimensions; t^3 has the mean 1/4."""
    radii, weights, places, shares = polar_rule(48)
    for power, moment in {0: 1, 1: np.sqrt(np.pi / 2), 2: 2, 4: 8}.items():
        np.testing.assert_allclose(np.sum(weights * radii**power), moment, rtol=1e-13)
    np.testing.assert_allclose(np.sum(shares * places**3), 0.25, rtol=1e-13)


def test_rules_are_read_only():
    """All callers get the same arrays."""
    with pytest.raises(ValueError, match="read-only"):
        polar_rule(48)[1][:] *= 2


@pytest.mark.every(2)
@pytest.mark.parametrize("name", CLOSED)
@pytest.mark.parametrize("case", CASES)
def test_equals_closed_forms_with_and_without_a_kink(name, case, x64):
    function, dual = CLOSED[name]
    a, b, c = map(jnp.float64, case)
    np.testing.assert_allclose(quadrature_dual(function, 48, a, b, c), dual(a, b, c), rtol=1e-9, atol=1e-12)


@pytest.mark.every(6)
@pytest.mark.parametrize("std, bound", [(1.0, 1e-7), (2.0, 1e-7), (3.0, 1e-6)])
@pytest.mark.parametrize(
    "function", [jax.scipy.special.erf, jnp.tanh, jax.nn.gelu, jax.nn.selu], ids=lambda f: f.__name__
)
def test_errors_that_the_docstring_states(function, std, bound, x64):
    """Against many more nodes, for generic, coinciding and opposite inputs; a standard deviation of 3 saturates."""
    for entries in ((1.0, 0.7, 0.5), (1.0, 1.0, 1.0), (1.0, 1.0, -1.0)):
        args = [jnp.float64(std**2 * x) for x in entries]
        few, many = (np.array(quadrature_dual(function, n, *args)) for n in (48, 256))
        scale = np.array(quadrature_dual(function, 256, args[0], args[0], args[0]))
        assert np.max(np.abs(few - many) / scale) < bound


def test_erf_at_large_variances_is_its_closed_form(x64):
    args = [jnp.float64(9 * x) for x in (1.0, 0.7, 0.5)]
    np.testing.assert_allclose(quadrature_dual(jax.scipy.special.erf, 48, *args), erf_dual(*args), rtol=1e-7)


def test_what_cartesian_coordinates_would_leave(x64):
    """Where inputs coincide, a product rule of Gauss-Hermite is one of one variable."""
    z, w = np.polynomial.hermite_e.hermegauss(48)
    cartesian = np.sum(w * np.cosh(2 * z) ** -4.0) / np.sqrt(2 * np.pi)
    polar, exact = (float(quadrature_dual(jnp.tanh, n, *[jnp.float64(4.0)] * 3)[1]) for n in (48, 256))
    assert abs(polar / exact - 1) < 1e-7 and abs(cartesian / exact - 1) > 1e-3


@pytest.mark.parametrize("name", ["erf", "relu", "leaky relu"])
def test_error_falls_exponentially(name, x64):
    function, dual = CLOSED[name]
    args = [jnp.float64(x) for x in (1.0, 1.0, 0.3)]
    errors = [abs(float(quadrature_dual(function, n, *args)[0] - dual(*args)[0])) for n in (8, 16, 32)]
    assert errors[1] < errors[0] / 20 and errors[2] < max(errors[1] / 400, 1e-14)


def test_a_kink_elsewhere_costs_digits(x64):
    """As the docstring says, one over the nodes: relu6 has its second kink at two standard deviations of 3."""
    args = [jnp.float64(x) for x in (9.0, 9.0, 4.0)]
    many, few = (quadrature_dual(jax.nn.relu6, n, *args) for n in (256, 48))
    assert 1e-4 < abs(float(few[1] / many[1] - 1)) < 1 / 48


# The kernel has slopes also where the inputs coincide or are opposite; the derivative kernel has a convention there.
SLOPES = [(name, case, 0) for name in ("erf", "square") for case in CASES]
SLOPES += [(name, case, 1) for name in ("erf", "leaky relu") for case in CASES if abs(case[2]) != 1]


@pytest.mark.every(8)
@pytest.mark.parametrize("name, case, which", SLOPES)
def test_gradients(name, case, which, x64):
    function, dual = CLOSED[name]
    args = tuple(map(jnp.float64, case))
    ours, closed = (
        jax.grad(lambda *x, f=f: f(*x)[which], argnums=(0, 1, 2))(*args)
        for f in (lambda *x: quadrature_dual(function, 48, *x), dual)
    )
    np.testing.assert_allclose(ours, closed, rtol=1e-8, atol=1e-10)


def test_zero_variance(x64):
    zero, one = jnp.float64(0.0), jnp.float64(1.0)
    np.testing.assert_allclose(quadrature_dual(jnp.cos, 32, zero, zero, zero)[0], 1.0, rtol=1e-13)
    np.testing.assert_allclose(quadrature_dual(jnp.cos, 32, zero, one, zero)[0], np.exp(-0.5), rtol=1e-13)


def test_activation_in_a_network_equals_the_closed_form(x64):
    x = normal(0, (4, 3))
    numeric = eq.Sequential(eq.Dense(1), eq.Activation(jax.scipy.special.erf), eq.Dense(1))
    exact = eq.Sequential(eq.Dense(1), eq.Erf(), eq.Dense(1))
    np.testing.assert_allclose(eq.gram(numeric, x).ntk, eq.gram(exact, x).ntk, rtol=1e-9)


@pytest.mark.parametrize("integer", [int, np.int64, jnp.int32])
def test_integers_are_numbers(integer):
    """The result is no integer."""
    ours = quadrature_dual(jnp.tanh, 48, *[integer(1)] * 3)
    np.testing.assert_array_equal(ours, quadrature_dual(jnp.tanh, 48, 1.0, 1.0, 1.0))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_short_dtypes_are_summed_in_float32(dtype):
    """What is left is the rounding of the result."""
    args = [jnp.asarray(x, dtype) for x in (1.2, 0.8, 0.5)]
    ours, closed = quadrature_dual(jax.scipy.special.erf, 48, *args), erf_dual(*(x.astype("float32") for x in args))
    for one, exact in zip(ours, closed, strict=True):
        assert one.dtype == dtype and abs(float(one) / float(exact) - 1) < float(jnp.finfo(dtype).eps)


@pytest.mark.parametrize("ratio", [1e2, 1e3, 1e5])
@pytest.mark.parametrize("dual", [relu_dual, erf_dual], ids=["relu", "erf"])
def test_float32_at_very_different_variances(dual, ratio, x64):
    args = [np.float32(x) for x in (1.0, ratio**2, ratio / 2)]
    single, double = (dual(*(jnp.asarray(x, dtype) for x in args)) for dtype in ("float32", "float64"))
    np.testing.assert_allclose(single, double, rtol=1e-6)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (jnp.tanh, (np.inf, 64)),
        (jax.nn.gelu, (np.inf, np.inf)),
        (jax.nn.leaky_relu, (np.inf, np.inf)),
        (jnp.exp, (2, 2)),
        (lambda u: jnp.exp(-(u**2)), (64, 32)),
        (lambda u: jax.nn.relu(u - 1), (np.inf, np.inf)),
        (lambda u: jax.nn.relu(u - 0.1), (np.inf, np.inf)),
        (lambda u: jnp.sign(u) * jax.nn.relu(jnp.abs(u) - 0.5), (np.inf, np.inf)),
    ],
    ids=["tanh", "gelu", "leaky relu", "exp", "peak", "threshold 1", "threshold 0.1", "shrinkage"],
)
def test_the_variances_that_the_nodes_resolve(function, expected):
    assert largest_stds(function, 48) == expected
    for fewer, enough, more in zip(largest_stds(function, 16), expected, largest_stds(function, 256)):
        assert fewer <= enough <= more


def test_the_limit_is_that_of_what_a_function_holds_now():
    box = [1.0]

    def wide(u):
        return jnp.tanh(box[0] * u)

    def value(std):
        return float(quadrature_dual(wide, 48, std**2, std**2, std**2)[1])

    assert largest_stds(wide, 48)[1] == 64
    box[0] = 64.0
    assert largest_stds(wide, 48)[1] == 1 and np.isnan(value(2.0))


def test_functions_without_a_hash_or_with_traced_numbers():
    class Unhashable:
        __hash__ = None

        def __call__(self, u):
            return jnp.tanh(u)

    assert largest_stds(Unhashable(), 48)[1] == 64
    traced = jax.jit(lambda a: quadrature_dual(lambda u: jnp.tanh(a * u), 48, 1.0, 1.0, 0.5)[0])
    assert float(traced(1.3)) == pytest.approx(
        float(quadrature_dual(lambda u: jnp.tanh(1.3 * u), 48, 1.0, 1.0, 0.5)[0])
    )


def test_the_limit_is_where_the_error_is_five_percent():
    """Against integrals in one dimension, by an adaptive rule that knows where the peak is."""

    def of(std, nodes):
        with jax.enable_x64(True):
            return float(quadrature_dual(jnp.tanh, nodes, std**2, std**2, std**2)[1])

    def exact(std):
        def peak(u):
            return np.exp(-((u / std) ** 2) / 2) / np.cosh(np.clip(u, -300, 300)) ** 4

        return integrate.quad(peak, -30, 30, limit=500)[0] / (std * np.sqrt(2 * np.pi))

    assert 0.005 < abs(of(64.0, 48) / exact(64.0) - 1) < 0.05
    assert np.isnan(of(65.0, 48)) and abs(of(65.0, 256) / exact(65.0) - 1) < 0.005
    assert np.isnan(of(1e5, 256))


def test_a_gram_matrix_of_unscaled_pixels_is_refused():
    pixels = np.random.default_rng(0).integers(0, 256, (2, 16)).astype(np.uint8)
    net = eq.Sequential(eq.Dense(3), jnp.tanh, eq.Dense(1))
    with pytest.raises(ValueError, match="scale the inputs, .* raise the `nodes`"):
        eq.gram(net, pixels)
    fine = eq.gram(eq.Sequential(eq.Dense(3), eq.Activation(jnp.tanh, 256), eq.Dense(1)), pixels)
    assert np.isfinite(fine.ntk).all()
    assert np.isfinite(eq.gram(net, pixels / 255).ntk).all()

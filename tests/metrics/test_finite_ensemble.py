"""The bound for finitely many members: against the Gaussian law, its inverse, and far into the tail."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

import eqbook as eq
from eqbook.metrics import finite_ensemble_deviation, finite_ensemble_tail, members_needed
from eqbook.metrics.finite_ensemble import wright_omega
from eqbook.testing import tolerance

EPSILONS = np.array([0.99, 0.5, 0.1, 1e-3, 1e-10, 1e-100, 1e-300])


def test_bound_is_above_the_gaussian_probability_and_not_far(x64):
    z = np.geomspace(0.05, 30, 60)  # delta in units of sigma_x
    bound, exact = finite_ensemble_tail(z * np.sqrt(3.0 / 7), 3.0, 7), special.erfc(z / np.sqrt(2))
    # exp(-z^2 / 2) has the relative error of its argument.
    rounding = 1 + tolerance(np.float64) * (1 + z**2)
    assert (exact <= bound * rounding).all()
    assert (bound <= exact * (1 + 1 / z**2) * rounding).all()


def test_bound_holds_for_means_of_networks_that_a_law_describes(x64):
    """sigma_x from the law's own Sigma_t, members drawn from the law; 4 standard errors of room."""
    net = eq.Sequential(eq.Dense(1, b_std=0.1), eq.Relu(), eq.Dense(1))
    x, new = (jax.random.normal(jax.random.key(k), (n, 3)) for k, n in ((0, 6), (1, 4)))
    same, other, own = eq.gram(net, x), eq.gram(net, new, x), eq.gram(net, new)
    law = eq.EnsembleLaw(ntk=same.ntk, nngp=same.nngp, y=jnp.sin(x[:, :1]))
    times = 2.0
    mean = np.asarray(law.mean(other.ntk, times))[:, 0]
    sigma = np.asarray(law.covariance(own.nngp, other, times))
    members = np.random.default_rng(0).multivariate_normal(mean, sigma, size=(20_000, 4))
    error = np.abs(members.mean(1) - mean)
    for x_error, variance in zip(error.T, np.diag(sigma)):
        for delta in np.sqrt(variance / 4) * np.array([0.8, 1.5, 2.5]):
            frequency, bound = np.mean(x_error > delta), float(finite_ensemble_tail(delta, variance, 4))
            assert frequency <= bound + 4 * np.sqrt(bound * max(1 - bound, 0) / 20_000)
            assert frequency > bound / 4, "so loose a bound is another one"


def test_bound_holds_for_means_of_gaussian_members():
    """200,000 means of 4 members; frequencies with 4 standard errors of room."""
    members = np.random.default_rng(0).normal(size=(200_000, 4)) * 1.5
    error = np.abs(members.mean(1))
    for delta in (0.8, 1.2, 2.0):
        frequency = np.mean(error > delta)
        bound = float(finite_ensemble_tail(delta, 1.5**2, 4))
        assert frequency <= bound + 4 * np.sqrt(bound / len(error))
        assert bound < 3 * frequency


def test_deviation_is_the_inverse_of_the_bound(x64):
    delta = finite_ensemble_deviation(EPSILONS, 2.3, 5)
    assert (np.diff(delta) > 0).all()
    back = np.asarray(finite_ensemble_tail(delta, 2.3, 5))
    # A relative error r of delta becomes one of (1 + z^2) r of the bound; z^2 = -2 log(eps) + ...
    np.testing.assert_allclose(back, EPSILONS, rtol=tolerance(np.float64) * (1 - 2 * np.log(EPSILONS[-1])))


def test_deviation_against_lambert_w():
    epsilon = EPSILONS[EPSILONS > 1e-101]
    expected = np.sqrt(special.lambertw(2 / (np.pi * epsilon**2)).real * 2.3 / 5)
    np.testing.assert_allclose(finite_ensemble_deviation(epsilon, 2.3, 5), expected, rtol=tolerance(np.float32), atol=0)


def test_wright_omega_against_scipy():
    y = np.concatenate([np.linspace(-600, 30, 500), np.geomspace(30, 1e300, 50), [1.0, 0.0]])
    # log(omega) near y cancels for very negative y: an absolute error eps |y| is a relative one of omega.
    np.testing.assert_allclose(wright_omega(y), special.wrightomega(y).real, rtol=600 * tolerance(np.float64))
    moderate = np.linspace(-1, 1e4, 1000)
    w = wright_omega(moderate)
    np.testing.assert_allclose(w + np.log(w), moderate, rtol=tolerance(np.float64))


def test_single_precision_reaches_tiny_probabilities(dtype):
    delta = finite_ensemble_deviation(1e-300, jnp.ones(3, dtype), 10)
    assert delta.dtype == dtype and np.isfinite(delta).all()
    assert np.allclose(delta, np.sqrt(special.wrightomega(np.log(2 / np.pi) + 600 * np.log(10)).real / 10))


def test_error_falls_as_one_over_the_root_of_the_members():
    one, many = (float(finite_ensemble_deviation(0.05, 1.7, m)) for m in (1, 400))
    np.testing.assert_allclose(one / many, 20, rtol=tolerance(np.float32))


def test_members_needed_is_the_smallest_number():
    for epsilon, delta, variance in ((0.1, 0.05, 0.4), (0.01, 0.3, 2.0), (1e-8, 1.0, 0.9)):
        with jax.enable_x64(True):
            count = int(members_needed(epsilon, delta, variance))
            assert float(finite_ensemble_tail(delta, variance, count)) <= epsilon * (1 + 1e-12)
            assert float(finite_ensemble_tail(delta, variance, count - 1)) > epsilon
    assert members_needed(0.5, 10.0, 0.0) == 1


@pytest.mark.parametrize("members", [1, 7, 100, 1000, 12_345])
def test_members_needed_for_the_deviation_of_so_many(members, dtype):
    """The deviation is rounded, and the ratio above a whole number by as much: not one member more."""
    for epsilon in (0.3, 0.05, 1e-6):
        for variance in (0.4, 1.0, 7.3):
            delta = finite_ensemble_deviation(epsilon, variance, members)
            for given in (delta, float(delta)):
                assert members_needed(epsilon, given, variance) == members
            assert members_needed(epsilon, (1 - 1e-5) * float(delta), variance) == members + 1


def test_members_needed_is_the_same_in_any_unit(dtype):
    """A variance below the smallest number of single precision is no 0."""
    assert members_needed(0.1, 2.0**-100, 2.0**-190) == members_needed(0.1, 1.0, 2.0**10) > 1000


def test_members_needed_may_leave_the_range_of_single_precision():
    assert 1e40 < members_needed(0.05, 1e-20, 2.0) < 1e41


def test_no_variance_no_deviation():
    np.testing.assert_array_equal(finite_ensemble_tail(0.1, np.zeros(2), 3), 0)
    np.testing.assert_array_equal(finite_ensemble_deviation(0.1, np.zeros(2), 3), 0)
    assert float(finite_ensemble_tail(1e-6, 1.0, 1)) == 1


def test_the_gradient_in_the_variance_is_that_of_the_formula_and_zero_without_variance(x64):
    variances = jnp.array([0.0, 1e-300, 1e-12, 0.05, 20.0])
    slope = jax.vmap(jax.grad(lambda variance: finite_ensemble_tail(0.7, variance, 3)))(variances)
    sigma2 = np.asarray(variances[2:4]) / 3
    tails = np.sqrt(2 / np.pi * sigma2) / 0.7 * np.exp(-(0.7**2) / 2 / sigma2)
    derivative = tails * (0.5 / sigma2 + 0.7**2 / 2 / sigma2**2) / 3
    # At 20 the bound is cut at 1.
    np.testing.assert_allclose(slope, [0, 0, *derivative, 0], rtol=1e-12)


@pytest.mark.parametrize("narrow", [jnp.float16, jnp.bfloat16])
def test_any_number_of_members_in_any_precision(narrow):
    """10^6 is infinite in float16, and 10^10 is no integer of 32 bits."""
    for members in (10**6, 10**8, 10**10):
        deviation = float(finite_ensemble_deviation(0.1, 1.0, members))
        assert deviation == pytest.approx(np.sqrt(special.lambertw(200 / np.pi).real / members), rel=1e-6)
        assert float(finite_ensemble_tail(deviation, 1.0, members)) == pytest.approx(0.1, rel=1e-5)
        for variance in (np.ones(2, narrow), jnp.ones(2, narrow)):
            found = finite_ensemble_deviation(0.1, variance, members)
            assert found.dtype == narrow
            # Below the normal numbers of float16 steps are 2^-24.
            atol = 2.0**-25 if narrow == jnp.float16 else 0
            np.testing.assert_allclose(found.astype(float), deviation, rtol=float(jnp.finfo(narrow).eps), atol=atol)
            tail = finite_ensemble_tail(deviation, variance, members)
            assert tail.dtype == narrow
            np.testing.assert_allclose(tail.astype(float), 0.1, rtol=0.05)
    assert finite_ensemble_deviation(0.1, 1.0, 10**300) == 0


def test_units_beyond_single_precision():
    """NumPy's numbers of 64 bits are narrowed last."""
    one = float(finite_ensemble_tail(1.0, 1.0, 3))
    for unit in (1e-100, 1e-30, 1e30, 1e100):
        assert float(finite_ensemble_tail(unit, unit**2, 3)) == pytest.approx(one)
    assert float(finite_ensemble_deviation(0.1, 1e60, 10**60)) == float(finite_ensemble_deviation(0.1, 1.0, 1))
    with pytest.raises(ValueError, match="`variance`: expected numbers that stay finite in float32"):
        finite_ensemble_deviation(0.1, 1e300, 1)


def test_inside_transformations(dtype):
    epsilon, variance = jnp.array([0.9, 0.1, 1e-3, 1e-30], dtype), jnp.array([0.3, 1.0, 2.0, 0.0], dtype)
    deviation, tail = (lambda e, v: finite_ensemble_deviation(e, v, 7)), (lambda d, v: finite_ensemble_tail(d, v, 7))
    delta = deviation(epsilon, variance) + 0.1
    rtol = 10 * tolerance(dtype)
    for change in (jax.jit, jax.vmap, lambda f: jax.jit(jax.vmap(f))):
        np.testing.assert_allclose(change(deviation)(epsilon, variance), deviation(epsilon, variance), rtol=rtol)
        np.testing.assert_allclose(change(tail)(delta, variance), tail(delta, variance), rtol=rtol)
    inner = jax.jit(lambda v: finite_ensemble_deviation(1e-300, v, 7))(variance)  # known numbers keep their digits
    np.testing.assert_allclose(inner, finite_ensemble_deviation(1e-300, variance, 7), rtol=rtol)
    assert jax.jit(deviation)(jnp.float16(0.1), jnp.float16(1)).dtype == jnp.float16


def test_slope_of_the_deviation(x64):
    """w e^w = 2 / pi epsilon^2 gives d sqrt(w) / d epsilon = -sqrt(w) / (epsilon (1 + w))."""
    w = special.lambertw(2 / (np.pi * 0.01)).real
    slope = jax.grad(lambda e: finite_ensemble_deviation(e, 4.0, 1))(0.1)
    np.testing.assert_allclose(slope, -2 * np.sqrt(w) / (0.1 * (1 + w)), rtol=100 * tolerance(np.float64))


def test_abstract_numbers_that_are_refused():
    with pytest.raises(ValueError, match="`members`: expected an integer, got an abstract value"):
        jax.jit(finite_ensemble_tail)(0.1, 1.0, 7)
    for k, name in enumerate(("epsilon", "delta", "variance")):
        with pytest.raises(ValueError, match=f"`{name}`: expected numbers, got an abstract value"):
            jax.jit(lambda value, k=k: members_needed(*[value if i == k else 0.1 for i in range(3)]))(0.1)


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: finite_ensemble_tail(0.0, 1.0, 1), "delta"),
        (lambda: finite_ensemble_tail(np.nan, 1.0, 1), "delta"),
        (lambda: finite_ensemble_tail(0.1, -1.0, 1), "variance"),
        (lambda: finite_ensemble_tail(0.1, np.inf, 1), "variance"),
        (lambda: finite_ensemble_tail(0.1, 1.0, 0), "members"),
        (lambda: finite_ensemble_deviation(0.0, 1.0, 1), "epsilon"),
        (lambda: finite_ensemble_deviation(1.0, 1.0, 1), "epsilon"),
        (lambda: finite_ensemble_deviation(np.nan, 1.0, 1), "epsilon"),
        (lambda: finite_ensemble_deviation(0.1, -1e-9, 1), "variance"),
        (lambda: finite_ensemble_deviation(0.1, 1.0, 2.5), "members"),
        (lambda: finite_ensemble_deviation(0.1, 1.0, 10**400), "members"),
        (lambda: members_needed(0.1, -1.0, 1.0), "delta"),
        (lambda: members_needed(2.0, 1.0, 1.0), "epsilon"),
    ],
)
def test_bad_input(call, argument):
    with pytest.raises(ValueError, match=f"`{argument}`"):
        call()


def test_variances_that_xla_rounds_to_zero():
    """Numbers below the normal ones of single precision; a bound on a probability is no 0."""
    variance, delta = jnp.float32(1e-40), jnp.float32(1e-20)
    expected = np.sqrt(2 / np.pi) * np.exp(-0.5)
    rtol = 1e-5  # 1e-40 has five digits in float32
    np.testing.assert_allclose(finite_ensemble_tail(delta, variance, 1), expected, rtol=rtol)
    deviation = np.sqrt(special.lambertw(2 / (np.pi * 0.01)).real) * 1e-20
    np.testing.assert_allclose(finite_ensemble_deviation(0.1, variance, 1), deviation, rtol=rtol)
    for one in (variance, np.float32(1e-40), 1e-40):  # known, beside what is not
        np.testing.assert_allclose(jax.jit(lambda d, v=one: finite_ensemble_tail(d, v, 1))(delta), expected, rtol=rtol)
        found = jax.jit(lambda e, v=one: finite_ensemble_deviation(e, v, 1))(0.1)
        np.testing.assert_allclose(found, deviation, rtol=rtol)


def test_members_needed_for_numbers_whose_product_leaves_the_range():
    assert members_needed(1e-5, 1e154, 1e308) == members_needed(1e-5, 1.0, 1.0) == 20


def test_lists_of_abstract_numbers():
    for call in (
        lambda a: finite_ensemble_tail([a, 1.0], 1.0, 3),
        lambda a: finite_ensemble_tail(1.0, [a, 1.0], 3),
        lambda a: finite_ensemble_deviation([a, 0.1], 1.0, 3),
        lambda a: finite_ensemble_deviation(0.1, [a, 1.0], 3),
    ):
        np.testing.assert_allclose(jax.jit(call)(0.2), call(0.2), rtol=1e-5)
    with pytest.raises(ValueError, match="`epsilon`: expected numbers, got an abstract value"):
        jax.jit(lambda a: members_needed([a, 0.1], 1.0, 1.0))(0.1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: finite_ensemble_tail(np.ones(2), np.ones(3), 3),
            r"`variance`.*goes with \(2,\) of `delta`, got \(3,\)",
        ),
        (lambda: finite_ensemble_deviation(np.full(2, 0.1), np.ones(3), 3), r"`variance`.*of `epsilon`, got \(3,\)"),
        (lambda: members_needed(np.full(2, 0.1), np.ones(3), 1.0), r"`delta`.*of `epsilon`, got \(3,\)"),
        (lambda: members_needed(0.1, np.ones(2), np.ones(3)), r"`variance`.*of `epsilon` and `delta`, got \(3,\)"),
    ],
)
def test_shapes_that_do_not_go_together(call, message):
    with pytest.raises(ValueError, match=message):
        call()

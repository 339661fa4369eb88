"""Bent power laws: exact where there is no noise, and intervals and p-values that keep their promise where there is."""

import jax
import numpy as np
import pytest
from scipy.optimize import least_squares
from scipy.stats import binom

from eqbook.metrics import bend_p_value, bent_power_law

SIZES = np.array([320, 640, 1280, 2560, 5120, 10_240, 20_480, 45_000, 90_000])


def law(sizes, before, after, bend, error=0.5):
    steps = np.log(sizes / bend)
    return error * np.exp(-np.where(steps < 0, before, after) * steps)


def correlated(n, deviation, share=0.5):
    return deviation**2 * ((1 - share) * np.eye(n) + share)


def noisy(curve, covariance, draws, seed):
    noise = np.random.default_rng(seed).multivariate_normal(np.zeros(len(curve)), covariance, draws)
    return curve * np.exp(noise)


def not_too_few(hits, trials, probability, chance=1e-4):
    """Whether so few hits, or fewer, have at least the given chance."""
    return binom.cdf(hits, trials, probability) > chance


def test_finds_a_law_without_noise_again():
    fit = bent_power_law(SIZES, law(SIZES, 0.2, 0.45, 5120), correlated(9, 0.01))
    step = np.log(SIZES[-2] / SIZES[1]) / 399
    assert abs(np.log(fit.bend / 5120)) <= step
    np.testing.assert_allclose([fit.before, fit.after], [0.2, 0.45], atol=0.25 * step)
    for interval, value in ((fit.before_interval, 0.2), (fit.after_interval, 0.45), (fit.bend_interval, 5120)):
        assert interval[0] < value < interval[1]
    np.testing.assert_allclose(fit(fit.bend[None]), fit.error, rtol=1e-12)


def test_a_single_power_law_is_fitted_to_rounding():
    fit = bent_power_law(SIZES, 3 * SIZES**-0.31, correlated(9, 0.02))
    np.testing.assert_allclose([fit.slope, fit.before, fit.after], 0.31, atol=1e-9)
    np.testing.assert_allclose([fit.misfit, fit.single_misfit], 0, atol=1e-12)
    np.testing.assert_allclose(fit(SIZES), 3 * SIZES**-0.31, rtol=1e-9)


def test_agrees_with_a_nonlinear_search_and_with_the_chi_squared_of_its_own_curve():
    covariance = correlated(9, 0.03, 0.3) + np.diag(np.linspace(0, 1e-3, 9))
    root = np.linalg.inv(np.linalg.cholesky(covariance))
    (errors,) = noisy(law(SIZES, 0.2, 0.4, 6000), covariance, 1, 5)

    def residuals(p):
        return root @ (np.log(errors) - p[0] - np.log(law(SIZES, p[1], p[2], np.exp(p[3]), 1)))

    fit = bent_power_law(SIZES, errors, covariance)
    own = np.sum((root @ np.log(errors / fit(SIZES))) ** 2)
    np.testing.assert_allclose(own, fit.misfit, rtol=1e-8)
    starts = np.log(np.geomspace(SIZES[1], SIZES[-2], 12))[1:-1]
    best = min((least_squares(residuals, [np.log(0.5), 0.3, 0.3, b]) for b in starts), key=lambda r: r.cost)
    assert 2 * best.cost <= fit.misfit * (1 + 1e-9)
    np.testing.assert_allclose(fit.misfit, 2 * best.cost, rtol=0.01)
    np.testing.assert_allclose([fit.before, fit.after], best.x[1:3], atol=0.01)


@pytest.mark.parametrize("sizes", [SIZES, SIZES[:5]])
@pytest.mark.parametrize("deviation", [0.003, 0.03, 0.1])
@pytest.mark.parametrize("after", [0.4, 0.22, 0.2])
def test_intervals_cover(sizes, deviation, after):
    covariance, bend, trials = correlated(len(sizes), deviation), float(np.sqrt(sizes[0] * sizes[-1])), 500
    fit = bent_power_law(sizes, noisy(law(sizes, 0.2, after, bend), covariance, trials, 1), covariance)
    for interval, value in ((fit.before_interval, 0.2), (fit.after_interval, after), (fit.bend_interval, bend)):
        hits = np.sum((interval[:, 0] <= value) & (value <= interval[:, 1]))
        assert not_too_few(hits, trials, 0.95)


def test_p_values_of_single_laws_are_uniform_and_bends_are_found():
    covariance, trials = correlated(9, 0.02), 1000
    for slope in (0.1, 0.5):
        p = bend_p_value(SIZES, noisy(SIZES**-slope, covariance, trials, 2), covariance)
        for level in (0.01, 0.05, 0.5):
            hits = np.sum(p <= level)
            assert not_too_few(hits, trials, level) and not_too_few(trials - hits, trials, 1 - level)
    p = bend_p_value(SIZES, noisy(law(SIZES, 0.2, 0.4, 8000), covariance, 100, 3), covariance)
    assert (p < 0.001).all()


def test_axes_in_front_and_units_change_nothing():
    covariance = correlated(9, 0.05)
    errors = noisy(law(SIZES, 0.2, 0.3, 4000), covariance, 6, 4)
    many, one = bent_power_law(SIZES, errors.reshape(2, 3, 9), covariance), bent_power_law(SIZES, errors[4], covariance)
    assert many.bend.shape == (2, 3) and many.bend_interval.shape == (2, 3, 2) and many(SIZES).shape == (2, 3, 9)
    np.testing.assert_allclose(many.after[1, 1], one.after, rtol=1e-9)
    np.testing.assert_allclose(many.after_interval[1, 1], one.after_interval, rtol=1e-9)
    scaled = bent_power_law(10 * SIZES, 7 * errors[4], covariance)
    np.testing.assert_allclose([scaled.bend, scaled.error], [10 * one.bend, 7 * one.error], rtol=1e-9)
    p = bend_p_value(SIZES, errors.reshape(2, 3, 9), covariance)
    np.testing.assert_array_equal(p[1, 1], bend_p_value(10 * SIZES, 7 * errors[4], covariance))


def test_a_covariance_may_be_symmetric_to_rounding():
    exact = 1e-3 * np.eye(9)
    near = exact + 1e-20 * np.triu(np.ones((9, 9)), 1)
    errors = law(SIZES, 0.2, 0.4, 4000)
    assert bent_power_law(SIZES, errors, near).bend == bent_power_law(SIZES, errors, exact).bend


def test_wider_levels_give_wider_intervals():
    covariance = correlated(9, 0.02)
    errors = noisy(law(SIZES, 0.2, 0.4, 4000), covariance, 1, 6)[0]
    narrow, wide = (bent_power_law(SIZES, errors, covariance, level) for level in (0.5, 0.99))
    for name in ("slope_interval", "before_interval", "after_interval", "bend_interval"):
        (a, b), (c, d) = getattr(narrow, name), getattr(wide, name)
        assert c < a < b < d


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict(sizes=SIZES[:4], errors=np.ones(4), covariance=np.eye(4)), "`sizes`: expected at least five"),
        (dict(sizes=SIZES[::-1]), "`sizes`: expected at least five increasing"),
        (dict(errors=np.ones(8)), "`errors`: expected one for each of 9"),
        (dict(errors=np.zeros(9)), "`errors`: expected positive"),
        (dict(errors=np.full(9, np.nan)), "`errors`"),
        (dict(covariance=np.eye(8)), "`covariance`: expected a symmetric"),
        (dict(covariance=np.triu(np.ones((9, 9)))), "`covariance`: expected a symmetric matrix, got one with .* 1"),
        (dict(covariance=np.ones((9, 9))), "`covariance`: expected a positive definite"),
        (dict(sizes=[str(m) for m in SIZES]), "`sizes`: expected an array of real numbers"),
        (dict(covariance=np.full((9, 9), np.inf)), "`covariance`"),
        (dict(level=1.0), "`level`: expected a number between 0 and 1, got 1.0"),
        (dict(level="0.95"), "`level`"),
    ],
)
def test_refuses_what_it_cannot_fit(change, message):
    given = dict(sizes=SIZES, errors=np.ones(9), covariance=np.eye(9)) | change
    with pytest.raises(ValueError, match=message):
        bent_power_law(**given)
    if "level" not in change:
        with pytest.raises(ValueError, match=message):
            bend_p_value(**given)


def test_refuses_no_draws():
    with pytest.raises(ValueError, match="`draws`"):
        bend_p_value(SIZES, np.ones(9), np.eye(9), draws=0)


def test_small_integers():
    """Of 8 bits 127 + 1 is -128, and without a sign 255 + 1 is 0."""
    errors, covariance = law(SIZES, 0.2, 0.4, 4000), correlated(9, 0.05)
    for draws in (np.int8(127), np.uint8(255)):
        found = bend_p_value(SIZES, errors, covariance, draws, np.int8(0))
        assert found == bend_p_value(SIZES, errors, covariance, int(draws))


@pytest.mark.parametrize("deviation", [1e-4, 1e-8, 1e-10, 1e-12])
def test_misfit_of_small_errors(deviation):
    """The bend is one of the places that are tried: what is left there is noise, and of it the same part."""
    sizes = 2.0 ** np.arange(6)  # 8 is place 266 from 2 to 16
    noise = np.random.default_rng(0).normal(size=6)
    errors = law(sizes, 0.3, 1.1, 8.0) * np.exp(deviation * noise)
    fit = bent_power_law(sizes, errors, deviation**2 * np.eye(6))
    steps = np.log(sizes / 8)
    columns = np.stack([np.ones(6), np.minimum(steps, 0), np.maximum(steps, 0)], 1)
    rest = noise - columns @ np.linalg.lstsq(columns, noise, rcond=None)[0]
    # Logarithms are rounded to 2^-53, which is a part of the deviation.
    np.testing.assert_allclose(fit.misfit, np.sum(rest**2), rtol=1e-3 + 50 * np.finfo(float).eps / deviation)


def test_the_highest_level():
    """(1 + level) / 2 is rounded to 1, whose quantile is infinite."""
    fit = bent_power_law(SIZES, law(SIZES, 0.2, 0.4, 4000), correlated(9, 0.05), 1 - 2.0**-53)
    assert np.isfinite(fit.slope_interval).all()


@pytest.mark.parametrize("sizes", [1e16 + np.arange(0, 18, 2), 1e14 + np.arange(9)])
def test_sizes_whose_logarithms_are_rounded_to_one(sizes):
    for call in (bent_power_law, lambda *arrays: bend_p_value(*arrays, draws=9)):
        with pytest.raises(ValueError, match="`sizes`: expected sizes whose logarithms differ"):
            call(sizes, law(SIZES, 0.2, 0.4, 4000), correlated(9, 0.05))


def test_sizes_that_do_not_go_with_the_curves():
    fit = bent_power_law(SIZES, np.stack([law(SIZES, 0.2, 0.4, 4000)] * 3), correlated(9, 0.05))
    assert fit(np.ones(5)).shape == fit(np.ones((3, 5))).shape == (3, 5)
    with pytest.raises(
        ValueError, match=r"`sizes`: expected sizes \[n\] for curves of shape \(3,\), got shape \(2, 5\)"
    ):
        fit(np.ones((2, 5)))


def test_abstract_arguments():
    given = dict(sizes=SIZES, errors=law(SIZES, 0.2, 0.4, 4000), covariance=correlated(9, 0.05))
    fit = bent_power_law(**given)
    for name, value in given.items():
        for call in (lambda **arrays: bent_power_law(**arrays).bend, bend_p_value):
            with pytest.raises(ValueError, match=f"`{name}`: expected numbers, got an abstract value"):
                jax.jit(lambda one, name=name, call=call: call(**given | {name: one}))(value)
    with pytest.raises(ValueError, match="`sizes`: expected numbers, got an abstract value"):
        jax.jit(lambda sizes: fit(sizes))(SIZES)

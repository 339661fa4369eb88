"""Metrics: their definitions on cases that can be counted by hand, their invariances, and bad input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eqbook.metrics import bootstrap_interval, orbit_same_predictions, relative_orbit_std


def test_orbit_same_predictions_by_hand():
    scores = np.zeros((4, 2, 3))
    scores[:, 0, 1] = 1  # class 1 everywhere
    scores[[0, 2], 1, 0] = 1  # class 0 at two elements, class 2 at one, class 1 at the last
    scores[1, 1, 2] = scores[3, 1, 1] = 1
    np.testing.assert_array_equal(orbit_same_predictions(scores), [4, 2])


def test_orbit_same_predictions_counts_the_identity_and_at_most_the_order():
    scores = jax.random.normal(jax.random.key(0), (5, 50, 4))
    osp = orbit_same_predictions(scores)
    assert osp.min() >= 1 and osp.max() <= 5
    np.testing.assert_array_equal(osp, orbit_same_predictions(3 * scores + 1))


def test_relative_orbit_std_by_hand_and_scale_free():
    values = np.array([[1.0, 2.0, -4.0], [3.0, 2.0, -4.0]])
    np.testing.assert_allclose(relative_orbit_std(values), [0.5, 0, 0])
    np.testing.assert_allclose(relative_orbit_std(-7 * values), [0.5, 0, 0], rtol=1e-6)


def test_relative_orbit_std_is_exactly_zero_for_equal_outputs():
    """0.1 + 0.1 + 0.1 rounds: a mean of three equal numbers is not the number."""
    for value in (0.1, 1.3e-3, 7e5):
        np.testing.assert_array_equal(relative_orbit_std(np.full((3, 2), value, np.float32)), 0)


def test_lists():
    np.testing.assert_array_equal(orbit_same_predictions([[[1.0, 0.0]], [[0.0, 1.0]]]), [1])
    np.testing.assert_allclose(relative_orbit_std([[1.0], [3.0]]), [0.5])
    low, high = bootstrap_interval(jax.random.key(0), [1.0, 2.0, 3.0])
    assert 1 <= low < high <= 3


def test_bootstrap_interval_covers_the_mean_as_often_as_it_says():
    """Coverage of the 90 % interval over 300 data sets: binomial, so within 4 standard deviations of 0.9."""
    keys = jax.random.split(jax.random.key(1), 300)
    covered = []
    for key in keys:
        data_key, boot_key = jax.random.split(key)
        low, high = _interval(boot_key, jax.random.normal(data_key, (60,)))
        covered.append(bool(low <= 0 <= high))
    # The percentile interval of 60 normal samples is slightly short: its own coverage is 0.89, not 0.90.
    assert abs(np.mean(covered) - 0.89) < 4 * np.sqrt(0.9 * 0.1 / 300)


@jax.jit
def _interval(key, values):
    return bootstrap_interval(key, values, level=0.9, resamples=400)


def test_bootstrap_of_another_statistic():
    values = jnp.arange(101.0)
    low, high = bootstrap_interval(jax.random.key(0), values, statistic=jnp.median)
    assert 30 < low < 50 < high < 70


BAD = {
    "osp shape": (lambda: orbit_same_predictions(np.ones((4, 3))), r"`outputs`: expected 3 axes \[order, n, classes\]"),
    "osp nan": (lambda: orbit_same_predictions(np.full((4, 3, 2), np.nan)), "`outputs`: expected finite numbers"),
    "std shape": (lambda: relative_orbit_std(np.ones(3)), r"`outputs`: expected 2 axes \[order, n\]"),
    "osp no element": (lambda: orbit_same_predictions(np.ones((0, 3, 2))), "expected at least one element and one"),
    "osp no class": (lambda: orbit_same_predictions(np.ones((4, 3, 0))), "expected at least one element and one"),
    "std no element": (lambda: relative_orbit_std(np.ones((0, 3))), "`outputs`: expected at least one element"),
    "std complex": (lambda: relative_orbit_std(np.ones((2, 2)) * 1j), "`outputs`: expected an array of real"),
    "std inf": (lambda: relative_orbit_std(np.full((2, 2), np.inf)), "`outputs`: expected finite numbers"),
    "one sample": (
        lambda: bootstrap_interval(jax.random.key(0), np.ones(1)),
        "`values`: expected at least two samples",
    ),
    "level": (
        lambda: bootstrap_interval(jax.random.key(0), np.ones(3), level=95),
        "`level`: expected a number between",
    ),
    "resamples": (
        lambda: bootstrap_interval(jax.random.key(0), np.ones(3), resamples=1),
        "`resamples`: expected an integer",
    ),
    "nan sample": (lambda: bootstrap_interval(jax.random.key(0), np.array([1, np.nan])), "`values`: expected finite"),
}


@pytest.mark.parametrize("make, message", BAD.values(), ids=list(BAD))
def test_bad_input(make, message):
    with pytest.raises(ValueError, match=message):
        make()

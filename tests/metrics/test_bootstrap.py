"""Bootstrap intervals: coverage, variance of the resampled mean along one and two axes, and bad input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eqbook.metrics import bootstrap_interval, normal_interval, orbit_same_predictions


def test_covers_the_mean_as_often_as_it_says():
    """Coverage of the 90 % interval over 300 data sets: binomial, so within 4 standard deviations of 0.9."""
    keys = jax.random.split(jax.random.key(1), 300)

    @jax.jit
    def covers(key):
        data_key, boot_key = jax.random.split(key)
        low, high = bootstrap_interval(boot_key, jax.random.normal(data_key, (60,)), level=0.9, resamples=400)
        return (low <= 0) & (0 <= high)

    # The percentile interval of 60 normal samples is slightly short: its own coverage is 0.89, not 0.90.
    assert abs(np.mean([covers(key) for key in keys]) - 0.89) < 4 * np.sqrt(0.9 * 0.1 / 300)


def test_another_statistic_and_lists():
    low, high = bootstrap_interval(jax.random.key(0), jnp.arange(101.0), statistic=jnp.median)
    assert 30 < low < 50 < high < 70
    low, high = bootstrap_interval(jax.random.key(0), [1, 2, 3])
    assert 1 <= low < high <= 3


def two_way(key, members=6, inputs=9):
    keys = jax.random.split(key, 3)
    member, input_, rest = (
        jax.random.normal(k, shape) for k, shape in zip(keys, [(members, 1), (1, inputs), (members, inputs)])
    )
    return np.asarray(2 * member + input_ + 0.5 * rest, np.float64)


@pytest.mark.every(4)
@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1), (1, 0)])
def test_variance_of_the_resampled_mean(axes):
    """The variance given the data is known: S_a^2 / M and S_b^2 / n along one axis, with S_e^2 / M n both."""
    values = two_way(jax.random.key(3))
    members, inputs = values.shape
    by_member, by_input = values.mean(1), values.mean(0)
    rest = values - by_member[:, None] - by_input + values.mean()
    both = {0: by_member.var() / members, 1: by_input.var() / inputs}
    expected = sum(both[axis] for axis in axes) + (rest.var() / rest.size if len(axes) == 2 else 0)
    resamples = 4000
    seen = []

    def mean(sample):
        value = jnp.mean(sample)
        jax.debug.callback(lambda v: seen.append(float(v)), value)
        return value

    bootstrap_interval(jax.random.key(7), values, mean, 0.9, resamples, axes)
    jax.effects_barrier()
    assert len(seen) == resamples
    # Relative standard error of a variance of nearly normal numbers: sqrt(2 / resamples).
    assert abs(np.var(seen) / expected - 1) < 4 * np.sqrt(2 / resamples) * 1.2
    assert abs(np.mean(seen) - values.mean()) < 4 * np.sqrt(expected / resamples)


def test_default_statistic_of_two_axes_is_the_mean_over_both():
    values = two_way(jax.random.key(4))[..., None] + np.arange(3.0)
    low, high = bootstrap_interval(jax.random.key(0), values, axes=(0, 1))
    assert low.shape == high.shape == (3,)
    np.testing.assert_allclose(low - low[0], np.arange(3), atol=1e-5)
    one, _ = bootstrap_interval(jax.random.key(0), values, axes=(1,))
    assert one.shape == (6, 3)


def test_two_axes_cover_the_mean_over_members_and_inputs():
    """One axis alone answers for the inputs at hand, and misses the mean over all far more often."""
    keys = jax.random.split(jax.random.key(5), 200)

    @jax.jit
    def covers(key):
        k = jax.random.split(key, 4)
        values = (
            jax.random.normal(k[0], (25, 1)) + 2 * jax.random.normal(k[1], (30,)) + jax.random.normal(k[2], (25, 30))
        )
        intervals = [bootstrap_interval(k[3], values, jnp.mean, 0.9, 300, axes) for axes in ((0,), (0, 1))]
        return jnp.array([(low <= 0) & (0 <= high) for low, high in intervals])

    one, two = np.mean([covers(key) for key in keys], axis=0)
    error = np.sqrt(0.9 * 0.1 / 200)
    # Along members it sees the variance 1 / 25 of 1 / 25 + 4 / 30: a coverage of 0.58.
    assert one < 0.58 + 4 * np.sqrt(0.58 * 0.42 / 200)
    assert 0.88 - 4 * error < two  # percentile intervals of 25 samples are a little short


def test_metric_of_an_ensemble():
    """Members and inputs of OSP of the mean over members: whole arrays go to the statistic."""
    outputs = jax.random.normal(jax.random.key(0), (5, 4, 12, 3)) + 3 * jax.random.normal(jax.random.key(1), (12, 3))

    def osp(sample):  # [members, order, n, classes]
        return jnp.mean(orbit_same_predictions(sample.mean(0)))

    low, high = bootstrap_interval(jax.random.key(2), outputs, osp, axes=(0, 2), resamples=200)
    assert 1 <= low < high <= 4 and low <= osp(outputs) <= high


BAD = {
    "one sample": (dict(values=np.ones(1)), "`values`: expected at least two samples"),
    "number": (dict(values=1.0), "`values`: expected at least two samples"),
    "one member": (dict(values=np.ones((1, 4)), axes=(0, 1)), "`values`: expected at least two samples"),
    "level": (dict(level=95), "`level`: expected a number between"),
    "resamples": (dict(resamples=1), "`resamples`: expected an integer"),
    "nan": (dict(values=np.array([1, np.nan])), "`values`: expected finite"),
    "no axes": (dict(axes=()), "`axes`: expected a tuple"),
    "number of axes": (dict(axes=1), "`axes`: expected a tuple"),
    "same axis": (dict(axes=(0, 0)), "`axes`: expected different axes"),
    "axis out of range": (dict(axes=(1,)), "`axes`: expected different axes"),
    "negative axis": (dict(axes=(-1,)), "`axes`: expected an integer"),
}


@pytest.mark.parametrize("changes, message", BAD.values(), ids=list(BAD))
def test_bad_input(changes, message):
    arguments = {"values": np.ones(3), **changes}
    with pytest.raises(ValueError, match=message):
        bootstrap_interval(jax.random.key(0), **arguments)


@pytest.mark.every(2)
@pytest.mark.parametrize("statistic", [None, jnp.mean])
def test_numbers_that_jax_would_narrow(statistic):
    """A molecule's energy in meV, spread by half of one: in single precision they are two numbers."""
    values = -407 * 27211.386 + 0.5 * np.random.default_rng(0).normal(size=200)
    low, high = bootstrap_interval(jax.random.key(0), values, statistic)
    assert low.dtype == np.float64
    near_0 = bootstrap_interval(jax.random.key(0), values - values.mean(), statistic)
    np.testing.assert_allclose([low - values.mean(), high - values.mean()], near_0, rtol=1e-6)
    narrow = bootstrap_interval(jax.random.key(0), jnp.asarray(values - values.mean()), statistic)
    np.testing.assert_allclose(near_0, narrow, rtol=1e-5)  # the same draws
    large = bootstrap_interval(jax.random.key(0), 1e300 * (values - values.mean()), statistic)
    np.testing.assert_allclose(np.array(large) / 1e300, near_0, rtol=1e-12)


def test_normal_interval(x64):
    """Of draws from a normal law it is the central one, to the error of 100,000 draws; of few it does not jump."""
    draws = np.random.default_rng(0).normal(3.0, 2.0, (100_000, 2))
    low, high = normal_interval(draws, 0.99)
    assert low.shape == high.shape == (2,)
    # Standard errors: of the mean 2 / sqrt(n), of z s z times 2 / sqrt(2 n).
    error = 2 / np.sqrt(len(draws)) * np.sqrt(1 + 2.5758**2 / 2)
    assert np.abs(low - (3 - 2.5758 * 2)).max() < 4 * error
    assert np.abs(high - (3 + 2.5758 * 2)).max() < 4 * error
    low, high = normal_interval([1.0, 2.0, 3.0], level=0.6826894921)
    np.testing.assert_allclose([low, high], [1.0, 3.0], rtol=1e-9)


@pytest.mark.parametrize("kind", [">f8", "longdouble"])
def test_other_floats_of_numpy_keep_their_digits(kind):
    values = 1e10 + np.arange(9.0)
    ends = bootstrap_interval(jax.random.key(0), values.astype(kind), resamples=np.int8(100))
    assert all(isinstance(end, np.ndarray) and end.dtype == np.float64 for end in ends)
    np.testing.assert_array_equal(ends, bootstrap_interval(jax.random.key(0), values, resamples=100))


def test_known_numbers_inside_transformations(quick_to_compile):
    """With a statistic of known numbers all digits count; one of abstract numbers has those of JAX."""
    key, values, one = jax.random.key(0), 1e10 + np.arange(9.0), jnp.asarray(1.0)

    def width(a, values=values, statistic=None):
        low, high = bootstrap_interval(key, values, statistic, resamples=50)
        return a * (high - low)

    expected = width(1.0)
    assert 1 < expected < 6
    for found in (jax.jit(width)(one), jax.jit(lambda a: width(a, statistic=jnp.mean))(one)):
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    near_0 = values - 1e10
    of_abstract = lambda a: width(1.0, values=near_0, statistic=lambda sample: a * jnp.mean(sample))  # noqa: E731
    for found in (jax.jit(jax.grad(of_abstract))(one), jax.vmap(of_abstract)(one[None])[0]):
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_lists_of_abstract_numbers():
    found = jax.jit(lambda a: bootstrap_interval(jax.random.key(0), [a, 1.0, 2.0]))(0.0)
    np.testing.assert_allclose(found, bootstrap_interval(jax.random.key(0), [0.0, 1.0, 2.0]), rtol=1e-6)


def test_statistic_of_complex_numbers():
    with pytest.raises(ValueError, match="`statistic`.*complex"):
        bootstrap_interval(jax.random.key(0), np.arange(3.0), lambda sample: 1j * jnp.mean(sample))


def test_normal_interval_in_any_unit():
    """Squares of these leave the range of double precision."""
    draws = np.array([[1.0, -3.0], [3.0, 0.5], [2.0, 0.0]])
    expected = np.array(normal_interval(draws))
    for exponent in (-1070, -665, 665, 1020):
        unit = np.ldexp(1.0, exponent)
        if exponent > -1000:
            np.testing.assert_array_equal(normal_interval(draws * unit), expected * unit)
        else:  # of a subnormal number few digits are left
            np.testing.assert_allclose(normal_interval(draws * unit), expected * unit, atol=np.ldexp(1.0, -1073))
    np.testing.assert_array_equal(normal_interval(draws * [1e-200, 1e200])[0] < 0, [True, True])
    np.testing.assert_array_equal(normal_interval(np.zeros(3)), [0, 0])


def test_normal_interval_of_the_highest_level():
    """The quantile of 1 - 2^-54 is 8.29; (1 + level) / 2 is rounded to 1."""
    low, high = normal_interval([1.0, 2.0, 3.0], level=1 - 2.0**-53)
    np.testing.assert_allclose([low, high], [2 - 8.2924, 2 + 8.2924], atol=1e-3)


@pytest.mark.parametrize("draws", [[1e308, 1.5e308], [[-1e308, 0.0], [1e308, 0.0]]])
def test_normal_interval_that_leaves_the_range(draws):
    with pytest.raises(ValueError, match="`draws`: expected numbers that stay finite in float64"):
        normal_interval(draws)


def test_normal_interval_of_abstract_draws():
    for call in (normal_interval, lambda draws: normal_interval([draws[0], 1.0])):
        with pytest.raises(ValueError, match="`draws`: expected numbers, got an abstract value"):
            jax.jit(call)(jnp.ones(3))

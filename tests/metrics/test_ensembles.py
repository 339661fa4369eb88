import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eqbook.metrics import bootstrap_ensembles, disjoint_ensembles, orbit_same_predictions


def spread(outputs):
    """A metric that is linear in nothing: the variance over the orbit."""
    return outputs.var(0).sum(-1)


def test_disjoint_ensembles_are_means_of_different_members():
    outputs = np.arange(7.0)[:, None] * np.ones(3)
    assert np.array_equal(disjoint_ensembles(outputs, 3)[:, 0], [1.0, 4.0])
    assert np.array_equal(disjoint_ensembles(outputs, 1), outputs)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_sums_of_narrow_floats_keep_their_digits(dtype):
    """In bfloat16 256 + 1 is 256, and in float16 two times 60000 is infinite."""
    for value in (1, 60000):
        outputs = jnp.full((1000, 2), value, dtype)
        means = disjoint_ensembles(outputs, 1000)
        assert means.dtype == dtype and np.array_equal(means, np.asarray(outputs)[:1])
    outputs = np.ones((1000, 2, 3, 1), dtype)
    draws = bootstrap_ensembles(jax.random.key(0), outputs, lambda values: values[0, :, 0], 5)
    # Weights of members are rounded in float32, one after the other.
    np.testing.assert_allclose(draws.ensemble, 1, rtol=1000 * np.finfo(np.float32).eps)


@pytest.mark.parametrize("size", [0, 8, 2.5])
def test_size_of_an_ensemble(size):
    with pytest.raises(ValueError, match="`size`"):
        disjoint_ensembles(np.zeros((7, 3)), size)


def test_draws_spread_as_much_as_new_samples_do():
    # For x_ij = a_i + b_j the standard deviation of the mean over both is known.
    rng = np.random.default_rng(0)
    members, n = 40, 60
    first, second = rng.normal(size=members), 2 * rng.normal(size=n)
    outputs = (first[:, None] + second)[:, None, :, None]
    draws = bootstrap_ensembles(jax.random.key(0), outputs, lambda values: values[0, :, 0], 4000)
    expected = np.sqrt(first.var() / members + second.var() / n)
    # A standard deviation from 4000 draws is known to 1 / sqrt(8000) of itself; five of these.
    assert abs(draws.ensemble.std() / expected - 1) < 5 / np.sqrt(8000)
    # The metric is linear, so an ensemble's is the mean of its members', draw by draw.
    np.testing.assert_allclose(draws.ensemble, draws.members, atol=1e-12)


def test_integers_have_the_means_of_their_numbers():
    votes = np.random.default_rng(2).integers(0, 5, (6, 4, 10, 3))
    one, other = (
        bootstrap_ensembles(jax.random.key(0), scores, orbit_same_predictions, 20) for scores in (votes, votes + 0.0)
    )
    np.testing.assert_array_equal(one.ensemble, other.ensemble)
    np.testing.assert_array_equal(one.members, other.members)


def test_paired_difference_sees_that_an_ensemble_varies_less():
    outputs = np.random.default_rng(1).normal(size=(30, 4, 20, 3))
    draws = bootstrap_ensembles(jax.random.key(1), outputs, spread)
    assert np.all(draws.ensemble < draws.members / 5)
    again = bootstrap_ensembles(jax.random.key(1), outputs, spread)
    assert np.array_equal(draws.ensemble, again.ensemble)
    assert not np.array_equal(draws.ensemble, bootstrap_ensembles(jax.random.key(2), outputs, spread).ensemble)


def test_takes_the_metrics_of_the_package():
    outputs = np.random.default_rng(2).normal(size=(5, 4, 6, 3)).astype(np.float32)
    draws = bootstrap_ensembles(jax.random.key(0), outputs, orbit_same_predictions, 10)
    assert np.all((draws.ensemble >= 1) & (draws.ensemble <= 4)) and draws.members.shape == (10,)


@pytest.mark.parametrize(
    ("outputs", "metric", "name"),
    [
        (np.zeros((1, 4, 5, 2)), spread, "outputs"),
        (np.zeros((3, 4, 1, 2)), spread, "outputs"),
        (np.zeros((3, 4, 5)), spread, "outputs"),
        (np.full((3, 4, 5, 2), np.nan), spread, "outputs"),
        (np.zeros((3, 4, 5, 2)), np.mean, "metric"),
    ],
)
def test_bad_input(outputs, metric, name):
    with pytest.raises(ValueError, match=f"`{name}`"):
        bootstrap_ensembles(jax.random.key(0), outputs, metric)


def test_small_integers():
    """Of 8 bits no number is 300."""
    outputs = np.arange(300.0)
    np.testing.assert_array_equal(disjoint_ensembles(outputs, np.int8(3)), disjoint_ensembles(outputs, 3))
    draws = bootstrap_ensembles(jax.random.key(0), np.ones((3, 1, 2, 1)), spread, np.int8(7))
    assert draws.ensemble.shape == (7,)


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_sums_of_many_members_keep_their_digits(dtype):
    """Added one after the other in single precision, 20,000 times 0.1 is off by 1.7e-4 of itself."""
    outputs = np.full((20_000, 3), dtype(0.1 + 0.2j if dtype is np.complex64 else 0.1))
    means = disjoint_ensembles(outputs, len(outputs))
    assert means.dtype == dtype and np.array_equal(means, outputs[:1])
    large = np.full((2, 1), 3e38, dtype)  # their sum leaves the dtype
    assert np.array_equal(disjoint_ensembles(large, 2), large[:1])


def test_truth_values_of_a_metric_are_counted():
    outputs = np.random.default_rng(0).normal(size=(3, 2, 5, 1))
    one, other = (
        bootstrap_ensembles(jax.random.key(0), outputs, lambda o, kind=kind: (o[0, :, 0] > 0).astype(kind), 5)
        for kind in (bool, float)
    )
    np.testing.assert_array_equal(one.ensemble, other.ensemble)


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        (lambda o: 1j * o[0, :, 0], "`metric`: expected real numbers, got dtype complex128"),
        (lambda o: np.nan * o[0, :, 0], "`metric`: expected finite numbers, got nan"),
        (lambda o: np.full(5, np.inf), "`metric`: expected finite numbers, got inf"),
        (lambda o: ["a"] * 5, "`metric`: expected an array of numbers"),
        (lambda o: [[1.0], [1.0, 2.0]], "`metric`: expected an array, got lists that differ in length"),
    ],
)
def test_metrics_that_make_no_real_numbers(metric, message):
    with pytest.raises(ValueError, match=message):
        bootstrap_ensembles(jax.random.key(0), np.ones((3, 4, 5, 2)), metric)


def test_abstract_arguments():
    outputs, key = jnp.ones((3, 2, 4, 2)), jax.random.key(0)
    for call, given, message in (
        (lambda o: disjoint_ensembles(o, 2), outputs, "`outputs`: expected numbers"),
        (lambda o: bootstrap_ensembles(key, o, spread).ensemble, outputs, "`outputs`: expected numbers"),
        (lambda k: bootstrap_ensembles(k, outputs, spread).ensemble, key, "`key`: expected one random key"),
        (lambda a: bootstrap_ensembles(key, outputs, lambda o: a * spread(o)).ensemble, 1.0, "`metric`: expected"),
    ):
        with pytest.raises(ValueError, match=f"{message}.*, got an abstract value"):
            jax.jit(call)(given)
    known = jax.jit(lambda a: a * bootstrap_ensembles(key, outputs, spread, 5).ensemble)(1.0)
    np.testing.assert_array_equal(known, bootstrap_ensembles(key, outputs, spread, 5).ensemble)

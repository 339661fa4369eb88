"""The two losses against their formulas."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numbers_drawn import normal

from eqbook.ensembles import cross_entropy, squared_error
from eqbook.ensembles.epoch import _added


def test_squared_error_is_half_the_sum():
    assert float(squared_error(jnp.array([[1.0, 2.0], [3.0, 0.0]]), jnp.array([[0.0, 0.0], [1.0, 0.0]]))) == 4.5


def test_cross_entropy_of_equal_scores_is_log_of_classes():
    np.testing.assert_allclose(cross_entropy(jnp.zeros((3, 10)), jnp.arange(3)), np.log(10), rtol=1e-6)


def test_cross_entropy_is_the_mean_log_likelihood():
    scores = normal(0, (4, 3))
    labels = jnp.array([0, 2, 1, 1])
    exponentials = np.exp(np.asarray(scores, np.float64))
    expected = -np.mean(np.log(exponentials[np.arange(4), labels] / exponentials.sum(1)))
    np.testing.assert_allclose(cross_entropy(scores, labels), expected, rtol=1e-6)


def test_the_mean_over_many_epochs_keeps_its_digits():
    """A sum in single precision would have lost a hundredth."""
    start = jnp.float32(0), jnp.float32(0)
    total, lost = jax.lax.fori_loop(0, 10**6, lambda _, carry: _added(*carry, jnp.float32(0.1)), start)
    mean = (float(total) + float(lost)) / 10**6
    assert mean == pytest.approx(float(np.float32(0.1)), rel=1e-9)
    total, lost = _added(*_added(jnp.float32(1e8), jnp.float32(0), jnp.float32(1)), jnp.float32(-1e8))
    assert float(total) + float(lost) == 1


@pytest.mark.parametrize("targets", [jnp.zeros(3), jnp.zeros((3, 1), int), jnp.zeros(2, int)])
def test_cross_entropy_wants_one_class_per_example(targets):
    with pytest.raises(ValueError, match="`y`"):
        cross_entropy(jnp.zeros((3, 2)), targets)


@pytest.mark.parametrize("shape", [(3,), (3, 2, 2, 4)])
def test_cross_entropy_wants_vectors_of_scores(shape):
    with pytest.raises(ValueError, match=r"`outputs`: expected scores \[n, classes\], got shape"):
        cross_entropy(jnp.zeros(shape), jnp.zeros(3, int))


def test_squared_error_does_not_broadcast():
    with pytest.raises(ValueError, match="`y`"):
        squared_error(jnp.zeros((3, 2)), jnp.zeros((3, 1)))


@pytest.mark.parametrize("wrong", [-1, 2])
def test_cross_entropy_of_what_is_no_class(wrong):
    """A negative index would stand for the last class; inside `jit` values are not known."""
    targets = jnp.array([0, wrong, 1])
    with pytest.raises(ValueError, match="`y`: expected classes 0 .. 1, one for each score, got"):
        cross_entropy(jnp.zeros((3, 2)), targets)
    assert jax.jit(cross_entropy)(jnp.zeros((3, 2)), jnp.array([0, 1, 1])) == pytest.approx(np.log(2))

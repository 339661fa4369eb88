"""How invariant predictions are over an orbit, and how sure an average is."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from eqbook._checks import check_finite, check_int, check_ndim


def orbit_same_predictions(outputs: Float[Array, "order n classes"]) -> Int[Array, " n"]:
    r"""Number of group elements that leave the predicted class unchanged.

    $\mathrm{OSP}(x) = |\{g \in G : \arg\max f(\rho(g) x) = \arg\max f(x)\}|$. The identity counts, so the value is
    between 1 and $|G|$; a model with invariant classes reaches $|G|$ everywhere.

    Args:
        outputs: class scores over the orbit of each input, `[order, n, classes]`, the identity first.

    Raises:
        ValueError: if the shape is another or a score is not finite.

    References:
        Gerken, Kessel, "Emergent Equivariance in Deep Ensembles", ICML 2024, https://arxiv.org/abs/2403.03103
    """
    check_ndim("outputs", outputs, 3, "order, n, classes")
    check_finite("outputs", outputs)
    if 0 in (np.shape(outputs)[0], np.shape(outputs)[2]):
        raise ValueError(f"`outputs`: expected at least one element and one class, got shape {np.shape(outputs)}.")
    predicted = jnp.argmax(jnp.asarray(outputs), axis=-1)
    return jnp.sum(predicted == predicted[0], axis=0)


def relative_orbit_std(outputs: Float[Array, "order n"]) -> Float[Array, " n"]:
    r"""Standard deviation over the orbit in units of the orbit's mean.

    $\mathrm{std}_{g} f(\rho(g) x) \,/\, |\mathrm{mean}_{g} f(\rho(g) x)|$: the spread (population form) over
    the orbit. It is 0 exactly for an invariant model and does not change when the outputs are rescaled.

    Args:
        outputs: scalar outputs over the orbit of each input, `[order, n]`.

    Raises:
        ValueError: if the shape is another or an output is not finite.

    References:
        Gerken, Kessel, "Emergent Equivariance in Deep Ensembles", ICML 2024, https://arxiv.org/abs/2403.03103
    """
    check_ndim("outputs", outputs, 2, "order, n")
    check_finite("outputs", outputs)
    if np.shape(outputs)[0] == 0:
        raise ValueError(f"`outputs`: expected at least one element, got shape {np.shape(outputs)}.")
    outputs = jnp.asarray(outputs)
    # Differences to the first element: they, and so their spread, are exactly 0 where all outputs are equal.
    return jnp.std(outputs - outputs[0], axis=0) / jnp.abs(jnp.mean(outputs, axis=0))


def bootstrap_interval(
    key: jax.Array,
    values: Float[Array, "n ..."],
    statistic: Callable[[Array], Array] = lambda sample: jnp.mean(sample, axis=0),
    level: float = 0.95,
    resamples: int = 1000,
) -> tuple[Array, Array]:
    """Percentile bootstrap confidence interval of a statistic of independent samples.

    Args:
        key: random key.
        values: samples along the first axis, `[n, ...]`.
        statistic: function of a resampled array `[n, ...]`; the mean if not given.
        level: confidence level, between 0 and 1.
        resamples: number of resampled sets.

    Returns:
        Lower and upper end, each of the statistic's shape.

    Raises:
        ValueError: if there are fewer than two samples, one is not finite, or the level is not between 0 and 1.

    References:
        Efron, Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 13.
    """
    check_int("resamples", resamples, 2)
    if np.ndim(values) == 0 or len(values) < 2:
        raise ValueError(f"`values`: expected at least two samples [n, ...], got shape {np.shape(values)}.")
    check_finite("values", values)
    if not 0 < level < 1:
        raise ValueError(f"`level`: expected a number between 0 and 1, got {level!r}.")
    values = jnp.asarray(values)
    n = len(values)

    def resample(k: jax.Array) -> Array:
        return statistic(values[jax.random.randint(k, (n,), 0, n)])

    draws = jax.lax.map(resample, jax.random.split(key, resamples))
    tails = jnp.asarray([(1 - level) / 2, (1 + level) / 2])
    lower, upper = jnp.quantile(draws, tails, axis=0)
    return lower, upper

"""How sure an average over members, over inputs, or over both is."""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.special import ndtri

from eqbook._checks import (
    as_float,
    check_finite,
    check_function,
    check_int,
    check_key,
    check_known,
    check_level,
    check_range,
    check_rectangular,
    joined,
)
from eqbook._shown import shown
from eqbook.metrics.wide import in_all_digits


def bootstrap_interval(
    key: jax.Array,
    values: Float[Array, "n ..."],
    statistic: Callable[[Array], Array] | None = None,
    level: float = 0.95,
    resamples: int = 1000,
    axes: Sequence[int] = (0,),
) -> tuple[Array, Array]:
    r"""Percentile bootstrap confidence interval of a statistic of independent samples.

    Each resampled set draws as many samples as there are, with replacement; the interval holds the statistic of the
    middle `level` of all sets. With one axis: members, or inputs. With two, for example `axes=(0, 1)` for values
    `[members, inputs]`, members and inputs are drawn independently of each other, and an entry appears as often as its
    member times its input. For the mean $\bar x$ of $x_{ij} = \mu + a_i + b_j + e_{ij}$ over $M$ members and $n$ inputs
    the variance of the resampled mean is then $S_a^2 / M + S_b^2 / n + S_e^2 / M n$, with $S_a^2$ the variance of the
    means over inputs, $S_b^2$ that of the means over members and $S_e^2$ that of the rest. In expectation it counts $a$
    and $b$ with factors $1 - 1/M$ and $1 - 1/n$, as one-way resampling does, and $e$ nearly three times: on the safe
    side. Resampling only members, or only inputs, answers for these inputs, or these members, alone.

    Args:
        key: random key.
        values: samples along `axes`, for example `[members, inputs, ...]`.
        statistic: function of a resampled array of the shape of `values`; the mean over `axes` if not given. For a
            metric of an ensemble: the metric of the mean over members.
        level: confidence level, between 0 and 1.
        resamples: number of resampled sets.
        axes: axes along which samples are independent, each resampled on its own.

    Returns:
        Lower and upper end, each of the statistic's shape; of NumPy's numbers of 64 bits as arrays of NumPy, so that no
        digit is lost where JAX has 32, unless `key` or what `statistic` uses is abstract (inside `jit`).

    Raises:
        ValueError: if there are fewer than two samples or resampled sets, a sample is not finite, an axis is not one of
            `values` or named twice, `statistic` is no function of an array of JAX that makes one of real numbers, an
            end of the mean's interval has left the dtype, or the level is not between 0 and 1.

    References:
        Efron, Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 13.
        Owen, "The pigeonhole bootstrap", Annals of Applied Statistics 1, 2007 (two axes).
    """
    resamples = check_int("resamples", resamples, 2)
    values = joined("values", values)
    axes = _check_axes(values, axes)
    check_finite("values", values)
    check_key("key", key)
    level = check_level("level", level)
    own = statistic is not None
    if not own:
        statistic = lambda sample: jnp.mean(sample, axis=axes)  # noqa: E731
    check_function("statistic", statistic, "jnp.mean")

    def ends() -> tuple[Array, Array]:
        samples = as_float(values, "values")

        def resample(k: jax.Array) -> Array:
            sample = samples
            for axis, axis_key in zip(axes, jax.random.split(k, len(axes))):
                n = samples.shape[axis]
                sample = jnp.take(sample, jax.random.randint(axis_key, (n,), 0, n, jnp.int32), axis=axis)
            return _statistic(statistic, sample)

        draws = jax.lax.map(resample, jax.random.split(key, resamples))
        tails = jnp.asarray([(1 - level) / 2, (1 + level) / 2])
        lower, upper = jnp.quantile(draws, tails, axis=0)
        return lower, upper

    lower, upper = in_all_digits(ends, values, key)
    # A statistic of the caller's may be infinite; the mean of finite numbers is not, unless it has left the dtype.
    return (lower, upper) if own else (check_range("values", lower), check_range("values", upper))


def _statistic(statistic: Callable[[Array], Array], sample: Array) -> Array:
    """Its value; raise unless JAX can trace it, and it makes real numbers."""
    try:
        made = statistic(sample)
        if made is None:
            raise TypeError("one that makes nothing")
        made = jnp.asarray(made)
        if jnp.issubdtype(made.dtype, jnp.complexfloating):
            raise TypeError(f"numbers of dtype {made.dtype}, which have no order")
        return made
    except (jax.errors.NonConcreteBooleanIndexError, TypeError) as error:
        raise ValueError(
            "`statistic`: expected a function of a JAX array that makes one array, such as jnp.median, got one with "
            f"{type(error).__name__}: {next(iter(str(error).splitlines()), 'no message')}"
        ) from error


def normal_interval(draws: Float[Array, "resamples ..."], level: float = 0.99) -> tuple[np.ndarray, np.ndarray]:
    r"""Normal bootstrap confidence interval $\bar d \pm z_{(1 + \mathrm{level}) / 2}\, s$ of resampled values $d$.

    With mean $\bar d$ and standard deviation $s$ of the draws. For high levels: there the percentiles of a few hundred
    draws are the one or two most extreme of them, and change from key to key.

    Args:
        draws: resampled values of a statistic whose law is nearly normal, such as a mean over many inputs.
        level: confidence level, between 0 and 1.

    Returns:
        Lower and upper end, each of the statistic's shape.

    Raises:
        ValueError: if there are fewer than two draws, one is not finite or abstract (inside `jit`), an end has left
            float64, or the level is not between 0 and 1.

    References:
        Efron, Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 13.
    """
    check_known("draws", draws)
    check_rectangular("draws", draws)
    check_finite("draws", draws)
    values = np.asarray(draws, np.float64)
    if values.ndim == 0 or len(values) < 2:
        raise ValueError(f"`draws`: expected at least two resampled values [resamples, ...], got shape {values.shape}.")
    # From below: (1 + level) / 2 may round to 1, whose quantile is infinite.
    z = -float(ndtri((1 - check_level("level", level)) / 2))
    # In units of a power of 2 about as large as the draws, so that squares stay in the range and nothing is rounded.
    _, exponents = np.frexp(np.abs(values).max(0))
    values = np.ldexp(values, -exponents)
    middle, half = values.mean(0), z * values.std(0, ddof=1)
    with np.errstate(over="ignore"):
        low, high = (check_range("draws", np.ldexp(end, exponents)) for end in (middle - half, middle + half))
    return low, high


def _check_axes(values: Float[Array, "..."], axes: Sequence[int]) -> tuple[int, ...]:
    check_rectangular("values", values)
    shape = np.shape(values)
    if not isinstance(axes, Sequence) or len(axes) == 0:
        raise ValueError(f"`axes`: expected a tuple of axes such as (0, 1), got {shown(axes)}.")
    if len(shape) == 0:
        raise ValueError(f"`values`: expected at least two samples [n, ...], got shape {shape}.")
    axes = tuple(check_int("axes", axis, 0) for axis in axes)
    if max(axes) >= len(shape) or len(set(axes)) != len(axes):
        raise ValueError(f"`axes`: expected different axes of `values` of shape {shape}, got {axes}.")
    if any(shape[axis] < 2 for axis in axes):
        raise ValueError(f"`values`: expected at least two samples along axes {axes}, got shape {shape}.")
    return axes

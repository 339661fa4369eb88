"""How far the mean of finitely many members can be from the mean of infinitely many."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from eqbook._checks import as_float, check_finite, check_int, check_range


def finite_ensemble_tail(
    delta: Float[Array, "..."], variance: Float[Array, "..."], members: int
) -> Float[Array, "..."]:
    r"""Bound on the probability that the mean of $M$ members misses the mean of infinitely many by more than $\delta$.

    $P(|\hat f_t(x) - \bar f_t(x)| > \delta) \le
    \sqrt{\tfrac{2}{\pi}}\, \frac{\sigma_x}{\delta}\, e^{-\delta^2 / 2\sigma_x^2}$ with
    $\sigma_x^2 = \Sigma_t(x, x) / M$, cut at 1. The exact probability for Gaussian members is
    $\mathrm{erfc}(\delta / \sqrt2 \sigma_x)$; the bound is larger by a factor of at most $1 + \sigma_x^2 / \delta^2$.

    Args:
        delta: $\delta > 0$, in the unit of the outputs, any shape.
        variance: $\Sigma_t(x, x)$ of one output, in squared units, any shape that goes with `delta`.
        members: number $M$ of members.

    Raises:
        ValueError: if a number is not finite, `delta` is not positive or a variance is negative.

    References:
        Gerken, Kessel, "Emergent Equivariance in Deep Ensembles", ICML 2024, https://arxiv.org/abs/2403.03103
        (lemma 6.1); proved in the chapter on emergent equivariance.
    """
    check_int("members", members, 1)
    _check_positive("delta", delta)
    delta, sigma = as_float(delta), jnp.sqrt(_checked_variance(variance) / members)
    ratio = sigma / delta
    safe = jnp.where(ratio > 0, ratio, 1)  # no variance: no deviation
    bound = jnp.where(ratio > 0, np.sqrt(2 / np.pi) * safe * jnp.exp(-0.5 / safe**2), 0)
    return jnp.minimum(bound, 1)


def finite_ensemble_deviation(
    epsilon: Float[np.ndarray, "..."], variance: Float[Array, "..."], members: int
) -> Float[Array, "..."]:
    r"""Deviation that the mean of $M$ members exceeds with probability at most $\epsilon$: the bound's inverse.

    $\delta = \sigma_x \sqrt{W_0(2 / \pi\epsilon^2)}$ with $\sigma_x^2 = \Sigma_t(x, x) / M$, since
    $w = \delta^2 / \sigma_x^2$ solves $w e^w = 2 / \pi\epsilon^2$. The ensemble's error is $C(x, \epsilon) / \sqrt M$.

    Args:
        epsilon: $\epsilon$, between 0 and 1, any shape; numbers far below the smallest square root are welcome.
        variance: $\Sigma_t(x, x)$ of one output, in squared units, any shape that goes with `epsilon`.
        members: number $M$ of members.

    Raises:
        ValueError: if `epsilon` is not between 0 and 1 or a variance is negative or not finite.

    References:
        As `finite_ensemble_tail`.
    """
    check_int("members", members, 1)
    variance = _checked_variance(variance)
    return jnp.sqrt(variance / members) * jnp.asarray(np.sqrt(_squared_deviation(epsilon)), variance.dtype)


def members_needed(
    epsilon: Float[np.ndarray, "..."], delta: Float[np.ndarray, "..."], variance: Float[np.ndarray, "..."]
) -> Float[np.ndarray, "..."]:
    r"""Number of members whose mean is within $\delta$ with probability at least $1 - \epsilon$.

    $M = \lceil \Sigma_t(x, x)\, W_0(2 / \pi\epsilon^2) / \delta^2 \rceil$, at least 1.

    Args:
        epsilon: $\epsilon$, between 0 and 1.
        delta: $\delta > 0$, in the unit of the outputs.
        variance: $\Sigma_t(x, x)$ of one output, in squared units.

    Returns:
        Whole numbers, as floats: they can be larger than any integer.

    Raises:
        ValueError: as `finite_ensemble_tail` and `finite_ensemble_deviation`.

    References:
        As `finite_ensemble_tail`.
    """
    _check_positive("delta", delta)
    _checked_variance(variance)
    variance = np.asarray(variance, np.float64)
    with np.errstate(over="ignore"):
        found = np.ceil((np.sqrt(variance * _squared_deviation(epsilon)) / np.asarray(delta, np.float64)) ** 2)
    return check_range("variance` and `delta", np.maximum(found, 1))


def wright_omega(y: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    r"""$\omega(y) = W_0(e^y)$, the solution of $\omega + \log \omega = y$, for real $y$ and without forming $e^y$.

    Newton's method on the concave increasing function $\omega + \log\omega - y$, from below its root: the iterates
    increase to the root, quadratically.

    Args:
        y: real numbers above -700, any shape.

    References:
        Corless, Jeffrey, "The Wright omega Function", 2002.
    """
    y = np.asarray(y, np.float64)
    exponential = np.exp(np.minimum(y, 1))
    # Both starts are below the root: log(w) < log(y) for y > 1, and e^w < 1 / (1 - w) for w < 1.
    omega = np.where(y > 1, y - np.log(np.maximum(y, 1)), exponential / (1 + exponential))
    for _ in range(8):  # five reach rounding for every y
        omega = omega * ((1 + y - np.log(omega)) / (1 + omega))
    return omega


def _squared_deviation(epsilon: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    r"""$W_0(2 / \pi\epsilon^2)$, in double precision: in single precision small $\epsilon$ would be 0."""
    check_finite("epsilon", epsilon)
    epsilon = np.asarray(epsilon, np.float64)
    if not ((epsilon > 0) & (epsilon < 1)).all():
        raise ValueError(f"`epsilon`: expected probabilities between 0 and 1, got {epsilon}.")
    return wright_omega(np.log(2 / np.pi) - 2 * np.log(epsilon))


def _checked_variance(variance: Float[Array, "..."]) -> Float[Array, "..."]:
    check_finite("variance", variance)
    if (np.asarray(variance) < 0).any():
        raise ValueError(
            f"`variance`: expected variances >= 0, got {np.min(variance):.3g}; rounding makes small ones negative: "
            "compute the covariance in float64, or take `jnp.maximum(variance, 0)`."
        )
    return as_float(variance)


def _check_positive(name: str, value: Float[Array, "..."]) -> None:
    check_finite(name, value)
    if not (np.asarray(value) > 0).all():
        raise ValueError(f"`{name}`: expected positive numbers, got {np.min(value)!r}.")

"""How far the mean of finitely many members can be from the mean of infinitely many."""

import math
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from eqbook._checks import as_float, check_finite, check_int, check_known, check_range, is_abstract, joined
from eqbook._precision import use_float64


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

    Returns:
        Bounds of the dtype of `delta` and `variance` together, computed in 64 bits of what is known, else in at least
        32.

    Raises:
        ValueError: if a number is not finite, `delta` is not positive, a variance is negative or the shapes do not go
            together. Abstract values (inside `jit`) pass: they cannot be looked at.

    References:
        Gerken, Kessel, "Emergent Equivariance in Deep Ensembles", ICML 2024, https://arxiv.org/abs/2403.03103
        (lemma 6.1); proved in the chapter on emergent equivariance.
    """
    root = _root(members)
    delta, variance = joined("delta", delta), joined("variance", variance)
    _check_positive("delta", delta)
    _check_variance(variance)
    _check_together(delta=delta, variance=variance)
    dtype, xp = _dtype(delta, variance), _module(delta, variance)
    with np.errstate(all="ignore"):  # infinite units and exponents have the right limits
        # No variance: no deviation. The root has an infinite slope there, which must not reach the gradient.
        variance, own = _wide(variance), _module(variance)
        sigma = own.where(variance > 0, own.sqrt(own.where(variance > 0, variance, 1)), 0)
        ratio = sigma / root / _wide(delta)
        some = ratio > 1e-3  # below, the exponential is 0 in every dtype, and its slope as well
        safe = xp.where(some, ratio, 1)
        bound = xp.where(some, np.sqrt(2 / np.pi) * safe * xp.exp(-0.5 / safe**2), 0)
        return jnp.asarray(xp.minimum(bound, 1).astype(dtype))


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

    Returns:
        Deviations of the dtype of `variance`, computed in 64 bits of what is known, else in at least 32.

    Raises:
        ValueError: if `epsilon` is not between 0 and 1, a variance is negative or not finite, the shapes do not go
            together, or the deviation has left the dtype. Abstract values (inside `jit`) pass: they cannot be looked
            at.

    References:
        As `finite_ensemble_tail`.
    """
    root = _root(members)
    epsilon, variance = joined("epsilon", epsilon), joined("variance", variance)
    _check_variance(variance)
    squared = _squared_deviation(epsilon)
    _check_together(epsilon=epsilon, variance=variance)
    with np.errstate(over="ignore"):
        found = _module(variance).sqrt(_wide(variance)) / root * squared**0.5
        return jnp.asarray(check_range("variance", found.astype(_dtype(variance))))


def members_needed(
    epsilon: Float[np.ndarray, "..."], delta: Float[np.ndarray, "..."], variance: Float[np.ndarray, "..."]
) -> Float[np.ndarray, "..."]:
    r"""Number of members whose mean is within $\delta$ with probability at least $1 - \epsilon$.

    $M = \lceil \Sigma_t(x, x)\, W_0(2 / \pi\epsilon^2) / \delta^2 \rceil$, at least 1. What is above a whole number by
    no more than the rounding of $\delta$ is that number: `finite_ensemble_deviation` of 100 members needs 100.

    Args:
        epsilon: $\epsilon$, between 0 and 1.
        delta: $\delta > 0$, in the unit of the outputs.
        variance: $\Sigma_t(x, x)$ of one output, in squared units.

    Returns:
        Whole numbers, as floats: they can be larger than any integer.

    Raises:
        ValueError: as `finite_ensemble_tail` and `finite_ensemble_deviation`, and for abstract values (inside `jit`).

    References:
        As `finite_ensemble_tail`.
    """
    for name, value in (("epsilon", epsilon), ("delta", delta), ("variance", variance)):
        check_known(name, value)
    _check_positive("delta", delta)
    _check_variance(variance)
    squared = _squared_deviation(epsilon)
    _check_together(epsilon=epsilon, delta=delta, variance=variance)
    with np.errstate(over="ignore"):  # roots first: their product stays in the range
        found = (np.sqrt(_wide(variance)) * np.sqrt(squared) / _wide(delta)) ** 2
        # Half a rounding of delta, in the dtype that JAX has for it, is a whole one of its square.
        slack = 1 + 2 * float(jnp.finfo(_dtype(delta, variance)).eps)
        found = np.where(found <= slack * np.floor(found), np.floor(found), np.ceil(found))
    return check_range("variance` and `delta", np.maximum(found, 1))


def wright_omega(y: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    r"""$\omega(y) = W_0(e^y)$, the solution of $\omega + \log \omega = y$, for real $y$ and without forming $e^y$.

    Newton's method on the concave increasing function $\omega + \log\omega - y$, from below its root: the iterates
    increase to the root, quadratically.

    Args:
        y: real numbers above -700, any shape; in float64, or abstract floats (inside `jit`), above -80 in float32.

    References:
        Corless, Jeffrey, "The Wright omega Function", 2002.
    """
    xp = _module(y)
    y = y if xp is jnp else np.asarray(y, np.float64)
    exponential = xp.exp(xp.minimum(y, 1))
    # Both starts are below the root: log(w) < log(y) for y > 1, and e^w < 1 / (1 - w) for w < 1.
    omega = xp.where(y > 1, y - xp.log(xp.maximum(y, 1)), exponential / (1 + exponential))
    for _ in range(8):  # five reach rounding for every y
        omega = omega * ((1 + y - xp.log(omega)) / (1 + omega))
    return omega


def _squared_deviation(epsilon: Float[Array, "..."]) -> Float[Array, "..."]:
    r"""$W_0(2 / \pi\epsilon^2)$, in double precision: in single precision small $\epsilon$ would be 0.

    Abstract $\epsilon$ have the precision that they have, of at least 32 bits.
    """
    if isinstance(epsilon, jax.core.Tracer):
        return wright_omega(np.log(2 / np.pi).item() - 2 * jnp.log(_wide(epsilon)))
    check_finite("epsilon", epsilon)
    epsilon = np.asarray(epsilon, np.float64)
    if len(bad := epsilon[~((epsilon > 0) & (epsilon < 1))]):
        raise ValueError(f"`epsilon`: expected probabilities between 0 and 1, got {bad[0]}.")
    return wright_omega(np.log(2 / np.pi) - 2 * np.log(epsilon))


def _root(members: int) -> float:
    """The square root of a positive integer, which no dtype of integers need hold."""
    if isinstance(members, jax.core.Tracer):
        raise ValueError(
            "`members`: expected an integer, got an abstract value; name it in `static_argnames` of `jit`."
        )
    members = check_int("members", members, 1)
    try:
        return math.sqrt(members)
    except OverflowError:
        bits = members.bit_length()
        raise ValueError(f"`members`: expected an integer below 2^1024, got one of {bits} bits.") from None


def _dtype(*values: Any) -> np.dtype:
    """The dtype that a result shall have: that of the values together."""
    with np.errstate(over="ignore"):
        return jnp.result_type(*[as_float(value) for value in values])


def _module(*values: Any) -> ModuleType:
    """The module to compute with: JAX for abstract values."""
    return jnp if any(is_abstract(value) for value in values) else np


def _wide(value: Any) -> Any:
    """A known value in NumPy's float64, others in at least 32 bits: XLA rounds the smallest numbers of float32 to 0."""
    if not is_abstract(value):
        return np.asarray(value, np.float64)
    value = as_float(value)
    return value.astype(jnp.promote_types(value.dtype, jnp.float32))


def _check_together(**values: Any) -> None:
    """Raise unless arguments, by their names, have shapes that go together."""
    shape, others = (), []
    for name, value in values.items():
        try:
            shape = np.broadcast_shapes(shape, np.shape(value))
        except ValueError:
            raise ValueError(
                f"`{name}`: expected a shape that goes with {shape} of {' and '.join(others)}, got {np.shape(value)}; "
                "add axes of length 1."
            ) from None
        others.append(f"`{name}`")


def _check_variance(variance: Float[Array, "..."]) -> None:
    if isinstance(variance, jax.core.Tracer):
        return
    check_finite("variance", variance)
    variance = np.asarray(variance)
    if (variance < 0).any():
        raise ValueError(
            f"`variance`: expected variances >= 0, got {variance.min():.3g}; rounding makes small ones negative: "
            f"{use_float64()} for the covariance, or take `jnp.maximum(variance, 0)`."
        )


def _check_positive(name: str, value: Float[Array, "..."]) -> None:
    if isinstance(value, jax.core.Tracer):
        return
    check_finite(name, value)
    if not (np.asarray(value) > 0).all():
        raise ValueError(f"`{name}`: expected positive numbers, got {np.asarray(value).min()!r}.")

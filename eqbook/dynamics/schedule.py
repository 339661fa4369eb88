r"""How far each eigenmode of the NTK has been learned.

Both schedules minimise $\mathcal L = \frac12 \sum_i \| f(x_i) - y_i \|^2$, summed over the training set. For a loss
averaged over $n$ examples, divide the learning rate by $n$.
"""

import math
from dataclasses import dataclass
from numbers import Real

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from eqbook._shown import shown


def _check_rate(schedule: "GradientFlow | GradientDescent") -> None:
    """A Python float in place of a schedule's learning rate; raise unless it is positive and finite."""
    owner, value = type(schedule).__name__, schedule.learning_rate
    if isinstance(value, jax.core.Tracer):
        raise ValueError(
            f"{owner}: `learning_rate`: expected a number, got {shown(value)}; schedules cannot be traced: make one "
            "for each rate."
        )
    if isinstance(value, jax.Array) and value.ndim == 0:
        value = value.item()
    try:
        rate = float(value) if isinstance(value, Real) else math.nan
    except OverflowError:  # an integer beyond all floating point numbers
        rate = math.inf
    if not math.isfinite(rate) or rate <= 0:
        raise ValueError(f"{owner}: `learning_rate`: expected a finite number > 0, got {shown(value)}.")
    object.__setattr__(schedule, "learning_rate", rate)


def as_time(t: float) -> float:
    """One number as a Python float.

    Raises:
        ValueError: if it is none, or too large for one.
    """
    try:
        if not isinstance(t, str | bytes) and np.ndim(t) == 0:
            return float(t)
    except (TypeError, OverflowError):  # None, complex numbers; an integer beyond all floating point numbers
        pass
    what = "`t` cannot be traced, so no `jit`, `grad` or `vmap` over it: " if isinstance(t, jax.core.Tracer) else ""
    raise ValueError(f"`t`: expected one number, got {shown(t)}; {what}for several times call once for each.")


def _held(number: float, like: Float[Array, "..."]) -> float:
    """A number as the dtype of an array holds it: infinite if it is too large, without a cast that warns of it."""
    return number if number <= float(jnp.finfo(like.dtype).max) else math.inf


# Compiled in one piece each: one by one, their operations would take longer to compile than to run.


@jax.jit
def _flow(eigenvalues: Array, time: Array) -> Array:
    # expm1: for small exponents 1 - exp(-x) loses all digits.
    return _over(-jnp.expm1(-time * eigenvalues), eigenvalues, time)


@jax.jit
def _descent(eigenvalues: Array, rate: Array, steps: Array, sign: Array, time: Array) -> Array:
    """`sign` is that of a negative base after so many steps; `time` is rate times steps."""
    shrink = 1 - rate * eigenvalues
    # (1 - x)^t = +-exp(t log|1 - x|), with log1p where the base is positive, to keep the digits of small x.
    positive = shrink > 0
    log = jnp.where(
        positive,
        jnp.log1p(-(rate * jnp.where(positive, eigenvalues, 0))),
        jnp.log(jnp.abs(jnp.where(positive, 1, shrink))),
    )
    exponent = steps * log
    rest = jnp.where(positive, -jnp.expm1(exponent), 1 - sign * jnp.exp(exponent))
    return _over(rest, eigenvalues, time)


def _over(numerator: Array, eigenvalues: Array, limit: Array | float) -> Array:
    """`numerator / eigenvalues`, and `limit` where an eigenvalue is 0."""
    zero = eigenvalues == 0
    return jnp.where(zero, limit, numerator / jnp.where(zero, 1, eigenvalues))


class Schedule:
    """A way of training: `GradientFlow` or `GradientDescent`."""

    def learned(self, eigenvalues: Float[Array, " n"], t: float) -> Float[Array, " n"]:
        r"""$\phi_t(\lambda)$, with the training residual after time $t$ being $1 - \lambda \phi_t(\lambda)$.

        Args:
            eigenvalues: eigenvalues $\lambda$ of the NTK Gram matrix, `[n]`.
            t: training time or number of steps; `inf` for the end of training.
        """
        raise NotImplementedError

    def check(self, eigenvalues: Float[Array, " n"], t: float) -> None:
        """Raise if `t` is no training time, or training would diverge."""
        raise NotImplementedError


@dataclass(frozen=True)
class GradientFlow(Schedule):
    r"""Continuous time, $\dot\theta = -\eta \nabla \mathcal L$: $\phi_t(\lambda) = (1 - e^{-\eta\lambda t}) / \lambda$.

    Args:
        learning_rate: $\eta$, in units of 1/time.

    Raises:
        ValueError: if the learning rate is not positive and finite.
    """

    learning_rate: float = 1.0

    def __post_init__(self) -> None:
        _check_rate(self)

    def learned(self, eigenvalues: Float[Array, " n"], t: float) -> Float[Array, " n"]:
        if math.isinf(t):
            return 1 / eigenvalues
        return _flow(eigenvalues, _held(self.learning_rate * t, eigenvalues))

    def check(self, eigenvalues: Float[Array, " n"], t: float) -> None:
        """Raise if `t` is negative or NaN."""
        if not t >= 0:
            raise ValueError(f"`t`: expected a training time >= 0 (inf for the end of training), got {t!r}.")


@dataclass(frozen=True)
class GradientDescent(Schedule):
    r"""Full-batch steps, $\theta \leftarrow \theta - \eta \nabla \mathcal L$:
    $\phi_t(\lambda) = (1 - (1 - \eta\lambda)^t) / \lambda$ after $t$ steps.

    Args:
        learning_rate: $\eta$; training converges for $\eta < 2 / \lambda_{max}$.

    Raises:
        ValueError: if the learning rate is not positive and finite.
    """

    learning_rate: float

    def __post_init__(self) -> None:
        _check_rate(self)

    def learned(self, eigenvalues: Float[Array, " n"], t: float) -> Float[Array, " n"]:
        if math.isinf(t):
            return 1 / eigenvalues
        if t == 0:  # below, log(0) * 0 would be NaN
            return jnp.zeros_like(eigenvalues)
        steps, time = (_held(number, eigenvalues) for number in (t, self.learning_rate * t))
        return _descent(eigenvalues, self.learning_rate, steps, (-1.0) ** t, time)

    def check(self, eigenvalues: Float[Array, " n"], t: float) -> None:
        r"""Raise if `t` is not a number of steps, or training diverges until rounding has lost all else.

        Each step multiplies the error of the largest mode by $1 - \eta\lambda_{max}$. Where that has made it more than
        $1 / \epsilon$ times as large, nothing is left of the other modes. For `t = inf` the factor has to be above -1.
        """
        endless = math.isinf(t) and t > 0
        if not endless and not (t >= 0 and float(t).is_integer()):
            raise ValueError(f"`t`: expected a whole number of steps >= 0 (or inf), got {t!r}.")
        if isinstance(eigenvalues, jax.core.Tracer):
            return
        largest, epsilon = float(np.asarray(eigenvalues).max()), float(jnp.finfo(eigenvalues.dtype).eps)
        growth = self.learning_rate * largest - 1
        if growth >= 1 and endless or growth > 1 and t * math.log(growth) > -math.log(epsilon):
            after = "" if endless else f", by which the error grows {growth:.9g}-fold in each of {t:.9g} steps"
            raise ValueError(
                f"GradientDescent: `learning_rate`: expected < 2 / lambda_max = {2 / largest:.9g} so that training "
                f"converges, got {self.learning_rate:.9g}{after}; use a smaller one, or a "
                f"{'finite' if endless else 'smaller'} `t`."
            )

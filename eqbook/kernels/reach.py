"""How large a standard deviation the quadrature of a nonlinearity is good for."""

from collections.abc import Callable
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np

from eqbook._identity import numbers_in
from eqbook.kernels.polar import REACH, polar_rule

TRIED = 2.0 ** np.arange(-4, 21)  # standard deviations
TAIL = 1e-30  # moments below are none
ALLOWED = 0.05  # relative error; a kink elsewhere than at 0 leaves a few hundredths


def largest_stds(function: Callable, nodes: int) -> tuple[float, float]:
    r"""The largest standard deviations $s$ up to which the rule has $E[\sigma(u)^2]$, and $E[\sigma'(u)^2]$, to 5 %.

    Of $u = s g$ with a standard Gaussian $g$ the two are integrals in one dimension. They are compared with a rule on
    intervals that halve towards 0, which resolves a function that saturates within any $s^{-1} > 10^{-6}$. At large $s$
    the derivative of tanh, say, is a peak of width $1/s$ between the nodes.

    Args:
        function: $\sigma$.
        nodes: radii of the rule, see `eqbook.kernels.quadrature_dual`.

    Returns:
        $s$ for each; infinite if the largest one tried, a million, is good, or if the function holds numbers that are
        not known yet; 0 if the smallest is not good.
    """
    try:
        hash(function)
    except TypeError:
        return _limits(function, nodes)
    try:
        return _known(function, nodes, tuple(numbers_in(function)), jax.config.jax_enable_x64)
    except (jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError):  # it holds traced numbers
        return np.inf, np.inf


@lru_cache(maxsize=256)
def _known(function: Callable, nodes: int, _held: tuple[float, ...], _x64: bool) -> tuple[float, float]:
    return _limits(function, nodes)


def _limits(function: Callable, nodes: int) -> tuple[float, float]:
    radii, density, places, shares = polar_rule(nodes)
    # Inputs that coincide: u = v = s rho sin(pi t), with both signs.
    found = _moments(function, np.outer(radii, np.sin(np.pi * places)).ravel(), np.outer(density, shares).ravel() / 2)
    expected = _moments(function, *_graded())
    with np.errstate(invalid="ignore"):
        good = np.abs(found - expected) <= ALLOWED * expected + 1e-30
    first, second = (_last_good(*line) for line in zip(good, expected, strict=True))
    return first, second


def _last_good(good: np.ndarray, expected: np.ndarray) -> float:
    """The last of the deviations that are good in a row, from the first good one on.

    Where a function is 0 up to some height, its moments at small deviations are those of rare events, and not counted.
    """
    known = good & (expected > TAIL)
    if not known.any():
        return np.inf if good.all() else 0.0
    start = int(np.argmax(known))
    return float([0.0, *TRIED[:-1], np.inf][start + int(np.cumprod(good[start:]).sum())])


def _graded() -> tuple[np.ndarray, np.ndarray]:
    """Places on (0, 12) and their weights, half of the Gaussian density each side."""
    x, w = np.polynomial.legendre.leggauss(16)
    edges = np.array([0, *(12 * 2.0 ** np.arange(-30, 1))])
    lengths = np.diff(edges)[:, None]
    places = (edges[:-1, None] + lengths * (1 + x) / 2).ravel()
    return places, (lengths * w / 2).ravel() * np.exp(-(places**2) / 2) / np.sqrt(2 * np.pi)


def _moments(function: Callable, places: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Second moments of the function and of its derivative, by places and their mirror images, for each deviation."""
    found = np.zeros((2, len(TRIED)))
    with jax.ensure_compile_time_eval(), np.errstate(over="ignore", invalid="ignore"):
        for side in (places, -places):  # behind the rule's reach a function need not have a finite value
            u = jnp.asarray(TRIED[:, None] * side)
            values = jax.jvp(function, (u,), (jnp.ones_like(u),))
            squares = np.asarray(values, float) ** 2
            squares = np.where((np.abs(side) > REACH) & ~np.isfinite(squares), 0, squares)
            found += squares @ weights
    return found

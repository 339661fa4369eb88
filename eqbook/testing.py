"""Checks that the tests and the book share: tolerances from dtype and statistics, random networks, and equivariance."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from eqbook._checks import (
    as_number,
    check_finite,
    check_function,
    check_integers,
    check_ints,
    check_known,
    check_number,
    check_numeric,
)
from eqbook._shown import shown
from eqbook.groups import Action
from eqbook.groups.actions import check_action
from eqbook.layers import Sequential


def tolerance(dtype: object, operations: int = 1) -> float:
    r"""Relative rounding error to expect of a sum of `operations` terms.

    $8 \epsilon \sqrt{m}$ for $m$ operations: rounding errors add up like a random walk, and 8 of its standard
    deviations leave room for no chance failure and for no algebraic error.

    Args:
        dtype: floating dtype of the computation.
        operations: number $m$ of terms added up, at least 1.

    Raises:
        ValueError: if `dtype` is not a floating one, or `operations` no number of at least 0.
    """
    try:
        epsilon = None if dtype is None else float(jnp.finfo(dtype).eps)  # NumPy takes None for float64
    except (TypeError, ValueError):
        epsilon = None
    if epsilon is None:
        raise ValueError(f"`dtype`: expected a floating dtype such as jnp.float32, got {dtype!r}.")
    return 8 * epsilon * float(np.sqrt(max(check_number("operations", operations), 1)))


def relative_error(actual: Float[Array, "..."], expected: Float[Array, "..."]) -> float:
    r"""$\| a - b \| / \| b \|$ in the Frobenius norm, computed in double precision.

    0 if $a = b = 0$, infinite if only $b = 0$, and NaN, which is below no bound, of arrays without entries.

    Args:
        actual: $a$.
        expected: $b$, of the same shape.

    Raises:
        ValueError: if the shapes differ, or these are no numbers.
    """
    check_numeric("actual", actual)
    check_numeric("expected", expected)
    actual, expected = np.asarray(actual), np.asarray(expected)
    if actual.shape != expected.shape:
        raise ValueError(f"`actual`: expected shape {expected.shape} as `expected`, got {actual.shape}.")
    # Double precision: differences of small integers wrap around, squares of half precision overflow.
    wide = complex if np.iscomplexobj(actual) or np.iscomplexobj(expected) else float
    actual, expected = actual.astype(wide), expected.astype(wide)
    error, scale = _norm(actual - expected), _norm(expected)
    if scale == 0 and actual.size > 0:
        return 0.0 if error == 0 else float("inf")
    return error / scale if scale else float("nan")


def _norm(values: np.ndarray) -> float:
    """Frobenius norm; a power of two is divided out, which rounds nothing, so that no square leaves the range."""
    values = np.abs(values)  # a complex number is not to be divided by a unit that has no inverse
    _, exponent = np.frexp(np.max(values, initial=0.0))
    unit = np.ldexp(1.0, exponent - 1)
    return float(unit * np.linalg.norm(values / unit))


def assert_below(residual: float, bound: float, what: str = "residual") -> None:
    """Print a residual beside its bound, and fail if it is above.

    Args:
        residual: what was measured.
        bound: the largest value allowed.
        what: name of the residual, for the printed line and the error.

    Raises:
        ValueError: if one of the two is no number.
        AssertionError: if the residual is above the bound or NaN.
    """
    residual, bound = as_number("residual", residual), as_number("bound", bound)
    line = f"{what}: {residual:.3g} (bound {bound:.3g})"
    assert residual <= bound, f"too large: {line}"
    print(line)


def monte_carlo_z(samples: Float[Array, "draws ..."], expected: Float[Array, "..."]) -> Float[np.ndarray, "..."]:
    r"""Distance of a sample mean from its expectation, in standard errors.

    $z = (\bar s - \mu) / (\hat\sigma / \sqrt{m})$ for $m$ independent draws. Draws that are all equal show no
    error: there it is infinite, NaN or rounding.

    Args:
        samples: independent draws along the first axis, real numbers or truth values.
        expected: $\mu$, a number or one for each mean.

    Raises:
        ValueError: if there are fewer than two draws, one is complex, not finite or abstract (inside `jit`), or
            `expected` has another shape.
    """
    for name, values in (("samples", samples), ("expected", expected)):
        check_known(name, values)
        check_finite(name, values, real=False)
        if np.iscomplexobj(values):
            raise ValueError(f"`{name}`: expected real numbers, got complex ones; compare both parts, one by one.")
    samples, expected = np.asarray(samples, np.float64), np.asarray(expected, np.float64)
    if samples.ndim == 0 or len(samples) < 2:
        raise ValueError(f"`samples`: expected at least two draws [draws, ...], got shape {samples.shape}.")
    if np.shape(expected) not in ((), samples.shape[1:]):
        raise ValueError(f"`expected`: expected shape {samples.shape[1:]} of a draw, got {np.shape(expected)}.")
    # In units of a power of 2 about as large as the draws, so that squares stay in the range and nothing is rounded.
    _, exponents = np.frexp(np.abs(samples).max(axis=0))
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        samples, expected = np.ldexp(samples, -exponents), np.ldexp(expected, -exponents)
        standard_error = samples.std(axis=0, ddof=1) / np.sqrt(len(samples))
        return (samples.mean(axis=0) - expected) / standard_error


def normal_parameters(
    net: Sequential, input_shape: tuple[int, ...], seed: int | Sequence[int], draws: tuple[int, ...] = ()
) -> Any:
    r"""Parameters of random networks, all independent, $\theta_i \sim N(0, 1)$: the law of those that `net.init` draws.

    By NumPy, and not the numbers of `net.init`: XLA takes seconds to compile JAX's generator for the parameters of a
    network, and the programs of a Monte-Carlo check have one for each width. Networks drawn by one call are
    independent; for those of another call take another seed.

    Args:
        net: the network, in NTK parametrisation.
        input_shape: of a batch of inputs, `(n, ...)`.
        seed: of `numpy.random.default_rng`.
        draws: axes of the parameters in front of their own, one entry for each network.

    Returns:
        A tree like that of `net.init`, of arrays of NumPy `[*draws, *shape]`.

    Raises:
        ValueError: if `net` is no `Sequential`, the shape does not fit it, `draws` are no numbers, or `seed` is none.
    """
    if not isinstance(net, Sequential):
        raise ValueError(f"`net`: expected a Sequential, whose parameters are standard normal, got {shown(net)}.")
    draws = check_ints("draws", draws, 0, "(1000,)")
    try:
        rng = None if seed is None else np.random.default_rng(seed)
    except (TypeError, ValueError):
        rng = None
    if rng is None:
        raise ValueError(f"`seed`: expected an integer of at least 0, or several such as (3, 0), got {seed!r}.")
    shapes = jax.eval_shape(lambda key: net.init(key, input_shape), jax.random.key(0))
    return jax.tree.map(lambda leaf: rng.standard_normal((*draws, *leaf.shape)).astype(leaf.dtype), shapes)


def assert_equivariant(
    f: Callable[[Array], Array],
    x: Float[Array, "n ..."],
    action_in: Action,
    action_out: Action,
    bound: float | None = None,
) -> float:
    r"""Assert that $f(\rho_X(g) x) = \rho_Y(g) f(x)$ for every $g$ and return the largest relative residual.

    Args:
        f: function of a batch.
        x: batch of inputs.
        action_in: $\rho_X$.
        action_out: $\rho_Y$; `TrivialAction(group)` for an invariant function.
        bound: largest relative error allowed; from the dtype and the size of one input if not given, and 0 if the
            outputs are not floating.

    Raises:
        ValueError: if an argument is not of its kind, or the two actions belong to different groups.
        AssertionError: naming the element and the residual.
    """
    check_function("f", f, "lambda x: net.apply(params, x)")
    check_numeric("x", x)
    check_integers("x", x)
    check_action("action_in", action_in)
    check_action("action_out", action_out)
    bound = None if bound is None else as_number("bound", bound)
    if action_in.group != action_out.group:
        raise ValueError(f"`action_out`: expected an action of {action_in.group!r}, got one of {action_out.group!r}.")
    x = jnp.asarray(x)  # what the actions return, so that all outputs have one dtype
    y = jnp.asarray(f(x))
    if bound is None:
        exact = not jnp.issubdtype(y.dtype, jnp.inexact)
        bound = 0.0 if exact else tolerance(y.dtype, int(np.prod(np.shape(x)[1:])))
    worst = 0.0
    for g in action_in.group.elements:
        residual = relative_error(f(action_in(g, x)), action_out(g, y))
        assert residual <= bound, (
            f"not equivariant: {action_in.group.names[g]} moves the output by {residual:.3g} (bound {bound:.3g})"
        )
        worst = max(worst, residual)
    return worst

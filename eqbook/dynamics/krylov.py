"""Training to a finite time without a diagonalisation: functions of the NTK from Krylov spaces."""

from collections.abc import Callable
from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jaxtyping import Array, Float

from eqbook._checks import check_int, check_number
from eqbook._hosts import hosts_of
from eqbook._identity import numbers_in
from eqbook._precision import use_float64
from eqbook._shown import shown
from eqbook.dynamics.arguments import scaled_targets, unscaled
from eqbook.dynamics.rounding import check_resolved
from eqbook.dynamics.rows import RowMatrix, check_row_matrix
from eqbook.dynamics.schedule import GradientFlow, Schedule, as_time
from eqbook.grams.store import fingerprint


def learned_targets(
    matrix: RowMatrix,
    y: Float[Array, "n k"],
    t: float,
    schedule: Schedule | None = None,
    *,
    steps: int = 100,
    tolerance: float = 1e-5,
) -> Float[np.ndarray, "n k"]:
    r"""$H_t Y = \phi_t(\Theta)\, Y$, so that the mean prediction after time $t$ is $\Theta(x, X) H_t Y$.

    Lanczos' method: an orthonormal basis $V$ of the space of $y, \Theta y, \dots, \Theta^{k-1} y$, in which $\Theta$ is
    a tridiagonal matrix $T$; then $\phi_t(\Theta) y \approx \|y\| V u_t$ with $u_t = \phi_t(T) e_1$. Each step costs
    one product with $\Theta$, and memory for one vector. It is quick for times before the smallest eigenvalues are
    learned.

    Gradient flow is $\dot w = \eta (y - \Theta w)$. What is found obeys it but for the residual
    $\eta \|y\| \beta (u_t)_k v_{k+1}$, with $\beta v_{k+1}$ what the last step leaves outside of the space. The error
    is the integral of the residual, each part shrunk by $e^{-\eta\Theta (t-s)}$. The corner of $e^{-\eta T s}$, which
    is $(\dot u_s)_k / \eta$, has one sign for all $s$, so that $|(u_s)_k|$ grows, and the error is at most
    $\eta t \beta |(u_t)_k| \|y\|$. The same holds for steps with $\eta \lambda_{max} \le 1$, with a sum in place of
    the integral. Rounding comes on top, and no estimate sees it: of the products with $\Theta$ it is some
    $\epsilon\lambda_{max}$, and the relative error of the result up to that times $\phi_t(0)$, which counts where one
    eigenvalue dwarfs the others.

    Args:
        matrix: $\Theta$, on one device or many.
        y: targets, `[n, k]`.
        t: training time, or number of steps of `GradientDescent`; finite.
        schedule: how the networks are trained; `GradientFlow(1.0)` if not given.
        steps: dimension of the Krylov space, at least 2.
        tolerance: largest of two estimates of the relative error of a column: the bound above, with $\phi_t(0)$ for
            $\eta t$, and the change of the result by the last tenth of the steps.

    Raises:
        ValueError: if the targets do not fit, `t` is no finite training time, an option is out of range, training
            diverges, or rounding would decide the result (as for `eqbook.EnsembleLaw`, with the number of steps in
            place of that of inputs in the floor of eigenvalues); or if processes were given different arguments.
        ArithmeticError: if an estimate of the error is above `tolerance`, or the result leaves the dtype.
        RuntimeError: on a process of several, if another one fails.

    References:
        Saad, "Analysis of some Krylov subspace approximations to the matrix exponential operator", SIAM Journal on
        Numerical Analysis 29, 1992.
    """
    check_row_matrix(matrix)
    hosts = hosts_of(matrix.mesh)
    with hosts.together():
        y, exponents = scaled_targets(y, matrix.n)
        steps, tolerance = min(check_int("steps", steps, 2), matrix.n), check_number("tolerance", tolerance)
        schedule = GradientFlow() if schedule is None else schedule
        if not isinstance(schedule, Schedule):
            raise ValueError(f"`schedule`: expected GradientFlow(...) or GradientDescent(...), got {shown(schedule)}.")
        t = as_time(t)
        if not np.isfinite(t):
            raise ValueError(f"`t`: expected a finite training time, got {t!r}; for inf use `solve`.")
    if hosts.count > 1:
        rates = [type(schedule).__name__, numbers_in(vars(schedule))]
        key = fingerprint("learned", [y, exponents], t=t, schedule=rates, steps=steps, tolerance=tolerance)
        hosts.check_same("`y`, `t`, `schedule` and options of `learned_targets`", key)
    spaces, combine = _programs(steps, matrix.everywhere())
    bases, *found = spaces(matrix.array, matrix.pad(y))
    # [k, steps, steps], [k], [k]: tridiagonal matrices, sizes of what the last step leaves outside, norms
    ritz, outside, norms = (np.asarray(one.addressable_data(0)) for one in found)
    wider = "" if ritz.dtype == np.float64 else f", or {use_float64()}"
    if not np.isfinite(ritz).all():
        raise ArithmeticError(
            f"Lanczos: expected products with the matrix that are finite in {ritz.dtype}, got NaN or infinity; scale "
            f"the matrix{wider}."
        )
    numbers, largest = np.finfo(ritz.dtype), float(np.abs(ritz).max())
    if 0 < largest < numbers.tiny / numbers.eps:  # what a step leaves of a vector is smaller still, and becomes 0
        raise ArithmeticError(
            f"Lanczos: expected products with the matrix above {numbers.tiny / numbers.eps:.1e}, got {largest:.1e}, "
            f"whose digits {ritz.dtype} loses; scale the matrix and `t`{wider}."
        )
    schedule.check(jnp.linalg.eigvalsh(ritz).ravel(), t)
    coefficients = np.stack([_function(one, schedule, t, steps) for one in ritz])
    if steps < matrix.n:
        before = np.stack([_function(one, schedule, t, max(1, steps - max(1, steps // 10))) for one in ritz])
        change = np.linalg.norm(coefficients - before, axis=1)
        # The change alone is no measure: it stands still for many steps before a small eigenvalue is found.
        bound = outside * float(schedule.learned(jnp.zeros(1), t)[0]) * np.abs(coefficients[:, -1])
        sizes = np.linalg.norm(coefficients, axis=1)
        error = float((np.maximum(change, bound) / np.where(sizes > 0, sizes, 1)).max())
        if not error <= tolerance:
            raise ArithmeticError(
                f"Lanczos: expected a relative error below {tolerance:.1e} after {steps} steps, got an estimate of "
                f"{error:.1e}; raise `steps`, or allow a larger `tolerance`."
            )
    with np.errstate(over="ignore"):
        weights = (coefficients * norms[:, None]).astype(matrix.array.dtype)
    return unscaled(matrix.fetch(combine(bases, weights)), exponents)


@lru_cache(maxsize=64)
def _programs(steps: int, everywhere: NamedSharding | None) -> tuple[Callable, Callable]:
    """Bases of the spaces, and what is put together from them."""
    combine = partial(jnp.einsum, "ksn,ks->nk", precision="highest")
    return tuple(jax.jit(one, out_shardings=everywhere) for one in (partial(_lanczos, steps=steps), combine))


def _lanczos(matrix: Array, y: Array, steps: int) -> tuple[Array, ...]:
    """For each column: the basis `[k, steps, n]`, the tridiagonal matrix `[k, steps, steps]`, the size `[k]` of what
    the last step leaves outside of the space, and the norm `[k]`."""
    eps = jnp.finfo(matrix.dtype).eps

    def column(y: Array) -> tuple[Array, ...]:
        norm = _norm(y)

        def step(k: int, state: tuple[Array, ...]) -> tuple[Array, ...]:
            basis, t, scale, _ = state
            new = jnp.matmul(matrix, basis[k], precision="highest")
            t = t.at[k, k].set(jnp.vdot(basis[k], new))
            scale = jnp.maximum(scale, _norm(new))
            for _ in range(2):  # against the whole basis, twice: rounding would bring back what has converged
                new = new - jnp.matmul(basis.T, jnp.matmul(basis, new, precision="highest"), precision="highest")
            size = _norm(new)
            # Else the space is invariant, and the rest stays 0. A few roundings of the products, and no more: a kernel
            # whose largest eigenvalue dwarfs the others leaves little of each new vector, and all of them matter.
            there = size > 16 * eps * scale
            new = jnp.where(there, new / jnp.where(there, size, 1), 0)
            size = jnp.where(there, size, 0)
            t = t.at[k, k + 1].set(size, mode="drop").at[k + 1, k].set(size, mode="drop")
            return basis.at[k + 1].set(new, mode="drop"), t, scale, size

        start = jnp.where(norm > 0, y / jnp.where(norm > 0, norm, 1), 0)
        basis = jnp.zeros((steps, len(y)), matrix.dtype).at[0].set(start)
        t = jnp.zeros((steps, steps), matrix.dtype)
        zero = jnp.zeros((), matrix.dtype)
        basis, t, _, outside = jax.lax.fori_loop(0, steps, step, (basis, t, zero, zero))
        return basis, t, outside, norm

    return jax.lax.map(column, y.T)


def _norm(v: Array) -> Array:
    """Euclidean norm, in units of the largest entry: squares leave the dtype at a root of its range."""
    largest = jnp.max(jnp.abs(v))
    return largest * jnp.linalg.norm(v / jnp.where(largest > 0, largest, 1))


def _function(t: np.ndarray, schedule: Schedule, time: float, size: int) -> np.ndarray:
    """$\\phi(T) e_1$ for the leading block of T, `[steps]`."""
    values, vectors = np.linalg.eigh(t[:size, :size].astype(np.float64))
    # A Gram matrix has no negative eigenvalue: one that is computed is rounding.
    learned = np.asarray(schedule.learned(jnp.asarray(np.maximum(values, 0)), time))
    # The rounding is that of the products with the matrix, in its dtype.
    check_resolved(values.astype(t.dtype), (learned * vectors[0])[:, None], vectors[0][:, None], time)
    found = np.zeros(len(t))
    found[:size] = vectors @ (learned * vectors[0])
    return found

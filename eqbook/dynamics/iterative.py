"""Kernel regression without a factorisation: conjugate gradients, for matrices split over devices."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jaxtyping import Array, Float

from eqbook._checks import check_int, check_number
from eqbook._hosts import hosts_of
from eqbook._precision import use_float64
from eqbook._shown import summary
from eqbook.dynamics.arguments import scaled_targets, unscaled
from eqbook.dynamics.rows import RowMatrix, check_row_matrix
from eqbook.grams.store import fingerprint

ROUNDS = 4  # of refinement: conjugate gradients lose track of the residual that they began with


@dataclass(frozen=True)
class Solution:
    r"""What `solve` has found.

    Attributes:
        weights: $w$, `[n, k]`; predictions are $\Theta(x, X)\, w$.
        residual: $\|\Theta_\lambda w - y\| / \|y\|$, the largest over the columns.
    """

    weights: Float[np.ndarray, "n k"]
    residual: float

    __repr__ = summary


def solve(
    matrix: RowMatrix,
    y: Float[Array, "n k"],
    *,
    diag_reg: float = 0.0,
    rank: int = 100,
    tolerance: float = 1e-5,
    steps: int = 1000,
) -> Solution:
    r"""Solve $(\Theta + \lambda 1)\, w = y$ by preconditioned conjugate gradients.

    Memory is that of $\Theta$ and of $n \times r$ numbers; a step costs one product with $\Theta$. The preconditioner
    is $L L^\top + s 1$, with $L$ the first $r$ columns of the Cholesky factor of $\Theta$, pivots taken by size, and
    $s$ the mean of what they leave on the diagonal, plus $\lambda$.

    Args:
        matrix: $\Theta$, on one device or many.
        y: targets, `[n, k]`.
        diag_reg: $\lambda$ in units of the mean of the diagonal of $\Theta$, as in `eqbook.EnsembleLaw`.
        rank: r, columns of the preconditioner; 0 for none.
        tolerance: largest relative residual of a column.
        steps: largest number of steps, in each of four rounds.

    Raises:
        ValueError: if the targets do not fit, an option is out of range, or processes were given different ones.
        ArithmeticError: if the residual stays above `tolerance`, or the weights leave the dtype.
        RuntimeError: on a process of several, if another one fails.

    References:
        Harbrecht, Peters, Schneider, "On the low-rank approximation by the pivoted Cholesky decomposition", Applied
        Numerical Mathematics 62, 2012.
        Gardner, Pleiss, Bindel, Weinberger, Wilson, "GPyTorch", 2018, https://arxiv.org/abs/1809.11165 (section 4).
    """
    check_row_matrix(matrix)
    hosts = hosts_of(matrix.mesh)
    with hosts.together():
        y, exponents = scaled_targets(y, matrix.n)
        rank, steps = min(check_int("rank", rank, 0), matrix.n), check_int("steps", steps, 1)
        diag_reg, tolerance = check_number("diag_reg", diag_reg), check_number("tolerance", tolerance)
    if hosts.count > 1:
        options = {"diag_reg": diag_reg, "rank": rank, "tolerance": tolerance, "steps": steps}
        hosts.check_same("`y` and options of `solve`", fingerprint("solve", [y, exponents], **options))
    program = _program(matrix.n, rank, steps, matrix.everywhere())
    dtype = matrix.array.dtype
    with np.errstate(over="ignore"):
        options = dtype.type(diag_reg), dtype.type(tolerance)
    weights, *found = program(matrix.array, matrix.pad(y), *options)
    residuals, roundings = (np.asarray(one.addressable_data(0)) for one in found)
    residual = float(np.max(residuals))
    if not residual <= tolerance:
        rounded = bool(np.all(residuals <= np.maximum(roundings, tolerance)))
        raise ArithmeticError(_advice(residual, tolerance, rank, matrix, rounded))
    return Solution(unscaled(matrix.fetch(weights), exponents), residual)


def _advice(residual: float, tolerance: float, rank: int, matrix: RowMatrix, rounded: bool) -> str:
    dtype = matrix.array.dtype
    if not np.isfinite(residual):
        return (
            "conjugate gradients: expected finite weights, got a residual that is not finite. A matrix of zeros, "
            "with duplicate inputs or with negative eigenvalues needs `diag_reg` > 0; scale entries or a `diag_reg` "
            f"that are too large for {dtype}."
        )
    reached = f"conjugate gradients: expected a relative residual of {tolerance:.1e}, reached {residual:.1e}"
    mend = [use_float64()] if dtype == np.float32 else []
    mend.append("allow a larger `tolerance`")
    if rounded:
        mend.append("raise `diag_reg` until the weights are smaller")
        reached += f", which is rounding of {dtype} times weights of this size; more steps do not help"
    else:
        # A preconditioner of rank n is exact but for rounding, which more rank does not mend.
        mend.insert(0, "raise `diag_reg`, `steps` or `rank`" if rank < matrix.n else "raise `diag_reg` or `steps`")
    mend = f"{', '.join(mend[:-1])}, or {mend[-1]}" if len(mend) > 1 else mend[0]
    return f"{reached}. {mend[0].upper()}{mend[1:]}; duplicate inputs or negative eigenvalues need `diag_reg` > 0."


@lru_cache(maxsize=64)
def _program(n: int, rank: int, steps: int, everywhere: NamedSharding | None) -> Callable:
    return jax.jit(partial(_solve, n=n, rank=rank, steps=steps), out_shardings=everywhere)


def _solve(matrix: Array, y: Array, reg: Array, tolerance: Array, n: int, rank: int, steps: int) -> tuple[Array, ...]:
    ridge = reg * jnp.diagonal(matrix)[:n].mean()
    norms = jnp.where(jnp.linalg.norm(y, axis=0) > 0, jnp.linalg.norm(y, axis=0), 1)

    def product(v: Array) -> Array:
        return jnp.matmul(matrix, v, precision="highest") + ridge * v

    precondition = _preconditioner(matrix, ridge, n, rank)

    def improve(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        w, rest, k = state
        # Each round starts from the residual as it is, so its own tolerance is what is still missing.
        missing = jnp.maximum(tolerance / 2 * norms / jnp.linalg.norm(rest, axis=0), jnp.finfo(w.dtype).eps)

        def column(b: Array, tol: Array) -> Array:
            return jax.scipy.sparse.linalg.cg(product, b, tol=tol, maxiter=steps, M=precondition)[0]

        w = w + jax.vmap(column, in_axes=(1, 0), out_axes=1)(rest, missing)
        return w, y - product(w), k + 1

    def unfinished(state: tuple[Array, Array, Array]) -> Array:
        _, rest, k = state
        return jnp.any(jnp.linalg.norm(rest, axis=0) > tolerance * norms) & (k < ROUNDS)

    w, rest, _ = jax.lax.while_loop(unfinished, improve, (jnp.zeros_like(y), y, 0))
    residuals, weights = (jnp.linalg.norm(z, axis=0) / norms for z in (rest, w))
    # The most by which a product with w can be off, to first order: every entry of the matrix by one rounding.
    return w, residuals, jnp.finfo(w.dtype).eps * jnp.linalg.norm(matrix) * weights


def _preconditioner(matrix: Array, ridge: Array, n: int, rank: int) -> Callable[[Array], Array]:
    r"""The inverse of $L L^\top + s 1 = U (\sigma^2 + s) U^\top + s (1 - U U^\top)$, with $L = U \sigma V^\top$.

    Not by the identity of Woodbury, $(v - L (L^\top L + s)^{-1} L^\top v) / s$: where L holds all of the matrix, s is
    no more than rounding, and so is the difference that it divides.
    """
    if rank == 0:
        return lambda v: v
    dot = partial(jnp.matmul, precision="highest")
    diagonal = jnp.where(jnp.arange(len(matrix)) < n, jnp.diagonal(matrix), 0)
    # What so many subtractions leave of a diagonal may be rounding, and a column made of it means nothing.
    floor = rank * jnp.finfo(matrix.dtype).eps * diagonal.max()

    def column(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        k, factor, left = state
        pivot = jnp.argmax(left)
        # As a product, since the row of the pivot lies on one device only.
        row = dot(matrix, jax.nn.one_hot(pivot, len(matrix), dtype=matrix.dtype))
        found = (row - dot(factor, factor[pivot])) / jnp.sqrt(left[pivot])
        return k + 1, factor.at[:, k].set(found), jnp.maximum(left - found**2, 0).at[pivot].set(0)

    def more(state: tuple[Array, Array, Array]) -> Array:
        k, _, left = state
        return (k < rank) & (left.max() > floor)

    empty = jnp.zeros((len(matrix), rank), matrix.dtype)
    _, factor, left = jax.lax.while_loop(more, column, (0, empty, diagonal))
    scale = ridge + jnp.maximum(left.sum() / n, floor)
    scale = jnp.where(scale > 0, scale, 1)  # for a matrix of zeros
    basis, triangle = jnp.linalg.qr(factor)
    inner, sigma, _ = jnp.linalg.svd(triangle)
    basis = dot(basis, inner)

    def apply(v: Array) -> Array:
        inside = dot(basis.T, v)
        outside = v - dot(basis, inside)
        outside = outside - dot(basis, dot(basis.T, outside))  # again: what is left of U is rounding, divided by s
        return dot(basis, inside / (sigma**2 + scale)) + outside / scale

    return apply

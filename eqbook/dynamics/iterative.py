"""Kernel regression without a factorisation: conjugate gradients, for matrices split over devices."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jaxtyping import Array, Float

from eqbook._checks import check_finite, check_int, check_number, check_rectangular
from eqbook.dynamics.rows import RowMatrix, check_row_matrix

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
        ValueError: if the targets do not fit, or an option is out of range.
        ArithmeticError: if the residual stays above `tolerance`.

    References:
        Harbrecht, Peters, Schneider, "On the low-rank approximation by the pivoted Cholesky decomposition", Applied
        Numerical Mathematics 62, 2012.
        Gardner, Pleiss, Bindel, Weinberger, Wilson, "GPyTorch", 2018, https://arxiv.org/abs/1809.11165 (section 4).
    """
    check_row_matrix(matrix)
    check_rectangular("y", y)
    if np.ndim(y) != 2 or np.shape(y)[0] != matrix.n:
        raise ValueError(f"`y`: expected targets [n, k] with n = {matrix.n}, got shape {np.shape(y)}.")
    check_finite("y", y)
    check_int("rank", rank, 0)
    check_int("steps", steps, 1)
    diag_reg, tolerance = check_number("diag_reg", diag_reg), check_number("tolerance", tolerance)
    program = _program(matrix.n, min(rank, matrix.n), steps, matrix.everywhere())
    dtype = matrix.array.dtype
    weights, residuals = program(matrix.array, matrix.pad(y), dtype.type(diag_reg), dtype.type(tolerance))
    residual = float(np.max(np.asarray(residuals.addressable_data(0))))
    if not residual <= tolerance:
        raise ArithmeticError(
            f"conjugate gradients: expected a relative residual of {tolerance:.1e}, reached {residual:.1e}. Raise "
            "`diag_reg`, `steps` or `rank`, use float64, or allow a larger `tolerance`; a matrix with duplicate "
            "inputs or negative eigenvalues needs `diag_reg` > 0."
        )
    return Solution(matrix.fetch(weights), residual)


@lru_cache(maxsize=64)
def _program(n: int, rank: int, steps: int, everywhere: NamedSharding | None) -> Callable:
    return jax.jit(partial(_solve, n=n, rank=rank, steps=steps), out_shardings=everywhere)


def _solve(matrix: Array, y: Array, reg: Array, tolerance: Array, n: int, rank: int, steps: int) -> tuple[Array, Array]:
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
    return w, jnp.linalg.norm(rest, axis=0) / norms


def _preconditioner(matrix: Array, ridge: Array, n: int, rank: int):
    """The inverse of $L L^\\top + s 1$, applied by the identity of Woodbury."""
    diagonal = jnp.where(jnp.arange(len(matrix)) < n, jnp.diagonal(matrix), 0)
    if rank == 0:
        return lambda v: v

    def column(k: int, state: tuple[Array, Array]) -> tuple[Array, Array]:
        factor, left = state
        pivot = jnp.argmax(left)
        # As a product, since the row of the pivot lies on one device only.
        row = jnp.matmul(matrix, jax.nn.one_hot(pivot, len(matrix), dtype=matrix.dtype), precision="highest")
        found = row - jnp.matmul(factor, factor[pivot], precision="highest")
        usable = left[pivot] > jnp.finfo(matrix.dtype).eps * diagonal.max()
        found = jnp.where(usable, found / jnp.sqrt(jnp.where(usable, left[pivot], 1)), 0)
        return factor.at[:, k].set(found), jnp.maximum(left - found**2, 0).at[pivot].set(0)

    empty = jnp.zeros((len(matrix), rank), matrix.dtype)
    factor, left = jax.lax.fori_loop(0, rank, column, (empty, diagonal))
    floor = jnp.finfo(matrix.dtype).eps * diagonal.max()
    scale = ridge + jnp.maximum(left.sum() / n, floor)
    small = jnp.matmul(factor.T, factor, precision="highest") + scale * jnp.eye(rank, dtype=matrix.dtype)
    inner = jax.scipy.linalg.cho_factor(small)
    return lambda v: (v - factor @ jax.scipy.linalg.cho_solve(inner, factor.T @ v)) / scale

"""Checks of what iterations are given: matrices, rows, and targets brought to a size that no dtype loses."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from eqbook._checks import check_finite, check_known, check_rectangular
from eqbook._precision import SWITCH, use_float64
from eqbook.grams import Gram

DTYPES = ("float32", "float64")  # those that factorisations exist for


def check_matrices(name: str, value: Any, kind: str) -> None:
    """Raise if both Gram matrices were given in place of one.

    Args:
        name: of the argument.
        value: what was given.
        kind: the one that is expected, `"nngp"` or `"ntk"`.

    Raises:
        ValueError: naming the argument, and the attribute to give.
    """
    if isinstance(value, Gram):
        raise ValueError(f"`{name}`: expected one matrix, got the Gram with both kernels; give its `.{kind}`.")


def floating(dtype: Any) -> np.dtype:
    """The dtype that a matrix shall have.

    Raises:
        ValueError: if it is none of `DTYPES`, or float64 while JAX computes in 32 bits.
    """
    try:
        found = np.dtype(dtype)
    except TypeError:
        found = None
    if found is None or found.name not in DTYPES:
        raise ValueError(f"`dtype`: expected one of {DTYPES}, got {dtype!r}.")
    if jax.dtypes.canonicalize_dtype(found) != found:
        raise ValueError(
            "`dtype`: expected 'float32' while JAX computes in 32 bits, got 'float64'; switch 64 bits on first, with "
            f"{SWITCH}."
        )
    return found


def check_matrix(matrix: np.ndarray) -> np.dtype:
    """The dtype in which JAX keeps a whole matrix.

    Raises:
        ValueError: unless it is square, symmetric, finite and of one of `DTYPES`.
    """
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or len(matrix) == 0:
        raise ValueError(f"`matrix`: expected [n, n] or a function of a slice of rows, got shape {matrix.shape}.")
    if matrix.dtype.name not in DTYPES:
        raise ValueError(f"`matrix`: expected float32 or float64, got {matrix.dtype}; convert it.")
    check_finite("matrix", matrix)
    skew, scale = np.abs(matrix - matrix.T).max(), np.abs(matrix).max()
    if skew > len(matrix) * np.finfo(matrix.dtype).eps * scale:
        raise ValueError(f"`matrix`: expected a symmetric matrix, got a relative asymmetry of {skew / scale:.2g}.")
    return np.dtype(jax.dtypes.canonicalize_dtype(matrix.dtype))


def as_rows(rows: Any, which: slice, n: int, dtype: np.dtype) -> np.ndarray:
    """Rows as numbers of the dtype in which they are kept.

    Raises:
        ValueError: if they have another shape, are not real numbers, or are not finite in that dtype.
    """
    check_rectangular("matrix", rows)
    rows, shape = np.asarray(rows), (which.stop - which.start, n)
    if rows.shape != shape:
        raise ValueError(f"`matrix`: expected rows of shape {shape} from the function, got {rows.shape}.")
    if not (jnp.issubdtype(rows.dtype, jnp.floating) or jnp.issubdtype(rows.dtype, jnp.integer)):
        raise ValueError(f"`matrix`: expected rows of real numbers, got dtype {rows.dtype}; convert them.")
    with np.errstate(over="ignore"):
        found = rows.astype(dtype)
    # After the conversion: 1e300 is finite, and infinite in float32.
    if not (finite := np.isfinite(found)).all():
        row, column = (int(i) for i in np.argwhere(~finite)[0])
        raise ValueError(
            f"`matrix`: expected rows that are finite in {dtype}, got {rows[row, column]} in row {which.start + row}, "
            f"column {column}; scale the matrix, or clean the inputs."
        )
    return found


def scaled_targets(y: Any, n: int) -> tuple[Float[np.ndarray, "n k"], Int[np.ndarray, " k"]]:
    r"""$y_j / 2^{e_j}$ and $e_j$, so that the largest $|y_{ij}|$ of a column lies between 1/2 and 1.

    What is computed is linear in $y$. In float32 the norm of a column of 1e-20 would be 0, and that of 1e20 infinite.
    A power of two changes no digit.

    Args:
        y: targets, `[n, k]`.
        n: size of the matrix.

    Raises:
        ValueError: if the targets do not fit, are not finite, or abstract (inside `jit`).
    """
    check_known("y", y)
    check_rectangular("y", y)
    if np.ndim(y) != 2 or np.shape(y)[0] != n or np.shape(y)[1] == 0:
        raise ValueError(f"`y`: expected targets [n, k] with n = {n} and k of at least 1, got shape {np.shape(y)}.")
    check_finite("y", y)
    with np.errstate(over="ignore"):
        y = np.asarray(y).astype(np.float64)
    check_finite("y", y)  # there are wider numbers
    _, exponents = np.frexp(np.abs(y).max(axis=0))
    return np.ldexp(y, -exponents), exponents


def unscaled(weights: Float[Array, "n k"], exponents: Int[np.ndarray, " k"]) -> Float[np.ndarray, "n k"]:
    r"""$2^{e_j} w_j$ in the dtype of the weights.

    Raises:
        ArithmeticError: if a weight is not finite, or all those of a column are too small for the dtype.
    """
    weights = np.asarray(weights)
    with np.errstate(over="ignore", under="ignore"):
        found = np.ldexp(weights.astype(np.float64), exponents).astype(weights.dtype)
    lost = (weights != 0).any(axis=0) & (found == 0).all(axis=0)
    if not np.isfinite(found).all() or lost.any():
        advice = "" if weights.dtype == np.float64 else f", or {use_float64()}"
        raise ArithmeticError(
            f"`y`: expected targets whose weights are finite numbers of {weights.dtype}, got weights that are too "
            f"{'small' if lost.any() else 'large'} for it; scale `y` or the matrix{advice}."
        )
    return found

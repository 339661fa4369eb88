"""Checks of arguments that the modules of groups share, and the arrays that JAX makes of them."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from eqbook._checks import as_float, check_integers, check_numeric, native
from eqbook._precision import SWITCH
from eqbook._shown import shown


def as_array(name: str, x: Any) -> jax.Array:
    """A JAX array of the same numbers, in the dtype that JAX has for them.

    Raises:
        ValueError: naming the argument, if these are no numbers, or some do not fit into that dtype.
    """
    if isinstance(x, jax.Array):
        return x
    x = _numbers(name, x)
    check_integers(name, x)
    return jnp.asarray(x)


def as_floats(name: str, x: Any) -> jax.Array:
    """A JAX array of the same real numbers, in their dtype if that is floating, else in the default one.

    Raises:
        ValueError: naming the argument, if these are no real numbers, or some do not fit into that dtype.
    """
    return as_float(_numbers(name, x), name)


def _numbers(name: str, x: Any) -> Any:
    """What JAX makes an array of: a list as NumPy's array, which is in the byte order and width that JAX knows."""
    if isinstance(x, jax.Array):
        return x
    try:
        check_numeric(name, x)
        array = np.asarray(x)
    except jax.errors.TracerArrayConversionError:  # a list of abstract values
        return jnp.asarray(x)
    _check_floats(name, array)
    if array.dtype.kind == "c":
        return array.astype(np.complex64 if array.dtype.itemsize == 8 else np.complex128, copy=False)
    return native(array if isinstance(x, list | tuple) else x)  # a number of Python stays one


def _check_floats(name: str, x: np.ndarray) -> None:
    """Raise if finite floats would become infinite in the default dtype, 32 bits wide unless `jax_enable_x64` is on.

    Raises:
        ValueError: naming the argument.
    """
    narrow = np.dtype(jnp.result_type(float))
    for part in (x.real, x.imag) if x.dtype.kind == "c" else (x,):
        if part.dtype.kind != "f" or part.dtype.itemsize <= narrow.itemsize or part.size == 0:
            return
        with np.errstate(over="ignore"):
            # First the two ends: nearly always they fit, and no copy is made.
            if np.isfinite(np.array([part.min(), part.max()]).astype(narrow)).all():
                continue
            wrong = np.isfinite(part) & ~np.isfinite(part.astype(narrow))
        if wrong.any():
            raise ValueError(
                f"`{name}`: expected numbers that fit into {narrow}, got {part[wrong][0]!s}; scale them, or switch "
                f"64 bits on, {SWITCH}."
            )


def check_flag(name: str, value: Any) -> bool:
    """Return `value` as a bool if it is a truth value.

    Raises:
        ValueError: naming the argument.
    """
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"`{name}`: expected True or False, got {shown(value)}.")
    return bool(value)

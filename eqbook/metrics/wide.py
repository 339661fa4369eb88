"""Numbers of NumPy that JAX would narrow."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from eqbook._checks import as_float, check_range, is_abstract, native


def is_narrowed(values: Any) -> bool:
    """Whether JAX would make numbers of 32 bits of these of 64, and so make different ones equal."""
    if isinstance(values, jax.Array):
        return False
    dtype = native(np.asarray(values)).dtype  # JAX takes no other dtype for one that it would narrow
    return jax.dtypes.canonicalize_dtype(dtype) != dtype


def in_all_digits(compute: Callable[[], Any], values: Any, *others: Any) -> Any:
    """Arrays that `compute` makes of `values`, with all digits of these; those that JAX would narrow are NumPy's.

    Inside `jit` what is known is computed at once. Where something abstract is used JAX has the digits that it has.

    Args:
        compute: a function without arguments.
        values: numbers that it uses.
        others: arrays that it uses as well.
    """
    if not is_narrowed(values) or any(is_abstract(one) for one in others):
        return compute()
    with jax.enable_x64(True), jax.ensure_compile_time_eval():
        found = compute()
    if any(is_abstract(one) for one in jax.tree.leaves(found)):  # what is wide now would be no more in `grad`
        return compute()
    return jax.tree.map(_kept, found)


def narrowed(name: str, values: Any) -> jax.Array:
    """Numbers as JAX keeps them. Known ones are looked at even inside `jit`, where all that is made is abstract.

    Raises:
        ValueError: naming the argument that they were made of, if they have left the dtype.
    """
    with np.errstate(over="ignore"), jax.ensure_compile_time_eval():
        return check_range(name, as_float(values, name))


def _kept(found: jax.Array) -> Any:
    """A result that JAX would narrow outside of the context that it was made in as an array of NumPy."""
    return found if found.dtype == jax.dtypes.canonicalize_dtype(found.dtype) else np.asarray(found)

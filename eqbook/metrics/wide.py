"""Numbers of NumPy that JAX would narrow."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jax
import numpy as np


def is_narrowed(values: Any) -> bool:
    """Whether JAX would make numbers of 32 bits of these of 64, and so make different ones equal."""
    if isinstance(values, jax.Array):
        return False
    dtype = np.asarray(values).dtype
    return jax.dtypes.canonicalize_dtype(dtype) != dtype


def with_all_digits(values: Any, *others: Any) -> AbstractContextManager:
    """A context in which JAX keeps all digits of `values`; the usual one where it does, or while JAX traces."""
    traced = any(isinstance(one, jax.core.Tracer) for one in others)
    return jax.enable_x64(True) if is_narrowed(values) and not traced else nullcontext()


def kept(found: jax.Array) -> Any:
    """A result of such a context, which JAX would narrow outside of it, as an array of NumPy; any other as it is."""
    return found if found.dtype == jax.dtypes.canonicalize_dtype(found.dtype) else np.asarray(found)

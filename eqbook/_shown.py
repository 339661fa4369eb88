"""How values look in an error message or a notebook: in one line, with dtype and shape in place of many numbers."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import jax
import numpy as np

FEW = 8  # numbers of an array, or entries of a list, that are shown
LONGEST = 300  # characters


def shown(value: Any) -> str:
    """What was given, for an error message: its `repr` in one line if that is short, else in words.

    Args:
        value: anything.
    """
    if isinstance(value, jax.core.Tracer):
        return f"an abstract value, {_kind(value)}, traced by `jit`, `grad` or `vmap`"
    if isinstance(value, np.ndarray | jax.Array) and value.size > FEW:
        return f"an array of shape {value.shape}, dtype {value.dtype}"
    text = " ".join(repr(value).split())
    if len(text) <= LONGEST:
        return text
    if isinstance(value, tuple | list | set | frozenset | dict):
        return f"a {type(value).__name__} of {len(value)} entries"
    return f"{text[:LONGEST]} ..."


def summary(value: Any) -> str:
    """The fields of a dataclass, arrays by dtype and shape; written as `__repr__ = summary` in its class.

    Args:
        value: the dataclass.
    """
    parts = (f"{one.name}={brief(getattr(value, one.name, None))}" for one in fields(value) if one.repr)
    return f"{type(value).__name__}({', '.join(parts)})"


def brief(value: Any) -> str:
    """One field: `float32[20, 3]` for an array, the numbers of a short one, the ends of a long list.

    Args:
        value: anything.
    """
    if isinstance(value, np.ndarray | jax.Array):
        few = value.ndim == 0 or (value.ndim == 1 and value.size <= FEW)
        return str(np.asarray(value).tolist()) if few and _is_known(value) else _kind(value)
    if isinstance(value, np.generic):
        return str(value.item())
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key!r}: {brief(part)}' for key, part in value.items())}}}"
    if isinstance(value, tuple | list) and len(value) > FEW:
        first, second, *_, last = value
        return f"({brief(first)}, {brief(second)}, ..., {brief(last)})"
    return shown(value)


def _kind(array: Any) -> str:
    return f"{array.dtype}[{', '.join(map(str, array.shape))}]"


def _is_known(array: Any) -> bool:
    """Whether the numbers of an array can be read here: it is not abstract, deleted, of keys, or elsewhere."""
    if not isinstance(array, jax.Array):
        return True
    if isinstance(array, jax.core.Tracer) or jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key):
        return False
    return array.is_fully_addressable and not array.is_deleted()

"""What a function was made with: two functions of one name need not be one function."""

import hashlib
import re
from functools import partial
from types import CodeType
from typing import Any

import jax
import numpy as np

FEW = 64  # numbers of an array that are listed one by one


def numbers_in(value: Any) -> list[float]:
    """The finite numbers that a function holds, in an order that another process finds again.

    Those in its closure, its defaults and its code, and in the functions that it holds, so that learning rates, decays,
    thresholds and the steps of a schedule are told apart. What a function finds by name, a global variable or another
    function, is not among them.

    Args:
        value: function, `functools.partial`, or a tuple, list or dictionary of functions and numbers.
    """
    return list(_walk(value, set()))


def key_numbers(array: Any) -> Any:
    """The numbers of an array of random keys, which NumPy cannot read; any other array as it is."""
    is_key = isinstance(array, jax.Array) and jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key)
    return jax.random.key_data(array) if is_key else array


def without_addresses(value: Any) -> str:
    """What a value shows of itself, but for its place in memory, which is another one in the next process."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))


def _walk(value: Any, seen: set[int]):
    if isinstance(value, int | float | np.integer | np.floating):
        if np.isfinite(value := _float(value)):
            yield value
    elif isinstance(value, np.ndarray | jax.Array):
        value = key_numbers(value)
        if not isinstance(value, jax.core.Tracer) and np.asarray(value).dtype.kind in "biuf":
            flat = np.asarray(value).reshape(-1)
            yield from (float(number) for number in flat[:FEW] if np.isfinite(number))
            if flat.size > FEW:  # the rest by a number that is made of all bits
                yield float(int.from_bytes(hashlib.sha256(flat.tobytes()).digest()[:6]))
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _walk(part, seen)
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from _walk((key, part), seen)
    elif isinstance(value, CodeType):
        yield from _walk(value.co_consts, seen)
    elif id(value) not in seen:
        seen.add(id(value))
        if isinstance(value, partial):
            yield from _walk((value.func, value.args, value.keywords), seen)
        elif isinstance(code := getattr(value, "__code__", None), CodeType):
            cells = [_content(cell) for cell in value.__closure__ or ()]
            yield from _walk((code, value.__defaults__ or (), value.__kwdefaults__ or {}, cells), seen)
        elif callable(inner := getattr(value, "__wrapped__", None)):  # a jitted function
            yield from _walk(inner, seen)


def _float(number: Any) -> float:
    try:
        return float(number)
    except OverflowError:
        return float("inf")


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None

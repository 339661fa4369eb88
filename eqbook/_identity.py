"""What a function was made with: two functions of one name need not be one function."""

import dis
import hashlib
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import partial
from types import CodeType, ModuleType
from typing import Any

import jax
import numpy as np

FEW = 64  # numbers of an array that are listed one by one


def numbers_in(value: Any) -> list[float]:
    """The finite numbers that a function holds, in an order that another process finds again.

    Those in its closure, its defaults and its code, and in the objects and functions that it holds, so that learning
    rates, decays, weights, thresholds and the steps of a schedule are told apart. In a notebook, a script, or a module
    outside of packages, also those in what it finds there by name. Text that is held counts, by a number made of it;
    text in the code does not, and what is found by name elsewhere.

    Args:
        value: function, object, or a tuple, list or dictionary of these, numbers and text.
    """
    return list(_walk(value, set()))


def parts_of(value: Any) -> dict[str, Any]:
    """The attributes of an object by name; none of a class, a module, or an object that has no attributes."""
    if isinstance(value, type | ModuleType):
        return {}
    if is_dataclass(value):  # a Flax module knows its place in another one, too
        names = [field.name for field in fields(value) if field.name not in ("parent", "name")]
    else:
        slots = [getattr(kind, "__slots__", ()) for kind in type(value).__mro__]
        names = [name for some in slots for name in ([some] if isinstance(some, str) else some)]
        names = [*names, *getattr(value, "__dict__", ())]
    return {name: getattr(value, name) for name in sorted(set(names)) if hasattr(value, name)}


def key_numbers(array: Any) -> Any:
    """The numbers of an array of random keys, which NumPy cannot read; any other array as it is."""
    is_key = isinstance(array, jax.Array) and jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key)
    return jax.random.key_data(array) if is_key else array


def without_addresses(value: Any) -> str:
    """What a value shows of itself, but for its place in memory, which is another one in the next process."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))


def _walk(value: Any, seen: set[int]) -> Iterator[float]:
    if isinstance(value, int | float | np.integer | np.floating):
        if np.isfinite(value := _float(value)):
            yield value
    elif isinstance(value, str | bytes):
        yield _number(value.encode() if isinstance(value, str) else value)
    elif isinstance(value, np.ndarray | jax.Array):
        value = key_numbers(value)
        if not isinstance(value, jax.core.Tracer) and np.asarray(value).dtype.kind in "biuf":
            flat = np.asarray(value).reshape(-1)
            yield from (float(number) for number in flat[:FEW] if np.isfinite(number))
            if flat.size > FEW:  # the rest by a number that is made of all bits
                yield _number(flat.tobytes())
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _walk(part, seen)
    elif isinstance(value, set | frozenset):  # in the next process they have another order
        yield from sorted(number for part in value for number in _walk(part, seen))
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from _walk((key, part), seen)
    elif id(value) not in seen and value is not None:
        seen.add(id(value))
        if isinstance(value, partial):
            yield from _walk((value.func, value.args, value.keywords), seen)
        elif callable(inner := getattr(value, "__func__", None)):  # a method
            yield from _walk((inner, value.__self__), seen)
        elif isinstance(code := getattr(value, "__code__", None), CodeType):
            cells = [_content(cell) for cell in value.__closure__ or ()]
            yield from _walk((value.__defaults__ or (), value.__kwdefaults__ or {}, cells), seen)
            yield from _in_code(code, value.__globals__, seen)
        elif callable(inner := getattr(value, "__wrapped__", None)):  # a jitted function
            yield from _walk(inner, seen)
        else:
            yield from _walk(parts_of(value), seen)
            calls = [vars(kind).get("__call__") for kind in type(value).__mro__]
            yield from _walk(next((call for call in calls if call), None), seen)


def _in_code(code: CodeType, module: dict[str, Any], seen: set[int]) -> Iterator[float]:
    """Numbers among the constants of code, and in what it finds by name in its own module."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _in_code(constant, module, seen)
        elif not isinstance(constant, str):  # an error message may change, and a docstring
            yield from _walk(constant, seen)
    if module.get("__package__"):  # a library, whose variables may be anything
        return
    for step in dis.get_instructions(code):
        if step.opname == "LOAD_GLOBAL":
            yield from _walk(module.get(step.argval), seen)


def _number(content: bytes) -> float:
    """A number that is made of all bits."""
    return float(int.from_bytes(hashlib.sha256(content).digest()[:6]))


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

"""What a function was made with: two functions of one name need not be one function."""

import dis
import hashlib
import logging
import os
import re
from collections import deque
from collections.abc import Iterator, Mapping
from functools import partial
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from eqbook._attributes import is_library, parts_of, static, used_by

FEW = 64  # numbers of an array that are listed one by one
# From here on integers count by a number made of their digits: a store compares numbers up to rounding.
LARGE = 10**5


def numbers_in(value: Any) -> list[float]:
    """The numbers that a function holds, in an order that another process finds again.

    Those in its closure, its defaults and its code, and in the objects and functions that it holds, so that learning
    rates, decays, weights, thresholds and the steps of a schedule are told apart; of an object that is called, the
    attributes that its methods use, and the code of these. A dtype counts by a number made of its name. In a notebook,
    a script, or a module outside of packages, also those in what it finds there by name. Text that is held counts, by a
    number made of it; text in the code does not, nor what is found by name elsewhere, nor what an object keeps once it
    was asked for. An integer of 100 000 or more counts by a number made of its digits: two that agree up to rounding
    may be two seeds.

    Args:
        value: function, object, or a tuple, list or dictionary of these, numbers and text.
    """
    return list(_walk(value, {}))


def key_numbers(array: Any) -> Any:
    """The numbers of an array of random keys, which NumPy cannot read; any other array as it is."""
    is_key = isinstance(array, jax.Array) and jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key)
    return jax.random.key_data(array) if is_key else array


def without_addresses(value: Any) -> str:
    """What a value shows of itself, but for its place in memory, which is another one in the next process."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))


def _walk(value: Any, seen: dict[int, Any]) -> Iterator[float]:
    if isinstance(value, int | np.integer):
        yield float(value) if abs(int(value)) < LARGE else _number(str(int(value)))
    elif isinstance(value, float | np.floating):
        yield float(value) if np.isfinite(value) else _number(str(value))
    elif isinstance(value, str | bytes):
        yield _number(value)
    elif isinstance(value, os.PathLike):
        yield _number(os.fspath(value))
    elif isinstance(value, complex | np.ndarray | np.generic | jax.Array):
        yield from _in_array(value, seen)
    elif (name := _dtype_name(value)) is not None:
        yield _number(name)
    elif isinstance(value, slice):
        yield from _walk((value.start, value.stop, value.step), seen)
    elif isinstance(value, set | frozenset):  # in the next process they have another order
        yield from sorted(number for part in value for number in _walk(part, seen))
    elif isinstance(value, Mapping | tuple | list | deque | range):
        if id(value) not in seen:  # not inside of itself
            seen[id(value)] = value
            for part in value.items() if isinstance(value, Mapping) else value:
                yield from _walk(part, seen)
            del seen[id(value)]
    elif id(value) not in seen and not isinstance(value, type | ModuleType | logging.Logger | None):
        seen[id(value)] = value
        yield from _in_object(value, seen)


def _dtype_name(value: Any) -> str | None:
    """The name of a dtype, also of one that is given as a type; `None` if it is none."""
    if isinstance(value, type):
        if value in (bool, int, float, complex) or issubclass(value, np.generic):
            return value.__name__
        value = vars(value).get("dtype")  # those of jax.numpy are types of their own
    return value.name if isinstance(value, np.dtype) else None


def _in_array(value: Any, seen: dict[int, Any]) -> Iterator[float]:
    if isinstance(value, jax.core.Tracer) or (isinstance(value, jax.Array) and value.is_deleted()):
        return
    flat = np.asarray(key_numbers(value)).reshape(-1)
    if flat.dtype == object:
        yield from _walk(flat.tolist(), seen)
        return
    yield _number(f"{np.shape(value)}")
    known = jnp.issubdtype(flat.dtype, jnp.number) or flat.dtype == bool
    kind = int if jnp.issubdtype(flat.dtype, jnp.integer) else complex
    for number in map(kind, flat[:FEW]) if known else ():
        for part in (number.real, number.imag) if np.iscomplexobj(flat) else (number.real,):
            yield from _walk(part, seen)
    if flat.size > FEW or not known:  # the rest by a number that is made of all bits
        yield _number(flat.tobytes())


def _in_object(value: Any, seen: dict[int, Any]) -> Iterator[float]:
    """Numbers in a function, a method, or an object that may be called."""
    if isinstance(value, partial):
        yield from _walk((value.func, value.args, value.keywords), seen)
    elif isinstance(value, MethodType):
        yield from _walk((value.__func__, used_by(value.__self__, value.__func__)), seen)
    elif isinstance(value, FunctionType):
        held = {} if is_library(value.__globals__) else {k: v for k, v in vars(value).items() if k != "__wrapped__"}
        cells = [_content(cell) for cell in value.__closure__ or ()]
        yield from _walk((value.__defaults__, value.__kwdefaults__, cells, held), seen)
        yield from _in_code(value.__code__, value.__globals__, seen)
    elif isinstance(value, jax.custom_vjp | jax.custom_jvp):
        yield from _walk([getattr(value, name, None) for name in ("fun", "fwd", "bwd", "jvp")], seen)
    elif callable(inner := static(value, "__wrapped__")):  # a jitted function
        yield from _walk(inner, seen)
    else:
        call = static(type(value), "__call__")
        called = isinstance(call, FunctionType) and not isinstance(value, nn.Module)
        yield from _walk((used_by(value, call), call) if called else parts_of(value), seen)


def _in_code(code: CodeType, module: dict[str, Any], seen: dict[int, Any]) -> Iterator[float]:
    """Numbers among the constants of code, and in what it finds by name in a notebook or a script."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _in_code(constant, module, seen)
        elif not isinstance(constant, str):  # an error message may change, and a docstring
            yield from _walk(constant, seen)
    if is_library(module):
        return
    steps = list(dis.get_instructions(code))
    counters = {step.argval for step in steps if step.opname == "STORE_GLOBAL"}
    for step, key, look in zip(steps, [*steps[1:], None], [*steps[2:], None, None]):
        if step.opname == "LOAD_GLOBAL" and step.argval not in counters:
            found = module.get(step.argval)
            one = look is not None and _subscripts(look) and key.opname == "LOAD_CONST"
            if one and isinstance(found, dict):  # of a dictionary of settings this one counts
                found = found.get(key.argval)
            yield from _walk(found, seen)


def _subscripts(step: dis.Instruction) -> bool:
    """Whether it takes an item: a binary operation among others from Python 3.14 on."""
    return step.opname == "BINARY_SUBSCR" or (step.opname == "BINARY_OP" and step.argrepr == "[]")


def _number(content: str | bytes) -> float:
    """A number that is made of all bits."""
    content = content.encode() if isinstance(content, str) else content
    return float(int.from_bytes(hashlib.sha256(content).digest()[:6]))


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None

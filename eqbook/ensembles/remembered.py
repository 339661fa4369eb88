"""What is traced once and kept: shapes, of which a call needs several, and each takes milliseconds to find."""

from collections.abc import Callable, Iterator
from functools import lru_cache, wraps
from typing import Any

import jax

from eqbook.grams.workers import SETTINGS


def remembered(found: Callable) -> Callable:
    """`found`, which is called once for equal arguments under equal settings of JAX, and its result kept.

    Arguments without a hash, as an optimiser may be, are given to `found` each time. Equal objects may have changed:
    what they hold has to be among the arguments, see `eqbook.ensembles.epoch.held_by`. Errors are not kept.
    """
    kept = lru_cache(maxsize=64)(lambda _settings, *arguments: found(*arguments))

    @wraps(found)
    def call(*arguments: Any) -> Any:
        try:
            hash(arguments)
        except TypeError:
            return found(*arguments)
        return kept(_settings(), *arguments)

    return call


def _settings() -> tuple:
    """Of JAX, those on which shapes, dtypes and errors depend."""
    names = (*SETTINGS, "explicit_x64_dtypes")
    return (*(getattr(jax.config, f"jax_{name}", None) for name in names), jax.sharding.get_abstract_mesh())


def shape_of(array: Any, length: int | None = None) -> jax.ShapeDtypeStruct:
    """Shape and dtype of an array, or of one with another length."""
    return jax.ShapeDtypeStruct(array.shape if length is None else (length, *array.shape[1:]), array.dtype)


def equations(jaxpr: Any) -> Iterator[Any]:
    """The operations of a traced function, also those inside of others: of a loop once, of a branch every side."""
    for equation in jaxpr.eqns:
        yield equation
        for value in equation.params.values():
            for part in value if isinstance(value, tuple) else (value,):
                inner = getattr(part, "jaxpr", part)
                if hasattr(inner, "eqns"):
                    yield from equations(inner)

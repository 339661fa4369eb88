"""A cache for functions that return arrays: all callers get the same ones, so that none may write to them."""

import functools
from collections.abc import Callable
from typing import Any

import jax


def cached_arrays(function: Callable) -> Callable:
    """`functools.cache`, with all NumPy arrays of the results, alone or in tuples, read-only."""

    @functools.cache
    @functools.wraps(function)
    def cached(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        for array in jax.tree.leaves(result):
            array.setflags(write=False)
        return result

    return cached

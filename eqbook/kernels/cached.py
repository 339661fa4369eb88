"""A cache for functions that return arrays: all callers get the same ones, so that none may write to them."""

import functools
from collections.abc import Callable
from typing import Any

import jax


def cached_arrays(function: Callable) -> Callable:
    """`functools.cache`, with all NumPy arrays of the results, alone or in tuples, read-only.

    What cannot be a key, such as a list, goes to the function itself, whose error names the argument.
    """

    @functools.cache
    def kept(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        for array in jax.tree.leaves(result):
            array.setflags(write=False)
        return result

    @functools.wraps(function)
    def cached(*args: Any, **kwargs: Any) -> Any:
        try:
            hash((args, *kwargs.values()))
        except TypeError:
            return function(*args, **kwargs)
        return kept(*args, **kwargs)

    cached.cache_clear, cached.cache_info = kept.cache_clear, kept.cache_info
    return cached

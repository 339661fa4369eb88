"""Arithmetic operations of a traced function, counted from its program rather than by hand."""

from collections.abc import Callable
from math import prod
from typing import Any

import jax

# They move numbers, or make them from nothing.
STRUCTURAL = {
    "broadcast_in_dim",
    "concatenate",
    "convert_element_type",
    "copy",
    "dynamic_slice",
    "gather",
    "iota",
    "optimization_barrier",
    "pad",
    "reshape",
    "rev",
    "slice",
    "squeeze",
    "stop_gradient",
    "transpose",
}


def operations(function: Callable, *args: Any) -> int:
    """Additions, multiplications, comparisons, divisions, roots and selections of one call.

    Loops of known length count as often as they run, others once; of a branch the longest side.

    Args:
        function: to be traced.
        args: arrays, or their shapes and dtypes.
    """
    return _count(jax.make_jaxpr(function)(*args).jaxpr)


def _count(jaxpr: Any) -> int:
    return sum(map(_of_equation, jaxpr.eqns))


def _of_equation(equation: Any) -> int:
    name, params = equation.primitive.name, equation.params
    if name == "cond":
        return max(_count(branch.jaxpr) for branch in params["branches"])
    inner = [getattr(value, "jaxpr", value) for value in params.values() if hasattr(value, "jaxpr")]
    inner = [value for value in inner if hasattr(value, "eqns")]
    if inner:
        return params.get("length", 1) * sum(map(_count, inner))
    if name == "dot_general":
        (contracted, _), _ = params["dimension_numbers"]
        shape = equation.invars[0].aval.shape
        return 2 * equation.outvars[0].aval.size * prod(shape[axis] for axis in contracted)
    if name in STRUCTURAL:
        return 0
    if name.startswith("reduce"):
        return equation.invars[0].aval.size
    return equation.outvars[0].aval.size

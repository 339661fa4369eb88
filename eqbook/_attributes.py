"""What an object is made of, and what of it its methods use."""

import dis
import inspect
import sys
from dataclasses import fields, is_dataclass
from functools import cached_property
from types import FunctionType, ModuleType
from typing import Any

import flax.linen as nn
import numpy as np

DYNAMIC = {"getattr", "vars", "__dict__"}  # code with these may use any attribute


def parts_of(value: Any) -> dict[str, Any]:
    """The attributes of an object by name; none of a class, a module, or an object that has no attributes."""
    if isinstance(value, type | ModuleType):
        return {}
    kinds = type(value).__mro__
    names = {field.name for field in fields(value)} if is_dataclass(value) else set()
    if isinstance(value, nn.Module):  # it knows its place in another one, too
        names -= {"parent", "name"}
    else:
        for kind in kinds:
            slots = vars(kind).get("__slots__", ())
            for slot in [slots] if isinstance(slots, str) else slots:
                private = slot.startswith("__") and not slot.endswith("__")
                names.add(f"_{kind.__name__.lstrip('_')}{slot}" if private else slot)
        names |= set(getattr(value, "__dict__", ()))
    # What is filled when it is first asked for says nothing, and would make a used object another one.
    lazy = {name for kind in kinds for name, part in vars(kind).items() if isinstance(part, cached_property)}
    found = {}
    for name in sorted(names - lazy - {"_hash"}):
        try:
            found[name] = getattr(value, name)
        except Exception:  # not filled yet, or a property that raises
            continue
    if isinstance(value, nn.Module) and value.scope is not None:
        found["variables"] = value.variables
    return found


def used_by(value: Any, function: FunctionType) -> dict[str, Any]:
    """The attributes of an object that a method uses, itself or by others; all, if it hands the object on."""
    everything, names, todo = parts_of(value), set(), [function]
    while todo:
        code = todo.pop().__code__
        own = code.co_varnames[:1]
        steps = list(dis.get_instructions(code))
        for step, following in zip(steps, [*steps[1:], None]):
            loaded = step.argval if isinstance(step.argval, tuple) else (step.argval,)
            if step.opname.startswith("LOAD_") and own and own[0] in loaded:
                if step.opname != "LOAD_FAST" or not following.opname.endswith(("_ATTR", "_METHOD")):
                    return everything
        if DYNAMIC & set(code.co_names):
            return everything
        for name in set(code.co_names) - names:
            names.add(name)
            part = static(type(value), name)
            part = part.fget if isinstance(part, property) else part.func if isinstance(part, cached_property) else part
            todo += [part] if isinstance(part, FunctionType) else []
    of_class = {name: static(type(value), name) for name in sorted(names)}
    constants = {name: part for name, part in of_class.items() if isinstance(part, int | float | str | np.ndarray)}
    return constants | {name: part for name, part in everything.items() if name in names}


def is_library(module: dict[str, Any]) -> bool:
    """Whether a module's variables may be anything: of a package, or of Python itself."""
    return bool(module.get("__package__")) or module.get("__name__") in sys.stdlib_module_names


def static(value: Any, name: str, default: Any = None) -> Any:
    """An attribute without what computes one on demand, which may answer to every name."""
    return inspect.getattr_static(value, name, default)

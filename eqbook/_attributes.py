"""What an object is made of, and what of it its methods use."""

import dis
import inspect
import sys
from dataclasses import fields, is_dataclass
from functools import cached_property
from types import FunctionType, ModuleType
from typing import Any

import flax.linen as nn

LIBRARIES = {"builtins", "flax", "jax"}  # of whose classes a user's may be made
DYNAMIC = {"getattr", "vars", "__dict__", "super"}  # code with these may use any attribute


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


def constants_of(kind: type) -> dict[str, Any]:
    """The attributes of a class by name, also those that it inherits: no functions, descriptors or types."""
    found: dict[str, Any] = {}
    for one in reversed(kind.__mro__):
        found |= vars(one)
    others = {name for name, part in found.items() if isinstance(part, type) or hasattr(type(part), "__get__")}
    return {name: part for name, part in sorted(found.items()) if name not in others and not name.startswith("__")}


def function_in(part: Any) -> FunctionType | None:
    """The function in an attribute of a class: a method of any kind, also a jitted one, or a property; else `None`."""
    part = part.fget if isinstance(part, property) else part.func if isinstance(part, cached_property) else part
    part = part.__func__ if isinstance(part, staticmethod | classmethod) else part
    if not isinstance(part, FunctionType):
        part = static(part, "__wrapped__")
    return part if isinstance(part, FunctionType) else None


def methods_of(kind: type) -> dict[str, FunctionType]:
    """The functions of a class and of those it inherits from; of special ones, and of libraries, `__call__` only."""
    found = {}
    for one in kind.__mro__:
        foreign = one.__module__.split(".")[0] in LIBRARIES
        for name, part in sorted(vars(one).items()):
            function = function_in(part)
            if function is not None and (name == "__call__" or not (foreign or name.startswith("__"))):
                found[f"{one.__qualname__}.{name}"] = function
    return found


def made_with(net: Any) -> Any:
    """What a Flax module is made with, and the modules in it; equal names of functions may stand for two functions."""
    if isinstance(net, nn.Module):
        names = sorted(field.name for field in fields(net) if field.name not in ("parent", "name"))
        return [methods_of(type(net)), *(made_with(getattr(net, name, None)) for name in names)]
    if isinstance(net, tuple | list):
        return [made_with(part) for part in net]
    return net


def used_by(value: Any, function: FunctionType) -> dict[str, Any]:
    """What a method uses of an object, itself or by others: attributes, its own or of its class, and these others.

    All attributes and methods, if it hands the object on. Attributes that these methods set, such as a count of calls,
    are left out.
    """
    everything, names, stored, todo, others = constants_of(type(value)) | parts_of(value), set(), set(), [function], {}
    whole = False
    while todo:
        code = todo.pop().__code__
        own = code.co_varnames[:1]
        steps = list(dis.get_instructions(code))
        for step, following in zip(steps, [*steps[1:], None]):
            loaded = step.argval if isinstance(step.argval, tuple) else (step.argval,)
            if step.opname.startswith("LOAD_") and own and own[0] in loaded:
                if step.opname != "LOAD_FAST" or not following.opname.endswith(("_ATTR", "_METHOD")):
                    whole = True
        whole |= bool(DYNAMIC & set(code.co_names))
        stored |= {step.argval for step in steps if step.opname == "STORE_ATTR"}
        for name in set(code.co_names) - names:
            names.add(name)
            if (part := function_in(static(type(value), name))) is not None:
                others[name] = part
                todo.append(part)
    used = methods_of(type(value)) if whole else dict(sorted(others.items()))
    return used | {name: part for name, part in everything.items() if (whole or name in names) and name not in stored}


def is_library(module: dict[str, Any]) -> bool:
    """Whether a module's variables may be anything: of a package, or of Python itself."""
    return bool(module.get("__package__")) or module.get("__name__") in sys.stdlib_module_names


def static(value: Any, name: str, default: Any = None) -> Any:
    """An attribute without what computes one on demand, which may answer to every name."""
    return inspect.getattr_static(value, name, default)

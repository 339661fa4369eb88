"""What an object is made of, and what of it its methods use."""

import dis
import inspect
import sys
from dataclasses import fields, is_dataclass
from functools import cached_property
from types import FunctionType, ModuleType
from typing import Any

import flax.linen as nn

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


def made_with(net: Any) -> Any:
    """What a Flax module is made with, and the modules in it; equal names of functions may stand for two functions."""
    if isinstance(net, nn.Module):
        names = sorted(field.name for field in fields(net) if field.name not in ("parent", "name"))
        code = [part for kind in type(net).__mro__ for part in (vars(kind).get("setup"), vars(kind).get("__call__"))]
        return [code, *(made_with(getattr(net, name, None)) for name in names)]
    if isinstance(net, tuple | list):
        return [made_with(part) for part in net]
    return net


def used_by(value: Any, function: FunctionType) -> dict[str, Any]:
    """What a method uses of an object, itself or by others: attributes, its own or of its class, and these others.

    All attributes, if it hands the object on.
    """
    everything, names, todo, others = constants_of(type(value)) | parts_of(value), set(), [function], {}
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
            if isinstance(part, FunctionType):
                others[name] = part
                todo.append(part)
    return dict(sorted(others.items())) | {name: part for name, part in everything.items() if name in names}


def is_library(module: dict[str, Any]) -> bool:
    """Whether a module's variables may be anything: of a package, or of Python itself."""
    return bool(module.get("__package__")) or module.get("__name__") in sys.stdlib_module_names


def static(value: Any, name: str, default: Any = None) -> Any:
    """An attribute without what computes one on demand, which may answer to every name."""
    return inspect.getattr_static(value, name, default)

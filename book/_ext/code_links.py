"""What sphinx-codeautolink needs to link every name in a code cell, in every build.

It looks a function up under the module that defines it, and the API reference documents it under the folder that
exports it: `documented_names` says which is which. And it links the pages whose source has changed, whereas Sphinx also
writes pages anew when their outputs or the package have changed; those would lose their links.
"""

import importlib
import pkgutil
from typing import Any

import sphinx_codeautolink


def documented_names(package: str = "eqbook") -> dict[str, str]:
    """Return `{where a public object is defined: the name it is documented under}`."""
    names = {}
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__, prefix=f"{package}."):
        if module.name.rsplit(".", 1)[-1].startswith("_"):
            continue
        folder = importlib.import_module(module.name)
        for name in getattr(folder, "__all__", []):
            value = getattr(folder, name)
            if hasattr(value, "__qualname__"):
                names[f"{value.__module__}.{value.__qualname__}"] = f"{module.name}.{name}"
    return {home: name for home, name in names.items() if home != name}


def map_names(app: Any, config: Any) -> None:
    """Tell sphinx-codeautolink the documented names."""
    config.codeautolink_inventory_map = documented_names()


def setup(app: Any) -> dict[str, Any]:
    """Record the pages that are written, and give them to sphinx-codeautolink before it links."""
    written: set[str] = set()

    def record(app: Any, pagename: str, templatename: str, context: dict, doctree: Any) -> None:
        written.add(pagename)

    def link_written_pages(app: Any, exception: Exception | None) -> None:
        for listener in app.events.listeners["build-finished"]:
            owner = getattr(listener.handler, "__self__", None)
            if type(owner).__module__.startswith(sphinx_codeautolink.__name__):
                owner.outdated_docs = written

    app.connect("config-inited", map_names)
    app.connect("html-page-context", record)
    app.connect("build-finished", link_written_pages, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": False}

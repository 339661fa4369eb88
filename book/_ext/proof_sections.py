"""Make the sections inside theorems, exercises and solutions ordinary containers.

sphinx-proof and sphinx-exercise wrap the body of each statement in a section without a title, with the same id every
time (`proof-content`, `exercise-content`, `solution-content`); a proof is an admonition whose id is always `proof`.
sphinx-codeautolink takes every section to have a title and crashes, and a page with two theorems has a duplicate id.
"""

from typing import Any

from docutils import nodes

SECTIONS = {"proof-content", "exercise-content", "solution-content"}


def unwrap(app: Any, doctree: nodes.document) -> None:
    """Replace each of those sections by a container with the same classes and children."""
    for section in list(doctree.findall(nodes.section)):
        if SECTIONS & set(section["ids"]):
            # Not `replace_self`: it would carry the id over.
            container = nodes.container("", *section.children, classes=section["classes"])
            section.parent[section.parent.index(section)] = container
    for admonition in doctree.findall(nodes.admonition):
        if "proof" in admonition["ids"] and "proof" in admonition["classes"]:
            admonition["ids"].remove("proof")


def setup(app: Any) -> dict[str, Any]:
    """Run before sphinx-codeautolink, which reads the same event."""
    app.connect("doctree-read", unwrap, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

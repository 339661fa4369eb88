"""Keep a formula and the punctuation that touches it on one line.

A browser takes a formula for a picture, behind which a line may end: the next one would begin with the full stop.
"""

import re
from typing import Any

from docutils import nodes

BEFORE = re.compile(r"[(\[“‘]+$")
BEHIND = re.compile(r"[.,;:!?)\]”’]+")


def keep_together(app: Any, doctree: nodes.document, docname: str) -> None:
    """Wrap each such formula and its punctuation in an element that does not wrap; the text stays what it is."""
    for formula in list(doctree.findall(nodes.math)):
        parent, at = formula.parent, formula.parent.index(formula)
        texts = [parent[i] if 0 <= i < len(parent) else None for i in (at - 1, at + 1)]
        left, right = (text.astext() if isinstance(text, nodes.Text) else "" for text in texts)
        before, behind = BEFORE.search(left), BEHIND.match(right)
        if not (before or behind):
            continue
        start = before.start() if before else len(left)
        stop = behind.end() if behind else 0
        inner = [nodes.Text(left[start:]), formula, nodes.Text(right[:stop])]
        group = nodes.inline("", "", *(one for one in inner if one.astext()), classes=["nowrap"])
        if behind:
            parent[at + 1] = nodes.Text(right[stop:])
        parent[at] = group
        if before:
            parent[at - 1] = nodes.Text(left[:start])


def setup(app: Any) -> dict[str, Any]:
    """Run once all references are resolved."""
    app.connect("doctree-resolved", keep_together)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

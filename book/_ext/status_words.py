"""The execution table says `passed` and `failed`, where myst-nb draws emoji that not every machine has a font for."""

from typing import Any

from docutils import nodes

WORDS = {"✅": "passed", "❌": "failed"}


def replace_emoji(app: Any, doctree: nodes.document, docname: str) -> None:
    """Replace the status marks of the table; other text stays."""
    for text in list(doctree.findall(nodes.Text)):
        if text.astext() in WORDS:
            text.parent.replace(text, nodes.Text(WORDS[text.astext()]))


def setup(app: Any) -> dict[str, Any]:
    """Run once all tables are made."""
    app.connect("doctree-resolved", replace_emoji)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

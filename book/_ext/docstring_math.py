r"""Read the package's docstrings as they are written: `$\alpha$` is mathematics, `x` is code.

autodoc hands docstrings to reStructuredText, which knows neither dollar signs nor that `|G|` outside mathematics is a
number of elements and no substitution. Types are shown under their public names.
"""

import re
from typing import Any

CODE = r"``.+?``|`[^`]+`"
DISPLAY = r"\$\$(?P<display>.+?)\$\$"
INLINE = r"\$(?P<inline>[^$]+?)\$"
TOKEN = re.compile(f"(?P<code>{CODE})|{DISPLAY}|{INLINE}|(?P<bar>\\|)", re.DOTALL)
PRIVATE_NAMES = {"jaxlib._jax.Array": "jax.Array", "jax.jaxlib._jax.Array": "jax.Array"}


def to_rest(text: str) -> str:
    """Translate one docstring; literal blocks (indented after `::`) and doctests stay as they are."""
    pieces, literal = [], None
    for paragraph in re.split(r"(\n\s*\n)", text):
        indent = len(paragraph) - len(paragraph.lstrip())
        if literal is not None and paragraph.strip() and indent <= literal:
            literal = None
        plain = literal is None and not paragraph.lstrip().startswith(">>>")
        pieces.append(TOKEN.sub(_translate, paragraph) if plain else paragraph)
        if paragraph.rstrip().endswith("::"):
            last = paragraph.rstrip().rsplit("\n", 1)[-1]
            literal = len(last) - len(last.lstrip())
    return "".join(pieces)


def _translate(match: re.Match) -> str:
    if match["code"]:
        return match["code"]
    if match["bar"]:
        return r"\|"
    formula = " ".join((match["display"] or match["inline"]).split())
    # A letter may follow at once: "$n$th". The escaped space is what separates the two, and prints nothing.
    following = match.string[match.end() : match.end() + 1]
    return f":math:`{formula}`" + (r"\ " if following.isalnum() else "")


def process_docstring(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Translate in place, before napoleon reads the sections."""
    lines[:] = to_rest("\n".join(lines)).split("\n")


def process_signature(app: Any, what: str, name: str, obj: Any, options: Any, args: str, returns: str) -> tuple:
    """Show public names of types."""
    return tuple(part and _public(part) for part in (args, returns))


def _public(text: str) -> str:
    for private, public in PRIVATE_NAMES.items():
        text = re.sub(rf"(?<![\w.]){re.escape(private)}", public, text)
    return text


def setup(app: Any) -> dict[str, Any]:
    """Connect to autodoc."""
    app.connect("autodoc-process-docstring", process_docstring, priority=100)
    app.connect("autodoc-process-signature", process_signature)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

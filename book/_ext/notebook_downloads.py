"""Offer every chapter as a `.ipynb` file, beside its page and in the page's download menu.

The notebook holds the cells that the build has run, without their outputs.
"""

from pathlib import Path
from typing import Any

from chapters import is_chapter, read_chapter
from plain_markdown import to_plain

NOTE = (
    "*This notebook was generated from a chapter of the book. It needs the environment of the book, which `make book` "
    "sets up; notebooks of experiments also read `book/results/` of a checkout. Statements, formulas and sources are "
    "named by their labels; the page of the book numbers and links them.*"
)


def notebook_of(path: Path, extensions: list[str]) -> Any:
    """Return the chapter at `path` as a notebook, opened by a note that says where it is from."""
    import nbformat

    notebook = read_chapter(path, extensions)
    notebook.metadata = {"kernelspec": notebook.metadata["kernelspec"], "language_info": {"name": "python"}}
    notebook.cells.insert(0, nbformat.v4.new_markdown_cell(NOTE))
    for number, cell in enumerate(notebook.cells):
        if cell.cell_type == "markdown":
            cell.source = to_plain(cell.source)
        # Random ids would make each build of the same chapter a different file.
        cell["id"] = f"cell-{number}"
    return notebook


def add_button(app: Any, pagename: str, templatename: str, context: dict, doctree: Any) -> None:
    """Put the notebook first in the page's download menu."""
    if not doctree or not is_notebook_page(app, pagename):
        return
    button = {
        "type": "link",
        "url": pagename.rsplit("/", 1)[-1] + ".ipynb",
        "text": ".ipynb",
        "icon": "fas fa-code",
        "tooltip": "Download this chapter as a notebook",
        "label": "download-notebook-button",
    }
    for group in context.get("header_buttons", []):
        if group.get("label") == "download-buttons":
            group["buttons"].insert(0, button)


def is_notebook_page(app: Any, pagename: str) -> bool:
    """Return whether the page is made from a Markdown notebook."""
    path = Path(app.env.doc2path(pagename))
    return path.suffix == ".md" and path.is_file() and is_chapter(path)


def write_notebooks(app: Any, exception: Exception | None) -> None:
    """Write the notebook of every chapter beside its page."""
    if exception or app.builder.format != "html":
        return
    import nbformat

    for pagename in app.env.found_docs:
        if is_notebook_page(app, pagename):
            target = Path(app.outdir, pagename + ".ipynb")
            target.parent.mkdir(parents=True, exist_ok=True)
            notebook = notebook_of(Path(app.env.doc2path(pagename)), app.config.myst_enable_extensions)
            nbformat.validate(notebook)
            nbformat.write(notebook, target)


def setup(app: Any) -> dict[str, Any]:
    """Run after the theme, which makes the menu at priority 501."""
    app.connect("html-page-context", add_button, priority=502)
    app.connect("build-finished", write_notebooks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

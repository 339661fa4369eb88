"""What a chapter is, and how it is read: one way for the tests, the build and the notebooks to download."""

import copy
from pathlib import Path
from typing import Any

CODE_CELL = "```{code-cell}"


def is_chapter(path: Path) -> bool:
    """Return whether a Markdown file is a notebook: its front matter names a kernel."""
    import yaml

    text = path.read_text(encoding="utf8")
    if not text.startswith("---\n"):
        return False
    front_matter = text[4:].split("\n---", 1)[0]
    try:
        return "kernelspec" in (yaml.safe_load(front_matter) or {})
    except yaml.YAMLError as error:
        raise ValueError(f"the front matter of {path} is not valid YAML: {error}") from error


def read_chapter(path: Path, extensions: list[str]) -> Any:
    """Read a chapter exactly as the build reads it, so that both compute the same jupyter-cache key.

    Args:
        path: A MyST Markdown notebook.
        extensions: `myst_enable_extensions` of `_config.yml`; they decide where blocks begin and end.

    Returns:
        An nbformat notebook without outputs; `metadata.source_map` holds the line of each cell.

    Raises:
        ValueError: If a code cell would not be executed, or if the front matter asks to ignore errors.
    """
    from myst_nb.core.read import read_myst_markdown_notebook
    from myst_parser.config.main import MdParserConfig

    text = path.read_text(encoding="utf8")
    config = MdParserConfig(enable_extensions=set(extensions))
    notebook = read_myst_markdown_notebook(text, config=config, add_source_map=True, path=path)
    _refuse_silent_cells(path, text, notebook)
    return notebook


def executed_copy(notebook: Any, executed: Any) -> Any:
    """Return `notebook` with the outputs of `executed`, and none of the metadata that running it has added.

    Cell metadata is part of jupyter-cache's key, and nbmake records its timings there.
    """
    result = copy.deepcopy(notebook)
    for cell, ran in zip(result.cells, executed.cells, strict=True):
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = ran.outputs, ran.execution_count
    for name in ("language_info", "widgets"):
        if name in executed.metadata:
            result.metadata[name] = executed.metadata[name]
    return result


def _refuse_silent_cells(path: Path, text: str, notebook: Any) -> None:
    """Raise for code that a reader sees and nobody runs, and for settings under which a failure passes."""
    written = sum(line.lstrip().startswith(CODE_CELL) for line in text.splitlines())
    read = sum(cell.cell_type == "code" for cell in notebook.cells)
    if written != read:
        raise ValueError(
            f"{path} shows {written} code cells and the build runs {read} of them: a cell inside another directive "
            "is not executed. Move it to the top level (gated `solution-start`/`solution-end` may surround it)."
        )
    settings = notebook.metadata.get("mystnb", {})
    ignoring = [name for name in settings if name.startswith("execution_")]
    if notebook.metadata.get("execution", {}).get("allow_errors") or ignoring:
        raise ValueError(
            f"the front matter of {path} sets `allow_errors` or `mystnb: execution_*`; expected every cell to run and "
            "to pass. Tag the one cell that shall fail with `raises-exception` instead."
        )

"""Pages without inline scripts, so that a server may forbid them: `Content-Security-Policy: script-src 'self'`.

The theme and its extensions write small scripts and handlers into each page. After a build they are moved to files
below `_static/inline`, named after what is in them. The scripts of sphinx-thebe, which would start kernels on servers
of others, are dropped: no page uses them, and they name an address that the book must not load from.
"""

import hashlib
import re
from pathlib import Path
from typing import Any

SCRIPT = re.compile(r"<script(?P<attributes>[^>]*)>(?P<body>.*?)</script>\s*", re.DOTALL)
HANDLER = re.compile(r"\sonclick=\"(?P<name>toggleFullScreen|window\.print)\(\)\"")
THEBE = re.compile(r"sphinx-thebe\.js|THEBE_JS_URL|text/x-thebe-config|^\s*kernelName = ")


def move_scripts(page: str, up: str, folder: Path) -> str:
    """Return a page whose inline scripts are files.

    Args:
        page: HTML of the page.
        up: From the page to the root of the book: `""`, `"../"`, ...
        folder: Where the scripts are written, `_static/inline` in the root.
    """

    def move(match: re.Match) -> str:
        attributes, body = match["attributes"], match["body"]
        if THEBE.search(attributes) or THEBE.search(body):
            return ""
        data = re.search(r"type=\"(?!text/javascript|module)", attributes)
        if "src=" in attributes or data or not body.strip():
            return match[0]
        name = f"{hashlib.sha256(body.encode()).hexdigest()[:16]}.js"
        (folder / name).write_text(body.strip() + "\n", encoding="utf8")
        return f'<script{attributes} src="{up}_static/inline/{name}"></script>\n'

    return HANDLER.sub(r' data-click="\g<name>"', SCRIPT.sub(move, page))


def rewrite_pages(app: Any, exception: Exception | None) -> None:
    """Move the scripts of every page that was built."""
    if exception or app.builder.format != "html":
        return
    root = Path(app.outdir)
    folder = root / "_static" / "inline"
    folder.mkdir(parents=True, exist_ok=True)
    for path in root.rglob("*.html"):
        if "_static" in path.relative_to(root).parts:
            continue
        page = path.read_text(encoding="utf8")
        moved = move_scripts(page, "../" * (len(path.relative_to(root).parts) - 1), folder)
        if moved != page:
            path.write_text(moved, encoding="utf8")


def setup(app: Any) -> dict[str, Any]:
    """Run once all pages are written."""
    app.connect("build-finished", rewrite_pages, priority=800)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

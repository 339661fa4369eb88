"""A build that warned is not taken up by the next one.

Sphinx stores each page it has read, also when reading it warned. Run again with `-W`, the build reads nothing, warns of
nothing and succeeds. Here a build with warnings, or one that stopped, drops the stored state, so that the next build
reads every page again (the executed chapters stay in the execution cache).
"""

from pathlib import Path
from typing import Any


def forget_pages(app: Any, exception: Exception | None) -> None:
    """Remove the stored environment after a build that warned or failed."""
    if exception or app._warncount:
        Path(app.doctreedir, "environment.pickle").unlink(missing_ok=True)


def setup(app: Any) -> dict[str, Any]:
    """Run last: the warnings of every other handler count."""
    app.connect("build-finished", forget_pages, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

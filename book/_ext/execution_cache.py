"""One execution cache for the tests and for the build of the book.

`pytest --nbmake book/` (through `conftest.py`) and the Sphinx build (as a local extension) both ask this module where
the executed chapters lie and in which environment chapters run. A chapter is therefore executed once for both, in
either order.

jupyter-cache finds a chapter by its code cells and its kernel alone. Changing the package would leave the old outputs
on the page, so the cache folder itself is named after everything else that the outputs depend on: see `key_parts`.
"""

import hashlib
import json
import os
import platform
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from chapters import is_chapter

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

PACKAGES = (
    *("jax", "jaxlib", "numpy", "scipy", "mpmath", "flax", "optax", "neural-tangents", "e3nn-jax", "matplotlib"),
    "ipython",  # prints the values of cells
    "jupyter-book",  # a page shows its version
)
# Variables on which outputs depend, by how their names begin ...
VARIABLES = ("EQBOOK_", "JAX_", "XLA_FLAGS")
# ... and those among them that change what is executed or where intermediate results are kept, and no output.
NO_MATTER = (
    "EQBOOK_NO_CACHE",
    "EQBOOK_PAGES",
    "EQBOOK_STORE_DIR",
    "JAX_COMPILATION_CACHE_DIR",
    "JAX_PERSISTENT_CACHE_",
)
KEPT_KEYS = 6
# The kernels listen on this machine only; ipykernel warns that what they send is not encrypted.
KERNEL_CONFIG = """\
c = get_config()
c.IPKernelApp.log_level = "ERROR"
c.HistoryManager.enabled = False
"""


def chapter_environment(root: Path) -> dict[str, str]:
    """Return the environment variables a chapter runs with; a variable that the caller has set wins.

    Args:
        root: The folder of `_config.yml`.
    """
    profile = os.environ.get("EQBOOK_PROFILE", "quick")
    threads = str(available_cores())
    defaults = {
        "EQBOOK_PROFILE": profile,
        # The reader's own IPython start-up files must not change what a chapter prints.
        "IPYTHONDIR": str(root / "_build" / "ipython"),
        # Programs compiled for one chapter, or in an earlier run, are not compiled again.
        "JAX_COMPILATION_CACHE_DIR": str(root / "_build" / "jax_cache"),
        # Also the small ones: together they are most of a chapter's compilation.
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        # XLA reports each program it takes from that cache as an error, on the machine that compiled it too.
        "TF_CPP_MIN_LOG_LEVEL": "3",
        # NumPy's BLAS counts the cores of the machine, not those this process may use.
        "OMP_NUM_THREADS": threads,
        "OPENBLAS_NUM_THREADS": threads,
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
    }
    if profile == "quick":
        # The quick profile is sized for a CPU. Without this, jax warns on a machine whose GPU it cannot use.
        defaults["JAX_PLATFORMS"] = "cpu"
    return {name: os.environ.get(name, value) for name, value in defaults.items()}


def available_cores() -> int:
    """Return the number of cores this process may run on."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def key_parts(root: Path) -> dict[str, Any]:
    """Return what the outputs of every chapter depend on besides its own cells.

    Args:
        root: The folder of `_config.yml`, with `eqbook/`, `benchmarks/` and `book/results/` below it.

    Returns:
        File digests of the package, the benchmarks, the recorded runs in use and the settings asked for, versions, and
        the variables whose names begin as `VARIABLES` says, but for those of `NO_MATTER`.
    """
    environment = {**os.environ, **chapter_environment(root)}
    parts = {
        "package": _digests(root / "eqbook"),
        # A page shows the records of the benchmarks, by functions that lie beside them.
        "benchmarks": _digests(root / "benchmarks"),
        "versions": {name: _version(name) for name in PACKAGES},
        "python": platform.python_version(),
        "variables": {
            name: value
            for name, value in environment.items()
            if name.startswith(VARIABLES) and not name.startswith(NO_MATTER)
        },
    }
    changes = environment.get("EQBOOK_SETTINGS", "").strip()
    if changes and not changes.startswith("{") and (path := _beside_chapters(root, changes)).is_file():
        parts["settings"] = hashlib.sha256(path.read_bytes()).hexdigest()
    if environment["EQBOOK_PROFILE"] != "paper":
        # A paper-profile run writes these itself: keyed on them, it would never find what it has just run.
        named = environment.get("EQBOOK_RESULTS_DIR")
        parts["results"] = _digests(_beside_chapters(root, named) if named else root / "book" / "results")
    return parts


def execution_key(root: Path) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of `key_parts(root)`."""
    return hashlib.sha256(json.dumps(key_parts(root), sort_keys=True).encode()).hexdigest()[:16]


def cache_path(root: Path) -> Path:
    """Return the folder of the execution cache for the present key: `_build/.jupyter_cache/<key>`."""
    return root / "_build" / ".jupyter_cache" / execution_key(root)


def prepare(root: Path) -> Path:
    """Set the environment of the chapters in this process, drop old keys, return the folder of the cache."""
    from jupyter_cache import get_cache

    os.environ.update(chapter_environment(root))
    profile = root / "_build" / "ipython" / "profile_default"
    profile.mkdir(parents=True, exist_ok=True)
    config = profile / "ipython_kernel_config.py"
    folder = cache_path(root)
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder.parent):
        if not config.is_file() or config.read_text() != KERNEL_CONFIG:  # kernels of another process may read it
            config.write_text(KERNEL_CONFIG)
        folder.mkdir(exist_ok=True)  # another process may have dropped it
        os.utime(folder)
        get_cache(str(folder)).db  # noqa: B018 - reading it creates it, unless it is there
        by_age = sorted(folder.parent.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
        for old in by_age[KEPT_KEYS:]:
            shutil.rmtree(old, ignore_errors=True)
    return folder


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Let other processes wait: of two that create one database at once, one fails."""
    if fcntl is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some network file systems cannot lock a directory
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _beside_chapters(root: Path, named: str) -> Path:
    """Return the path that a variable names; a relative one counts from a chapter's own folder."""
    return root / "book" / "experiments" / Path(named).expanduser()


def _digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file below `folder`, by relative path, compiled files left out."""
    files = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(files)}


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def newly_executed(app: Any, env: Any, added: set, changed: set, removed: set) -> list[str]:
    """Return every chapter when one was executed after the pages were read (`EQBOOK_NO_CACHE=1` runs them again)."""
    stored = Path(app.doctreedir, "environment.pickle")
    executed = Path(app.config.nb_execution_cache_path).glob("executed/*/base.ipynb")
    if not stored.is_file() or all(path.stat().st_mtime <= stored.stat().st_mtime for path in executed):
        return []
    return [name for name in env.found_docs if is_chapter(Path(env.doc2path(name)))]


def setup(app: Any) -> dict[str, Any]:
    """Point myst-nb at the shared cache; a changed path makes Sphinx read every chapter again."""

    def use_shared_cache(app: Any, config: Any) -> None:
        config.nb_execution_cache_path = str(prepare(Path(app.srcdir)))

    app.connect("config-inited", use_shared_cache)
    app.connect("env-get-outdated", newly_executed)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

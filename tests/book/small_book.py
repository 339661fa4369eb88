"""A small book with this repository's machinery, for tests that break chapters, the package or the configuration."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FRONT_MATTER = """---
jupytext:
  text_representation:
    extension: .md
    format_name: myst
kernelspec:
  name: python3
  display_name: Python 3
execution:
  timeout: 60
---

# {title}

"""


def cell(code: str) -> str:
    """Return a code cell in MyST."""
    return f"```{{code-cell}} ipython3\n{code}\n```\n\n"


@dataclass(frozen=True)
class SmallBook:
    """A book in its own folder: one index, the chapters given to `write`, and a package of one file."""

    root: Path

    @classmethod
    def create(cls, root: Path) -> "SmallBook":
        """Copy the machinery to `root`."""
        for name in ("conftest.py", "_config.yml", "pyproject.toml"):
            shutil.copy(ROOT / name, root / name)
        for name in ("_ext", "_static", "vendor"):
            shutil.copytree(ROOT / "book" / name, root / "book" / name, ignore=shutil.ignore_patterns("__pycache__"))
        (root / "book" / "references.bib").touch()
        (root / "book" / "index.md").write_text("# A small book\n")
        (root / "eqbook").mkdir()
        (root / "eqbook" / "__init__.py").write_text("VALUE = 1\n")
        book = cls(root)
        book._write_toc([])
        return book

    def write(self, name: str, *parts: str, front: str = FRONT_MATTER) -> Path:
        """Write the chapter `book/<name>.md` and list it in the table of contents."""
        path = self.root / "book" / f"{name}.md"
        path.write_text(front.format(title=name.title()) + "".join(parts))
        self._write_toc(sorted(p.stem for p in path.parent.glob("*.md") if p.stem != "index"))
        return path

    def _write_toc(self, names: list[str]) -> None:
        entries = "".join(f"  - file: book/{name}\n" for name in names)
        text = "format: jb-book\nroot: book/index\n" + ("chapters:\n" + entries if names else "")
        (self.root / "_toc.yml").write_text(text)

    def test(self, *arguments: str, **environment: str) -> tuple[int, str]:
        """Run `pytest --nbmake book/`; return its exit status and output.

        Without the other plugins that are installed: importing them takes as long again.
        """
        options = ("-p", "nbmake.pytest_plugin", "--nbmake", "-p", "no:cacheprovider")
        environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        return self._run("pytest", *options, "book/", *arguments, **environment)

    def build(self, **environment: str) -> tuple[int, str]:
        """Run the build as `make book` does; return its exit status and output."""
        code = "from jupyter_book.cli.main import main; main()"
        return self._run("-c", code, "build", "-n", "-W", "--keep-going", ".", **environment)

    def page(self, name: str) -> str:
        """Return the built page of a chapter."""
        return (self.root / "_build" / "html" / "book" / f"{name}.html").read_text()

    def _run(self, module: str, *arguments: str, **environment: str) -> tuple[int, str]:
        command = [sys.executable, *(["-c"] if module == "-c" else ["-m", module]), *arguments]
        cleared = {k: v for k, v in os.environ.items() if not k.startswith(("EQBOOK_", "PYTEST_", "JAX_COMPILATION"))}
        done = subprocess.run(
            command, cwd=self.root, env={**cleared, **environment}, capture_output=True, text=True, timeout=240
        )
        return done.returncode, re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)

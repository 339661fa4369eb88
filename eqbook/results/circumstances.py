"""Under which circumstances a run was made: device, versions, commit."""

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import jax

from eqbook._version import __version__

PACKAGES = ("jax", "jaxlib", "numpy", "flax", "optax")
RECORDS = ("benchmarks/results", "book/results")  # folders of what runs have written


def versions() -> dict[str, str]:
    """Versions of Python, of the packages that compute, and of `eqbook`."""
    return {"python": platform.python_version(), **{name: _version(name) for name in PACKAGES}, "eqbook": __version__}


def device_name() -> str:
    """The devices of JAX in words, such as `1 x NVIDIA H200`, or `1 x cpu of 2 cores` (those it may use)."""
    devices = jax.devices()
    kind = devices[0].device_kind
    if devices[0].platform == "cpu":
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        kind += f" of {cores} core{'s' * (cores != 1)}"
    return f"{len(devices)} x {kind}"


def commit_of(folder: Path) -> str:
    """The git commit that `folder` is checked out at, `+dirty` behind it if tracked files differ, or `unknown`.

    Records do not count: the first of several runs would make all others dirty.

    Args:
        folder: a folder, inside a checkout or not.
    """
    commit = _git(folder, "rev-parse", "HEAD")
    if not commit:
        return "unknown"
    files = (":/", *(f":(top,exclude){records}" for records in RECORDS))
    return commit + ("+dirty" if _git(folder, "status", "--porcelain", "--untracked-files=no", "--", *files) else "")


def short_commit(commit: str) -> str:
    """The first 12 digits of a commit, and the `+dirty` of `commit_of` if it has one."""
    digits, *dirty = commit.split("+")
    return "+".join([digits[:12], *dirty])


def _git(folder: Path, *arguments: str) -> str:
    """What git prints, or nothing if git is missing or refuses."""
    try:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"

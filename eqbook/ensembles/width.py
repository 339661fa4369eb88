"""How many members one program trains at once."""

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from eqbook.ensembles.remembered import equations

# Bytes that a step of one chunk should touch at least, so that starting operations is not what takes the time: measured
# on two CPU cores (more than a few caches' worth makes dense networks slower), and on an H200, where 100 convolutional
# networks of 120,000 parameters take 0.113, 0.106, 0.095 and 0.093 s with 10, 20, 50 and 100 of them in a chunk. This
# makes it 20: of a larger chunk most would be members that nobody asked for.
ENOUGH_BYTES = {"cpu": 2**22, "other": 2**34}
MOST = 256
ROUND = (1, 2, 5, 10, 20, 50, 100, 200)


def chunk_width(size: int, devices: int = 1, at_once: int = 1) -> int:
    """Members in a chunk: enough to keep a device busy, if they fit into half of its free memory.

    For each device it is a power of two; on an accelerator, where there are many, a divisor of round numbers: the last
    chunk is always a whole one, and people ask for 100 members or 1,000.

    It depends on the network, the data and the device, never on the number of members, which could then not change
    without changing the sums of each member in their last digits.

    Args:
        size: bytes of a step of one member, see `step_bytes`.
        devices: devices that share a chunk.
        at_once: chunks that are trained at the same time.
    """
    size = max(1, size)
    enough = ENOUGH_BYTES["cpu" if jax.default_backend() == "cpu" else "other"] // size
    fitting = free_memory() // 2 // at_once // size
    most = min(max(1, enough), max(1, fitting), MOST)
    if jax.default_backend() == "cpu":
        return devices * 2 ** int(math.log2(most))
    return devices * max(k for k in ROUND if k <= most)


def step_bytes(step: Callable, *arguments: Any) -> int:
    """Bytes that a step of one member could need: all that is computed in its program, nothing freed or fused.

    An upper bound that needs no compilation: bodies of loops are counted once, of a branch every side.

    Args:
        step: function of one member, or of a chunk that has one.
        *arguments: its arguments, or their shapes.
    """
    traced = jax.make_jaxpr(step)(*arguments).jaxpr
    return sum(_size(variable.aval) for equation in equations(traced) for variable in equation.outvars)


def _size(aval: Any) -> int:
    return math.prod(aval.shape) * aval.dtype.itemsize if hasattr(aval, "dtype") else 0


def free_memory() -> int:
    """Bytes at hand: on the accelerator if there is one, else in memory."""
    stats = jax.local_devices()[0].memory_stats() if jax.default_backend() != "cpu" else None
    if stats and "bytes_limit" in stats:
        return stats["bytes_limit"] - stats.get("bytes_in_use", 0)
    return min(_available(), _allowed())


def _available() -> int:
    """What the system says, or half of the memory where it does not say."""
    info = Path("/proc/meminfo")
    if info.exists():
        line = next((line for line in info.read_text().splitlines() if line.startswith("MemAvailable")), None)
        if line is not None:
            return int(line.split()[1]) * 1024
    if hasattr(os, "sysconf"):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    return 2**32


def _allowed() -> int:
    """What a container leaves of its limit."""
    limit, used = (Path("/sys/fs/cgroup") / name for name in ("memory.max", "memory.current"))
    try:
        return max(0, int(limit.read_text()) - int(used.read_text()))
    except (OSError, ValueError):  # no container, or "max"
        return 2**62

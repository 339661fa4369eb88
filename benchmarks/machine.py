"""The machine: what it is, and how fast it can be."""

import os
import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.measure import ROOT
from eqbook.grams import workers
from eqbook.results.circumstances import _version, commit_of, device_name, versions

LOAD = os.getloadavg()[0]  # before this process has worked: all that it shows is others' work
DEGREE, CHAINS = 32, 8  # a polynomial is a chain of dependent steps; several fill a processor's pipelines


def circumstances() -> dict[str, Any]:
    """Processor, devices, versions, commit and date."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit_of(ROOT),
        "versions": versions() | {"neural-tangents": _version("neural-tangents")},
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "backend": jax.default_backend(),
        "devices": device_name(),
        # Threads that wanted to run in the minute before this process began: far above 0, others disturbed it.
        "load": LOAD,
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    names = [line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
    return names[0] if names else "unknown"


def limits() -> dict[str, float]:
    """Bytes and float32 operations per second, of all cores or of one accelerator."""
    on_cpu = jax.default_backend() == "cpu"
    large, cached = (2**26, 2**18) if on_cpu else (2**30, 2**23)
    return {
        "cached_bytes_per_s": bandwidth(cached),
        "memory_bytes_per_s": bandwidth(large),
        "operations_per_s": operations(2**13 if on_cpu else 2**22),
    }


@partial(jax.jit, static_argnums=2)
def _stream(x: jax.Array, y: jax.Array, rounds: int) -> jax.Array:
    return jax.lax.fori_loop(0, rounds, lambda _, x: 0.5 * x + y, x)


def bandwidth(size: int) -> float:
    """Bytes per second of `x <- x/2 + y`: two arrays read and one written.

    Args:
        size: bytes of one array; each core has an `x` of its own, and all have one `y`.
    """
    rounds = max(4, 2**30 // size)
    x = jnp.ones(size // 4, jnp.float32)
    jobs = [(x + k, x, rounds) for k in range(workers.cores())]
    return len(jobs) * 3 * size * rounds / _best(_stream, jobs)


def operations(length: int) -> float:
    """Multiplications and additions per second of polynomials on an array that stays close to the arithmetic.

    Args:
        length: of the array.
    """
    rounds = max(4, 2**24 // length)
    jobs = [(jnp.linspace(0, 1, length, dtype=jnp.float32), rounds)] * workers.cores()
    count = 2 * CHAINS * DEGREE * length * rounds * len(jobs)
    return count / _best(_polynomials(), jobs)


def _polynomials() -> Any:
    def step(x: jax.Array) -> jax.Array:
        chains = [x * (0.9 - 0.1 * k) for k in range(CHAINS)]
        sums = [jnp.full_like(x, 0.3)] * CHAINS
        for _ in range(DEGREE):
            sums = [total * at + 0.1 for total, at in zip(sums, chains)]
        return 0.5 * x + 1e-9 * sum(sums)  # the next round depends on all of them

    def run(x: jax.Array, rounds: int) -> jax.Array:
        return jax.lax.fori_loop(0, rounds, lambda _, x: step(x), x)

    return jax.jit(run, static_argnums=1, compiler_options=workers.compiler_options())


def _best(function: Any, jobs: list[tuple], repeats: int = 8) -> float:
    seconds = []
    for _ in range(repeats + 1):  # the first compiles
        started = time.perf_counter()
        jax.block_until_ready(workers.run(function, jobs))
        seconds.append(time.perf_counter() - started)
    return min(seconds[1:])

"""Time and memory of a call."""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
REPEATS = 10  # of a quick call in one round


@dataclass
class Timing:
    """Seconds of repeated calls.

    Attributes:
        first: wall time of the first call, which compiles.
        wall: wall times of the calls after it.
        cpu: processor time of the same calls, all cores together.
    """

    first: float
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    @property
    def typical(self) -> float:
        """The median wall time. Not the shortest: of two sides, the one with more calls would have the better luck."""
        return statistics.median(self.wall)

    def record(self) -> dict[str, Any]:
        """What is kept of it."""
        return {
            "best_s": min(self.wall),
            "median_s": self.typical,
            "worst_s": max(self.wall),
            "cpu_s": statistics.median(self.cpu),
            # `None`: not to be told from the spread of the other calls.
            "compile_s": self.first - self.typical if self.first > max(self.wall) else None,
            "runs": len(self.wall),
        }


def timed(call: Callable[[], Any]) -> tuple[Any, float, float]:
    """The result, once it is computed, wall and processor seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = jax.block_until_ready(call())
    return result, time.perf_counter() - wall, time.process_time() - cpu


def alternate(
    calls: Mapping[str, Callable[[], Any]],
    rounds: int,
    budget: float,
    check: Callable[[dict[str, Any]], Any] = lambda results: None,
) -> tuple[Any, dict[str, Timing]]:
    """Times of several calls, one after the other in each round, so that a busy machine slows all alike.

    Within a round a call is repeated until it has taken as long as the slowest one, or `REPEATS` times: next to calls
    of many seconds, one call of some milliseconds would say more about a neighbour's work than about its own.

    Args:
        calls: what to time, by name.
        rounds: how many at most.
        budget: seconds after which no further round begins but the second.
        check: gets the results of the first calls, which compile, and raises if they are wrong; nothing is timed then.

    Returns:
        What `check` has returned, and the times.
    """
    results, times = {}, {}
    for name, call in calls.items():
        results[name], first, _ = timed(call)
        times[name] = Timing(first)
    checked = check(results)
    del results
    started = time.perf_counter()
    for done in range(rounds):
        if done >= 2 and time.perf_counter() - started > budget:
            break
        slowest = 0.0
        for name in sorted(calls, key=lambda name: -times[name].first):
            spent = 0.0
            for _ in range(REPEATS):
                _, wall, cpu = timed(calls[name])
                times[name].wall.append(wall)
                times[name].cpu.append(cpu)
                spent += wall
                if spent >= slowest:
                    break
            slowest = max(slowest, spent)
    return checked, times


def held() -> int:
    """Bytes that this process holds now; `peak` forgets what it has held before, where the system allows that."""
    if jax.default_backend() != "cpu":
        return jax.devices()[0].memory_stats()["bytes_in_use"]
    mark = Path("/proc/self/clear_refs")
    with suppress(OSError):  # no such file, or not allowed: an earlier peak then hides as much of the next one
        mark.write_text("5")
    return peak()


def peak() -> int:
    """Most bytes that this process has held: on the accelerator if there is one, else in memory."""
    if jax.default_backend() != "cpu":
        return jax.devices()[0].memory_stats()["peak_bytes_in_use"]
    status = Path("/proc/self/status")
    if status.exists():
        # Not getrusage: its peak survives exec, and would be that of the process that started this one.
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def memory(name: str, who: str, n: int, smoke: bool = False) -> int:
    """Peak memory of one call in a process of its own, less what it held before; compiling is included.

    Args:
        name: of the case.
        who: `"ours"` or the name of the peer.
        n: how many inputs.
        smoke: whether to run the tiny version.
    """
    command = [sys.executable, "-m", "benchmarks.measure", name, who, str(n), str(int(smoke))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=os.environ)
    if done.returncode != 0:
        raise RuntimeError(f"{name}, {who}, n = {n}: the measurement of memory failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def _measure_memory(name: str, who: str, n: str, smoke: str) -> None:
    from benchmarks.cases import CASES
    from benchmarks.peers import PEERS, ours
    from benchmarks.settings import configure

    configure()
    case = CASES[name].smoke() if int(smoke) else CASES[name]
    compute = (ours if who == "ours" else PEERS[who])(case.net)
    x = jax.block_until_ready(case.inputs(int(n)))
    before = held()
    jax.block_until_ready(compute(x))
    print(json.dumps(peak() - before))


if __name__ == "__main__":
    _measure_memory(*sys.argv[1:])

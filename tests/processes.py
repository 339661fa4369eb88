"""Python processes with virtual devices, started beside the test and waited for."""

import os
import socket
import subprocess
import sys
from collections.abc import Sequence


def free_port() -> str:
    """A port of this machine that nothing listens at."""
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return str(probe.getsockname()[1])


def start(*arguments: str, devices: int) -> subprocess.Popen:
    """The interpreter with these arguments, and so many virtual devices on the CPU."""
    flags = f"--xla_force_host_platform_device_count={devices}"
    environment = os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    return subprocess.Popen(
        [sys.executable, *arguments], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def finish(running: Sequence[subprocess.Popen], timeout: float = 400) -> list[str]:
    """What each has printed, once all have ended without an error; none is left running."""
    try:
        said = [process.communicate(timeout=timeout)[0] for process in running]
    finally:
        for process in running:
            process.kill()
    assert all(process.returncode == 0 for process in running), "\n".join(said)
    return said

"""Jobs shared out among the processes of one computation, each with devices of its own (`jax.distributed`).

Every process makes the same calls. The jobs, tiles of a Gram matrix or chunks of an ensemble, do not depend on each
other: a process does every n-th of them on its own devices, and at the end all processes have all results.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh

Job = TypeVar("Job")


@dataclass(frozen=True)
class Hosts:
    """The processes that share the jobs.

    Attributes:
        rank: number of this process.
        count: number of processes; with 1 nothing is ever sent.
    """

    rank: int = 0
    count: int = 1

    def share(self, jobs: Sequence[Job]) -> Sequence[Job]:
        """The jobs of this process."""
        return jobs[self.rank :: self.count]

    def exchange(self, mine: Sequence[np.ndarray], jobs: int, shape: tuple[int, ...], dtype: str) -> Iterator:
        """The results of all jobs, in their order, on every process.

        Args:
            mine: results of `share(...)`, none larger than `shape`.
            jobs: number of jobs.
            shape: shape into which each result fits; what is beyond a result is undefined.
            dtype: dtype of the results.
        """
        for number in range(-(-jobs // self.count)):
            sent = np.zeros(shape, dtype)
            if number < len(mine):
                sent[tuple(slice(size) for size in mine[number].shape)] = mine[number]
            # As bytes: numbers of 64 bits would lose half of them where JAX knows 32 only.
            received = self._gathered(sent.reshape(-1).view(np.uint8))
            for content in received[: jobs - number * self.count]:
                yield content.view(dtype).reshape(shape)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Leave the block at the same time, and with an error on all processes if there was one on any.

        Without this, the others would wait for the one that has failed.
        """
        error = None
        try:
            yield
        except Exception as found:  # noqa: BLE001 - raised again below, after the others know of it
            error = found
        failed = [] if self.count == 1 else np.flatnonzero(self._gathered(np.int32(error is not None)))
        if error is not None:
            raise error
        if len(failed):
            numbers = ", ".join(map(str, failed))
            raise RuntimeError(f"process {numbers} of {self.count} has failed; its own output says why.")

    def check_same(self, name: str, digest: str) -> None:
        """Raise if the processes were not called with the same arguments.

        Args:
            name: the arguments, as the message names them.
            digest: hash of their values, in hexadecimal digits.
        """
        if self.count > 1:
            digests = self._gathered(np.frombuffer(bytes.fromhex(digest), np.uint8))
            if (digests != digests[0]).any():
                raise ValueError(f"{name}: expected the same on all {self.count} processes, got different ones.")

    def smallest(self, number: int) -> int:
        """The smallest of the numbers that the processes have."""
        return number if self.count == 1 else int(self._gathered(np.int32(number)).min())

    def _gathered(self, value: np.ndarray) -> np.ndarray:
        return np.asarray(multihost_utils.process_allgather(value))


ALONE = Hosts()


def hosts_of(mesh: Mesh | None) -> Hosts:
    """The processes whose devices a mesh holds.

    Raises:
        ValueError: if it is no mesh, or holds devices of some processes and not of others.
    """
    if mesh is None:
        return ALONE
    if not isinstance(mesh, Mesh):
        raise ValueError(f"`mesh`: expected a jax.sharding.Mesh, got {mesh!r}; make one with jax.make_mesh.")
    here, number = jax.process_index(), jax.process_count()
    found = sorted({device.process_index for device in mesh.devices.flat})
    if found == [here]:
        return ALONE
    if found != list(range(number)):
        raise ValueError(
            f"`mesh`: expected devices of all {number} processes, or of this one, {here}, alone, got devices of "
            f"processes {found}; make it with jax.make_mesh((jax.device_count(),), ('devices',))."
        )
    return Hosts(here, number)


def local(mesh: Mesh | None) -> Mesh | None:
    """The part of a mesh that belongs to this process; `None` for its default device alone."""
    if mesh is None or len({device.process_index for device in mesh.devices.flat}) == 1:
        return mesh
    devices = [device for device in mesh.devices.flat if device.process_index == jax.process_index()]
    return None if devices == jax.local_devices()[:1] else Mesh(np.array(devices), ("devices",))

"""A tile's work on the devices at hand: all of a mesh, or all cores of the processor."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from functools import cache, partial
from typing import Any

import jax
from jax.sharding import Mesh, PartitionSpec

OPTIONS = {
    # XLA uses vectors of 256 bits on processors that have 512: long loops of plain arithmetic gain from the full width.
    "cpu": {"xla_cpu_prefer_vector_width": 512},
    # For each shape of a matrix product XLA tries dozens of programs of its own against those of cuBLAS. On an H200
    # that took 7 s, and what it chose was no faster; products are a small part of a kernel's time.
    "gpu": {"xla_gpu_enable_triton_gemm": False},
}

# JAX's settings that change numbers, and that a context sets for one thread only.
SETTINGS = (
    "enable_x64",
    "default_device",
    "default_matmul_precision",
    "default_prng_impl",
    "threefry_partitionable",
    "numpy_dtype_promotion",
)


@cache
def cores() -> int:
    """Threads that may compute at the same time: the cores of a CPU, one for any other device."""
    if jax.default_backend() != "cpu":
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def entries(cpu: int, other: int) -> int:
    """A size of arrays that suits the device: a CPU works best in its caches, others need much to do at a time."""
    return cpu if jax.default_backend() == "cpu" else other


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(cores(), thread_name_prefix="eqbook")


def run(function: Callable, jobs: Sequence[tuple]) -> list[Any]:
    """`[function(*job) for job in jobs]`, one job on each core at a time; a loop of small steps leaves cores idle."""
    if len(jobs) == 1:
        return [function(*jobs[0])]
    here = settings()

    def one(job: tuple) -> Any:
        with here():
            return jax.block_until_ready(function(*job))

    futures = [_submit(_pool(), one, job) for job in jobs]
    try:
        return [future.result() for future in futures]
    finally:
        while futures:  # an error holds this frame: it should not hold the results of the other jobs
            futures.pop().cancel()


def settings() -> Callable[[], ExitStack]:
    """The settings of this thread, as a context for another one: those that contexts set here do not reach it."""
    values = {name: getattr(jax.config, f"jax_{name}") for name in SETTINGS}

    def enter() -> ExitStack:
        with ExitStack() as stack:
            for name, value in values.items():
                stack.enter_context(getattr(jax, name)(value))
            return stack.pop_all()

    return enter


def behind(function: Callable, jobs: Iterable[tuple]) -> None:
    """`function(*job)` for each job in turn, in a thread, while the next one is made; no more than two are held."""
    with ThreadPoolExecutor(1, thread_name_prefix="eqbook") as pool:
        running = None
        try:
            for job in jobs:
                if running is not None:
                    running.result()
                running = _submit(pool, function, *job)
            if running is not None:
                running.result()
        finally:
            running = None  # it holds its error, the error this frame, and the frames above it what they work on


def ahead(jobs: Iterable[tuple]) -> Iterator[tuple]:
    """Each job once the next one is made: a device has work before anyone waits for what it was given last."""
    waiting: list[tuple] = []
    for job in jobs:
        waiting.append(job)
        if len(waiting) > 1:
            yield waiting.pop(0)  # and is not held here any longer
    yield from waiting


def _submit(pool: ThreadPoolExecutor, function: Callable, *args: Any) -> Future:
    try:
        return pool.submit(function, *args)
    except RuntimeError:  # the interpreter ends and starts no threads: the work is done here
        done = Future()
        done.set_result(function(*args))
        return done


@cache
def compiler_options() -> dict[str, Any] | None:
    """Options for the compiler, see `OPTIONS`; `None` where it does not know them."""
    options = OPTIONS.get(jax.default_backend())
    if options is None:
        return None
    try:
        jax.jit(lambda x: x + 1, compiler_options=options)(0)
    except Exception:  # noqa: BLE001 - an option that this compiler does not know is not an error of the user's
        return None
    return options


@cache
def jitted(function: Callable, static: tuple[int, ...], traced: bool) -> Callable:
    """`function` jitted with the compiler's options; without them inside another jit: they belong to the outermost one.

    Args:
        function: what to compile.
        static: which arguments are part of the program.
        traced: whether an argument is abstract.
    """
    return jax.jit(function, static_argnums=static, compiler_options=None if traced else compiler_options())


@cache
def sharded(function: Callable, static: tuple, mesh: Mesh, replicated: int) -> Callable:
    """`function(*static, ...)` jitted over a mesh, its result split along the first axis.

    Args:
        function: what each device computes.
        static: its first arguments.
        mesh: the devices.
        replicated: how many of the other arguments are whole on each device; the rest is split along the first axis.
    """
    # Axes of `jax.make_mesh` are explicit ones, which refuse operands that lie elsewhere; these move them.
    mesh = Mesh(mesh.devices, mesh.axis_names)
    split = PartitionSpec(mesh.axis_names)

    def call(*args: Any) -> Any:
        specs = tuple(PartitionSpec() if k < replicated else split for k in range(len(args)))
        local = partial(function, *static)
        return jax.shard_map(local, mesh=mesh, in_specs=specs, out_specs=split, check_vma=False)(*args)

    return jax.jit(call)


def is_traced(*arrays: Any) -> bool:
    """Whether one of the arrays is abstract: inside `jit` or `grad` nothing can be looked at or run on threads."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(arrays))


def devices(mesh: Mesh | None, x: jax.Array) -> list[jax.Device]:
    """Where a known array is computed with: where it lies counts only if that was asked for."""
    if mesh is not None:
        return list(mesh.devices.flat)
    if x.committed:
        return list(x.devices())
    default = jax.config.jax_default_device
    return [default if isinstance(default, jax.Device) else jax.local_devices(backend=default)[0]]


def count(mesh: Mesh | None, *arrays: Any) -> int:
    """How many workers share a tile: the devices of a mesh, else the cores, else one inside `jit`."""
    if mesh is not None:
        return mesh.size
    return 1 if is_traced(*arrays) else cores()

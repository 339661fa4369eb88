"""What the kernel asks of the machine in one instruction, and whether the machine does as it is taken to do."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

THREADS = 32  # of a warp, which can read each other's registers

Rows = Float[Array, "rows lanes"]


class Machine(NamedTuple):
    """What a GPU does in one instruction; elsewhere, for tests, JAX does it.

    Attributes:
        pick: values `[rows, lanes]` of other threads of the warp, given their numbers in it `[1, lanes]`.
        down: row `t + offset` in the place of each row t, of `[rows, lanes]`; modulo `wrap`, or 0 where there is none.
        inverse: 1 / x.
        root: the square root.
        hidden: the same numbers, of which the compiler does not know what they are: where it knows that four lie side
            by side in memory, it gives them to one thread.
    """

    pick: Callable[[Rows, Array], Rows]
    down: Callable[[Rows, int, int | None], Rows]
    inverse: Callable[[Rows], Rows]
    root: Callable[[Rows], Rows]
    hidden: Callable[[Array], Array]


@cache
def gpu() -> Machine:
    """That of a GPU by NVIDIA, in its assembly language."""
    from jax.experimental.pallas import triton

    def asm(text: str, constraints: str, *values: Array, pack: int = 1) -> Array:
        like = jax.ShapeDtypeStruct(values[0].shape, values[0].dtype)
        (found,) = triton.elementwise_inline_asm(
            text, args=values, constraints=constraints, pack=pack, result_shape_dtypes=[like]
        )
        return found

    def pick(values: Rows, thread: Array) -> Rows:
        text = "shfl.sync.idx.b32 $0, $1, $2, 0x1f, 0xffffffff;"
        return asm(text, "=f,f,r", values, jnp.broadcast_to(thread, values.shape))

    def down(values: Rows, offset: int, wrap: int | None) -> Rows:
        # The rows of a thread are registers: moving them is a matter of their names.
        count, lines = len(values), []
        for t in range(count):
            seen = (t + offset) % wrap if wrap and t < wrap else t + offset
            lines.append(f"mov.b32 ${t}, {f'${count + seen}' if 0 <= seen < count else '0f00000000'};")
        return asm(" ".join(lines), ",".join(["=f"] * count + ["f"] * count), values, pack=count)

    return Machine(
        pick,
        down,
        partial(asm, "rcp.approx.ftz.f32 $0, $1;", "=f,f"),
        partial(asm, "sqrt.approx.ftz.f32 $0, $1;", "=f,f"),
        partial(asm, "mov.b32 $0, $1;", "=r,r"),
    )


@cache
def by_jax() -> Machine:
    """Any."""

    def pick(values: Rows, thread: Array) -> Rows:
        warps = values.reshape(len(values), -1, THREADS)
        places = jnp.broadcast_to(thread, values.shape).reshape(warps.shape)
        return jnp.take_along_axis(warps, places, 2).reshape(values.shape)

    def down(values: Rows, offset: int, wrap: int | None) -> Rows:
        rows = jnp.arange(len(values)) + offset
        if wrap:
            rows = jnp.where(jnp.arange(len(values)) < wrap, rows % wrap, rows)
        moved = jnp.take(values, jnp.clip(rows, 0, len(values) - 1), 0)
        return jnp.where(within(rows, (0, len(values)))[:, None], moved, 0.0)

    return Machine(pick, down, lambda x: 1 / x, jnp.sqrt, lambda x: x)


def trusted(rows: int, warps: int, device: jax.Device) -> bool:
    """Whether rows lie in a thread's registers in their order, and columns in the threads in theirs, as assumed here.

    Triton promises neither. So it is looked at, once for each device and shape of arrays.
    """
    try:
        return device.platform == "gpu" and _looked_at(rows, warps, device)
    except jax.errors.JaxRuntimeError:  # no memory for example, which the next call may find
        return False


@cache
def _looked_at(rows: int, warps: int, device: jax.Device) -> bool:
    lanes = THREADS * warps
    x = np.arange(rows * lanes, dtype=np.float32).reshape(rows, lanes)
    beside = np.roll(x.reshape(rows, warps, THREADS), -1, 2).reshape(rows, lanes)
    below = np.append(x[1:], np.zeros((1, lanes), np.float32), 0)
    try:
        picked, moved = _tried(x, warps, device)
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" in str(error):
            raise
        return False
    except Exception:  # noqa: BLE001 - whatever is raised where there is no Triton
        return False
    return np.array_equal(picked, 2 * beside) and np.array_equal(moved, 3 * below)


def _tried(x: Float[np.ndarray, "rows lanes"], warps: int, device: jax.Device) -> list[Array]:
    """Twice the numbers of the threads to the right, and three times those of the rows below."""
    from jax.experimental import pallas as pl

    machine, (rows, lanes) = gpu(), x.shape

    def kernel(x: Any, picked: Any, moved: Any) -> None:
        lane = machine.hidden(jnp.arange(lanes, dtype=jnp.int32))[None]
        places = jnp.arange(rows, dtype=jnp.int32)[:, None] * lanes + lane
        values, thread = x[places], rem(lane, THREADS)
        picked[places] = machine.pick(values * 2, rem(thread + 1, THREADS))
        moved[places] = machine.down(values * 3, 1, None)

    shape = jax.ShapeDtypeStruct((x.size,), x.dtype)
    run = jax.jit(pl.pallas_call(kernel, [shape] * 2, grid=(1,), **options(warps)))
    found = run(jax.device_put(x.ravel(), device))
    return [one.reshape(x.shape) for one in found]


def options(warps: int) -> dict[str, Any]:
    """Of `pallas_call`, for Triton."""
    from jax.experimental.pallas import triton

    return {"compiler_params": triton.CompilerParams(num_warps=warps, num_stages=1)}


def div(a: Array, b: int) -> Array:
    """A quotient without a rest. Not `//`, which looks after signs: no number here is below 0."""
    return jax.lax.div(a, jnp.full_like(a, b))


def rem(a: Array, b: int) -> Array:
    """The rest of a division of numbers that are not below 0."""
    return jax.lax.rem(a, jnp.full_like(a, b))


def within(k: Array, interval: tuple[int, int]) -> Array:
    """Whether numbers lie in an interval, its end excluded."""
    return (k >= interval[0]) & (k < interval[1])

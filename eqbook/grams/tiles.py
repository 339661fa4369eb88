"""A Gram matrix tile by tile: what bounds the memory, what progress counts, and what a store keeps."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from math import prod

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from tqdm import tqdm

from eqbook._hosts import Hosts
from eqbook.grams import workers
from eqbook.grams.store import Store

Compute = Callable[[Array, Array | None], tuple[Array, ...]]
ALIGNMENT = 64  # bytes


def places(n1: int, n2: int, tile: int, symmetric: bool) -> Iterator[tuple[slice, slice]]:
    """Rows and columns of each tile; of a symmetric matrix, tiles on and above the diagonal."""
    for i in range(0, n1, tile):
        for j in range(i if symmetric else 0, n2, tile):
            yield slice(i, min(i + tile, n1)), slice(j, min(j + tile, n2))


def assemble(
    compute: Compute,
    check: Callable[[Sequence[Array | np.ndarray]], None],
    x1: Array,
    x2: Array | None,
    tile: int,
    store: Store | None,
    progress: bool,
    hosts: Hosts,
    kinds: int,
    spread: bool,
) -> tuple[Array, ...]:
    """The whole matrices from their tiles.

    Args:
        compute: matrices of two batches, or of one with itself if the second is `None`.
        check: raises if the matrices of a tile are not to be used.
        x1: first batch.
        x2: second batch.
        tile: inputs on each side of a tile.
        store: where finished tiles are kept.
        progress: whether to show a bar on a terminal.
        hosts: processes that share the tiles.
        kinds: number of matrices.
        spread: whether several devices share each tile.
    """
    symmetric = x2 is None
    n1, n2 = len(x1), len(x1 if symmetric else x2)
    if max(n1, n2) <= tile and store is None and hosts.count == 1:
        kernels = compute(x1, x2)
        check(kernels)
        return kernels
    other = x1 if symmetric else x2
    todo = list(places(n1, n2, tile, symmetric))
    device = next(iter(x1.devices())) if x1.committed else None  # tied to it, as one tile's result would be
    # On an accelerator the matrices are put together where the tiles are: the way through the host takes longer than
    # the kernels of vectors.
    on_host = jax.default_backend() == "cpu" or store is not None or hosts.count > 1 or spread
    with hosts.together():
        if on_host:
            whole = [aligned((n1, n2), x1.dtype) for _ in range(kinds)]
        else:
            whole = [jnp.zeros((n1, n2), x1.dtype, device=device) for _ in range(kinds)]

    def block(rows: Array, i: slice, j: slice) -> np.ndarray:
        found = jax.device_get(compute(rows, None if symmetric and i == j else other[j]))
        check(found)
        return found[0][None] if kinds == 1 else np.stack(found)

    def own() -> Iterator[Sequence[Array | np.ndarray]]:
        mine, last, rows = hosts.share(todo), None, x1
        with _bar(mine, progress) as bar:
            for i, j in mine:
                if i != last:  # tiles of one row follow each other
                    last, rows = i, x1[i]
                if store is not None:
                    yield store.tile((i.start // tile, j.start // tile), partial(block, rows, i, j))
                elif hosts.count > 1:
                    yield block(rows, i, j)
                else:
                    yield compute(rows, None if symmetric and i == j else other[j])
                bar.update(_size((i, j)))

    def write(i: slice, j: slice, found: Sequence[Array | np.ndarray]) -> None:
        found = [np.asarray(kernel) for kernel in found]
        if store is None and hosts.count == 1:
            check(found)
        for target, kernel in zip(whole, found, strict=True):
            kernel = kernel[: i.stop - i.start, : j.stop - j.start]
            target[i, j] = kernel
            if symmetric and i != j:
                target[j, i] = kernel.T

    def place(i: slice, j: slice, found: Sequence[Array]) -> None:
        check(found)
        whole[:] = [_placed(*both, i.start, j.start, symmetric and i != j) for both in zip(whole, found, strict=True)]

    blocks: Iterator[Sequence[Array | np.ndarray]] = own()
    if hosts.count > 1:
        with hosts.together():
            mine = list(blocks)
        blocks = hosts.exchange(mine, len(todo), (kinds, tile, tile), x1.dtype.name)
    with closing(blocks):  # an error ends the bar too
        jobs = ((*where, found) for where, found in zip(todo, blocks, strict=True))
        if on_host:
            workers.behind(write, jobs)
            return tuple(jax.device_put(kernel, device) for kernel in whole)
        for job in workers.ahead(jobs):
            place(*job)
            del job  # two tiles are held, not a third
        return tuple(whole)


@partial(jax.jit, donate_argnums=0, static_argnums=4)
def _placed(whole: Array, kernel: Array, row: int, column: int, mirrored: bool) -> Array:
    """The matrix with a tile in its place, and in that of the other triangle."""
    whole = jax.lax.dynamic_update_slice(whole, kernel, (row, column))
    return jax.lax.dynamic_update_slice(whole, kernel.T, (column, row)) if mirrored else whole


def aligned(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An array whose address suits XLA: on a CPU `jax.device_put` then takes the memory itself, and copies nothing."""
    size = prod(shape) * np.dtype(dtype).itemsize
    raw = np.empty(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size].view(dtype).reshape(shape)


def shared_tile(n1: int, n2: int, tile: int, hosts: Hosts) -> int:
    """A tile small enough that every process gets about as much to do: a few tiles each."""
    if hosts.count == 1:
        return tile
    return min(tile, max(1, round(max(n1, n2) / np.ceil(np.sqrt(8 * hosts.count)))))


def _bar(todo: Sequence[tuple[slice, slice]], progress: bool) -> tqdm:
    total = sum(map(_size, todo))
    disable = None if progress else True
    return tqdm(total=total, unit="entry", unit_scale=True, disable=disable, file=sys.stderr, leave=False)


def _size(place: tuple[slice, slice]) -> int:
    return (place[0].stop - place[0].start) * (place[1].stop - place[1].start)

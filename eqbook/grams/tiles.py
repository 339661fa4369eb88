"""A Gram matrix tile by tile: what bounds the memory, what progress counts, and what a store keeps."""

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from tqdm import tqdm

from eqbook._hosts import Hosts
from eqbook.grams.store import Store

Compute = Callable[[Array, Array | None], tuple[Array, ...]]


def places(n1: int, n2: int, tile: int, symmetric: bool) -> Iterator[tuple[slice, slice]]:
    """Rows and columns of each tile; of a symmetric matrix, tiles on and above the diagonal."""
    for i in range(0, n1, tile):
        for j in range(i if symmetric else 0, n2, tile):
            yield slice(i, min(i + tile, n1)), slice(j, min(j + tile, n2))


def assemble(
    compute: Compute,
    x1: Array,
    x2: Array | None,
    tile: int,
    store: Store | None,
    progress: bool,
    hosts: Hosts,
    kinds: int,
) -> tuple[Array, ...]:
    """The whole matrices from their tiles.

    Args:
        compute: matrices of two batches, or of one with itself if the second is `None`.
        x1: first batch.
        x2: second batch.
        tile: inputs on each side of a tile.
        store: where finished tiles are kept.
        progress: whether to show a bar on a terminal.
        hosts: processes that share the tiles.
        kinds: number of matrices.
    """
    symmetric = x2 is None
    n1, n2 = len(x1), len(x1 if symmetric else x2)
    if max(n1, n2) <= tile and store is None and hosts.count == 1:
        return compute(x1, x2)
    other = x1 if symmetric else x2
    todo = list(places(n1, n2, tile, symmetric))

    def block(i: slice, j: slice) -> np.ndarray:
        found = jax.device_get(compute(x1[i], None if symmetric and i == j else other[j]))
        return found[0][None] if kinds == 1 else np.stack(found)

    def own() -> Iterator[np.ndarray]:
        mine = hosts.share(todo)
        with _bar(mine, progress) as bar:
            for i, j in mine:
                make = partial(block, i, j)
                yield make() if store is None else store.tile((i.start // tile, j.start // tile), make)
                bar.update(_size((i, j)))

    blocks: Iterator[np.ndarray] = own()
    if hosts.count > 1:
        with hosts.together():
            mine = list(blocks)
        blocks = hosts.exchange(mine, len(todo), (kinds, tile, tile), x1.dtype.name)
    whole: list[np.ndarray] = []
    for (i, j), found in zip(todo, blocks, strict=True):
        whole = whole or [np.empty((n1, n2), found.dtype) for _ in range(kinds)]
        for target, kernel in zip(whole, found, strict=True):
            target[i, j] = kernel[: i.stop - i.start, : j.stop - j.start]
            if symmetric and i != j:
                target[j, i] = target[i, j].T
    return tuple(map(jnp.asarray, whole))


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

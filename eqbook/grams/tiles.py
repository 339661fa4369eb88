"""A Gram matrix tile by tile: what bounds the memory, what progress counts, and what a store keeps."""

import sys
from collections.abc import Callable, Iterator
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from tqdm import tqdm

from eqbook.grams.store import Store

Compute = Callable[[Array, Array | None], tuple[Array, ...]]


def places(n1: int, n2: int, tile: int, symmetric: bool) -> Iterator[tuple[slice, slice]]:
    """Rows and columns of each tile; of a symmetric matrix, tiles on and above the diagonal."""
    for i in range(0, n1, tile):
        for j in range(i if symmetric else 0, n2, tile):
            yield slice(i, min(i + tile, n1)), slice(j, min(j + tile, n2))


def assemble(
    compute: Compute, x1: Array, x2: Array | None, tile: int, store: Store | None, progress: bool
) -> tuple[Array, ...]:
    """The whole matrices from their tiles.

    Args:
        compute: matrices of two batches, or of one with itself if the second is `None`.
        x1: first batch.
        x2: second batch.
        tile: inputs on each side of a tile.
        store: where finished tiles are kept.
        progress: whether to show a bar on a terminal.
    """
    symmetric = x2 is None
    n1, n2 = len(x1), len(x1 if symmetric else x2)
    if max(n1, n2) <= tile and store is None:
        return compute(x1, x2)
    other = x1 if symmetric else x2

    def block(i: slice, j: slice) -> list[np.ndarray]:
        return jax.device_get(compute(x1[i], None if symmetric and i == j else other[j]))

    todo = list(places(n1, n2, tile, symmetric))
    whole: list[np.ndarray] = []
    with tqdm(
        total=sum(map(_size, todo)),
        unit="entry",
        unit_scale=True,
        disable=None if progress else True,
        file=sys.stderr,
        leave=False,
    ) as bar:
        for i, j in todo:
            kept = None if store is None else partial(store.tile, (i.start // tile, j.start // tile))
            found = block(i, j) if kept is None else kept(lambda i=i, j=j: np.stack(block(i, j)))
            whole = whole or [np.empty((n1, n2), kernel.dtype) for kernel in found]
            for target, kernel in zip(whole, found, strict=True):
                target[i, j] = kernel
                if symmetric and i != j:
                    target[j, i] = kernel.T
            bar.update(_size((i, j)))
    return tuple(map(jnp.asarray, whole))


def _size(place: tuple[slice, slice]) -> int:
    return (place[0].stop - place[0].start) * (place[1].stop - place[1].start)

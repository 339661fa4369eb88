"""Gram matrices of images: which pairs of inputs are computed together, and on which core."""

import math
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float

from eqbook.grams import workers
from eqbook.grams.methods import near
from eqbook.grams.methods.head import finish, needs_variances
from eqbook.grams.methods.orbits import Orbit
from eqbook.grams.methods.steps import Pair, across, at
from eqbook.layers import Layer

LANES = 16  # entries that one vector instruction holds
ROWS = 8  # on a CPU at most so many inputs meet one block, which is copied once for all of them


def field_size() -> int:
    """Entries of one array of the recursion: 128 KiB in float32 on a CPU, 16 MiB on a GPU, a part of its cache."""
    return workers.entries(2**15, 2**22)


class Core(Protocol):
    """Kernels in front of the head, for pairs along the last axis of the features.

    Attributes:
        by_rows: whether inputs of the first batch meet a block of the second, on a CPU one after the other, or pairs
            are picked one by one. Picking costs reads of both inputs for every pair, which matters where a pair itself
            is cheap.
        width: pairs are taken in multiples of this.
        apart: whether an input with itself is computed in another way, by `itself(one, true, ntk)`.
    """

    by_rows: bool
    width: int
    apart: bool

    def prepare(self, x: Float[Array, "n ..."]) -> Any:
        """What pairs need to know of each input; arrays with the batch axis last."""

    def pairs(self, one: Any, two: Any, true: Bool[Array, ""], ntk: bool, part: Any = None) -> Pair:
        """NNGP and NTK of the pairs, `[pairs]`. `part` picks some of the terms of a sum; all if not given."""

    def nearer(self) -> "Core | None":
        """The same kernels for pairs that are near each other; `None` if there is no better way for these."""

    def terms(self, shape: tuple[int, ...], pairs: int) -> int:
        """Of how many terms that many kernels of inputs `shape` are sums that can be taken in parts; 1 for none."""

    def lanes(self, shape: tuple[int, ...]) -> int:
        """How many pairs of inputs `shape` to take at a time."""


@dataclass(frozen=True)
class Work:
    """Items of work, along the first axis of `i` and `j`.

    Item k pairs the inputs `i[k]` and `j[k]`, both `[lanes]`, or each of a block `i[k]`, `[rows, 1]`, with each of a
    block `j[k]`, `[1, lanes]`.
    """

    i: np.ndarray
    j: np.ndarray


@lru_cache(maxsize=256)
def _on(images: "Images", devices: tuple[jax.Device, ...], shape: tuple[int, ...], dtype: np.dtype) -> "Images":
    """With the core for inputs like these on these devices, if there is another one."""
    core = images.core
    return replace(images, core=core.on(devices, jax.ShapeDtypeStruct(shape, dtype))) if hasattr(core, "on") else images


def _work(
    core: Core, n1: int, n2: int, symmetric: bool, shape: tuple[int, ...], count: int, mesh: Mesh | None = None
) -> Work:
    """Which pairs of two batches are computed together."""
    if core.by_rows:
        return _rows(n1, n2, symmetric, core.lanes(shape), count)
    i, j = np.triu_indices(n1) if symmetric else map(np.ravel, np.indices((n1, n2)))
    return _picked(i, j, core, shape, count, mesh)


@lru_cache(maxsize=16)
def _kept_work(*arguments: Any) -> Work:
    """The same for a single device, found once; on the host, since where arrays are put depends on the caller."""
    work = _work(*arguments)
    return Work(work.i.astype(np.int32), work.j.astype(np.int32))


def _picked(i: np.ndarray, j: np.ndarray, core: Core, shape: tuple[int, ...], count: int, mesh: Mesh | None) -> Work:
    lanes, width = min(core.lanes(shape), len(i)), core.width
    terms = 1 if mesh is not None else core.terms(shape, len(i))
    if lanes < len(i) or terms == 1 or terms % count:  # otherwise all pairs are one item, whose terms cores share
        lanes = min(lanes, -(-len(i) // count))
    lanes = -(-len(i) // -(-len(i) // lanes))  # the last item is as full as the others
    if lanes > width:  # fewer are left as they are
        lanes = -(-lanes // width) * width
    shape = (-(-len(i) // lanes), lanes)
    return Work(np.resize(i, shape), np.resize(j, shape))  # the last item is filled by repetition


def _rows(n1: int, n2: int, symmetric: bool, lanes: int, count: int) -> Work:
    if jax.default_backend() == "cpu":
        lanes = min(-(-lanes // LANES) * LANES, n2)
        rows = min(-(-n1 // -(-n1 // ROWS)), n1 // count)  # not so many that a core has none
    else:  # all pairs of a block side by side: as many rows as lanes, of which a symmetric matrix leaves out most
        side = max(1, math.isqrt(min(lanes, -(-n1 * n2 // count))))
        rows, lanes = (-(-n // -(-n // side)) for n in (n1, n2))
    rows = max(1, rows)
    # The last block, and the last rows of a block, overlap those before.
    starts = np.minimum(np.arange(0, n2, lanes), n2 - lanes)
    i, block = map(np.ravel, np.indices((-(-n1 // rows), len(starts))))
    i = np.minimum(i * rows, n1 - rows)
    if symmetric:
        keep = starts[block] + lanes > i
        i, block = i[keep], block[keep]
    return Work((i[:, None] + np.arange(rows))[:, :, None], (starts[block][:, None] + np.arange(lanes))[:, None])


@dataclass(frozen=True)
class Images:
    """Kernels of pairs, then the head.

    Attributes:
        core: what is in front of the head.
        head: layers of plain numbers.
        tile: inputs on each side of one tile.
    """

    core: Core
    head: tuple[Layer, ...] = ()
    tile: int = field(default_factory=lambda: workers.entries(64, 256))

    def compute(self, x1: Array, x2: Array | None, ntk: bool, mesh: Mesh | None = None) -> Pair:
        """NNGP and NTK, `[n1, n2]`; symmetric if `x2` is `None`."""
        traced = workers.is_traced(x1, x2)
        known = jax.default_backend() != "cpu" and not traced  # on an accelerator that can be asked
        if known:
            self = _on(self, tuple(workers.devices(mesh, x1)), x1.shape, x1.dtype)
        n1, n2 = len(x1), len(x1 if x2 is None else x2)
        alone = known and mesh is None
        about = self.core, n1, n2, x2 is None, x1.shape[1:], workers.count(mesh, x1, x2)
        work = _kept_work(*about) if alone else _work(*about, mesh)
        same = _coinciding(x1, x2) if self.core.apart else None
        same = None if same is None else _padded(*same)
        core = self.core.nearer() if ntk and not traced else None  # inside `jit` values are not known
        others, action = x1 if x2 is None else x2, core.action if isinstance(core, Orbit) else None
        asked = None if core is None else near.ask(x1, others, x2 is None, action)
        if alone:  # an accelerator takes longer to be asked for each of the steps than for a few kernels
            pair, variances = workers.jitted(_at_once, (0, 1), False)(self, ntk, x1, x2, work.i, work.j, same)
        else:
            pair, variances = self._kernels(x1, x2, work, same, ntk, mesh)
        if core is None:
            return pair
        i, j = near.pairs(asked, x1, others, action)
        return self._with_near(core, i, j, pair, x1, x2, variances, mesh) if len(i) else pair

    def _kernels(
        self, x1: Array, x2: Array | None, work: Work, same: Any, ntk: bool, mesh: Mesh | None
    ) -> tuple[Pair, Any]:
        """The matrices, and variances of single inputs in front of the head if it needs them.

        Args:
            x1: inputs.
            x2: others, or `None`.
            work: which pairs are computed together.
            same: indices of equal inputs that are computed in another way; `None` for none.
            ntk: whether the NTK is asked for.
            mesh: devices that share the work.
        """
        f1 = _prepare(self.core, x1)
        f2 = f1 if x2 is None else _prepare(self.core, x2)
        n1, n2, shape = len(x1), len(x1 if x2 is None else x2), x1.shape[1:]
        pair = _run(self.core, f1, f2, work, shape, ntk, mesh)
        if ntk and pair[1] is None:  # no layer with weights
            pair = pair[0], jnp.zeros_like(pair[0])
        variances, own1 = None, None
        if needs_variances(self.head) or same is not None:
            own1 = self.own(f1, n1, shape, ntk, mesh)
        if needs_variances(self.head):
            own2 = own1 if x2 is None else self.own(f2, n2, shape, False, mesh)
            variances = own1[0], own2[0]
        pair = _matrices(self.head, pair, variances, work.i, work.j, n1, n2, x2 is None)
        if same is not None:
            own = at(own1, lambda kernel: kernel[same[0]])
            pair = _replaced(self.head, pair, same, own, (own[0], own[0]), False)
        return pair, variances

    def _with_near(
        self,
        core: Core,
        i: np.ndarray,
        j: np.ndarray,
        pair: Pair,
        x1: Array,
        x2: Array | None,
        variances: Any,
        mesh: Mesh | None,
    ) -> Pair:
        """The matrices with other entries, by another core, for the pairs (i, j) that are near each other."""
        others = x1 if x2 is None else x2
        i, j = _padded(i, j)
        work = _picked(i, j, core, x1.shape[1:], workers.count(mesh, x1, others), mesh)
        found = _run(core, _prepare(core, x1), _prepare(core, others), work, x1.shape[1:], True, mesh)
        variances = None if variances is None else (variances[0][i], variances[1][j])
        return _replaced(self.head, pair, (i, j), found, variances, x2 is None)

    def own(self, features: Any, n: int, shape: tuple[int, ...], ntk: bool, mesh: Mesh | None) -> Pair:
        """Kernels of each input with itself in front of the head, `[n]`."""
        every = np.arange(n)
        work = _picked(every, every, self.core, shape, workers.count(mesh, features), mesh)
        pair = _run(self.core, features, None if self.core.apart else features, work, shape, ntk, mesh)
        return at(pair, lambda kernel: kernel.ravel()[:n])


def _run(core: Core, f1: Any, f2: Any, work: Work, shape: tuple[int, ...], ntk: bool, mesh: Mesh | None) -> Pair:
    """Kernels in front of the head for all items, of the shape of `work`, on all cores or devices."""
    count, items, true = workers.count(mesh, f1, f2), len(work.i), jnp.asarray(True)
    by_rows = work.i.ndim == 3
    if mesh is not None:
        i, j = (jnp.asarray(np.resize(k, (-(-items // count) * count, *k.shape[1:]))) for k in (work.i, work.j))
        pair = workers.sharded(_items, (core, ntk, by_rows), mesh, 3)(f1, f2, true, i, j)
        return at(pair, lambda kernel: kernel[:items])
    run = partial(workers.jitted(_items, (0, 1, 2), workers.is_traced(f1, f2)), core, ntk, by_rows, f1, f2, true)
    terms = core.terms(shape, work.j.shape[-1])
    if items < count and terms % count == 0:  # few pairs: the cores share the terms of each sum
        parts = np.arange(terms).reshape(count, -1)
        return at(across(workers.run(run, [(work.i, work.j, part) for part in parts])), sum)
    if count == 1:
        return run(work.i, work.j)
    # Shares of one size, the last filled by repetition: a second size would be a second program to compile.
    size = -(-items // count)
    i, j = (np.resize(k, (-(-items // size) * size, *k.shape[1:])) for k in (work.i, work.j))
    shares = [slice(start, start + size) for start in range(0, items, size)]
    return _joined(across(workers.run(run, [(i[s], j[s]) for s in shares])), items)


def _at_once(images: Images, ntk: bool, x1: Array, x2: Array | None, i: Array, j: Array, same: Any) -> tuple[Pair, Any]:
    """`Images._kernels` as one program for one device."""
    return images._kernels(x1, x2, Work(i, j), same, ntk, None)


@partial(jax.jit, static_argnums=1)
def _joined(parts: tuple[list[Array] | None, ...], items: int) -> Pair:
    """The items of all shares in one array, without those that only fill the last share."""
    return at(parts, lambda kernels: jnp.concatenate(kernels)[:items])


@partial(jax.jit, static_argnames=("head", "n1", "n2", "symmetric"))
def _matrices(
    head: tuple[Layer, ...],
    pair: Pair,
    variances: tuple[Float[Array, " n1"], Float[Array, " n2"]] | None,
    i: Array,
    j: Array,
    n1: int,
    n2: int,
    symmetric: bool,
) -> Pair:
    """Matrices `[n1, n2]` behind the head, from kernels of all items and variances of single inputs before it."""

    def matrix(values: Float[Array, "items ..."]) -> Float[Array, "n1 n2"]:
        filled = jnp.zeros((n1, n2), values.dtype).at[i, j].set(values)
        return jnp.triu(filled) + jnp.triu(filled, 1).T if symmetric else filled

    return at(finish(head, pair, None if variances is None else (variances[0][i], variances[1][j])), matrix)


def _padded(*indices: np.ndarray) -> tuple[np.ndarray, ...]:
    """Indices repeated to a power of two: of few different lengths, for each of which a program is compiled."""
    return tuple(np.resize(k, 2 ** math.ceil(math.log2(len(k)))) for k in indices)


@partial(jax.jit, static_argnames=("head", "symmetric"))
def _replaced(
    head: tuple[Layer, ...],
    pair: Pair,
    places: tuple[Array, Array],
    found: Pair,
    variances: tuple[Float[Array, " places"], Float[Array, " places"]] | None,
    symmetric: bool,
) -> Pair:
    """Matrices with other entries in some places.

    Args:
        head: what is behind the kernels found.
        pair: the matrices.
        places: rows and columns.
        found: kernels in front of the head, one for each place, and more that only fill the last item of work.
        variances: of both inputs of each place in front of the head, if it needs them.
        symmetric: whether the matrices are, and their other triangle is to have the same entries.
    """
    i, j = places
    values = finish(head, at(found, lambda kernel: kernel.ravel()[: len(i)]), variances)
    pair = tuple(None if k is None else k.at[i, j].set(new) for k, new in zip(pair, values, strict=True))
    # From the matrix: places occur more than once, and which value stays is not promised.
    return at(pair, lambda k: k.at[j, i].set(k[i, j])) if symmetric else pair


def _coinciding(x1: Array, x2: Array | None) -> tuple[np.ndarray, np.ndarray] | None:
    """Indices (i, j) of equal inputs; `None` if there are none, or inside `jit`, where values are not known."""
    if workers.is_traced(x1, x2):
        every = np.arange(len(x1))
        return (every, every) if x2 is None else None
    # Adding 0 makes -0 a 0, which is the same number in other bytes.
    first, second = ([row.tobytes() for row in np.asarray(x) + 0] for x in (x1, x1 if x2 is None else x2))
    places: dict[bytes, list[int]] = {}
    for j, row in enumerate(second):
        places.setdefault(row, []).append(j)
    pairs = [(i, j) for i, row in enumerate(first) for j in places.get(row, ())]
    return tuple(np.array(pairs).T) if pairs else None


def _prepare(core: Core, x: Array) -> Any:
    # Known inputs that meet abstract ones are inside of a jit as well.
    return workers.jitted(_features, (0,), workers.is_traced(x, jnp.asarray(0.0)))(core, x)


def _features(core: Core, x: Array) -> Any:
    return core.prepare(x)


def _items(
    core: Core,
    ntk: bool,
    by_rows: bool,
    f1: Any,
    f2: Any | None,
    true: Array,
    i: Array,
    j: Array,
    part: Array | None = None,
) -> Pair:
    """Kernels of the pairs of each item, one item after the other; of inputs with themselves if `f2` is `None`."""

    def block(features: Any, start: Array, size: int) -> Any:
        return jax.tree.map(lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, start, size, -1), features)

    def pick(features: Any, index: Array) -> Any:
        return jax.tree.map(lambda leaf: jnp.take(leaf, index, -1, mode="clip"), features)

    def kernels(item: tuple[Array, Array]) -> Pair:
        if f2 is None:
            return core.itself(pick(f1, item[0]), true, ntk)
        if by_rows:
            two = block(f2, item[1][0, 0], item[1].size)
            if jax.default_backend() == "cpu":
                return jax.lax.map(lambda row: core.pairs(block(f1, row, 1), two, true, ntk, part), item[0][:, 0])
            rows = jax.tree.map(lambda leaf: leaf[..., None, :], block(f1, item[0][0, 0], item[0].size))
            return jax.vmap(lambda one: core.pairs(one, two, true, ntk, part), -1)(rows)
        return core.pairs(pick(f1, item[0]), pick(f2, item[1]), true, ntk, part)

    return jax.lax.map(kernels, (i, j))

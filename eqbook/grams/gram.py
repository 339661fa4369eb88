"""Gram matrices of a network at infinite width."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Float

from eqbook._checks import (
    as_float,
    check_batch,
    check_finite,
    check_int,
    check_path,
    check_rectangular,
    check_same_features,
    lies_on_host,
)
from eqbook._hosts import hosts_of, local
from eqbook._placement import gathered, is_elsewhere
from eqbook._precision import use_float64
from eqbook._shown import shown, summary
from eqbook._stores import store_directory
from eqbook.grams import workers
from eqbook.grams.methods.images import Images
from eqbook.grams.methods.vectors import Vectors
from eqbook.grams.plan import choose
from eqbook.grams.store import Store, fingerprint
from eqbook.grams.tiles import assemble, shared_tile
from eqbook.kernels import pair_kernel
from eqbook.layers import Sequential
from eqbook.layers.channels import output_channels
from eqbook.layers.domain import domain_of_batch

KINDS = ("nngp", "ntk")
METHODS = ("auto", "literal")


@partial(jax.tree_util.register_dataclass, data_fields=["nngp", "ntk"], meta_fields=[])
@dataclass(frozen=True)
class Gram:
    r"""Gram matrices over two batches; a kind that was not asked for is `None`.

    Attributes:
        nngp: $K(x_i, x'_j)$, `[n1, n2]`.
        ntk: $\Theta(x_i, x'_j)$, `[n1, n2]`.
    """

    nngp: Float[Array, "n1 n2"] | None = None
    ntk: Float[Array, "n1 n2"] | None = None

    __repr__ = summary


def gram(
    net: Sequential,
    x1: Float[Array, "n1 ..."],
    x2: Float[Array, "n2 ..."] | None = None,
    kinds: str | Sequence[str] = KINDS,
    *,
    tile: int | None = None,
    store: str | os.PathLike | None = None,
    mesh: Mesh | None = None,
    progress: bool = False,
    method: str = "auto",
) -> Gram:
    r"""NNGP and NTK Gram matrices of a network at infinite width.

    $K_{ij} = K(x_i, x'_j)$ and $\Theta_{ij} = \Theta(x_i, x'_j)$; each output of the network has this kernel, and
    different outputs are independent. The dtype of the result is that of the inputs as JAX has them, the wider of two:
    NumPy's float64 becomes float32, unless 64 bits are on, `jax.config.update("jax_enable_x64", True)`. Of 16 bits only
    the result has as few: sums over thousands of pixels would stand still or overflow in them, and are made in 32.

    The matrix is computed in tiles, those of a symmetric one once. Beyond the result this takes the memory of two
    tiles, one of which is written while the other is computed; each of several processes keeps its share of the tiles
    besides. An accelerator holds the matrix from the start; with a store, a mesh or several processes it is put
    together on the host, and then copied. Inside `jit` and `grad`, inputs that depend on the function's arguments make
    one tile of the whole matrix, with all the memory that this takes; inputs that do not are known, and their matrix is
    computed once, when the function is traced.

    Correlations within a few roundings of 1 count as 1: there the NTK of a relu network, whose derivative jumps, knows
    the angle between two inputs to the square root of a rounding only. Images with a cosine above 0.99, and vectors on
    which a group acts, keep it by their difference, where values are known: not inside `jit` and `grad`. Exceptions are
    `AvgPool` before further layers, `LocallyConnected` before pooling, and kinks other than that of `Relu`, as of a
    leaky ReLU: there the NTK of nearly equal images was measured to be off by 2e-5 to 2e-4 of the largest entry in
    float32.

    Inputs should have numbers of about 1, such as pixels from 0 to 1, or a variance of 1. Kernels that are too large
    for the dtype are refused. Those that are too small become 0 without a word, in float32 those of inputs with $|x|$
    below about 1e-18.

    Equal signals on the sphere have a quadrature rule of their own, which is not used where values are not known:
    inside `jit` and `grad`, an input with another that equals it has the rule of unequal ones, and its NTK the error of
    that.

    The kernels may be differentiated in the inputs. Where one has a kink, as behind a relu without bias at an input
    that is 0, a gradient is one of the slopes beside it, or between them. Second derivatives are not to be relied on
    at inputs that are 0, nor, of the NTK of an `Activation`, where two inputs are equal, nor by `method="literal"`.

    Args:
        net: the network.
        x1: batch of vectors, `[n1, d]`, of images, `[n1, h, w, channels]`, or of signals on the sphere,
            `[n1, 2L, 2L-1, channels]`.
        x2: second batch; `None` means `x1`, and the result is then exactly symmetric.
        kinds: which of `"nngp"`, `"ntk"` to return; both, or one by its name alone.
        tile: inputs on each side of a tile; a size that suits the network if not given. Inside `jit` and `grad` it
            means nothing to inputs that depend on the function's arguments.
        store: folder that keeps finished tiles. A run that was interrupted goes on from them. If not given, a matrix
            of several tiles has a folder in the directory that the environment variable `EQBOOK_STORE_DIR` names.
        mesh: devices that share each tile; if not given, one device, and all cores if it is a CPU. Its devices may
            belong to several processes (`jax.distributed`) that make the same call: they share the tiles, and all get
            the whole result.
        progress: show a progress bar, with rate and time left, on a terminal.
        method: `"auto"` for the fastest method that covers the network, `"literal"` for the recursion as it is written,
            over all pairs of pixels or group elements: slow, and what the others are tested against.

    Returns:
        `Gram` with the matrices asked for, `[n1, n2]`.

    Raises:
        ValueError: if a batch is empty, not finite or not a batch of vectors or images, if the two do not fit
            together, if a layer cannot stand in its place (the message names it and its position), if an option is not
            of its kind, or if a kernel overflows the dtype.

    References:
        Lee, Bahri, Novak, Schoenholz, Pennington, Sohl-Dickstein, "Deep Neural Networks as Gaussian Processes", 2018,
        https://arxiv.org/abs/1711.00165
        Arora, Du, Hu, Li, Salakhutdinov, Wang, "On Exact Computation with an Infinitely Wide Neural Net", 2019,
        https://arxiv.org/abs/1904.11955
    """
    if workers.is_traced(jnp.asarray(0.0)) and not workers.is_traced(x1, x2):  # known inputs inside the user's jit
        with jax.ensure_compile_time_eval():
            return gram(net, x1, x2, kinds, tile=tile, store=store, mesh=mesh, progress=progress, method=method)
    hosts, devices = hosts_of(mesh), local(mesh)
    with hosts.together():
        kinds = (kinds,) if isinstance(kinds, str) else tuple(kinds) if isinstance(kinds, Iterable) else kinds
        _check_options(net, kinds, tile, store, method)
        kinds = tuple(kind for kind in KINDS if kind in kinds)  # a set's order differs between processes
        waiting = [name for name, x in (("x1", x1), ("x2", x2)) if _waits(x)]
        x1, x2 = _check_inputs(x1, x2, devices)
        unseen = {name: x for name, x in (("x1", x1), ("x2", x2)) if name in waiting}
        dtype = x1.dtype
        wide = jnp.dtype(jnp.float32) if dtype.itemsize < 4 else dtype
        plan = _plan(net, x1.shape[1:], wide.name, method)
    ntk = "ntk" in kinds
    if tile is None:
        tile = shared_tile(len(x1), len(x1 if x2 is None else x2), plan.tile, hosts)

    def compute(a: Array, b: Array | None) -> tuple[Array, ...]:
        if wide != dtype:
            a, b = a.astype(wide), None if b is None else b.astype(wide)
        kernels = dict(zip(KINDS, plan.compute(a, b, ntk, devices), strict=True))
        return tuple(kernels[kind] if wide == dtype else kernels[kind].astype(dtype) for kind in kinds)

    several = tile < max(len(x1), 0 if x2 is None else len(x2))
    if several or workers.is_traced(x1, x2) or store is not None or mesh is not None:
        with hosts.together():
            while unseen:
                check_finite(*unseen.popitem())
    if workers.is_traced(x1, x2):
        if store is not None:
            raise ValueError("`store`: expected none inside jit or grad, where values are not known; leave it out.")
        return Gram(**dict(zip(kinds, compute(x1, x2), strict=True)))
    kept = None
    with hosts.together():
        # A single tile is found again in no time; so many of them are asked for that files would be in the way.
        directory = store_directory() if store is None and several else None
    if store is not None or directory is not None or hosts.count > 1:
        inputs = [np.asarray(x) for x in (x1, x2) if x is not None]
        key = fingerprint(net, inputs, kinds=kinds, tile=tile, method=method)
        hosts.check_same("`net`, inputs and options", key)
        if directory is not None:
            store = directory / f"gram-{key[:16]}"
        hosts.check_same("`store`, given or not", "00" if store is None else "01")
        with hosts.together():
            kept = None if store is None else Store(store, key, dtype)
    check = partial(_check_kernels, kinds, unseen)
    found = assemble(compute, check, x1, x2, tile, kept, progress, hosts, len(kinds), devices is not None)
    return Gram(**dict(zip(kinds, found, strict=True)))


@lru_cache(maxsize=256)
def _plan(net: Sequential, shape: tuple[int, ...], dtype: str, method: str) -> Images | Vectors:
    """The method for inputs of one shape. Errors of layers come from the literal recursion, traced and not run."""
    example = jax.ShapeDtypeStruct(shape, dtype)
    jax.eval_shape(lambda a, b: pair_kernel(net, a, b), example, example)
    output_channels(net, shape[-1], domain_of_batch((1, *shape)))
    return choose(net, example, method)


@jax.jit
def _all_finite(kernels: tuple[Array, ...]) -> Array:
    return jnp.stack([jnp.isfinite(kernel).all() for kernel in kernels])


def _check_kernels(kinds: tuple[str, ...], unseen: dict[str, Array], kernels: Sequence[Array | np.ndarray]) -> None:
    """Raise if an entry is not finite: one of the inputs not looked at, or a product of them has left the dtype."""
    if lies_on_host(kernels[0]):
        finite = [np.isfinite(np.asarray(kernel)).all() for kernel in kernels]
    else:  # all at a time: each answer is waited for
        finite = np.asarray(_all_finite((*unseen.values(), *kernels)))
        for (name, x), good in zip(unseen.items(), finite):
            if not good:
                check_finite(name, x)
        finite = finite[len(unseen) :]
    for kind, kernel, good in zip(kinds, kernels, finite, strict=True):
        if not good:
            wider = "" if kernel.dtype == np.float64 else f" {use_float64()},"
            raise ValueError(
                f"`x1`: expected inputs whose kernels are finite numbers of {kernel.dtype}, got an infinite entry of "
                f"the {kind.upper()}, or NaN; scale the inputs, for example to unit variance,{wider} mend an "
                "activation that is not finite where they reach, or raise the `nodes` of an `Activation`: they resolve "
                "variances up to a limit."
            )


def _check_options(net: Sequential, kinds: object, tile: object, store: object, method: object) -> None:
    if not isinstance(kinds, tuple) or not kinds or not all(kind in KINDS for kind in kinds):
        raise ValueError(f"`kinds`: expected some of {KINDS}, got {shown(kinds)}.")
    if not isinstance(net, Sequential):
        raise ValueError(f"`net`: expected a Sequential, got {shown(net)}; write Sequential(...) around the layers.")
    if tile is not None:
        check_int("tile", tile, 1)
    if store is not None:
        check_path("store", store)
    if method not in METHODS:
        raise ValueError(f"`method`: expected one of {METHODS}, got {shown(method)}.")


def _waits(x: object) -> bool:
    """Whether an input is looked at with the result: an accelerator that holds it has to be waited for only once."""
    if isinstance(x, jax.core.Tracer) or not isinstance(x, jax.Array) or lies_on_host(x) or is_elsewhere(x):
        return False
    return jnp.issubdtype(x.dtype, jnp.floating)


def _check_inputs(x1: object, x2: object, mesh: Mesh | None) -> tuple[Array, Array | None]:
    for name, x in (("x1", x1),) if x2 is None else (("x1", x1), ("x2", x2)):
        if is_elsewhere(x):
            raise ValueError(
                f"`{name}`: expected an array that this process holds, got one sharded over several processes; give "
                "each process the whole array."
            )
        check_rectangular(name, x)
        if np.ndim(x) not in (2, 4):
            raise ValueError(
                f"`{name}`: expected vectors [n, d] or images [n, h, w, channels], got shape {np.shape(x)}; write "
                f"`{name}[None]` for one input, `{name}[..., None]` for images of one channel."
            )
        check_batch(name, x, look=not _waits(x))
    if x2 is None:
        return gathered([as_float(x1)], mesh)[0], None
    check_same_features("x1", x1, "x2", x2)
    x1, x2 = gathered([as_float(x1), as_float(x2)], mesh)
    dtype = jnp.promote_types(x1.dtype, x2.dtype)
    return x1.astype(dtype), x2.astype(dtype)

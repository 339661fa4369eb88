"""Gram matrices of a network at infinite width."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from eqbook._checks import as_float, check_batch, check_same_features
from eqbook.kernels import pair_kernel
from eqbook.kernels.recursion import pools
from eqbook.layers import Sequential

KINDS = ("nngp", "ntk")
TILE_BYTES = 2**26  # what one tile of pairs of images may take; larger tiles leave the cache


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


@partial(jax.jit, static_argnames=("net", "kinds"))
def _cross(net: Sequential, x1: Array, x2: Array, kinds: tuple[str, ...]) -> Gram:
    rows = jax.vmap(lambda a, b: pair_kernel(net, a, b), in_axes=(None, 0))
    k = jax.vmap(rows, in_axes=(0, None))(x1, x2)
    return Gram(**{kind: getattr(k, kind) for kind in kinds})


@partial(jax.jit, static_argnames=("net", "kinds"))
def _diagonal(net: Sequential, x: Array, kinds: tuple[str, ...]) -> Gram:
    k = jax.vmap(lambda a: pair_kernel(net, a, a))(x)
    return Gram(**{kind: getattr(k, kind) for kind in kinds})


@jax.jit
def _mirror(full: Gram, diagonal: Gram) -> Gram:
    def mend(matrix: Array, entries: Array) -> Array:
        upper = jnp.triu(matrix, 1)
        return upper + upper.T + jnp.diag(entries)

    return jax.tree.map(mend, full, diagonal)


def _symmetric(net: Sequential, x: Array, kinds: tuple[str, ...]) -> Gram:
    # On the diagonal both inputs are one: the pair (x, x) evaluates the dual at exactly coinciding variances, where
    # the product x x^T, rounded otherwise than |x|^2, would be off by the square root of the rounding.
    # Three programs, not one: a compiler that sees the mirror computes both triangles, each rounded its own way.
    return _mirror(_cross(net, x, x, kinds), _diagonal(net, x, kinds))


@partial(jax.jit, static_argnames=("net", "kinds", "tile"))
def _pairs(net: Sequential, x1: Array, x2: Array, i: Array, j: Array, kinds: tuple[str, ...], tile: int) -> Gram:
    """Kernels of the pairs (i, j), `tile` of them at a time, each kind `[pairs]`."""

    def one(pair: tuple[Array, Array]) -> Gram:
        k = pair_kernel(net, x1[pair[0]], x2[pair[1]])
        return Gram(**{kind: getattr(k, kind) for kind in kinds})

    return jax.lax.map(one, (i, j), batch_size=tile)


def _by_pairs(net: Sequential, x1: Array, x2: Array | None, kinds: tuple[str, ...]) -> Gram:
    """Images: memory holds the kernels of one tile of pairs, not of all."""
    n1, n2 = len(x1), len(x1 if x2 is None else x2)
    i, j = np.triu_indices(n1) if x2 is None else map(np.ravel, np.indices((n1, n2)))
    tile = max(1, min(len(i), TILE_BYTES // _bytes_per_pair(net, x1)))
    flat = _pairs(net, x1, x1 if x2 is None else x2, jnp.asarray(i), jnp.asarray(j), kinds, tile)

    def matrix(values: Array) -> Array:
        filled = jnp.zeros((n1, n2), values.dtype).at[i, j].set(values)
        return filled if x2 is not None else filled.at[j, i].set(values)

    return jax.tree.map(matrix, flat)


def _bytes_per_pair(net: Sequential, x: Array) -> int:
    """Working memory of one pair: about eight arrays of its largest layout."""
    pixels = x.shape[1] * x.shape[2]
    return 8 * x.dtype.itemsize * (pixels**2 if pools(net) else pixels)


def gram(
    net: Sequential,
    x1: Float[Array, "n1 ..."],
    x2: Float[Array, "n2 ..."] | None = None,
    kinds: Sequence[str] = KINDS,
) -> Gram:
    r"""NNGP and NTK Gram matrices of a network at infinite width.

    $K_{ij} = K(x_i, x'_j)$ and $\Theta_{ij} = \Theta(x_i, x'_j)$; each output of the network has this kernel, and
    different outputs are independent. The dtype of the result is that of the inputs.

    Where one input stands in both of two batches, rounding hides the coincidence, and a relu network's NTK is exact to
    the square root of the rounding only. Give one batch where there is one.

    Args:
        net: the network.
        x1: batch of vectors, `[n1, d]`, or of images, `[n1, h, w, channels]`.
        x2: second batch; `None` means `x1`, and the result is then exactly symmetric.
        kinds: which of `"nngp"`, `"ntk"` to return.

    Returns:
        `Gram` with the matrices asked for, `[n1, n2]`.

    Raises:
        ValueError: if a batch is empty, not finite or not a batch of vectors, if the two do not fit together, if a
            layer cannot stand in its place, or if a kind is unknown.

    References:
        Lee, Bahri, Novak, Schoenholz, Pennington, Sohl-Dickstein, "Deep Neural Networks as Gaussian Processes", 2018,
        https://arxiv.org/abs/1711.00165
    """
    kinds = kinds if isinstance(kinds, str) or not isinstance(kinds, Iterable) else tuple(kinds)
    if not isinstance(kinds, tuple) or not kinds or not all(kind in KINDS for kind in kinds):
        raise ValueError(f"`kinds`: expected some of {KINDS}, got {kinds!r}.")
    if not isinstance(net, Sequential):
        raise ValueError(f"`net`: expected a Sequential, got {net!r}; write Sequential(...) around the layers.")
    for name, x in (("x1", x1),) if x2 is None else (("x1", x1), ("x2", x2)):
        if np.ndim(x) not in (2, 4):
            raise ValueError(
                f"`{name}`: expected vectors [n, d] or images [n, h, w, channels], got shape {np.shape(x)}."
            )
        check_batch(name, x)
    x1 = as_float(x1)
    if x2 is not None:
        check_same_features("x1", x1, "x2", x2)
        x2 = as_float(x2)
    if x1.ndim == 4:
        return _by_pairs(net, x1, x2, kinds)
    return _symmetric(net, x1, kinds) if x2 is None else _cross(net, x1, x2, kinds)

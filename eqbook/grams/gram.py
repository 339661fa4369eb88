"""Gram matrices of a network at infinite width."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from eqbook._checks import as_float, check_batch, check_ndim, check_same_features
from eqbook.kernels import pair_kernel
from eqbook.layers import Sequential

KINDS = ("nngp", "ntk")


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


def gram(
    net: Sequential,
    x1: Float[Array, "n1 d"],
    x2: Float[Array, "n2 d"] | None = None,
    kinds: Sequence[str] = KINDS,
) -> Gram:
    r"""NNGP and NTK Gram matrices of a network at infinite width.

    $K_{ij} = K(x_i, x'_j)$ and $\Theta_{ij} = \Theta(x_i, x'_j)$; each output of the network has this kernel, and
    different outputs are independent. The dtype of the result is that of the inputs.

    Args:
        net: the network.
        x1: batch of vectors, `[n1, d]`.
        x2: second batch, `[n2, d]`; `None` means `x1`, and the result is then exactly symmetric.
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
        check_ndim(name, x, 2, "n, d")
        check_batch(name, x)
    x1 = as_float(x1)
    if x2 is None:
        return _symmetric(net, x1, kinds)
    check_same_features("x1", x1, "x2", x2)
    return _cross(net, x1, as_float(x2), kinds)

"""What `eqbook` is compared with: each peer is a function of a batch that returns the NNGP and NTK Gram matrices."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import eqbook as eq

Matrices = tuple[Float[Array, "n n"], Float[Array, "n n"]]
Compute = Callable[[Float[Array, "n ..."]], Matrices]


def ours(net: eq.Sequential) -> Compute:
    """`eq.gram` as a user calls it."""

    def compute(x: Array) -> Matrices:
        k = eq.gram(net, x)
        return k.nngp, k.ntk

    return compute


def double_index(net: eq.Sequential) -> Compute:
    """The recursion over all pairs of pixels and group elements, jitted, on all cores."""

    def compute(x: Array) -> Matrices:
        k = eq.gram(net, x, method="literal")
        return k.nngp, k.ntk

    return compute


def neural_tangents(net: eq.Sequential) -> Compute:
    """neural-tangents, the whole matrix in one jitted call."""
    stax = eq.neural_tangents.load().stax

    def convert(layer: eq.layers.Layer) -> tuple:
        if isinstance(layer, eq.Dense):
            return stax.Dense(layer.features, layer.W_std, layer.b_std or None)
        if isinstance(layer, eq.Conv):
            shape = (layer.channels, layer.filter_shape, layer.strides, layer.padding)
            return stax.Conv(*shape, layer.W_std, layer.b_std or None)
        return {eq.Relu: stax.Relu, eq.Flatten: stax.Flatten, eq.GlobalAvgPool: stax.GlobalAvgPool}[type(layer)]()

    kernel = stax.serial(*map(convert, net.layers))[2]

    @jax.jit
    def compute(x: Array) -> Matrices:
        k = kernel(x, None, ("nngp", "ntk"))
        return k.nngp, k.ntk

    return compute


def pairs_of_rotations(net: eq.Sequential, size: int | None = None) -> Compute:
    """The recursion over pairs of rotations, jitted, one entry after the other.

    Args:
        net: the network.
        size: of the rule on SO(3); the smallest that holds the signals' bandwidth if not given. A network on a finite
            group of rotations has the pairs of its elements.
    """
    from eqbook.groups.polyhedral import POLYHEDRA
    from eqbook.kernels.so3.literal import literal_kernel
    from eqbook.kernels.so3.places import on_rule, on_subgroup

    quadrature = net.layers[0].quadrature
    matrices = POLYHEDRA[quadrature]()[0] if quadrature in POLYHEDRA else None

    @partial(jax.jit, static_argnums=2)
    def entry(x1: Array, x2: Array, size: int) -> tuple[Array, Array]:
        k = literal_kernel(net, x1, x2, on_rule(size) if matrices is None else on_subgroup(matrices))
        return k.nngp, k.ntk

    def compute(x: Array) -> Matrices:
        rule = x.shape[1] // 2 if size is None else size
        upper = np.triu_indices(len(x))
        values = np.array([jax.device_get(entry(x[i], x[j], rule)) for i, j in zip(*upper)])
        matrices = np.zeros((2, len(x), len(x)), values.dtype)
        for i, j in (upper, upper[::-1]):
            matrices[:, i, j] = values.T
        return tuple(map(jnp.asarray, matrices))

    return compute


PEERS = {
    "neural-tangents": neural_tangents,
    "double index": double_index,
    "pairs of rotations": pairs_of_rotations,
}

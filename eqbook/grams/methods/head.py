"""The layers behind the pooling: a recursion of plain numbers, for all pairs at once."""

from collections.abc import Sequence

import jax.numpy as jnp
from jaxtyping import Array, Float

from eqbook.grams.methods.steps import Pair
from eqbook.kernels import PairKernel, kernel_map
from eqbook.layers import Dense, Layer, Sequential


def needs_variances(head: Sequence[Layer]) -> bool:
    """Whether the head has a layer other than `Dense`, whose kernel depends on both variances."""
    return not all(isinstance(layer, Dense) for layer in head)


def finish(
    head: Sequence[Layer], pair: Pair, variances: tuple[Float[Array, "..."], Float[Array, "..."]] | None
) -> Pair:
    """NNGP and NTK behind the head.

    Args:
        head: its layers.
        pair: kernels in front of it.
        variances: of both inputs, broadcast against the kernels; not needed if all layers are `Dense`.
    """
    if not head:
        return pair
    nngp, ntk = pair
    one, two = (jnp.zeros((), nngp.dtype),) * 2 if variances is None else variances
    k = PairKernel(nngp, jnp.zeros_like(nngp) if ntk is None else ntk, one, two, "vector", is_gaussian=True, wide=True)
    k = kernel_map(Sequential(*head), k)
    return k.nngp, k.ntk

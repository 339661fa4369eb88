"""The recursion as it is written, pair by pair: the oracle, and what no other method covers."""

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from eqbook.grams.methods.steps import Pair
from eqbook.kernels import pair_kernel
from eqbook.layers import Layer

BYTES = 2**26  # working memory of the pairs that are taken at a time


@dataclass(frozen=True)
class Literal:
    """Kernels of the whole network.

    Attributes:
        net: the network.
        bytes: working memory of one pair.
        apart: whether the network is one on the sphere, where an input with itself has a quadrature rule of its own.
    """

    net: Layer
    bytes: int
    apart: bool
    by_rows: ClassVar[bool] = False
    width: ClassVar[int] = 1

    def prepare(self, x: Float[Array, "n ..."]) -> Float[Array, "... n"]:
        """The inputs with the batch axis last."""
        return jnp.moveaxis(x, 0, -1)

    def pairs(self, one: Array, two: Array, true: Bool[Array, ""], ntk: bool, part: None = None) -> Pair:
        """NNGP and NTK of the pairs, `[pairs]`."""
        k = jax.vmap(lambda x1, x2: pair_kernel(self.net, x1, x2), in_axes=-1)(one, two)
        return k.nngp, k.ntk if ntk else None

    def itself(self, one: Array, true: Bool[Array, ""], ntk: bool) -> Pair:
        """NNGP and NTK of each input with itself, `[pairs]`."""
        k = jax.vmap(lambda x: pair_kernel(self.net, x, x), in_axes=-1)(one)
        return k.nngp, k.ntk if ntk else None

    def nearer(self) -> None:
        """Pairs that are near each other are computed as all others."""

    def terms(self, shape: tuple[int, ...], pairs: int) -> int:
        """The kernel is taken whole."""
        return 1

    def lanes(self, shape: tuple[int, ...]) -> int:
        """As many pairs as fit the memory."""
        return max(1, BYTES // self.bytes)

"""What the kernel recursion carries from layer to layer."""

from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import jax
from jaxtyping import Array, Float

Layout = Literal["vector", "pixels", "pixel pairs"]


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["nngp", "ntk", "self1", "self2"],
    meta_fields=["layout", "is_gaussian"],
)
@dataclass(frozen=True)
class PairKernel:
    r"""Kernels of one layer's output at one pair of inputs $(x, x')$.

    All four arrays have one layout: `"vector"`, scalars; `"pixels"`, $K(t, t)$ for each pixel, `[h, w]`;
    `"pixel pairs"`, $K(t, t')$ for pixels $t$ of the first and $t'$ of the second input, `[h, w, h, w]`. A network that
    pools needs all pairs of pixels; without pooling, a pixel only meets the same pixel of the other input.

    Attributes:
        nngp: $K(x, x')$, covariance of one output channel over random parameters.
        ntk: $\Theta(x, x')$, expected inner product of the parameter gradients of one output channel.
        self1: $K(x, x)$.
        self2: $K(x', x')$.
        layout: which entries the arrays hold.
        is_gaussian: whether the output is a Gaussian process, so that a nonlinearity's dual applies. True after a
            layer with weights, false for the input and after a nonlinearity.
    """

    nngp: Float[Array, "..."]
    ntk: Float[Array, "..."]
    self1: Float[Array, "..."]
    self2: Float[Array, "..."]
    layout: Layout = field(default="vector")
    is_gaussian: bool = field(default=False)

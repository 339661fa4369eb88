"""What the kernel recursion carries from layer to layer."""

from dataclasses import dataclass, field
from functools import partial

import jax
from jaxtyping import Array, Float


@partial(jax.tree_util.register_dataclass, data_fields=["nngp", "ntk", "var1", "var2"], meta_fields=["is_gaussian"])
@dataclass(frozen=True)
class PairKernel:
    r"""Kernels of one layer's output at one pair of inputs $(x, x')$.

    Attributes:
        nngp: $K(x, x')$, covariance of one output channel over random parameters; scalar.
        ntk: $\Theta(x, x')$, expected inner product of the parameter gradients of one output channel; scalar.
        var1: $K(x, x)$; scalar.
        var2: $K(x', x')$; scalar.
        is_gaussian: whether the output is a Gaussian process, so that a nonlinearity's dual applies. True after a
            layer with weights, false for the input and after a nonlinearity.
    """

    nngp: Float[Array, ""]
    ntk: Float[Array, ""]
    var1: Float[Array, ""]
    var2: Float[Array, ""]
    is_gaussian: bool = field(default=False)

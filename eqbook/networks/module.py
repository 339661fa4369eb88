"""From a layer to its finite network in Flax."""

import math
from collections.abc import Sequence
from functools import singledispatch
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import erf
from jaxtyping import Array, Float

from eqbook._checks import as_float
from eqbook.layers import Dense, Erf, Layer, Relu, Sequential


class DenseModule(nn.Module):
    """Finite fully connected layer; the formula is that of `eqbook.layers.Dense`."""

    features: int
    W_std: float
    b_std: float

    @nn.compact
    def __call__(self, x: Float[Array, "*batch n_in"]) -> Float[Array, "*batch n_out"]:
        n_in = x.shape[-1]
        W = self.param("W", nn.initializers.normal(1.0), (n_in, self.features), x.dtype)
        # "highest": on recent GPUs a float32 product otherwise runs with 10 bits of mantissa.
        z = self.W_std / math.sqrt(n_in) * jnp.matmul(x, W, precision="highest")
        if self.b_std > 0:
            z = z + self.b_std * self.param("b", nn.initializers.normal(1.0), (self.features,), x.dtype)
        return z


class Pointwise(nn.Module):
    """A nonlinearity without parameters."""

    function: Any

    def __call__(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        return self.function(x)


class SequentialModule(nn.Module):
    """Modules one after the other, their parameters named after their place."""

    layers: tuple[nn.Module, ...]

    def __call__(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        for layer in self.layers:
            x = layer(x)
        return x


@singledispatch
def to_flax(layer: Layer) -> nn.Module:
    """The Flax module of a layer.

    Args:
        layer: any layer, most often a `Sequential`.

    Raises:
        ValueError: if the layer's type has no finite network.
    """
    raise ValueError(f"`layer`: no finite network is known for {type(layer).__name__}.")


@to_flax.register
def _(layer: Dense) -> nn.Module:
    return DenseModule(layer.features, layer.W_std, layer.b_std)


@to_flax.register
def _(layer: Relu) -> nn.Module:
    return Pointwise(jax.nn.relu)


@to_flax.register
def _(layer: Erf) -> nn.Module:
    return Pointwise(erf)


@to_flax.register
def _(layer: Sequential) -> nn.Module:
    return SequentialModule(tuple(to_flax(inner) for inner in layer.layers))


def init(net: Sequential, key: jax.Array, input_shape: tuple[int, ...]) -> Any:
    """Parameters of `net`; see `Sequential.init`."""
    is_shape = isinstance(input_shape, Sequence) and len(input_shape) >= 2
    if not is_shape or not all(isinstance(size, int | np.integer) and size >= 1 for size in input_shape[1:]):
        raise ValueError(
            f"`input_shape`: expected the shape of a batch (n, ...features), got {input_shape!r}; "
            "for a batch `x` it is `x.shape`."
        )
    example = jnp.zeros((1, *input_shape[1:]), jnp.result_type(float))
    return to_flax(net).init(key, example)


def apply(net: Sequential, params: Any, x: Float[Array, "n ..."]) -> Float[Array, "n ..."]:
    """Outputs of `net`; see `Sequential.apply`."""
    return to_flax(net).apply(params, as_float(x))

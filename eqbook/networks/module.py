"""From a layer to its finite network in Flax."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial, singledispatch
from typing import Any

import flax.errors
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import erf
from jaxtyping import Array, Float

from eqbook._checks import as_float, check_finite, check_key
from eqbook._shown import shown
from eqbook.layers import (
    Activation,
    AvgPool,
    Conv,
    Dense,
    Erf,
    Flatten,
    GlobalAvgPool,
    GroupConv,
    GroupPool,
    Layer,
    LayerNorm,
    Lift,
    LiftS2,
    LocallyConnected,
    Relu,
    Residual,
    Sequential,
    SO3Conv,
    SO3Pool,
    output_domain,
)
from eqbook.layers.domain import domain_of_batch
from eqbook.networks.groups import GroupConvModule, LiftModule, group_mean
from eqbook.networks.layers import (
    ConvModule,
    DenseModule,
    LocallyConnectedModule,
    Pointwise,
    ResidualModule,
    SequentialModule,
    average_pool,
    normalise_channels,
)
from eqbook.networks.so3 import LiftS2Module, SO3ConvModule, rotation_mean


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
def _(layer: Conv) -> nn.Module:
    return ConvModule(layer.channels, layer.filter_shape, layer.strides, layer.padding, layer.W_std, layer.b_std)


@to_flax.register
def _(layer: LocallyConnected) -> nn.Module:
    return LocallyConnectedModule(
        layer.channels, layer.filter_shape, layer.strides, layer.padding, layer.W_std, layer.b_std
    )


@to_flax.register
def _(layer: AvgPool) -> nn.Module:
    return Pointwise(partial(average_pool, window=layer.window, strides=layer.strides))


@to_flax.register
def _(layer: GlobalAvgPool) -> nn.Module:
    return Pointwise(partial(jnp.mean, axis=(1, 2)))


@to_flax.register
def _(layer: Flatten) -> nn.Module:
    return Pointwise(lambda x: x.reshape(len(x), -1))


@to_flax.register
def _(layer: Lift) -> nn.Module:
    return LiftModule(layer)


@to_flax.register
def _(layer: GroupConv) -> nn.Module:
    return GroupConvModule(layer)


@to_flax.register
def _(layer: GroupPool) -> nn.Module:
    return Pointwise(group_mean)


@to_flax.register
def _(layer: LiftS2) -> nn.Module:
    return LiftS2Module(layer)


@to_flax.register
def _(layer: SO3Conv) -> nn.Module:
    return SO3ConvModule(layer)


@to_flax.register
def _(layer: SO3Pool) -> nn.Module:
    return Pointwise(rotation_mean)


@to_flax.register
def _(layer: LayerNorm) -> nn.Module:
    return Pointwise(normalise_channels)


@to_flax.register
def _(layer: Relu) -> nn.Module:
    return Pointwise(jax.nn.relu)


@to_flax.register
def _(layer: Erf) -> nn.Module:
    return Pointwise(erf)


@to_flax.register
def _(layer: Activation) -> nn.Module:
    return Pointwise(layer.function)


@to_flax.register
def _(layer: Residual) -> nn.Module:
    return ResidualModule(to_flax(layer.branch))


@to_flax.register
def _(layer: Sequential) -> nn.Module:
    return SequentialModule(tuple(to_flax(inner) for inner in layer.layers), layer.layers)


def init(net: Sequential, key: jax.Array, input_shape: tuple[int, ...]) -> Any:
    """Parameters of `net`; see `Sequential.init`."""
    is_shape = isinstance(input_shape, Sequence) and len(input_shape) >= 2
    if not is_shape or not all(isinstance(size, int | np.integer) and size >= 1 for size in input_shape[1:]):
        raise ValueError(
            f"`input_shape`: expected the shape of a batch (n, ...features), got {shown(input_shape)}; "
            "for a batch `x` it is `x.shape`."
        )
    check_key("key", key)
    output_domain(net, domain_of_batch(input_shape))
    example = jnp.zeros((1, *input_shape[1:]), jnp.result_type(float))
    if isinstance(key, jax.core.Tracer) or isinstance(example, jax.core.Tracer):  # inside another program
        return _draw(net, key, example)
    return _drawing(jax.default_backend())(net, key, example)


def _draw(net: Sequential, key: jax.Array, example: Array) -> Any:
    return to_flax(net).init(key, example)


@cache
def _drawing(backend: str) -> Callable:
    """Random numbers take long to compile: in one program, of which a CPU gets the same bits with few optimisations."""
    options = {"xla_backend_optimization_level": 1} if backend == "cpu" else None
    return jax.jit(_draw, static_argnums=0, compiler_options=options)


def apply(net: Sequential, params: Any, x: Float[Array, "n ..."]) -> Float[Array, "n ..."]:
    """Outputs of `net`; see `Sequential.apply`."""
    if not isinstance(x, np.ndarray | jax.Array):
        check_finite("x", x)  # lists are short; arrays inside a training loop are not looked at
    x = as_float(x)
    output_domain(net, domain_of_batch(x.shape))
    if not isinstance(params, Mapping):
        raise ValueError(f"`params`: expected what `net.init(key, x.shape)` returns, got {type(params).__name__}.")
    try:
        return to_flax(net).apply(params, x)
    except flax.errors.FlaxError as error:
        wanted = f"expected those of `net.init(key, {x.shape})`"
        raise ValueError(f"`params`: {wanted}, got others: {str(error).split(' (https')[0]}") from error

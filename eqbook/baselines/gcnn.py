"""Plain group-convolutional networks, the ordinary networks that they are compared with, and equal sizes."""

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from eqbook._checks import check_function, check_int, check_ints, check_net
from eqbook._shown import shown
from eqbook.groups.finite import FiniteGroup
from eqbook.layers import Conv, Dense, GlobalAvgPool, GroupConv, GroupPool, Lift, Relu, Residual, Sequential
from eqbook.layers.layer import Layer
from eqbook.layers.sphere import LiftS2, SO3Conv, SO3Pool


def gcnn(
    group: FiniteGroup,
    channels: Sequence[int],
    classes: int = 10,
    filter_shape: tuple[int, int] = (3, 3),
    padding: str = "SAME",
    W_std: float = math.sqrt(2),
    b_std: float = 0.0,
) -> Sequential:
    r"""Classifier of images that is exactly invariant under $C_n$ or $D_n$, n in 1, 2, 4: regular representations.

    `Lift`, relu, then `GroupConv`, relu for each further entry of `channels`; `GroupPool`, which takes the mean over
    group and pixels; one dense layer. The same object has an infinite-width limit: `eq.gram(net, x)`.

    Args:
        group: `cyclic(n)` or `dihedral(n)` with n in 1, 2, 4.
        channels: channels of each convolution, on each element of the group.
        classes: number of outputs.
        filter_shape: height and width of the filters.
        padding: as in `Lift`.
        W_std: standard deviation of the weights of convolutions; $\sqrt2$ keeps the variance through relu.
        b_std: standard deviation of their biases.

    Raises:
        ValueError: if there is no layer, or as `Lift` and `GroupConv`.

    References:
        Cohen, Welling, "Group Equivariant Convolutional Networks", 2016, https://arxiv.org/abs/1602.07576
        Misof, Kessel, Gerken, "Equivariant Neural Tangent Kernels", 2025, https://arxiv.org/abs/2406.06504
    """
    if not isinstance(channels, Sequence) or len(channels) == 0:
        raise ValueError(
            f"`channels`: expected channels of at least one layer such as (16, 16), got {shown(channels)}."
        )
    shared = {"filter_shape": filter_shape, "padding": padding, "W_std": W_std, "b_std": b_std}
    layers: list[Layer] = []
    for i, width in enumerate(channels):
        layers += [(GroupConv if i else Lift)(group, width, **shared), Relu()]
    return Sequential(*layers, GroupPool(), Dense(classes))


def cnn_partner(net: Sequential) -> Sequential:
    r"""The ordinary network whose augmented training a network on a group equals in the limit of infinite width.

    `Lift` and `GroupConv` become `Conv` with the same channels and scales, `GroupPool` becomes `GlobalAvgPool`. Then
    $\Theta_{GCNN}(x, x') = \frac{1}{|G|} \sum_g \Theta_{CNN}(x, \rho(g) x')$ for $C_n$, if filters see all elements,
    the group maps their support of pixels to itself, and what follows the pooling is linear.

    Args:
        net: network on the plane, such as one of `gcnn`.

    Raises:
        ValueError: if `net` is no `Sequential`, or a layer acts on vectors, on the sphere or on its rotations.

    References:
        Misof, Kessel, Gerken, "Equivariant Neural Tangent Kernels", 2025, https://arxiv.org/abs/2406.06504
        (theorem 5.3).
    """
    if not isinstance(net, Sequential):
        raise ValueError(f"`net`: expected a Sequential such as gcnn(group, (16, 16)), got {shown(net)}.")
    return Sequential(*(_partner(layer) for layer in net.layers))


def _partner(layer: Layer) -> Layer:
    if isinstance(layer, Lift | GroupConv):
        if not layer.planar:
            raise ValueError(f"`net`: expected layers on the plane, got {layer}; the partner of these is a Dense.")
        scales = {"W_std": layer.W_std, "b_std": layer.b_std}
        return Conv(layer.channels, layer.filter_shape, padding=layer.padding, **scales)
    if isinstance(layer, LiftS2 | SO3Conv | SO3Pool):
        raise ValueError(f"`net`: expected layers on the plane, got {layer}; there is no partner on the sphere.")
    if isinstance(layer, GroupPool):
        return GlobalAvgPool()
    if isinstance(layer, Residual):
        return Residual(*cnn_partner(layer.branch).layers)
    return cnn_partner(layer) if isinstance(layer, Sequential) else layer


def parameter_count(net: Any, input_shape: tuple[int, ...]) -> int:
    """Number of parameters of a network, without making them.

    Args:
        net: a `Sequential` or a module of flax.linen.
        input_shape: shape of a batch of inputs, `(n, ...)`.

    Raises:
        ValueError: if `net` is none, or as the network's `init`.
    """
    check_net("net", net, ("init",))
    if isinstance(net, nn.Module):
        input_shape = check_ints("input_shape", input_shape, 0, "(1, 28, 28, 1)")
        example = jax.ShapeDtypeStruct((1, *input_shape[1:]), jnp.result_type(float))
        shapes = jax.eval_shape(net.init, jax.random.key(0), example)
    else:
        shapes = jax.eval_shape(lambda key: net.init(key, input_shape), jax.random.key(0))
    return sum(leaf.size for leaf in jax.tree.leaves(shapes))


def matching_width(make: Callable[[int], Any], parameters: int, input_shape: tuple[int, ...]) -> int:
    """The width whose network has the number of parameters closest to one given, so that networks can be compared.

    Args:
        make: network of a width, for example `lambda w: gcnn(C4, (w, 2 * w))`; wider ones have more parameters.
        parameters: number of parameters wanted, at least those of width 1 or the answer is 1.
        input_shape: shape of a batch of inputs, `(n, ...)`.

    Raises:
        ValueError: if `parameters` is not a positive integer, or a wider network does not have more of them.
    """
    check_int("parameters", parameters, 1)
    check_function("make", make, "lambda width: gcnn(group, (width,))")
    count = cache(lambda width: parameter_count(make(width), input_shape))

    def check_growth(low: int, high: int) -> None:
        if count(high) <= count(low):
            raise ValueError(f"`make`: expected more parameters for width {high} than for {low}, got {count(high)}.")

    low, high = 1, 2
    while count(high) < parameters:
        low, high = high, 2 * high
        check_growth(low, high)
    check_growth(low, high)  # the loop may not have run; width 1 is counted below as well
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if count(middle) < parameters else (low, middle)
    return min((low, high), key=lambda width: abs(count(width) - parameters))

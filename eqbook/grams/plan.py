"""Which method computes the Gram matrix of a network."""

from collections.abc import Sequence
from math import prod

import jax
import jax.numpy as jnp

from eqbook.grams import workers
from eqbook.grams.methods.by_peak import ByPeak
from eqbook.grams.methods.displacements import Displacements
from eqbook.grams.methods.images import Images
from eqbook.grams.methods.literal import Literal
from eqbook.grams.methods.orbits import Orbit, without_group
from eqbook.grams.methods.pixels import Pixels
from eqbook.grams.methods.points import Points
from eqbook.grams.methods.program import build
from eqbook.grams.methods.sphere import Sphere
from eqbook.grams.methods.vectors import Vectors, covered
from eqbook.kernels import pair_kernel
from eqbook.kernels.recursion import signed
from eqbook.kernels.so3 import kept_bandwidth, quadrature_size
from eqbook.layers import (
    AvgPool,
    Dense,
    Flatten,
    GlobalAvgPool,
    GroupPool,
    Layer,
    Lift,
    LiftS2,
    LocallyConnected,
    Residual,
    Sequential,
    SO3Conv,
    SO3Pool,
)


def _large_tile() -> int:
    """Tile where a pair costs microseconds: a smaller one would spend its time on what comes once for a tile."""
    return workers.entries(256, 1024)


def flat(layers: Sequence[Layer]) -> tuple[Layer, ...]:
    """The layers of nested `Sequential`s in one row."""
    return tuple(
        inner for layer in layers for inner in (flat(layer.layers) if isinstance(layer, Sequential) else (layer,))
    )


def split(layers: Sequence[Layer], ends: type | tuple[type, ...]) -> tuple[tuple, Layer, tuple] | None:
    """Layers in front of the first of a type, that layer, and the layers behind it; `None` if there is none."""
    for place, layer in enumerate(layers):
        if isinstance(layer, ends):
            return layers[:place], layer, layers[place + 1 :]
    return None


def choose(net: Sequential, example: jax.ShapeDtypeStruct, method: str) -> Images | Vectors:
    """The method for a network and inputs like `example`.

    Args:
        net: the network, already known to take such inputs.
        example: shape and dtype of one input.
        method: `"auto"` or `"literal"`.
    """
    layers = flat(net.layers)
    fast = None
    if method == "auto":
        as_vectors = example.ndim == 1 or (isinstance(layers[0], Flatten) and covered(layers))
        fast = _vectors(layers) if as_vectors else _images(layers, example.shape)
    return fast or Images(Literal(net, _bytes_per_pair(net, example), isinstance(layers[0], LiftS2)))


def _vectors(layers: tuple[Layer, ...]) -> Images | Vectors | None:
    if covered(layers):
        return Vectors(layers)
    parts = split(layers, GroupPool)
    if parts is None:
        return None
    body, _, head = parts
    # The orbit is that of the inputs: layers in front of the lift would have to commute with the group.
    plain = without_group(body) if isinstance(body[0], Lift) else None
    program = None if plain is None else build(plain, (), strided=True)
    return None if program is None else Images(Orbit(Points(program), body[0].action), head)


def _images(layers: tuple[Layer, ...], shape: tuple[int, ...]) -> Images | None:
    parts = split(layers, (Flatten, GlobalAvgPool, GroupPool, SO3Pool))
    if parts is None:
        return None
    body, end, head = parts
    if isinstance(end, SO3Pool):
        return _sphere(body, head, shape)
    if isinstance(end, GroupPool):
        plain = without_group(body) if isinstance(body[0], Lift) else None
        program = None if plain is None else build(plain, shape[:2])
        return None if program is None else Images(Orbit(Displacements(program), body[0].action), head)
    head = tuple(layer for layer in head if not isinstance(layer, Flatten))
    if isinstance(end, GlobalAvgPool):
        program = build(body, shape[:2])
        return None if program is None else Images(Displacements(program), head)
    if body and isinstance(body[-1], AvgPool):
        program = build(body[:-1], shape[:2])
        return None if program is None else Images(Displacements(program, body[-1]), head)
    program = build(_with_shared_filters(body), shape[:2], strided=True)
    return None if program is None else Images(Pixels(program), head, _large_tile())


def _sphere(body: tuple[Layer, ...], head: tuple[Layer, ...], shape: tuple[int, ...]) -> Images | None:
    lift = body[0]
    plain = _without_rotations(body)
    bandwidth = kept_bandwidth(lift.bandwidth, shape[0] // 2)
    program = build(plain, (), strided=True)
    if program is None:
        return None
    size = quadrature_size(lift.quadrature, bandwidth, signed(Sequential(*body, *head)))
    if isinstance(lift.quadrature, tuple) and len(lift.quadrature) > 1:
        return Images(ByPeak(program, bandwidth, size, lift.quadrature), head, _large_tile())
    # On a group a pair takes a tenth of a microsecond: of small tiles, what comes once for a tile would be most.
    return Images(Sphere(program, bandwidth, size), head, 1024 if isinstance(size, str) else _large_tile())


def _with_shared_filters(layers: Sequence[Layer]) -> tuple[Layer, ...]:
    """A convolution in place of each locally connected layer: in front of `Flatten` their kernels are the same."""
    return tuple(
        layer.shared
        if isinstance(layer, LocallyConnected)
        else Residual(*_with_shared_filters(flat(layer.branch.layers)))
        if isinstance(layer, Residual)
        else layer
        for layer in layers
    )


def _without_rotations(layers: Sequence[Layer]) -> tuple[Layer, ...]:
    """A dense layer in place of each layer on the sphere or on SO(3): what it does to a function of one rotation."""
    return tuple(
        Dense(layer.channels, layer.W_std, layer.b_std)
        if isinstance(layer, LiftS2 | SO3Conv)
        else Residual(*_without_rotations(flat(layer.branch.layers)))
        if isinstance(layer, Residual)
        else layer
        for layer in layers
    )


def _bytes_per_pair(net: Sequential, example: jax.ShapeDtypeStruct) -> int:
    """Working memory of one pair in the literal recursion: about eight arrays of its largest layout."""
    trace = jax.make_jaxpr(lambda x: pair_kernel(net, x, x))(example)
    largest = max(prod(out.aval.shape) for equation in trace.eqns for out in equation.outvars)
    return 8 * jnp.dtype(example.dtype).itemsize * largest

r"""Operations and bytes per entry of a Gram matrix in float32.

Operations are counted in the traced program (`benchmarks.operations`). Bytes are those that one stage of a recursion, a
window sum with the pointwise layers behind it, has to read and write wherever in the memory hierarchy its arrays lie: K
and Theta with the border that the filter needs, and the scales of both inputs. What a compiler copies besides is not
counted, so the fraction of the machine's limit that results is a lower bound of how busy the machine was. Where one
kernel of a GPU keeps K and Theta in registers, the bytes are those of the images and scales of a pair, once: they are
read for each displacement, from the nearest cache.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import jax
import jax.numpy as jnp

import eqbook as eq
from benchmarks.operations import operations
from eqbook.grams.methods import registers
from eqbook.grams.methods.displacements import Displacements
from eqbook.grams.methods.images import LANES, Images
from eqbook.grams.methods.orbits import Orbit
from eqbook.grams.methods.pixels import Pixels
from eqbook.grams.methods.program import Affine, Pointwise
from eqbook.grams.methods.sphere import Sphere
from eqbook.grams.methods.vectors import State, Vectors, _run
from eqbook.grams.plan import choose, flat
from eqbook.grams.tiles import places
from eqbook.kernels import so3
from eqbook.kernels.rules import rule
from eqbook.layers import Conv, Relu

WORD = 4  # bytes of a number
START = 8  # vectors: roots, product, difference and tests of the input's gap
BLOCK = 64  # vectors: sides of the block that is traced


@dataclass(frozen=True)
class Count:
    """Operations, and bytes moved."""

    operations: float
    bytes: float

    def least_seconds(self, limits: dict[str, float]) -> float:
        """The shortest time that arithmetic and the bandwidth allow, one overlapping the other.

        The bandwidth is that of arrays which fit the second-level cache, as those of the recursions do.
        """
        return max(self.operations / limits["operations_per_s"], self.bytes / limits["cached_bytes_per_s"])


def count(net: eq.Sequential, shape: tuple[int, ...], n: int, stored: bool = False) -> Count:
    """Work of one entry of a symmetric Gram matrix, NNGP and NTK, in float32.

    Args:
        net: the network, with relu as its only nonlinearity.
        shape: of one input.
        n: inputs of the matrix.
        stored: bytes of a recursion that stores K and Theta behind each layer, also on a GPU.

    Raises:
        ValueError: if the network's method is not counted here.
    """
    layers = flat(net.layers)
    if any(rule(layer) is not None and not isinstance(layer, Relu) for layer in layers):
        raise ValueError(f"`net`: expected relu as the only nonlinearity, got {net!r}.")
    method = choose(net, jax.ShapeDtypeStruct(shape, jnp.float32), "auto")
    if isinstance(method, Vectors):
        return _vectors(method, shape[0], n)
    if not isinstance(method, Images) or not isinstance(method.core, Displacements | Pixels | Orbit | Sphere):
        raise ValueError(f"`net`: expected a network with a fast method on images, got {net!r}.")
    core, moved = method.core, 1
    features = jax.eval_shape(core.prepare, jax.ShapeDtypeStruct((LANES, *shape), jnp.float32))
    true = jax.ShapeDtypeStruct((), bool)
    total = operations(lambda one, two, true: core.pairs(one, two, true, True), features, features, true)
    if isinstance(core, Orbit):
        core, moved = core.core, core.action.group.order
    per_pair = _sphere_bytes(core, shape[-1]) if isinstance(core, Sphere) else _image_bytes(core, shape, stored)
    return Count(total / LANES, moved * per_pair)


def _image_bytes(core: Displacements | Pixels, shape: tuple[int, ...], stored: bool) -> float:
    sides, pixels = shape[:2], prod(shape[:2])
    ends = 2 * shape[-1] + 1 + 2  # the channels of both inputs, their product; K and Theta for the mean
    in_registers = isinstance(core, Displacements) and registers.units(core.program, sides)
    if in_registers and jax.default_backend() == "gpu" and not stored:
        return 2 * WORD * pixels * (shape[-1] + len(core.program.grids))
    fields = pixels**2 if isinstance(core, Displacements) else pixels
    return WORD * fields * (ends + _passes(core.program.steps, sides, scales=4))


def _passes(steps: Sequence, sides: tuple[int, int], scales: int) -> float:
    """Numbers read and written at each point of a field, by all stages of a plain row of steps."""
    passes = 0.0
    for place, step in enumerate(steps):
        if isinstance(step, Affine):
            border = 1.0
            if isinstance(step.layer, Conv) and step.layer.padding != "VALID":
                h, w = step.layer.filter_shape
                border = (sides[0] + h - 1) * (sides[1] + w - 1) / prod(sides)
            # K alone, then K and Theta are read; both are written.
            passes += border * ((1 if place == 0 else 2) + 2)
        elif isinstance(step, Pointwise):
            # Correlations that may be negative are taken in a stage of their own: K and Theta are stored in between.
            passes += scales + (0 if step.positive else 4)
        else:
            raise ValueError(f"`net`: expected no residual branch, got {step}.")
    return passes


def _sphere_bytes(core: Sphere, channels: int) -> float:
    features, points = so3.feature_count(core.bandwidth), len(so3.rotation_points(core.size)[1])
    # Variances on SO(3) do not depend on the point: their scales are not read at each. The table of Wigner matrices is
    # shared by the pairs of a block. The matrix product is written, K and Theta are read for the mean.
    table = features * points / core.lanes((2 * core.bandwidth, 2 * core.bandwidth - 1, channels))
    return WORD * (2 * features + table + points * (1 + 2 + _passes(core.program.steps, (1, 1), scales=0)))


def _vectors(method: Vectors, d: int, n: int) -> Count:
    def block(root: jax.Array, gap: jax.Array) -> tuple:
        k = _run(method.layers, State(root[:, None], root[None, :], gap, None), True)
        return k.nngp, k.ntk

    sides = (BLOCK,), (BLOCK, BLOCK)
    traced = operations(block, *(jax.ShapeDtypeStruct(side, jnp.float32) for side in sides)) / BLOCK**2
    # Each block reads its inputs. Of an entry the product is written and read, and both kernels are written twice, the
    # second time as the mirrored entry. That the blocks on the diagonal are computed whole is no need but a choice.
    read = sum(i.stop - i.start + j.stop - j.start for i, j in places(n, n, method.tile, symmetric=True)) * d
    return Count(2 * d + START + traced, WORD * (6 + read / (n * (n + 1) / 2)))

r"""Fully connected networks: blocks of a Gram matrix from one matrix product and arithmetic on its entries.

The recursion carries the gap $e = \sqrt{ab} - K$ of each pair in place of $K$. Where two inputs nearly coincide, $e$
comes from their difference, and a relu network's NTK is exact to rounding there as well.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Float

from eqbook.grams import workers
from eqbook.grams.methods.steps import Pair, across, at
from eqbook.kernels.duals import erf_of_gaps, safe_inverse, safe_sqrt, within_rounding
from eqbook.kernels.gap import relu_gap
from eqbook.kernels.rules import rule
from eqbook.layers import Dense, Erf, Flatten, Layer, LayerNorm, Relu, Residual, Sequential

SHARED = 128  # rows from which a block is worth sharing among cores
NEAR = 1e-3  # below this ratio of gap to variance, about 2.5 degrees, the product of two inputs loses digits


class State(NamedTuple):
    """Kernels of a block: roots of the variances `[n1, 1]`, `[1, n2]`, and for each pair the gap and the NTK."""

    root1: Float[Array, "n1 1"]
    root2: Float[Array, "1 n2"]
    gap: Float[Array, "n1 n2"]
    ntk: Float[Array, "n1 n2"] | None

    @property
    def scale(self) -> Array:
        """The largest possible covariance of each pair."""
        return self.root1 * self.root2

    @property
    def nngp(self) -> Array:
        """The covariance of each pair."""
        return self.scale - self.gap


def _start(x1: Array, x2: Array, same: Array) -> State:
    """The inputs' own kernels; pairs marked `same` are one input twice."""
    root1, root2 = (safe_sqrt(jnp.mean(x * x, -1)) for x in (x1, x2))
    scale = root1[:, None] * root2
    gap = scale - jnp.matmul(x1, x2.T, precision="highest") / x1.shape[1]
    gap = jnp.where(same | (gap < 0), 0, gap)
    near = ~same & (gap < NEAR * scale)

    def exact(row: tuple[Array, ...]) -> Array:
        # sqrt(ab) - c = sqrt(ab) |x / sqrt a - y / sqrt b|^2 / 2d: exact too where one input is a multiple of the other
        x, root, old, close = row

        def differences() -> Array:
            apart = x * safe_inverse(root) - x2 * safe_inverse(root2)[:, None]
            return root * root2 * jnp.mean(apart * apart, -1) / 2

        return jnp.where(close, jax.lax.cond(close.any(), differences, lambda: old), old)

    gap = jax.lax.cond(near.any(), lambda: jax.lax.map(exact, (x1, root1, gap, near)), lambda: gap)
    return State(root1[:, None], root2[None, :], gap, None)


def _dense(layer: Dense, k: State, ntk: bool) -> State:
    W2, b2 = layer.W_std**2, layer.b_std**2
    root1, root2 = (safe_sqrt(W2 * root * root + b2) for root in (k.root1, k.root2))
    inner, outer = W2 * k.scale + b2, root1 * root2
    # outer - inner, as a difference of squares over the sum; both are 0 for a layer that makes 0 of everything
    sum_ = outer + inner
    lag = W2 * b2 * (k.root1 - k.root2) ** 2 / jnp.where(sum_ > 0, sum_, 1) if b2 else 0
    made = State(root1, root2, W2 * k.gap + lag, None)
    if not ntk:
        return made
    return made._replace(ntk=made.nngp if k.ntk is None else made.nngp + W2 * k.ntk)


def _relu(k: State) -> State:
    positive = k.scale > 0
    # A constant 0 is orthogonal to everything, itself included.
    ratio = jnp.where(positive, k.gap / jnp.where(positive, k.scale, 1), 1)
    gap, derivative = relu_gap(ratio)
    half = 0.5**0.5
    return State(half * k.root1, half * k.root2, k.scale * gap, None if k.ntk is None else k.ntk * derivative)


def _norm(k: State) -> State:
    one, two = safe_inverse(k.root1), safe_inverse(k.root2)
    return State(one * k.root1, two * k.root2, one * two * k.gap, None if k.ntk is None else one * two * k.ntk)


def _other(layer: Layer, k: State) -> State:
    made = rule(layer)
    one, two = (made.scales(root * root) for root in (k.root1, k.root2))
    if isinstance(layer, Erf):  # the covariance does not know the gap of inputs that nearly coincide
        far = k.scale + k.nngp
        far -= jax.lax.stop_gradient(jnp.where(within_rounding(far, k.scale), far, 0))
        nngp, derivative = erf_of_gaps(k.root1 * k.root1, k.root2 * k.root2, k.nngp, k.gap, far)
    else:
        nngp, derivative = made.dual(one, two, k.nngp)
    root1, root2 = (safe_sqrt(made.variance(root * root)) for root in (k.root1, k.root2))
    scale = root1 * root2
    gap = scale - nngp
    # A gap within rounding is 0; its derivatives stay, which at coinciding inputs, or at 0, need not be 0.
    gap -= jax.lax.stop_gradient(jnp.where(within_rounding(gap, scale), gap, 0))
    return State(root1, root2, gap, None if k.ntk is None else k.ntk * derivative)


def _sum(one: State, two: State) -> State:
    root1, root2 = (safe_sqrt(a * a + b * b) for a, b in ((one.root1, two.root1), (one.root2, two.root2)))
    scale = root1 * root2
    total = scale + one.scale + two.scale
    lag = (one.root1 * two.root2 - two.root1 * one.root2) ** 2 / jnp.where(total > 0, total, 1)
    ntk = two.ntk if one.ntk is None else one.ntk if two.ntk is None else one.ntk + two.ntk
    return State(root1, root2, one.gap + two.gap + lag, ntk)


def _run(layers: Sequence[Layer], k: State, ntk: bool) -> State:
    for layer in layers:
        if isinstance(layer, Dense):
            k = _dense(layer, k, ntk)
        elif isinstance(layer, Relu):
            k = _relu(k)
        elif isinstance(layer, LayerNorm):
            k = _norm(k)
        elif isinstance(layer, Sequential):
            k = _run(layer.layers, k, ntk)
        elif isinstance(layer, Residual):
            k = _sum(k, _run(layer.branch.layers, k, ntk))
        elif not isinstance(layer, Flatten):
            k = _other(layer, k)
    return k


def covered(layers: Sequence[Layer]) -> bool:
    """Whether these are layers of a fully connected network."""
    inner = [layer.branch if isinstance(layer, Residual) else layer for layer in layers]
    return all(
        covered(layer.layers) if isinstance(layer, Sequential) else isinstance(layer, Dense | Flatten) or rule(layer)
        for layer in inner
    )


def _block(layers: tuple[Layer, ...], ntk: bool, symmetric: bool, x2: Array, x1: Array, rows: Array) -> Pair:
    same = rows[:, None] == jnp.arange(len(x2)) if symmetric else jnp.zeros((len(x1), len(x2)), bool)
    k = _run(layers, _start(x1, x2, same), ntk)
    return k.nngp, jnp.zeros_like(k.gap) if ntk and k.ntk is None else k.ntk


@partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _part(layers: tuple[Layer, ...], ntk: bool, symmetric: bool, size: int, x2: Array, x1: Array, start: Array) -> Pair:
    """The block of `size` rows from `start` on."""
    rows = start + jnp.arange(size)
    return _block(layers, ntk, symmetric, x2, jax.lax.dynamic_slice_in_dim(x1, start, size), rows)


@partial(jax.jit, static_argnums=(1, 2))
def _join(parts: list[Array], new: tuple[int, ...], symmetric: bool) -> Array:
    """One matrix from blocks of rows, each from its first new row on."""
    kernel = jnp.concatenate([part[first:] for part, first in zip(parts, new, strict=True)])
    # Rounding differs above and below the diagonal; the upper triangle stands for both.
    return jnp.triu(kernel) + jnp.triu(kernel, 1).T if symmetric else kernel


def _whole(layers: tuple[Layer, ...], ntk: bool, symmetric: bool, x2: Array, x1: Array) -> Pair:
    """All rows, in one program."""
    pair = _block(layers, ntk, symmetric, x2, x1, jnp.arange(len(x1)))
    return at(pair, lambda kernel: _join([kernel], (0,), symmetric))


@dataclass(frozen=True)
class Vectors:
    """Kernels of vectors, or of images that the network flattens first.

    Attributes:
        layers: the network.
        tile: inputs on each side of one tile.
    """

    layers: tuple[Layer, ...]
    tile: int = field(default_factory=lambda: workers.entries(768, 4096))

    def compute(self, x1: Array, x2: Array | None, ntk: bool, mesh: Mesh | None = None) -> Pair:
        """NNGP and NTK, `[n1, n2]`; symmetric if `x2` is `None`."""
        symmetric = x2 is None
        x1, other = (x if x.ndim == 2 else x.reshape(len(x), -1) for x in (x1, x1 if symmetric else x2))
        if mesh is not None:
            size = -(-len(x1) // mesh.size) * mesh.size
            padded = [jnp.resize(a, (size, *a.shape[1:])) for a in (x1, jnp.arange(len(x1)))]
            block = workers.sharded(_block, (self.layers, ntk, symmetric), mesh, 1)
            parts, new = [at(block(other, *padded), lambda kernel: kernel[: len(x1)])], (0,)
        else:
            count = workers.count(mesh, x1, other) if len(x1) >= SHARED else 1
            if count == 1:
                whole = workers.jitted(_whole, (0, 1, 2), workers.is_traced(x1, other))
                return whole(self.layers, ntk, symmetric, other, x1)
            size = -(-len(x1) // count)
            starts = [min(k * size, len(x1) - size) for k in range(count)]  # the last part overlaps the one before
            run = partial(_part, self.layers, ntk, symmetric, size, other, x1)
            parts = workers.run(run, [(np.int32(start),) for start in starts])
            new = tuple(k * size - start for k, start in enumerate(starts))
        return at(across(parts), lambda kernels: _join(kernels, new, symmetric))

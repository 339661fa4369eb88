r"""SO(3) networks by the recursion over pairs of rotations: slow, literal, and the oracle of the reduction.

The state is $K_{ab} = K_{R_a, R_b}(f, f')$ for all pairs of points. What a convolution does depends on the points, see
`eqbook.kernels.so3.places`:

* on a finite subgroup, $K'_{ab} = \frac{1}{|H|} \sum_h K_{ah, bh}$, Theorem 4.1 of the paper with sums for integrals;
* on the product rule of size B, filters of bandwidth B. This is the exact infinite-width limit of the finite network of
  `eqbook.networks`, aliasing and truncation included.

References:
    Misof, Kessel, Gerken, "Equivariant Neural Tangent Kernels", 2025, https://arxiv.org/abs/2406.06504
"""

from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from eqbook.kernels.duals import erf_dual, relu_dual
from eqbook.kernels.recursion import kernel_map, pair_kernel
from eqbook.kernels.so3.places import Pairs, Places
from eqbook.kernels.so3.sphere import kept_bandwidth, sphere_coefficients
from eqbook.kernels.so3.wigner import wigner_matrix
from eqbook.kernels.state import PairKernel
from eqbook.layers import Dense, Erf, Layer, LayerNorm, LiftS2, Relu, Residual, Sequential, SO3Conv, SO3Pool


def lift(places: Places, f1: Float[Array, "coefficients c"], f2: Float[Array, "coefficients c"]) -> Pairs:
    r"""$K_{ab} = \frac{1}{4\pi n_{in}} \langle \rho(R_a)^{-1} f, \rho(R_b)^{-1} f' \rangle$."""

    def turned(f: Array) -> Array:
        parts = []
        for degree in range(round(len(f) ** 0.5)):
            inverses = jnp.asarray(wigner_matrix(degree, places.angles).swapaxes(1, 2), f.dtype)
            block = f[degree**2 : (degree + 1) ** 2]
            parts.append(jnp.einsum("pnm,mc->pnc", inverses, block, precision="highest").reshape(len(inverses), -1))
        return jnp.concatenate(parts, -1)  # [points, L^2 c]

    turned1, turned2 = turned(f1), turned(f2)
    return jnp.matmul(turned1, turned2.T, precision="highest") / (4 * np.pi * f1.shape[-1])


class State(NamedTuple):
    """Kernels at all pairs of points: of the two inputs, their NTK, and of each input with itself."""

    nngp: Pairs
    ntk: Pairs
    self1: Pairs
    self2: Pairs


def advance(layer: Layer, k: State, places: Places) -> State:
    """Kernels after one layer on SO(3).

    Raises:
        ValueError: if it is not a layer known here.
    """
    if isinstance(layer, SO3Conv | Dense):
        mean = places.convolve if isinstance(layer, SO3Conv) else lambda covariance: covariance
        nngp, self1, self2 = (layer.W_std**2 * mean(c) + layer.b_std**2 for c in (k.nngp, k.self1, k.self2))
        return State(nngp, nngp + layer.W_std**2 * mean(k.ntk), self1, self2)
    if isinstance(layer, Residual):
        branch = k
        for inner in layer.branch.layers:
            branch = advance(inner, branch, places)
        return State(*(a + b for a, b in zip(k, branch, strict=True)))
    var1, var2 = jnp.diagonal(k.self1)[:, None], jnp.diagonal(k.self2)
    if isinstance(layer, LayerNorm):
        std1, std2 = jnp.sqrt(var1), jnp.sqrt(var2)
        return State(k.nngp / std1 / std2, k.ntk / std1 / std2, k.self1 / std1 / std1.T, k.self2 / std2[:, None] / std2)
    if not isinstance(layer, Relu | Erf):
        raise ValueError(f"expected SO3Conv, Dense, Residual, LayerNorm, Relu or Erf, got {layer}.")
    dual = relu_dual if isinstance(layer, Relu) else erf_dual
    nngp, derivative = dual(var1, var2, k.nngp)
    return State(nngp, k.ntk * derivative, dual(var1, var1.T, k.self1)[0], dual(var2[:, None], var2, k.self2)[0])


def literal_kernel(
    net: Sequential, x1: Float[Array, "rows columns c"], x2: Float[Array, "rows columns c"], places: Places
) -> PairKernel:
    r"""NNGP and NTK of a network that begins with `LiftS2`, for one pair of signals.

    Args:
        net: the network. The `quadrature` of its lifting layer is not used.
        x1: one signal on the sphere, `[2L, 2L-1, c]`.
        x2: another.
        places: the rotations.

    Raises:
        ValueError: if a layer is not known here or cannot stand in its place, the network does not begin with `LiftS2`
            or has no `SO3Pool`, or the signals have other shapes.
    """
    end = next((i for i, layer in enumerate(net.layers) if isinstance(layer, SO3Pool)), None)
    if end is None or not isinstance(net.layers[0], LiftS2):
        raise ValueError(f"`net`: expected LiftS2 first and SO3Pool behind it, got {net}; put them there, unnested.")
    first, middle, head = net.layers[0], net.layers[1:end], net.layers[end + 1 :]
    x1, x2 = jnp.asarray(x1), jnp.asarray(x2)
    checked = Sequential(replace(first, quadrature="tetrahedron"), *middle, *net.layers[end:])  # traced, not run
    jax.eval_shape(lambda a, b: pair_kernel(checked, a, b), x1, x2)
    bandwidth = kept_bandwidth(first.bandwidth, len(x1) // 2)
    f1, f2 = (sphere_coefficients(x[None], bandwidth)[0] for x in (x1, x2))
    nngp, self1, self2 = (
        first.W_std**2 * lift(places, *pair) + first.b_std**2 for pair in ((f1, f2), (f1, f1), (f2, f2))
    )
    k = State(nngp, nngp, self1, self2)
    for layer in middle:
        k = advance(layer, k, places)
    weights = jnp.asarray(places.weights, nngp.dtype)
    pooled = PairKernel(*(weights @ covariance @ weights for covariance in k), is_gaussian=True, wide=True)
    return kernel_map(Sequential(*head), pooled) if head else pooled

"""Flax modules of the layers on SO(3); the formulas are those of `eqbook.layers.sphere`.

Feature maps are sampled at the rotations of `eqbook.kernels.so3.rotation_points`, `[n, points, channels]`: $4B^3$ of a
rule, or the elements of a finite group. Filters on the sphere and on SO(3) are expanded in harmonics with i.i.d.
N(0, 1) coefficients, so that a convolution is a product of coefficients and its equivariance exact; a nonlinearity in
between is aliased at the resolution of the rule. A filter on a finite group has one weight for each element, and
nothing is aliased.
"""

import functools
import math

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from eqbook.groups.polyhedral import POLYHEDRA
from eqbook.kernels.so3 import (
    feature_count,
    kept_bandwidth,
    mean_over_rotations,
    quadrature_size,
    rotation_rule,
    sphere_coefficients,
)
from eqbook.kernels.so3.sphere import grid_bandwidth
from eqbook.layers.sphere import LiftS2, SO3Conv
from eqbook.networks.groups import weigh
from eqbook.networks.layers import standard_normal

HIGHEST = jax.lax.Precision.HIGHEST


@functools.cache  # not at import: multiplying out a group takes a moment
def orders() -> dict[int, str]:
    """Names of the finite groups by their number of elements."""
    return {group()[1].order: name for name, group in POLYHEDRA.items()}


def rule_size(x: Float[Array, "n points c"]) -> int | str:
    """B of a feature map at $4B^3$ rotations, or the name of the group of that order: none is such a number."""
    return orders().get(x.shape[1]) or round((x.shape[1] / 4) ** (1 / 3))


def degree_rows(bandwidth: int) -> list[slice]:
    """Where the features of each degree stand in a Wigner table."""
    return [slice(feature_count(degree), feature_count(degree + 1)) for degree in range(bandwidth)]


class LiftS2Module(nn.Module):
    r"""Finite lifting layer, $z(R) = \frac{\sigma_W}{\sqrt{4\pi n_{in}}} \sum_{lmn} f_{lm} D^l_{mn}(R) \kappa_{ln}$."""

    layer: LiftS2

    @nn.compact
    def __call__(self, x: Float[Array, "n rows columns c"]) -> Float[Array, "n points channels"]:
        layer = self.layer
        bandwidth = kept_bandwidth(layer.bandwidth, grid_bandwidth(*x.shape[1:3]))
        table, _ = rotation_rule(bandwidth, quadrature_size(layer.quadrature, bandwidth))
        f = sphere_coefficients(x, bandwidth)  # [n, L^2, c]
        kappa = standard_normal(self, "W", (bandwidth**2, x.shape[-1], layer.channels), x)
        degrees = [slice(degree**2, (degree + 1) ** 2) for degree in range(bandwidth)]
        products = [
            jnp.einsum("nmc,kci->nmki", f[:, rows], kappa[rows], precision=HIGHEST).reshape(len(x), -1, layer.channels)
            for rows in degrees
        ]
        return synthesise(self, products, table, layer.W_std / math.sqrt(4 * math.pi * x.shape[-1]))


class SO3ConvModule(nn.Module):
    r"""Finite convolution on SO(3), of bandwidth B, or on a finite group.

    With $\bar f^l_{mn} = \sum_a w_a D^l_{mn}(R_a) f(R_a)$ (weights of total mass 1) and
    $\kappa(U) = \sum_{l<B} \sqrt{(2l+1)/8\pi^2} \sum_{pn} \kappa^l_{pn} D^l_{pn}(U)$, since
    $D^l(R^{-1} S) = D^l(R)^T D^l(S)$:
    $z(R) = \frac{\sigma_W}{\sqrt{n_{in}}} \sum_{l<B} \sqrt{2l+1} \sum_{mp} D^l_{mp}(R) \sum_n \bar f^l_{mn}
    \kappa^l_{pn}$. No other factor of degree: a constant $f = 1$ gives $z \sim N(0, \sigma_W^2)$.
    """

    layer: SO3Conv

    @nn.compact
    def __call__(self, x: Float[Array, "n points c"]) -> Float[Array, "n points channels"]:
        layer, size, c = self.layer, rule_size(x), x.shape[-1]
        if isinstance(size, str):
            _, group = POLYHEDRA[size]()
            seen = x[:, group.table.astype(np.int32)]  # [n, g, h, c]: f at g h, which meets the weight of h
            return weigh(self, seen.reshape(*seen.shape[:2], -1), (group.order, c))
        table, weights = rotation_rule(size, size)
        spectrum = jnp.einsum("fp,npc->nfc", jnp.asarray(table * weights, x.dtype), x, precision=HIGHEST)
        kappa = standard_normal(self, "W", (feature_count(size), c, layer.channels), x)

        def product(degree: int, rows: slice) -> Array:
            d = 2 * degree + 1
            f, filters = spectrum[:, rows].reshape(-1, d, d, c), kappa[rows].reshape(d, d, c, -1)
            z = jnp.einsum("nmkc,pkci->nmpi", f, filters, precision=HIGHEST)
            return math.sqrt(d) * z.reshape(len(x), d * d, -1)

        products = [product(degree, rows) for degree, rows in enumerate(degree_rows(size))]
        return synthesise(self, products, table, layer.W_std / math.sqrt(c))


def synthesise(module: nn.Module, coefficients: list[Array], table: object, scale: float) -> Array:
    r"""$\text{scale} \sum_{lmn} c^l_{mn} D^l_{mn}(R_a)$, and the bias: `[n, points, channels]`."""
    layer = module.layer
    flat = scale * jnp.concatenate(coefficients, axis=1)  # [n, features, channels]
    z = jnp.einsum("fp,nfi->npi", jnp.asarray(table, flat.dtype), flat, precision=HIGHEST)
    return z if layer.b_std == 0 else z + layer.b_std * standard_normal(module, "b", (layer.channels,), flat)


def rotation_mean(x: Float[Array, "n points c"]) -> Float[Array, "n c"]:
    """Mean over rotations, with the weights of the rule."""
    return mean_over_rotations(jnp.moveaxis(x, 1, -1), rule_size(x))

r"""Layers on the sphere and on SO(3), by the reduction of `eqbook.kernels.so3.correlation`.

The arrays of a pair hold $k(R_a)$, a function of the relative rotation. All maps act on the last axis, so that they
take batches of pairs as well, whose axes broadcast.
"""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from eqbook.kernels.maps.weights import weight_map
from eqbook.kernels.recursion import kernel_map
from eqbook.kernels.so3.correlation import correlation, mean_over_rotations, self_table
from eqbook.kernels.so3.rotations import identity_rule, quadrature_size, rotation_rule
from eqbook.kernels.so3.sphere import kept_bandwidth
from eqbook.kernels.so3.wigner import feature_bandwidth, feature_count
from eqbook.kernels.state import PairKernel
from eqbook.layers import LiftS2, SO3Conv, SO3Pool, output_domain
from eqbook.layers.domain import naming


@kernel_map.register
def _(layer: LiftS2, k: PairKernel) -> PairKernel:
    r"""$k(R) = \sigma_W^2 \sum_{lmn} M^l_{mn} D^l_{mn}(R) + \sigma_b^2$, on the identity's rule for one input twice."""
    output_domain(layer, k.domain)
    with naming(layer):
        if k.layout != "harmonics":
            raise ValueError("expected the network's input, whose harmonic coefficients it needs; put it first.")
        bandwidth = kept_bandwidth(layer.bandwidth, feature_bandwidth(k.nngp.shape[-1]))
        size = quadrature_size(layer.quadrature, bandwidth, k.signed)
        table, _ = (identity_rule if k.coincident else rotation_rule)(bandwidth, size)

        def at_rotations(features: Float[Array, "*batch features"], table: np.ndarray) -> Array:
            return correlation(features[..., : feature_count(bandwidth)], table)

        around = self_table(bandwidth, size)
        nngp = at_rotations(k.nngp, table)
        lifted = replace(
            k,
            nngp=nngp,
            ntk=jnp.zeros_like(nngp),  # that of the input
            self1=at_rotations(k.self1, around),
            self2=at_rotations(k.self2, around),
        )
        return weight_map(layer, lifted, lambda covariance: covariance, layout="rotations", quadrature=size)


@kernel_map.register
def _(layer: SO3Conv, k: PairKernel) -> PairKernel:
    """White noise on all of SO(3) leaves a function of the relative rotation alone."""
    output_domain(layer, k.domain)
    return weight_map(layer, k, lambda covariance: covariance)


@kernel_map.register
def _(layer: SO3Pool, k: PairKernel) -> PairKernel:
    """The mean over both rotations is the mean over the relative one."""
    output_domain(layer, k.domain)

    def mean(covariance: Array) -> Array:
        return mean_over_rotations(covariance, k.quadrature, k.coincident)

    def self_mean(covariance: Array) -> Array:
        return mean_over_rotations(covariance[..., :-1], k.quadrature, around_identity=True)

    return replace(
        k,
        nngp=mean(k.nngp),
        ntk=mean(k.ntk),
        self1=self_mean(k.self1),
        self2=self_mean(k.self2),
        layout="vector",
        quadrature=None,
    )

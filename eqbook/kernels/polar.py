"""Rules of integration in polar coordinates, see `eqbook.kernels.quadrature`."""

import math

import numpy as np

from eqbook._checks import check_int
from eqbook.kernels.cached import cached_arrays
from eqbook.layers.activation import MOST_NODES

REACH = 9.5  # of the radii, in standard deviations: the density is e^-45 there


@cached_arrays
def polar_rule(nodes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    r"""Gauss-Legendre rules, in float64: radii and their weights, places in a sector and theirs; weights sum to 1.

    $E[f(\rho)] \approx \sum_i w_i f(\rho_i)$ for $\rho$ of density $\rho e^{-\rho^2/2}$, cut off at what the nodes can
    resolve; $\int_0^1 f \approx \sum_j v_j f(t_j)$ with half as many nodes.

    Raises:
        ValueError: if the number of nodes is not an integer from 1 to 256.
    """
    if check_int("nodes", nodes, 1) > MOST_NODES:
        raise ValueError(f"`nodes`: expected at most {MOST_NODES}, got {nodes}; more only take longer.")
    (x, w), (t, v) = (np.polynomial.legendre.leggauss(count) for count in (nodes, max(1, nodes // 2)))
    radii = min(REACH, 1.5 * math.sqrt(nodes)) * (1 + x) / 2
    density = w * radii * np.exp(-(radii**2) / 2)
    return radii, density / density.sum(), (1 + t) / 2, v / 2

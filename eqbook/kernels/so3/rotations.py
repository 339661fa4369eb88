r"""Quadrature over the rotations: the points at which kernels and finite networks are evaluated.

`rotation_points` is the product rule: B Gauss-Legendre nodes in $\cos\beta$, 2B uniform angles $\alpha$ and $\gamma$
each, $4B^3$ points. It integrates every $D^l_{mn}$ with $l < 2B$ exactly, thus products of two functions of bandwidth
B. An even number of angles makes the rule its own inverse, as a set and with its weights: the kernel of $(f', f)$ is
that of $(f, f')$ at the inverse rotations, so a Gram matrix is symmetric whatever the error of the quadrature.

`identity_points` is for one input with itself. Its kernel has a peak at the identity, with a kink there behind a
rectified linear unit, and the product rule converges slowly. In polar coordinates around the identity, by axis and
angle, the same integrand is smooth, and Gauss-Legendre converges fast again.

A name from `eqbook.groups.POLYHEDRA` in place of a size stands for the elements of that group, with equal weights. As
a rule it integrates the degrees below 3 (tetrahedron), 4 (cube) and 6 (icosahedron) exactly: these are the first ones
behind 0 in which the group has an invariant. But what is evaluated there is a network on that group, whose Gram
matrices have no negative eigenvalues but for rounding. Those of the product rule may have.
"""

import numpy as np
from jaxtyping import Float

from eqbook._checks import check_int
from eqbook.groups.polyhedral import POLYHEDRA
from eqbook.kernels.cached import cached_arrays
from eqbook.kernels.so3.angles import matrix_to_angles
from eqbook.kernels.so3.wigner import wigner_table
from eqbook.layers.sphere import ByPeak, check_by_peak, check_quadrature

Points = tuple[Float[np.ndarray, "points 3"], Float[np.ndarray, " points"]]
Rule = tuple[Float[np.ndarray, "features points"], Float[np.ndarray, " points"]]


def default_quadrature(bandwidth: int, signed: bool = False) -> int:
    r"""Size B of the rule if none is given: $\max(10, L + 4)$, or $L + 10$ if `signed`.

    Measured on noise of one channel and bandwidth 4 to 8, lift, nonlinearity, convolution, nonlinearity, pool: with
    relu, no entry of the NTK is off by more than $10^{-5} \sqrt{\Theta_{ii} \Theta_{jj}}$. More channels need less:
    with ten, B = L + 2 does. With the error function covariances keep their sign, their mean nearly cancels, and the
    same relative accuracy takes a larger rule.

    An input and its own rotated copy, or a multiple of it, are harder: the dual has its kink where the two coincide,
    and only a pair of equal inputs has its points around that place. On unit noise their NTK was off by up to
    $10^{-4}$ with relu and $6 \cdot 10^{-4}$ with the error function (L = 4 to 8), and the Gram matrix of an orbit had
    eigenvalues down to $-1.3 \cdot 10^{-5}$ of the largest. It grows with the scale for a nonlinearity that saturates,
    whose dual is the steeper there: inputs of 10 and of 255 with the error function were off by $10^{-2}$ and
    $3 \cdot 10^{-2}$, in rare draws by up to 0.2 (see `LiftS2`). So is a signal that rotations about an axis keep: with
    itself it has its kink on a circle of rotations, and its NTK is too small by $3 \cdot 10^{-4}$, with B = 30 by
    $2 \cdot 10^{-5}$. For such matrices take a larger rule, a ridge above that, and inputs of unit scale.

    Args:
        bandwidth: L.
        signed: whether a nonlinearity other than relu follows.
    """
    bandwidth = check_int("bandwidth", bandwidth, 1)
    return bandwidth + 10 if signed else max(10, bandwidth + 4)


def quadrature_size(quadrature: int | str | ByPeak | None, bandwidth: int, signed: bool = False) -> int | str:
    """The size asked for, the default if `None`, the largest of several.

    Args:
        quadrature: size asked for, the name of a group, heights and sizes as for `LiftS2`, or `None`.
        bandwidth: of the signals.
        signed: as for `default_quadrature`.

    Raises:
        ValueError: if one is smaller than the bandwidth, or no such name.
    """
    if quadrature is None:
        return default_quadrature(bandwidth, signed)
    if isinstance(quadrature, list | tuple):
        sizes = [size for _, size in check_by_peak("quadrature", quadrature)]
    else:
        sizes = [check_quadrature("quadrature", quadrature)]
    if not isinstance(sizes[0], str) and sizes[0] < bandwidth:
        raise ValueError(f"`quadrature`: expected at least the bandwidth of the signals, {bandwidth}, got {sizes[0]}.")
    return sizes[-1]


@cached_arrays
def rotation_points(size: int | str) -> Points:
    r"""Nodes and weights of the product rule, or the elements of a group.

    Args:
        size: B, or the name of a group.

    Returns:
        Angles $(\alpha, \beta, \gamma)$ in radians, `[4B^3, 3]`, $\alpha$ slowest and $\gamma$ fastest, in the order of
        an array `[2B, B, 2B]`; weights `[4B^3]`, which add up to 1. Of a group: its elements, in the order of
        `eqbook.groups`, with equal weights.

    Raises:
        ValueError: if `size` is not a positive integer, and no name of a group.
    """
    if isinstance(check_quadrature("size", size), str):
        matrices, group = POLYHEDRA[size]()
        return matrix_to_angles(matrices), np.full(group.order, 1 / group.order)
    nodes, node_weights = np.polynomial.legendre.leggauss(size)
    turns = np.pi * np.arange(2 * size) / size
    alpha, beta, gamma = np.meshgrid(turns, np.arccos(nodes), turns, indexing="ij")
    weights = np.broadcast_to(node_weights[:, None] / 2 / (2 * size) ** 2, alpha.shape)
    return np.stack([alpha, beta, gamma], -1).reshape(-1, 3), weights.ravel()


@cached_arrays
def identity_points(size: int | str) -> Points:
    r"""Nodes and weights of the rule around the identity, for functions with $F(R) = F(R^{-1})$.

    $\int F = \int_0^\pi \frac{1 - \cos\omega}{\pi} d\omega\, \frac{1}{4\pi} \int_{S^2} F(\omega, n)\, dn$ with angle
    $\omega$ and axis $n$: B+6 Gauss-Legendre nodes in $\omega$, and 2B+4 in $n_z$ by 4B+8 longitudes, of which one of
    $n$ and $-n$ is kept.

    Args:
        size: B of the product rule that it goes with, or the name of a group, whose elements serve here as well.

    Returns:
        As `rotation_points`, with $(B+6)(2B+4)^2$ points; of a group, with its elements.

    Raises:
        ValueError: if `size` is not a positive integer, and no name of a group.
    """
    if isinstance(check_quadrature("size", size), str):
        return rotation_points(size)
    nodes, node_weights = np.polynomial.legendre.leggauss(size + 6)
    turns = (nodes + 1) * np.pi / 2
    turn_weights = node_weights / 2 * (1 - np.cos(turns))
    heights, height_weights = np.polynomial.legendre.leggauss(2 * size + 4)  # an even number: none on the equator
    heights, height_weights = heights[size + 2 :], height_weights[size + 2 :]
    count = 4 * size + 8
    omega, z, phi = np.meshgrid(turns, heights, 2 * np.pi * np.arange(count) / count, indexing="ij")
    weights = np.broadcast_to(np.outer(turn_weights, height_weights)[..., None] / count, omega.shape)
    # The unit quaternion (w, v), v = n sin(omega/2), in Euler angles.
    w, rho = np.cos(omega / 2), np.sin(omega / 2) * np.sqrt(1 - z**2)
    vx, vy, vz = rho * np.cos(phi), rho * np.sin(phi), np.sin(omega / 2) * z
    half_sum, half_difference = np.arctan2(vz, w), np.arctan2(vx, vy)
    beta = 2 * np.arctan2(rho, np.hypot(w, vz))
    angles = np.stack([half_sum - half_difference, beta, half_sum + half_difference], -1)
    return angles.reshape(-1, 3), weights.ravel()


@cached_arrays
def rotation_rule(bandwidth: int, size: int | str) -> Rule:
    r"""Wigner matrices at `rotation_points`, and the weights, in double precision.

    Args:
        bandwidth: L; the table holds the degrees below it.
        size: B, or the name of a group.

    Returns:
        Table $D^l_{mn}(R_a)$, `[L(4L^2-1)/3, points]`, features in the order of `wigner_table`; weights `[points]`.
    """
    angles, weights = rotation_points(size)
    return wigner_table(bandwidth, angles), weights


@cached_arrays
def identity_rule(bandwidth: int, size: int | str) -> Rule:
    """Wigner matrices at `identity_points`, and the weights, shaped as those of `rotation_rule`.

    Args:
        bandwidth: of the signals.
        size: of the rule, or the name of a group.

    Returns:
        Table `[features, points]`, as of `wigner_table`, and weights `[points]`.
    """
    angles, weights = identity_points(size)
    return wigner_table(bandwidth, angles), weights

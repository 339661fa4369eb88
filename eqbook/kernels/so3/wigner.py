r"""Wigner matrices and spherical harmonics in a real basis, in double precision.

The convention of the whole package: the polar axis is z, $x = (\sin\theta\cos\phi, \sin\theta\sin\phi, \cos\theta)$;
the real harmonics $Y_{lm}$, $m = -l, \dots, l$, are orthonormal on the sphere, without the Condon-Shortley sign, so
that $Y_{1m} = \sqrt{3 / 4\pi}\,(y, z, x)$; $D^l(R)$ is the real orthogonal matrix with $Y_l(R x) = D^l(R) Y_l(x)$. A
rotation is $R = R_z(\alpha) R_y(\beta) R_z(\gamma)$.

e3nn-jax supplies the generators of the representations, as NumPy arrays in double precision. Its polar axis is y, and
its l = 1 basis (x, y, z) is (y, z, x) here: renaming its axes (z, x, y) as (x, y, z) keeps the order of m, so
that its generators about (x, y, z) are those about (y, z, x) here. Its own Wigner matrices are single precision unless
64-bit types are switched on globally, so the exponentials are taken here.
"""

import functools

import numpy as np
from jaxtyping import Float

from eqbook._checks import check_finite, check_int


def feature_count(bandwidth: int) -> int:
    r"""Number of matrix elements $D^l_{mn}$ with $l < L$: $\sum_l (2l+1)^2 = L (4 L^2 - 1) / 3$.

    Args:
        bandwidth: $L$.

    Raises:
        ValueError: if it is no integer, or negative.
    """
    bandwidth = check_int("bandwidth", bandwidth, 0)
    return bandwidth * (4 * bandwidth**2 - 1) // 3


def feature_bandwidth(count: int) -> int | None:
    """The bandwidth with this number of matrix elements, `None` if there is none.

    Args:
        count: as `feature_count` returns it.

    Raises:
        ValueError: if it is no integer, or negative.
    """
    bandwidth = round((0.75 * check_int("count", count, 0)) ** (1 / 3))
    return bandwidth if feature_count(bandwidth) == count else None


@functools.cache
def _generators(degree: int) -> np.ndarray:
    """Generators of rotations about (y, z, x) in degree l, `[3, 2l+1, 2l+1]`, antisymmetric."""
    try:
        import e3nn_jax  # here, not above: an optional dependency, and slow to load
    except ImportError as error:
        raise ImportError(
            "layers on the sphere need e3nn-jax for their Wigner matrices; install it, or eqbook with the extra `so3`."
        ) from error
    return np.asarray(e3nn_jax.generators(degree), np.float64)


def _turns(degree: int, axis: int, angles: Float[np.ndarray, " points"]) -> Float[np.ndarray, "points d d"]:
    r"""$e^{\alpha X}$ by the eigenvectors of the Hermitian $iX$, whose eigenvalues are the integers $-l, \dots, l$."""
    _, vectors = np.linalg.eigh(1j * _generators(degree)[axis])
    phases = np.exp(-1j * np.asarray(angles)[:, None] * np.arange(-degree, degree + 1))
    return np.real((vectors * phases[:, None, :]) @ vectors.conj().T)


def wigner_matrix(degree: int, angles: Float[np.ndarray, "points 3"]) -> Float[np.ndarray, "points d d"]:
    r"""$D^l(R)$ for rotations $R = R_z(\alpha) R_y(\beta) R_z(\gamma)$, in double precision.

    Args:
        degree: $l$.
        angles: $(\alpha, \beta, \gamma)$ in radians, `[points, 3]`.

    Returns:
        Orthogonal matrices, `[points, 2l+1, 2l+1]`, rows and columns from $m = -l$ to $l$.

    Raises:
        ValueError: if `degree` is negative, or the angles are not finite or not three for each point.
        ImportError: if e3nn-jax is not installed.
    """
    degree = check_int("degree", degree, 0)
    check_finite("angles", angles)
    if np.ndim(angles) != 2 or np.shape(angles)[1] != 3:
        raise ValueError(f"`angles`: expected [points, 3], got shape {np.shape(angles)}.")
    alpha, beta, gamma = np.asarray(angles, np.float64).T
    return _turns(degree, 1, alpha) @ _turns(degree, 0, beta) @ _turns(degree, 1, gamma)


def wigner_table(bandwidth: int, angles: Float[np.ndarray, "points 3"]) -> Float[np.ndarray, "features points"]:
    r"""All $D^l_{mn}(R)$ with $l < L$ at a list of rotations.

    Args:
        bandwidth: $L$.
        angles: $(\alpha, \beta, \gamma)$ in radians, `[points, 3]`.

    Returns:
        Table `[features, points]`; the features run over $l$, then $m$, then $n$, $L(4L^2-1)/3$ of them.

    Raises:
        ValueError: if an argument is no such number, or angles have another shape or are not finite.
        ImportError: if e3nn-jax is not installed.
    """
    check_int("bandwidth", bandwidth, 1)
    blocks = [wigner_matrix(l, angles).reshape(len(angles), (2 * l + 1) ** 2).T for l in range(bandwidth)]
    return np.concatenate(blocks)


def spherical_harmonics(
    bandwidth: int, theta: Float[np.ndarray, " points"], phi: Float[np.ndarray, " points"]
) -> Float[np.ndarray, "points coefficients"]:
    r"""Real orthonormal $Y_{lm}(\theta, \phi)$ with $l < L$.

    The rotation $R_z(\phi) R_y(\theta)$ takes the pole to $(\theta, \phi)$, and at the pole only $m = 0$ is left:
    $Y_{lm}(\theta, \phi) = \sqrt{(2l+1) / 4\pi}\, D^l_{m0}(\phi, \theta, 0)$.

    Args:
        bandwidth: $L$.
        theta: angle from the z axis in radians, `[points]`.
        phi: longitude in radians, `[points]`.

    Returns:
        `[points, L^2]`; the coefficients run over $l$, then $m = -l, \dots, l$: index $l^2 + l + m$.

    Raises:
        ValueError: if an argument is no such number, or angles have another shape or are not finite.
        ImportError: if e3nn-jax is not installed.
    """
    check_int("bandwidth", bandwidth, 1)
    for name, values in (("theta", theta), ("phi", phi)):
        check_finite(name, values)
        if np.ndim(values) != 1 or len(values) != len(theta):
            raise ValueError(f"`{name}`: expected one angle for each point, [points], got shape {np.shape(values)}.")
    angles = np.stack([phi, theta, np.zeros_like(phi)], -1)
    columns = [
        np.sqrt((2 * degree + 1) / (4 * np.pi)) * wigner_matrix(degree, angles)[:, :, degree]
        for degree in range(bandwidth)
    ]
    return np.concatenate(columns, -1)

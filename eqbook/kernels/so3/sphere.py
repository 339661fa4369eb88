r"""Signals on the sphere: the equiangular grid, and the harmonic coefficients of what is sampled on it.

A signal of bandwidth L lives on 2L colatitudes $\theta_t = (2t+1)\pi/4L$ and 2L-1 longitudes $\phi_p = 2\pi p/(2L-1)$:
`[n, 2L, 2L-1, channels]`.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from eqbook._checks import as_float, check_int
from eqbook.kernels.cached import cached_arrays
from eqbook.kernels.so3.wigner import spherical_harmonics, wigner_matrix


def grid_bandwidth(rows: int, columns: int) -> int:
    """The bandwidth L of a grid of 2L by 2L-1 points.

    Raises:
        ValueError: if there is none.
    """
    if rows < 2 or rows % 2 or columns != rows - 1:
        raise ValueError(
            "expected signals on the sphere, at 2L colatitudes by 2L-1 longitudes, such as 12 by 11 for L = 6, "
            f"got {rows} by {columns}; resample them."
        )
    return rows // 2


@cached_arrays
def sphere_grid(bandwidth: int) -> tuple[np.ndarray, np.ndarray]:
    r"""Angles of the grid points, $\theta_t = (2t+1)\pi/(4L)$ and $\phi_p = 2\pi p/(2L-1)$, colatitude-major.

    Args:
        bandwidth: $L$.

    Returns:
        $\theta$ and $\phi$, each `[2L (2L-1)]`, in radians.

    Raises:
        ValueError: if `bandwidth` is no positive integer.
    """
    check_int("bandwidth", bandwidth, 1)
    theta = (2 * np.arange(2 * bandwidth) + 1) * np.pi / (4 * bandwidth)
    phi = 2 * np.pi * np.arange(2 * bandwidth - 1) / (2 * bandwidth - 1)
    return np.repeat(theta, len(phi)), np.tile(phi, len(theta))


@cached_arrays
def sphere_weights(bandwidth: int) -> np.ndarray:
    r"""Areas of the grid points: $\int f = \sum_i w_i f(x_i)$, exact for harmonics of degree up to 2L-2.

    $w = \frac{2\pi}{2L-1} \frac{2}{L} \sin\theta \sum_{k<L} \frac{\sin((2k+1)\theta)}{2k+1}$; the weights add up to
    $4\pi$.

    Args:
        bandwidth: $L$.

    Returns:
        $w$, `[2L (2L-1)]`, in the order of `sphere_grid`.

    Raises:
        ValueError: if `bandwidth` is no positive integer.

    References:
        Driscoll, Healy, "Computing Fourier Transforms and Convolutions on the 2-Sphere", 1994,
        https://doi.org/10.1006/aama.1994.1008
    """
    theta, _ = sphere_grid(bandwidth)
    odd = 2 * np.arange(bandwidth) + 1
    series = np.sum(np.sin(odd * theta[:, None]) / odd, -1)
    return 2 * np.pi / (2 * bandwidth - 1) * 2 / bandwidth * np.sin(theta) * series


@cached_arrays
def _harmonics(bandwidth: int) -> np.ndarray:
    return spherical_harmonics(bandwidth, *sphere_grid(bandwidth))


def sphere_coefficients(
    x: Float[Array, "n rows columns channels"], bandwidth: int | None = None
) -> Float[Array, "n coefficients channels"]:
    r"""Harmonic coefficients of sampled signals, $f_{lm} = \int Y_{lm} f = \sum_i w_i Y_{lm}(x_i) f(x_i)$.

    Exact for a signal of the grid's bandwidth; higher degrees alias, as in any sampling.

    Args:
        x: signals on the grid, `[n, 2L, 2L-1, channels]`.
        bandwidth: degrees to keep, at most L; all if not given.

    Returns:
        `[n, bandwidth^2, channels]`, index $l^2 + l + m$; dtype of `x`.

    Raises:
        ValueError: if `x` does not live on the grid, or `bandwidth` is not an integer from 1 to that of the grid.
    """
    x = as_float(x)
    if x.ndim != 4:
        raise ValueError(f"expected signals on the sphere [n, 2L, 2L-1, channels], got shape {x.shape}.")
    full = grid_bandwidth(*x.shape[1:3])
    kept = kept_bandwidth(bandwidth, full)
    analysis = (_harmonics(full) * sphere_weights(full)[:, None])[:, : kept**2]
    flat = x.reshape(len(x), len(analysis), x.shape[-1])  # [n, grid, channels]
    return jnp.einsum("gk,ngc->nkc", jnp.asarray(analysis, x.dtype), flat, precision=jax.lax.Precision.HIGHEST)


def kept_bandwidth(bandwidth: int | None, full: int) -> int:
    """The bandwidth asked for, that of the signal if `None`.

    Args:
        bandwidth: asked for, or `None`.
        full: that of the signal.

    Raises:
        ValueError: if it is larger than that of the signal, or not a positive integer.
    """
    if bandwidth is not None and check_int("bandwidth", bandwidth, 1) > full:
        raise ValueError(
            f"`bandwidth`: expected at most {full}, the bandwidth of signals on {2 * full} by {2 * full - 1} points, "
            f"got {bandwidth}; a grid holds no higher degrees."
        )
    return full if bandwidth is None else bandwidth


def sphere_signal(coefficients: Float[Array, "n coefficients channels"]) -> Float[Array, "n rows columns channels"]:
    r"""The signal with given coefficients, $f(x_i) = \sum_{lm} f_{lm} Y_{lm}(x_i)$; undoes `sphere_coefficients`.

    Args:
        coefficients: `[n, L^2, channels]`.

    Raises:
        ValueError: if the number of coefficients is not a square.
    """
    coefficients = as_float(coefficients, "coefficients")
    bandwidth = _coefficient_bandwidth(coefficients)
    table = jnp.asarray(_harmonics(bandwidth), coefficients.dtype)
    flat = jnp.einsum("gk,nkc->ngc", table, coefficients, precision=jax.lax.Precision.HIGHEST)
    return flat.reshape(len(flat), 2 * bandwidth, 2 * bandwidth - 1, flat.shape[-1])


def rotate_coefficients(
    angles: Float[np.ndarray, " 3"], coefficients: Float[Array, "n coefficients channels"]
) -> Float[Array, "n coefficients channels"]:
    r"""Coefficients of the rotated signal $(\rho(R) f)(x) = f(R^{-1} x)$: $(\rho(R) f)_l = D^l(R) f_l$.

    Args:
        angles: $(\alpha, \beta, \gamma)$ of $R = R_z(\alpha) R_y(\beta) R_z(\gamma)$ in radians.
        coefficients: `[n, L^2, channels]`.

    Raises:
        ValueError: if the number of coefficients is not a square, or the angles are not three finite numbers.
    """
    coefficients = as_float(coefficients, "coefficients")
    if np.shape(angles) != (3,):
        raise ValueError(f"`angles`: expected three angles, got shape {np.shape(angles)}.")
    angles = np.asarray(angles, np.float64)[None]

    def rotated(degree: int) -> Array:
        block = coefficients[:, degree**2 : (degree + 1) ** 2]
        matrix = jnp.asarray(wigner_matrix(degree, angles)[0], block.dtype)
        return jnp.einsum("mk,nkc->nmc", matrix, block, precision=jax.lax.Precision.HIGHEST)

    return jnp.concatenate([rotated(degree) for degree in range(_coefficient_bandwidth(coefficients))], 1)


def _coefficient_bandwidth(coefficients: Array) -> int:
    bandwidth = round(coefficients.shape[1] ** 0.5) if coefficients.ndim == 3 else 0
    if bandwidth < 1 or bandwidth**2 != coefficients.shape[1]:
        raise ValueError(f"`coefficients`: expected [n, L^2, channels], got shape {coefficients.shape}.")
    return bandwidth

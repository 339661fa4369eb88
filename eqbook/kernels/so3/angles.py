r"""Rotations as matrices and as Euler angles, $R = R_z(\alpha) R_y(\beta) R_z(\gamma)$."""

import numpy as np
from jaxtyping import Float

from eqbook._checks import check_finite


def angles_to_matrix(angles: Float[np.ndarray, "... 3"]) -> Float[np.ndarray, "... 3 3"]:
    r"""$R = R_z(\alpha) R_y(\beta) R_z(\gamma)$.

    Args:
        angles: $(\alpha, \beta, \gamma)$ in radians, `[..., 3]`.

    Raises:
        ValueError: if the last axis is another one, or an angle is not finite.
    """
    check_finite("angles", angles)
    if np.shape(angles)[-1:] != (3,):
        raise ValueError(f"`angles`: expected [..., 3], got shape {np.shape(angles)}.")
    cos, sin = np.moveaxis(np.cos(angles), -1, 0), np.moveaxis(np.sin(angles), -1, 0)
    zero, one = np.zeros_like(cos[0]), np.ones_like(cos[0])

    def about_z(c: np.ndarray, s: np.ndarray) -> np.ndarray:
        return np.stack([np.stack([c, -s, zero], -1), np.stack([s, c, zero], -1), np.stack([zero, zero, one], -1)], -2)

    about_y = np.stack(
        [np.stack([cos[1], zero, sin[1]], -1), np.stack([zero, one, zero], -1), np.stack([-sin[1], zero, cos[1]], -1)],
        -2,
    )
    return about_z(cos[0], sin[0]) @ about_y @ about_z(cos[2], sin[2])


def matrix_to_angles(rotation: Float[np.ndarray, "... 3 3"]) -> Float[np.ndarray, "... 3"]:
    r"""Angles of a rotation matrix, $\beta \in [0, \pi]$; where $\beta$ is 0 or $\pi$, $\gamma = 0$.

    Args:
        rotation: orthogonal matrices of determinant 1, `[..., 3, 3]`.

    Raises:
        ValueError: if the last axes are others, or a number is not finite.
    """
    check_finite("rotation", rotation)
    if np.shape(rotation)[-2:] != (3, 3):
        raise ValueError(f"`rotation`: expected matrices [..., 3, 3], got shape {np.shape(rotation)}.")
    R = np.asarray(rotation, np.float64)
    sin_beta = np.hypot(R[..., 0, 2], R[..., 1, 2])
    beta = np.arctan2(sin_beta, R[..., 2, 2])
    # A rotation that keeps the z axis, up to its sign: only alpha -+ gamma matters.
    turned = sin_beta > 1e-12
    alpha = np.where(turned, np.arctan2(R[..., 1, 2], R[..., 0, 2]), np.arctan2(-R[..., 0, 1], R[..., 1, 1]))
    gamma = np.where(turned, np.arctan2(R[..., 2, 1], -R[..., 2, 0]), 0)
    # Near such a rotation alpha and gamma are known badly, each with an error of its own, and alpha +- gamma well.
    total = np.arctan2(R[..., 1, 0] - R[..., 0, 1], R[..., 0, 0] + R[..., 1, 1])
    apart = np.arctan2(-R[..., 1, 0] - R[..., 0, 1], R[..., 1, 1] - R[..., 0, 0])
    rest = np.where(R[..., 2, 2] > 0, total - alpha, alpha - apart)
    rest = rest - 2 * np.pi * np.round(rest / (2 * np.pi))
    gamma = np.where(turned & (sin_beta < 0.1), rest, gamma)
    return np.stack([alpha, beta, gamma], -1)

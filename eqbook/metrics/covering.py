r"""How densely finitely many elements fill a continuous group: $\max_{g} \min_{b} \|\rho(g) - \rho(b)\|_{op}$."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from eqbook._checks import check_finite, check_int, check_known, check_number


@dataclass(frozen=True)
class CoveringRadius:
    """A covering radius between two bounds.

    Attributes:
        lower: attained: some element of the group is that far from all of the subset.
        upper: certified: no element is further away.
    """

    lower: float
    upper: float


def cyclic_covering_radius(n: int, frequency: int = 1) -> float:
    r"""$\epsilon = 2 \sin(m \pi / 2n)$: how far rotations of the plane are from $C_n$, in operator norm.

    $\epsilon = \max_{g \in SO(2)} \min_{b \in C_n} \|\rho(g) - \rho(b)\|_{op}$, attained halfway between two elements.
    A vector in the plane has frequency 1. A representation with angular frequencies up to $m$, such as images that are
    band-limited in the angle, has the $\epsilon$ of its highest one. For images that are not band-limited
    $\epsilon = 2$, whatever $n$: the rotation halfway between elements turns an image of frequency $n$ into the
    negative of what every element makes of it.

    Args:
        n: order of the subgroup.
        frequency: largest angular frequency $m$ of $\rho$, from 1 to $n$.

    Raises:
        ValueError: if a number is no integer in its range.

    References:
        Gerken, Kessel, "Emergent Equivariance in Deep Ensembles", ICML 2024, https://arxiv.org/abs/2403.03103
        (lemma 6.2, which defines $\epsilon$).
    """
    n, frequency = check_int("n", n, 1), check_int("frequency", frequency, 1)
    if frequency > n:
        raise ValueError(
            f"`frequency`: expected at most {n}, the order of the subgroup, got {frequency}; the element halfway "
            "between two of the subgroup is then not the furthest in every frequency."
        )
    # A quotient of integers is a float where they are too large to be one.
    return float(2 * np.sin(np.pi * (frequency / (2 * n))))


def so3_covering_radius(
    rotations: Float[np.ndarray, "b 3 3"], tol: float = 1e-3, max_cells: int = 1_000_000
) -> CoveringRadius:
    r"""How far rotations of space are from finitely many, in operator norm, with a certificate.

    $\epsilon = \max_{R \in SO(3)} \min_b \|R - R_b\|_{op} = 2 \sin(\theta / 2)$, where $\theta$ is the angle of
    $R_b^{-1} R$. Rotations are unit quaternions $\pm q$ and $\theta / 2$ is the angle between two of them, so this is
    the covering radius of the points $\pm q_b$ on the sphere in $R^4$. Branch and bound: the sphere is cut into cells,
    images of cubes on the surface of $[-1, 1]^4$. A cell's centre gives a lower bound. No point of a cell is further
    from the $q_b$ than the centre by more than the angle to the cell's furthest corner. Cells that cannot beat the best
    centre by `tol` are dropped, the others are cut into eight.

    For the representation $R \oplus R$ on pairs of vectors, and every other sum of vectors, $\epsilon$ is the same.

    Args:
        rotations: $R_b$, rotation matrices, `[b, 3, 3]`; a subgroup or any other subset.
        tol: stop when upper and lower bound on $\epsilon$ differ by at most this.
        max_cells: stop when more cells than this are left; the bounds are then further apart, and still bounds. Few
            elements, far from whole circles or spheres of rotations, need many cells.

    Returns:
        `CoveringRadius` with `lower` and `upper`.

    Raises:
        ValueError: if a matrix is not a rotation or abstract (inside `jit`), or `tol` is not positive.

    References:
        Gerken, Kessel, "Emergent Equivariance in Deep Ensembles", ICML 2024, https://arxiv.org/abs/2403.03103
        (lemma 6.2, which defines $\epsilon$).
    """
    quaternions = rotations_to_quaternions(rotations)
    tol = check_number("tol", tol, positive=True)
    max_cells = check_int("max_cells", max_cells, 4)
    faces, centres, half = np.arange(4), np.zeros((4, 3)), 1.0
    best, upper, dropped = 0.0, np.pi / 2, 0.0
    while len(centres) and len(centres) <= max_cells:
        middle = _on_sphere(faces, centres)
        distance = np.arccos(np.minimum(np.abs(middle @ quaternions.T).max(1), 1))
        best = max(best, float(distance.max()))
        # Two antipodal points are never more than a right angle from a third one.
        reach = np.minimum(distance + _cell_radius(faces, centres, half, middle), np.pi / 2)
        upper = max(best, dropped, float(reach.max()))
        open_cells = 2 * np.sin(reach) > 2 * np.sin(best) + tol
        if not open_cells.any():
            break
        # A point of a dropped cell may still be further away than `best`, by less than `tol`.
        dropped = max(dropped, float(reach[~open_cells].max(initial=0)))
        half /= 2
        faces, centres = np.repeat(faces[open_cells], 8), _split(centres[open_cells], half)
    return CoveringRadius(float(2 * np.sin(best)), float(2 * np.sin(upper)))


def rotations_to_quaternions(rotations: Float[np.ndarray, "b 3 3"]) -> Float[np.ndarray, "b 4"]:
    r"""Unit quaternions $q$ of rotation matrices, one of the two signs.

    $4 q q^T$ is linear in $R$; its largest column, normalised, is $q$.

    Args:
        rotations: rotation matrices, `[b, 3, 3]`.

    Raises:
        ValueError: if one is not orthogonal with determinant 1, or abstract (inside `jit`).
    """
    check_known("rotations", rotations)
    check_finite("rotations", rotations)
    R = np.asarray(rotations, np.float64)
    if R.ndim != 3 or R.shape[1:] != (3, 3) or len(R) == 0:
        raise ValueError(f"`rotations`: expected matrices [b, 3, 3], got shape {R.shape}.")
    if not np.allclose(R @ R.transpose(0, 2, 1), np.eye(3), atol=1e-5) or not (np.linalg.det(R) > 0).all():
        raise ValueError("`rotations`: expected orthogonal matrices of determinant 1, got one that is no rotation.")
    diagonal = np.diagonal(R, axis1=1, axis2=2)
    outer = np.empty((len(R), 4, 4))
    outer[:, 0, 0] = 1 + diagonal.sum(1)
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        outer[:, i + 1, i + 1] = 1 + 2 * diagonal[:, i] - diagonal.sum(1)
        outer[:, j + 1, k + 1] = outer[:, k + 1, j + 1] = R[:, j, k] + R[:, k, j]
        outer[:, 0, i + 1] = outer[:, i + 1, 0] = R[:, k, j] - R[:, j, k]
    largest = np.diagonal(outer, axis1=1, axis2=2).argmax(1)
    q = outer[np.arange(len(R)), :, largest]
    return q / np.linalg.norm(q, axis=1, keepdims=True)


def _on_sphere(faces: np.ndarray, centres: np.ndarray) -> Float[np.ndarray, "m 4"]:
    """Points with coordinate 1 at index `faces` and `centres` at the others, projected to the unit sphere."""
    points = np.ones((len(centres), 4))
    # The coordinates that are not fixed are those after the face, cyclically.
    columns = (faces[:, None] + np.arange(1, 4)) % 4
    np.put_along_axis(points, columns, centres, axis=1)
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def _cell_radius(faces: np.ndarray, centres: np.ndarray, half: float, middle: np.ndarray) -> Float[np.ndarray, " m"]:
    """Largest angle between a cell's centre and its points, which is that to a corner: cells are convex."""
    radius = np.zeros(len(centres))
    for corner in _CORNERS:
        cosine = np.sum(_on_sphere(faces, centres + half * corner) * middle, axis=1)
        radius = np.maximum(radius, np.arccos(np.clip(cosine, -1, 1)))
    return radius


def _split(centres: np.ndarray, half: float) -> Float[np.ndarray, "m8 3"]:
    """Centres of the eight parts of each cube, whose half side is `half`."""
    return (centres[:, None] + half * _CORNERS).reshape(-1, 3)


_CORNERS = np.stack(np.meshgrid([-1, 1], [-1, 1], [-1, 1], indexing="ij"), -1).reshape(8, 3)

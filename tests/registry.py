"""Every layer, network, group and action: the lists that the property tests run over."""

import numpy as np

import eqbook as eq

NETWORKS = {
    "linear": eq.Sequential(eq.Dense(48, W_std=1.2), eq.Dense(1, W_std=0.7)),
    "relu": eq.Sequential(eq.Dense(48), eq.Relu(), eq.Dense(1)),
    "relu-bias": eq.Sequential(eq.Dense(48, W_std=1.4, b_std=0.3), eq.Relu(), eq.Dense(1, W_std=0.9, b_std=0.2)),
    "erf-bias": eq.Sequential(eq.Dense(48, W_std=1.5, b_std=0.5), eq.Erf(), eq.Dense(1, b_std=0.1)),
    "deep": eq.Sequential(
        eq.Dense(48, W_std=1.4), eq.Relu(), eq.Dense(48, b_std=0.4), eq.Erf(), eq.Dense(48), eq.Relu(), eq.Dense(1)
    ),
    "nested": eq.Sequential(eq.Sequential(eq.Dense(48), eq.Erf()), eq.Sequential(eq.Dense(1))),
}

GROUPS = {f"C{n}": eq.cyclic(n) for n in (1, 2, 3, 4, 7)} | {f"D{n}": eq.dihedral(n) for n in (1, 2, 3, 4)}

IMAGE_GROUPS = {f"C{n}": eq.cyclic(n) for n in (1, 2, 4)} | {f"D{n}": eq.dihedral(n) for n in (1, 2, 4)}


def planar_matrices(n: int, reflections: bool) -> np.ndarray:
    """Rotation matrices of the regular n-gon, followed by those of r^k s, with s = diag(1, -1)."""
    angles = 2 * np.pi * np.arange(n) / n
    cos, sin = np.cos(angles), np.sin(angles)
    rotations = np.stack([np.stack([cos, -sin], -1), np.stack([sin, cos], -1)], -2)
    return np.concatenate([rotations, rotations @ np.diag([1.0, -1.0])]) if reflections else rotations


def image_networks() -> dict[str, eq.Sequential]:
    """Networks on images: every layer and padding, with and without pooling."""
    nets = {}
    for padding in ("SAME", "VALID", "CIRCULAR"):
        body = (
            eq.Conv(16, (3, 2), (2, 1), padding, W_std=1.3, b_std=0.2),
            eq.Relu(),
            eq.Conv(16, (2, 2), padding=padding, W_std=1.2),
            eq.Erf(),
        )
        nets[f"flatten-{padding}"] = eq.Sequential(*body, eq.Flatten(), eq.Dense(1, W_std=1.1, b_std=0.3))
        nets[f"pooled-{padding}"] = eq.Sequential(*body, eq.GlobalAvgPool(), eq.Dense(1))
    nets["local-pooling"] = eq.Sequential(
        eq.Conv(16, (3, 3)), eq.Relu(), eq.AvgPool((2, 2)), eq.Conv(16, (2, 2), b_std=0.4), eq.Relu(),
        eq.AvgPool((2, 2), (1, 1)), eq.Flatten(), eq.Dense(1),
    )  # fmt: skip
    nets["residual"] = eq.Sequential(
        eq.Conv(16, (3, 3)), eq.Residual(eq.Relu(), eq.Conv(16, (3, 3), b_std=0.1)), eq.Erf(), eq.Flatten(), eq.Dense(1)
    )
    nets["layer-norm"] = eq.Sequential(
        eq.Conv(16, (2, 2), W_std=2.0), eq.LayerNorm(), eq.Relu(), eq.Flatten(), eq.Dense(16), eq.Erf(), eq.Dense(1)
    )
    return nets


IMAGE_NETWORKS = image_networks()

"""Every layer, network, group and action: the lists that the property tests run over."""

from typing import NamedTuple

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
    nets["nested residual"] = eq.Sequential(
        eq.Conv(16, (2, 2), b_std=0.1),
        eq.Residual(
            eq.Erf(), eq.Conv(16, (1, 1)), eq.Residual(eq.Erf(), eq.Conv(16, (1, 1), b_std=0.2)), eq.LayerNorm()
        ),
        eq.Flatten(), eq.Dense(1),
    )  # fmt: skip
    nets |= local_networks()
    nets["layer-norm"] = eq.Sequential(
        eq.Conv(16, (2, 2), W_std=2.0), eq.LayerNorm(), eq.Relu(), eq.Flatten(), eq.Dense(16), eq.Erf(), eq.Dense(1)
    )
    return nets


def local_networks() -> dict[str, eq.Sequential]:
    """Networks with locally connected layers: every padding, with and without pooling, mixed with a convolution."""
    nets = {}
    for padding in ("SAME", "VALID", "CIRCULAR"):
        body = (
            eq.LocallyConnected(16, (3, 2), (2, 1), padding, W_std=1.3, b_std=0.2),
            eq.Relu(),
            eq.LocallyConnected(16, (2, 2), padding=padding, W_std=1.2),
            eq.Erf(),
        )
        nets[f"local-{padding}"] = eq.Sequential(*body, eq.Flatten(), eq.Dense(1, W_std=1.1, b_std=0.3))
        if padding == "SAME":
            nets["pooled-local"] = eq.Sequential(*body, eq.GlobalAvgPool(), eq.Dense(1))
    nets["local-residual"] = eq.Sequential(
        eq.Conv(16, (2, 2)), eq.Residual(eq.Relu(), eq.LocallyConnected(16, (2, 2), b_std=0.1)), eq.Erf(),
        eq.Flatten(), eq.Dense(1),
    )  # fmt: skip
    return nets


IMAGE_NETWORKS = image_networks()


class GroupCase(NamedTuple):
    """An invariant network on a group, the shape of one input, and how the group moves inputs."""

    net: eq.Sequential
    shape: tuple[int, ...]
    action: eq.groups.Action


def on_plane(group, filter_shape, padding, size, channels, support=None) -> GroupCase:
    """Two layers on the plane, all with biases but one."""
    net = eq.Sequential(
        eq.Lift(group, 8, filter_shape, padding, W_std=1.3, b_std=0.2),
        eq.Relu(),
        eq.GroupConv(group, 8, filter_shape, padding, W_std=1.2, support=support),
        eq.Erf(),
        eq.GroupPool(),
        eq.Dense(1, W_std=1.1, b_std=0.3),
    )
    return GroupCase(net, (size, size, channels), eq.groups.ImageAction(group))


def on_finite_set(action, size, coordinates=None, support=None) -> GroupCase:
    """Two layers on a finite group, and a dense layer at each of its elements."""
    group = action.group
    net = eq.Sequential(
        eq.Lift(group, 8, W_std=1.3, b_std=0.2, action=action, support=coordinates),
        eq.Erf(),
        eq.GroupConv(group, 8, W_std=1.2, b_std=0.4, support=support),
        eq.Relu(),
        eq.Dense(8, W_std=1.4),
        eq.Relu(),
        eq.GroupPool(),
        eq.Dense(1, b_std=0.3),
    )
    return GroupCase(net, (size,), action)


C3, D3 = eq.groups.RegularAction(eq.cyclic(3)), eq.groups.RegularAction(eq.dihedral(3))
D3_TURNS = eq.groups.MatrixAction(eq.dihedral(3), planar_matrices(3, reflections=True))

GROUP_NETWORKS = {
    "plane-C4-SAME": on_plane(eq.cyclic(4), (3, 3), "SAME", 4, 2),
    "plane-C4-CIRCULAR-3x1": on_plane(eq.cyclic(4), (3, 1), "CIRCULAR", 4, 1, support=(0, 1)),
    "plane-C2-VALID": on_plane(eq.cyclic(2), (2, 2), "VALID", 4, 2),
    "plane-D4-VALID": on_plane(eq.dihedral(4), (2, 2), "VALID", 3, 1, support=(0, 3, 5)),
    "C3-on-itself": on_finite_set(C3, 3),
    "D3-on-itself": on_finite_set(D3, 6, coordinates=(0, 4), support=(0, 1, 3)),
    "D3-matrices": on_finite_set(D3_TURNS, 2, support=(1, 5)),
    "D3-residual": GroupCase(
        eq.Sequential(
            eq.Lift(D3.group, 8, b_std=0.2),
            eq.LayerNorm(),
            eq.Residual(eq.Erf(), eq.GroupConv(D3.group, 8, b_std=0.1, support=(3, 4))),
            eq.Relu(),
            eq.GroupPool(),
            eq.Dense(1),
        ),
        (6,),
        D3,
    ),
}

# For signals of bandwidth 2 or 3, with a coarse rule: the literal recursion and the finite network work on its points.
SPHERE_NETWORKS = {
    "sphere-linear": eq.Sequential(
        eq.LiftS2(8, 1.3, 0.2, quadrature=3), eq.SO3Conv(8, 0.7, 0.4), eq.SO3Pool(), eq.Dense(1)
    ),
    "sphere-deep": eq.Sequential(
        eq.LiftS2(8, 1.5, 0.2, bandwidth=2, quadrature=3), eq.Erf(), eq.SO3Conv(8, b_std=0.1), eq.Relu(),
        eq.SO3Conv(8, 1.4), eq.Erf(), eq.SO3Pool(), eq.Dense(8, b_std=0.2), eq.Relu(), eq.Dense(1),
    ),
    "sphere-residual": eq.Sequential(
        eq.LiftS2(8, quadrature=3), eq.LayerNorm(), eq.Residual(eq.Erf(), eq.SO3Conv(8, b_std=0.1)), eq.Relu(),
        eq.Dense(8, W_std=1.4), eq.Relu(), eq.SO3Pool(), eq.Dense(1),
    ),
}  # fmt: skip

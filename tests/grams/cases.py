"""Networks for the Gram matrices: those of the registry, and one for each road through a fast method."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from registry import D3, GROUP_NETWORKS, IMAGE_NETWORKS, NETWORKS, SPHERE_NETWORKS

import eqbook as eq

Seq, Relu, Erf, Norm, Res = eq.Sequential, eq.Relu(), eq.Erf(), eq.LayerNorm(), eq.Residual
Pool, Flat, GroupPool, OUT = eq.GlobalAvgPool(), eq.Flatten(), eq.GroupPool(), eq.Dense(1)
TANH = eq.Activation(jnp.tanh, 12)
# Slopes are those of the integral, not of a coarse sum for it: finite differences see how far the two are apart.
FINE_TANH = eq.Activation(jnp.tanh)
D4 = eq.dihedral(4)


class Case(NamedTuple):
    """A network, the shape of one input, and the names of the methods that its Gram matrix should take."""

    net: eq.Sequential
    shape: tuple[int, ...]
    method: str


def conv(filter_shape, padding="SAME", b_std=0.0, strides=(1, 1)):
    return eq.Conv(4, filter_shape, strides, padding, 1.3, b_std)


def local(filter_shape, padding="SAME", b_std=0.0, strides=(1, 1)):
    return eq.LocallyConnected(4, filter_shape, strides, padding, 1.3, b_std)


def dense(b_std=0.0):
    return eq.Dense(4, 1.2, b_std)


def lift(group, filter_shape=None, padding="SAME", **options):
    return eq.Lift(group, 4, filter_shape, padding, 1.3, 0.2, **options)


def group_conv(group, filter_shape=None, padding="SAME", b_std=0.1):
    return eq.GroupConv(group, 4, filter_shape, padding, 1.2, b_std)


IMAGE = (4, 5, 2)
VECTORS = {
    "norm-tanh": Case(Seq(dense(0.2), Norm, Relu, dense(), TANH, eq.Dense(1, b_std=0.3)), (6,), "Vectors"),
    "nested-branches": Case(Seq(dense(0.2), Res(Relu, dense(0.3), Res(Erf, dense())), Relu, OUT), (6,), "Vectors"),
    "one-coordinate": Case(Seq(dense(0.4), Relu, dense(), Relu), (1,), "Vectors"),
    "no-weights": Case(Seq(eq.Dense(4, 0.0, 0.0), Relu, OUT), (3,), "Vectors"),
    "input": Case(Seq(Flat), (3,), "Vectors"),
    "flat-input": Case(Seq(Flat, dense(0.3), Relu, dense(), Erf, OUT), IMAGE, "Vectors"),
}
DISPLACEMENTS = {
    "even-odd": Case(Seq(conv((3, 2)), Relu, conv((2, 4), b_std=0.3), Erf, Pool, OUT), IMAGE, "Displacements"),
    "circular-larger": Case(
        Seq(conv((7, 2), "CIRCULAR", 0.2), Relu, conv((3, 9), "CIRCULAR"), Relu, Pool, OUT), IMAGE, "Displacements"
    ),
    "local-pool": Case(
        Seq(conv((3, 3), b_std=0.3), Relu, conv((3, 3)), Erf, eq.AvgPool((2, 2)), Flat, dense(), Relu, OUT), IMAGE,
        "Displacements",
    ),
    "local-pool-overlapping": Case(
        Seq(conv((3, 2), "VALID"), Relu, conv((2, 3)), Res(Relu, conv((1, 1))), eq.AvgPool((3, 2), (1, 2)), Flat, OUT),
        (7, 6, 2),
        "Displacements",
    ),
    "local-pool-of-all": Case(
        Seq(conv((3, 3), "CIRCULAR"), Relu, eq.AvgPool(IMAGE[:2]), Flat, OUT), IMAGE, "Displacements"
    ),
    "same-valid-same": Case(
        Seq(conv((3, 3)), Relu, conv((2, 3), "VALID", 0.2), Relu, conv((3, 2)), Erf, conv((2, 1), "VALID"), Pool, OUT),
        (5, 6, 1), "Displacements",
    ),
    "same-larger": Case(Seq(conv((7, 8), b_std=0.2), Relu, conv((1, 1)), Relu, Pool), IMAGE, "Displacements"),
    "norm-tanh-head": Case(
        Seq(Seq(conv((3, 3), b_std=0.3), Norm), TANH, conv((2, 2)), Pool, dense(0.1), Res(Relu, dense()), Norm, Erf),
        (4, 4, 2), "Displacements",
    ),
    "pooled-branches": Case(
        Seq(conv((3, 2), "VALID"), dense(), Res(Relu, conv((3, 3), b_std=0.1), Res(Erf, conv((2, 2)))), Relu, Pool),
        (5, 4, 2), "Displacements",
    ),
    "pooled-pixel": Case(Seq(conv((3, 3), b_std=0.1), Relu, conv((1, 2)), Relu, Pool), (1, 1, 3), "Displacements"),
    "one-row": Case(Seq(conv((3, 3), b_std=0.1), Relu, conv((1, 3)), Relu, Pool), (1, 6, 2), "Displacements"),
    "pooled-input": Case(Seq(Pool), IMAGE, "Displacements"),
}  # fmt: skip
PIXELS = {
    "strides": Case(
        Seq(conv((3, 2), b_std=0.2, strides=(2, 1)), Relu, conv((2, 2), "VALID", strides=(1, 2)), Erf, Flat, OUT),
        (6, 5, 2), "Pixels",
    ),
    "circular-strides": Case(
        Seq(conv((7, 2), "CIRCULAR", strides=(2, 3)), Relu, conv((2, 2), "CIRCULAR", 0.2), Relu, Flat), (6, 5, 1),
        "Pixels",
    ),
    "flat-norm-tanh-head": Case(
        Seq(conv((3, 3), b_std=0.3), Norm, TANH, dense(), Relu, conv((2, 2)), Flat, Flat, dense(0.1), Relu, Flat, OUT),
        (4, 4, 2), "Pixels",
    ),
    "flat-pixel": Case(Seq(conv((3, 3), b_std=0.1), Relu, conv((1, 1)), Relu, Flat), (1, 1, 3), "Pixels"),
    "local-norm-head": Case(
        Seq(local((3, 3), b_std=0.3), Norm, Res(TANH, dense(), Seq(local((2, 2)))), Relu, Flat, dense(), Relu, OUT),
        (4, 4, 2), "Pixels",
    ),
    "flat-head": Case(Seq(conv((1, 1)), Flat, dense(0.3), Relu, OUT), IMAGE, "Pixels"),
}  # fmt: skip
ORBITS = {
    "D4-circular-valid": Case(
        Seq(lift(D4, (3, 3), "CIRCULAR"), Relu, group_conv(D4, (2, 2), "VALID"), Relu, GroupPool, OUT), (3, 3, 2),
        "Orbit(Displacements)",
    ),
    "D2-long-filters": Case(
        Seq(lift(eq.dihedral(2), (3, 1)), Relu, group_conv(eq.dihedral(2), (1, 3)), Relu, GroupPool), (4, 4, 1),
        "Orbit(Displacements)",
    ),
    "D3-head": Case(
        Seq(lift(D3.group), Relu, group_conv(D3.group), FINE_TANH, GroupPool, Flat, dense(), Relu, OUT), (6,),
        "Orbit(Points)",
    ),
    "C4-branch": Case(
        Seq(
            Seq(lift(eq.cyclic(4), (3, 3))), Res(Relu, dense(), Norm, group_conv(eq.cyclic(4), (3, 3))), Relu,
            Seq(GroupPool, OUT),
        ),
        (3, 3, 2), "Orbit(Displacements)",
    ),
    "trivial-action": Case(
        Seq(lift(eq.cyclic(3), action=eq.groups.TrivialAction(eq.cyclic(3))), Relu, GroupPool), (4,), "Orbit(Points)"
    ),
    "C4-long-filters": Case(
        Seq(lift(eq.cyclic(4), (3, 1)), Relu, group_conv(eq.cyclic(4), (1, 1)), GroupPool), (3, 3, 1), "Literal"
    ),
}  # fmt: skip
REGISTRY_METHODS = {"local-pooling": "Literal", "plane-C4-CIRCULAR-3x1": "Literal", "D3-on-itself": "Literal"}


def _registry():
    for name, net in NETWORKS.items():
        yield name, net, (6,), "Vectors"
    for name, net in IMAGE_NETWORKS.items():
        yield name, net, (5, 6, 2), "Literal" if name.startswith("pooled") else "Pixels"
    for name, case in GROUP_NETWORKS.items():
        yield name, case.net, case.shape, f"Orbit({'Displacements' if len(case.shape) == 3 else 'Points'})"


REGISTRY = {name: Case(net, shape, REGISTRY_METHODS.get(name, method)) for name, net, shape, method in _registry()}
POLYHEDRON = eq.Sequential(
    eq.LiftS2(8, 1.3, 0.2, quadrature="icosahedron"), eq.Erf(), eq.SO3Conv(8, 0.7, 0.4), eq.Relu(), eq.SO3Pool(),
    eq.Dense(1),
)  # fmt: skip
SPHERES = {
    name: Case(net, (4, 3, 2), "Sphere") for name, net in (SPHERE_NETWORKS | {"sphere-icosahedron": POLYHEDRON}).items()
}
CASES = REGISTRY | VECTORS | DISPLACEMENTS | PIXELS | ORBITS
# One network for each method, quick to compile; `one-row` pools without a head, `flat-head` has one with a relu.
ONE_EACH = {
    name: (CASES | SPHERES)[name]
    for name in (
        "relu-bias",
        "one-row",
        "flat-head",
        "D2-long-filters",
        "D3-head",
        "C4-long-filters",
        "sphere-linear",
        "sphere-icosahedron",
    )
}


def inputs(shape, n=8, dtype="float32", seed=0):
    """Batch of unit scale: `[n, *shape]`, its first eight inputs hard in one way each.

    Random; random; negatively correlated with the first; constant; zero; zero but for one entry; the first again;
    constant but for one entry. In images of the last kinds many patches coincide.
    """
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(max(n, 8), *shape))
    x[2] = 0.3 * x[1] - x[0]
    x[3], x[4], x[5], x[7] = 1, 0, 0, 1
    x[5].flat[-1], x[7].flat[0] = 2, -0.5
    x[6] = x[0]
    return jnp.asarray(x[:n].astype("float32"), dtype)


def method_of(net, shape):
    """Names of the method that `gram` chooses, as in `Case.method`."""
    from eqbook.grams.plan import choose

    chosen = choose(net, jnp.zeros(shape), "auto")
    core = getattr(chosen, "core", chosen)
    inner = getattr(core, "core", None)
    return type(core).__name__ if inner is None else f"{type(core).__name__}({type(inner).__name__})"

"""What the kernel recursion carries from layer to layer."""

from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import jax
from jaxtyping import Array, Float

from eqbook.groups.finite import FiniteGroup
from eqbook.layers.domain import Domain, OnGroup, OnRotations

Layout = Literal[
    "vector", "pixels", "pixel pairs", "coordinate pairs", "group", "group pixel pairs", "harmonics", "rotations"
]


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["nngp", "ntk", "self1", "self2"],
    meta_fields=["layout", "is_gaussian", "group", "quadrature", "coincident", "signed", "mixed", "wide"],
)
@dataclass(frozen=True)
class PairKernel:
    r"""Kernels of one layer's output at one pair of inputs $(x, x')$.

    All four arrays have one layout: `"vector"`, scalars; `"pixels"`, $K(t, t)$ for each pixel, `[h, w]`;
    `"pixel pairs"`, $K(t, t')$ for pixels $t$ of the first and $t'$ of the second input, `[h, w, h, w]`. A network that
    pools needs all pairs of pixels; without pooling, a pixel only meets the same pixel of the other input.
    For networks on groups: `"coordinate pairs"`, $K(i, j)$ for coordinates of two vectors, `[d, d]`; `"group"`,
    $K_{gg'}$ for elements $g$ of the first and $g'$ of the second feature map, `[|G|, |G|]`; `"group pixel pairs"`,
    $K_{gg'}(t, t')$, `[|G|, h, w, |G|, h, w]`.
    For networks on the sphere: `"harmonics"`, products of harmonic coefficients, `[features]`, see
    `eqbook.kernels.so3.correlation`; `"rotations"`, $K$ as a function of the relative rotation, `[points]`, with
    `self1` and `self2` at the points around the identity and, last, at the identity itself, `[identity points + 1]`.

    Attributes:
        nngp: $K(x, x')$, covariance of one output channel over random parameters.
        ntk: $\Theta(x, x')$, expected inner product of the parameter gradients of one output channel.
        self1: $K(x, x)$.
        self2: $K(x', x')$.
        layout: which entries the arrays hold.
        is_gaussian: whether the output is a Gaussian process, so that a nonlinearity's dual applies. True after a
            layer with weights, false for the input and after a nonlinearity.
        group: the group on which the feature maps live, in the two layouts of groups.
        quadrature: size of the rule on SO(3), or name of the group of rotations, whose points the layout
            `"rotations"` holds.
        coincident: whether the two inputs are known to be one. `nngp` and `ntk` over rotations are then at the points
            around the identity, where such a pair has its peak.
        signed: whether the network has a nonlinearity other than relu, which on SO(3) asks for a larger rule.
        mixed: whether features are those of different pixels, each with its own law, so that the arrays are means over
            them, and a nonlinearity's dual of a mean is not the mean of its duals. True behind `Flatten`, until the
            next layer with weights.
        wide: whether channels are those of a layer with weights, whose number goes to infinity; false for the input.
    """

    nngp: Float[Array, "..."]
    ntk: Float[Array, "..."]
    self1: Float[Array, "..."]
    self2: Float[Array, "..."]
    layout: Layout = field(default="vector")
    is_gaussian: bool = field(default=False)
    group: FiniteGroup | None = field(default=None)
    quadrature: int | str | None = field(default=None)
    coincident: bool = field(default=False)
    signed: bool = field(default=False)
    mixed: bool = field(default=False)
    wide: bool = field(default=False)

    @property
    def domain(self) -> Domain:
        """On what the feature maps live."""
        if self.group is not None:
            return OnGroup(self.group, planar=self.layout == "group pixel pairs")
        if self.layout == "rotations":
            return OnRotations()
        names = {"vector": "vectors", "coordinate pairs": "vectors"}
        return names.get(self.layout, "pixels")  # a signal on the sphere comes as an image

"""Layers on groups: from data to feature maps on a group, convolution there, and the mean over the group."""

import math
from dataclasses import dataclass, field

import numpy as np

from eqbook._checks import check_int
from eqbook._shown import shown
from eqbook.groups.actions import PIXEL_GROUPS, Action, ImageAction, RegularAction, acts_on_pixels
from eqbook.groups.finite import FiniteGroup
from eqbook.layers.conv import check_padding, check_sides
from eqbook.layers.dense import check_weights, python_number
from eqbook.layers.domain import Domain, OnGroup, in_words, naming, output_domain
from eqbook.layers.layer import Layer


def _planar_fan(layer: "Lift | GroupConv") -> int:
    """Number of filter positions on the plane, $|F|$."""
    if layer.filter_shape is None:
        raise ValueError(f"{type(layer).__name__}: `fan`: expected a filter with pixels, got none; count the support.")
    return math.prod(layer.filter_shape)


@dataclass(frozen=True)
class Lift(Layer):
    r"""Lifting convolution: from data that a group moves to feature maps on the group, in NTK parametrisation.

    On the plane (`filter_shape` given), for the rotations and reflections $r \in G$ that permute the pixels of a square
    image, with a filter $F$ that turns with $r$:
    $z_i(t, r) = \frac{\sigma_W}{\sqrt{|F| n_{in}}} \sum_{y \in F} \sum_j W_{ij}(y)\, x_j(t + r y) + \sigma_b b_i$;
    images `[n, h, w, n_in]` become feature maps `[n, |G|, h, w, channels]`, every $r$ in the pixels $t$ of the image;
    with `"VALID"` h and w are smaller: the filter stays inside.

    On a finite set, for vectors $x \in R^d$ and coordinates $S$:
    $z_i(g) = \frac{\sigma_W}{\sqrt{|S|}} \sum_{s \in S} W_i(s)\, (\rho(g)^{-1} x)(s) + \sigma_b b_i$; vectors `[n, d]`
    become feature maps `[n, |G|, channels]`.

    All $W, b \sim N(0, 1)$. Moving the input by $h$ translates the feature map: $z(g) \mapsto z(h^{-1} g)$.

    Args:
        group: $G$; on the plane `cyclic(n)` or `dihedral(n)` with n in 1, 2, 4, and images are square.
        channels: number of output channels.
        filter_shape: height and width of the filter on the plane; not given for vectors.
        padding: as in `Conv`; `"SAME"` and `"CIRCULAR"` want odd sides of the filter, `"VALID"` equal ones.
        W_std: $\sigma_W$, standard deviation of the weights.
        b_std: $\sigma_b$, standard deviation of the bias. 0 means that the layer has no bias.
        action: $\rho$, how the group moves the last axis of vectors, for example a `MatrixAction`. By default the group
            acts on itself: $d = |G|$ and $(\rho(g) x)(s) = x(g^{-1} s)$.
        support: $S$, coordinates that the filter sees; all by default. Not for the plane.

    Raises:
        ValueError: if an argument is of the wrong kind, or the group does not act on the pixels.

    References:
        Cohen, Welling, "Group Equivariant Convolutional Networks", 2016, https://arxiv.org/abs/1602.07576
        Misof, Kessel, Gerken, "Equivariant Neural Tangent Kernels", 2025, https://arxiv.org/abs/2406.06504
    """

    group: FiniteGroup
    channels: int
    filter_shape: tuple[int, int] | None = None
    padding: str = "SAME"
    W_std: float = 1.0
    b_std: float = 0.0
    action: Action | None = field(default=None, kw_only=True)
    support: tuple[int, ...] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        _check_common("Lift", self)
        if self.action is None:
            default = ImageAction if self.planar else RegularAction
            object.__setattr__(self, "action", default(self.group))
        if not isinstance(self.action, Action) or self.action.group != self.group:
            raise ValueError(f"Lift: `action`: expected an action of {self.group!r}, got {shown(self.action)}.")
        if self.planar and not isinstance(self.action, ImageAction):
            raise ValueError(f"Lift: `action`: expected ImageAction(group) on the plane, got {self.action!r}.")
        if self.support is not None:
            if self.planar:
                raise ValueError("Lift: `support`: on the plane `filter_shape` is the support; leave `support` out.")
            object.__setattr__(self, "support", _check_support("Lift", self.support))

    @property
    def planar(self) -> bool:
        """Whether the inputs are images."""
        return self.filter_shape is not None

    fan = property(_planar_fan)

    def coordinates(self, size: int) -> tuple[int, ...]:
        """The support in vectors of `size` coordinates.

        Raises:
            ValueError: if the group does not act on such vectors, or the support leaves them.
        """
        identity = self.group.identity
        with naming(f"expected vectors on which the action acts, got {size} coordinates"):
            self.action(identity, np.zeros(size))
        support = tuple(range(size)) if self.support is None else self.support
        if max(support) >= size:
            raise ValueError(f"`support`: expected coordinates 0 .. {size - 1}, got {max(support)}.")
        return support


@dataclass(frozen=True)
class GroupConv(Layer):
    r"""Group convolution of feature maps, in NTK parametrisation.

    On the plane, with pixels $t$, group elements $r$ and a filter on $F \times R$:
    $z_i(t, r) = \frac{\sigma_W}{\sqrt{|F| |R| n_{in}}} \sum_{y \in F, q \in R} \sum_j W_{ij}(y, q)\, x_j(t + r y, r q)
    + \sigma_b b_i$.

    On a finite group, with a filter on $S$:
    $z_i(g) = \frac{\sigma_W}{\sqrt{|S| n_{in}}} \sum_{s \in S} \sum_j W_{ij}(s)\, x_j(g s) + \sigma_b b_i$.

    All $W, b \sim N(0, 1)$. The output moves with the input: $x(g) \mapsto x(h^{-1} g)$ gives $z(h^{-1} g)$.

    Args:
        group: the group of the `Lift` before.
        channels: number of output channels.
        filter_shape: height and width of the filter on the plane; not given if the `Lift` has none.
        padding: as in `Lift`.
        W_std: $\sigma_W$, standard deviation of the weights.
        b_std: $\sigma_b$, standard deviation of the bias. 0 means that the layer has no bias.
        support: group elements that the filter sees, $R$ or $S$; all by default.

    Raises:
        ValueError: if an argument is of the wrong kind, or the group does not act on the pixels.

    References:
        Cohen, Welling, "Group Equivariant Convolutional Networks", 2016, https://arxiv.org/abs/1602.07576
        Misof, Kessel, Gerken, "Equivariant Neural Tangent Kernels", 2025, https://arxiv.org/abs/2406.06504
    """

    group: FiniteGroup
    channels: int
    filter_shape: tuple[int, int] | None = None
    padding: str = "SAME"
    W_std: float = 1.0
    b_std: float = 0.0
    support: tuple[int, ...] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        _check_common("GroupConv", self)
        if self.support is not None:
            support = _check_support("GroupConv", self.support)
            if max(support) >= self.group.order:
                raise ValueError(
                    f"GroupConv: `support`: expected elements 0 .. {self.group.order - 1}, got {max(support)}."
                )
            object.__setattr__(self, "support", support)

    @property
    def planar(self) -> bool:
        """Whether the feature maps have pixels."""
        return self.filter_shape is not None

    fan = property(_planar_fan)

    @property
    def elements(self) -> tuple[int, ...]:
        """Group elements that the filter sees."""
        return tuple(self.group.elements) if self.support is None else self.support


@dataclass(frozen=True)
class GroupPool(Layer):
    r"""Mean over the group, $z = \frac{1}{|G|} \sum_g x(g)$, and over the pixels if there are any."""


def check_square(sides: tuple[int, int]) -> None:
    """Raise unless an image is square: quarter turns do not map others to themselves.

    Half turns and reflections would, but layers on groups and `ImageAction` are made for square images alone.

    Raises:
        ValueError: with the sides got.
    """
    if sides[0] != sides[1]:
        raise ValueError(
            f"expected square images, the only ones that layers on groups take, got {sides} pixels; crop or pad them."
        )


def _check_common(name: str, layer: Lift | GroupConv) -> None:
    if not isinstance(layer.group, FiniteGroup):
        raise ValueError(f"{name}: `group`: expected a group such as eq.cyclic(4), got {shown(layer.group)}.")
    check_weights(layer)
    check_padding(name, layer.padding)
    if layer.filter_shape is None:
        return
    sides = check_sides(name, "filter_shape", layer.filter_shape)
    object.__setattr__(layer, "filter_shape", sides)
    if not acts_on_pixels(layer.group):
        raise ValueError(
            f"{name}: `group`: expected {PIXEL_GROUPS}, got {layer.group!r}; layers on the plane have no others, since "
            "other rotations need interpolation and are not an exact action. For these, train networks of other layers "
            "on images turned by `RotationAction(cyclic(n))`, as `eq.groups.augment` makes them."
        )
    if layer.padding == "VALID" and sides[0] != sides[1]:
        raise ValueError(
            f"{name}: `filter_shape`: expected equal sides for VALID, got {sides}: without padding, turned filters "
            "fit into an image at different pixels; use equal sides, SAME or CIRCULAR."
        )
    if layer.padding != "VALID" and not all(side % 2 for side in sides):
        raise ValueError(
            f"{name}: `filter_shape`: expected odd sides for {layer.padding}, got {sides}: an even filter is padded "
            "on one side more than on the other, which no rotation respects; use odd sides or VALID."
        )


def _check_support(name: str, support: object) -> tuple[int, ...]:
    if not isinstance(support, tuple | list) or not support or any(support.count(one) > 1 for one in support):
        raise ValueError(f"{name}: `support`: expected a tuple of different indices, got {shown(support)}.")
    return tuple(check_int(f"{name}: support", python_number(name, "support", index), 0) for index in support)


@output_domain.register
def _(layer: Lift, domain: Domain) -> Domain:
    wanted = "pixels" if layer.planar else "vectors"
    if domain != wanted:
        hint = "leave `filter_shape` out for vectors" if layer.planar else "give `filter_shape` for images"
        raise ValueError(f"{layer}: expected {in_words(wanted)}, got {in_words(domain)}; {hint}.")
    return OnGroup(layer.group, layer.planar)


@output_domain.register
def _(layer: GroupConv, domain: Domain) -> Domain:
    if not isinstance(domain, OnGroup):
        raise ValueError(f"{layer}: expected a feature map on the group, got {in_words(domain)}; put a Lift before it.")
    if domain.group != layer.group:
        raise ValueError(f"{layer}: expected the group of the Lift before, {domain.group!r}, got {layer.group!r}.")
    if domain.planar != layer.planar:
        hint = "give `filter_shape`" if domain.planar else "leave `filter_shape` out"
        raise ValueError(f"{layer}: expected a filter for {domain}; {hint}, as in the Lift before.")
    return domain


@output_domain.register
def _(layer: GroupPool, domain: Domain) -> Domain:
    if not isinstance(domain, OnGroup):
        raise ValueError(f"{layer}: expected a feature map on a group, got {in_words(domain)}; put a Lift before it.")
    return "vectors"

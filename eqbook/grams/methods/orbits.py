r"""Group networks as averages of ordinary ones over an orbit: Theorems 5.2 and 5.3 read as an algorithm.

If every element of the group maps a filter's support to itself, $K_{g,g'}(f, f')$ depends on $g' g^{-1}$ only. A group
convolution then maps each of these $|G|$ kernels on its own, as the layer without the group would, and pooling is
their mean: $\frac{1}{|G|} \sum_p K(f, \rho(p) f')$ with the kernel $K$ of the network that has `Conv` or `Dense` in
place of `Lift` and `GroupConv`. That is $|G|$ kernels for a pair where the double-index recursion has $|G|^2$, one
after the other in the memory of one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from eqbook.grams.methods.steps import Pair, at
from eqbook.groups import Action, FiniteGroup, ImageAction, MatrixAction, TrivialAction, orbit
from eqbook.groups.actions import RegularAction
from eqbook.layers import Conv, Dense, GroupConv, Layer, Lift, Residual, Sequential

ORTHOGONAL = (MatrixAction, RegularAction, TrivialAction)


@dataclass(frozen=True)
class Orbit:
    """The mean of a core's kernels over the orbit of the second input.

    Attributes:
        core: kernels of the network without the group.
        action: how the group moves an input.
    """

    core: Any
    action: Action

    @property
    def by_rows(self) -> bool:
        """As the core."""
        return self.core.by_rows

    @property
    def width(self) -> int:
        """So many pairs that the core's pairs with the whole orbit come in its multiples."""
        return max(1, self.core.width // self.action.group.order)

    @property
    def apart(self) -> bool:
        """The mean holds an input with what the group makes of it, and no pair of one with itself alone."""
        return False

    def on(self, devices: Sequence[jax.Device], x: Array) -> "Orbit":
        """With the core for inputs like `x` on these devices, if there is another one."""
        return replace(self, core=self.core.on(devices, x)) if hasattr(self.core, "on") else self

    def nearer(self) -> "Orbit | None":
        """For pairs of inputs of which one is near the orbit of the other."""
        core = self.core.nearer()
        return None if core is None else replace(self, core=core)

    def prepare(self, x: Float[Array, "n ..."]) -> dict[str, Any]:
        """Features of the inputs, and of all that the group makes of them, `[..., order, n]`."""
        moved = orbit(self.action, x)
        features = self.core.prepare(moved.reshape(-1, *x.shape[1:]))
        grid = moved.shape[:2]
        return {
            "one": self.core.prepare(x),
            "orbit": jax.tree.map(lambda leaf: leaf.reshape(*leaf.shape[:-1], *grid), features),
        }

    def pairs(self, one: Any, two: Any, true: Bool[Array, ""], ntk: bool, part: Any = None) -> Pair:
        """NNGP and NTK of the pairs, `[pairs]`."""

        def spread(leaf: Array, like: Array) -> Array:
            return jnp.broadcast_to(leaf[..., None, :], (*leaf.shape[:-1], *like.shape[-2:]))

        def lanes(leaf: Array) -> Array:
            return leaf.reshape(*leaf.shape[:-2], -1)

        shape = jax.tree.leaves(two["orbit"])[0].shape[-2:]
        first = jax.tree.map(lanes, jax.tree.map(spread, one["one"], two["orbit"]))
        pair = self.core.pairs(first, jax.tree.map(lanes, two["orbit"]), true, ntk, part)
        return at(pair, lambda kernel: kernel.reshape(shape).mean(0))

    def terms(self, shape: tuple[int, ...], pairs: int) -> int:
        """As the core."""
        return self.core.terms(shape, pairs * self.action.group.order)

    def lanes(self, shape: tuple[int, ...]) -> int:
        """As many pairs as make the core's pairs with the whole orbit."""
        return max(1, self.core.lanes(shape) // self.action.group.order)


def without_group(layers: Sequence[Layer]) -> tuple[Layer, ...] | None:
    """The body with ordinary layers in place of `Lift` and `GroupConv`; `None` if a support is not symmetric.

    Which elements of the group a `GroupConv` sees does not matter: their terms are all equal.
    """
    made = []
    for layer in layers:
        if isinstance(layer, Lift | GroupConv):
            layer = _plain(layer)
        elif isinstance(layer, Sequential | Residual):
            inner = layer.branch.layers if isinstance(layer, Residual) else layer.layers
            inner = without_group(inner)
            layer = None if inner is None else type(layer)(*inner)
        if layer is None:
            return None
        made.append(layer)
    return tuple(made)


def _plain(layer: Lift | GroupConv) -> Layer | None:
    weights = {"W_std": layer.W_std, "b_std": layer.b_std}
    if layer.filter_shape is None:
        if isinstance(layer, Lift) and (layer.support is not None or not isinstance(layer.action, ORTHOGONAL)):
            return None
        return Dense(layer.channels, **weights)
    height, width = layer.filter_shape
    if height != width and _turns_by_90(layer.group):
        return None
    return Conv(layer.channels, layer.filter_shape, padding=layer.padding, **weights)


def _turns_by_90(group: FiniteGroup) -> bool:
    """Whether an element of a group on the plane exchanges rows and columns: it moves a vertical line."""
    line = np.zeros((3, 3, 1))
    line[:, 1] = 1
    with jax.ensure_compile_time_eval():  # inside the user's jit too
        return any((np.asarray(ImageAction(group)(g, line)) != line).any() for g in group.elements)

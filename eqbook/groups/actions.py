r"""How a group moves data. All actions are left actions: `action(g, action(h, x))` equals `action(gh, x)`."""

import functools
from collections.abc import Hashable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Shaped

from eqbook._checks import as_float, check_finite, check_known, check_square_images
from eqbook._shown import shown
from eqbook.groups.arguments import as_array
from eqbook.groups.finite import FiniteGroup, check_group
from eqbook.groups.planar import cyclic, dihedral

PIXEL_GROUPS = "cyclic(n) or dihedral(n) with n in 1, 2, 4, whose elements permute the pixels of a square image"


class Action:
    """An action of a finite group on arrays; axes in front of those that it moves are batch axes.

    What decides what an action of your own does should be among its attributes, and nothing that changes: a store
    tells two actions apart by them.

    Attributes:
        group: the group that acts.
    """

    group: FiniteGroup

    def __call__(self, g: int, x: Shaped[Array, "..."]) -> Shaped[Array, "..."]:
        r"""$\rho(g) x$.

        Args:
            g: element of the group, an index.
            x: array to move.

        Raises:
            ValueError: if `g` is not an element, the axes do not fit, or numbers do not fit into those of JAX.
        """
        raise NotImplementedError

    def _key(self) -> Hashable:
        """What two equal actions of one type share. An action is a static argument of `jit`, compared by value."""
        return id(self)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash((type(self), self._key()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(group of order {self.group.order})"


def check_action(name: str, action: object) -> None:
    """Raise unless `action` is an `Action`.

    Raises:
        ValueError: naming the argument.
    """
    if not isinstance(action, Action):
        raise ValueError(f"`{name}`: expected an action such as eq.groups.ImageAction(group), got {shown(action)}.")


class TrivialAction(Action):
    r"""$\rho(g) x = x$: the action on the outputs of an invariant task.

    Args:
        group: the group that acts.
    """

    def __init__(self, group: FiniteGroup) -> None:
        check_group("group", group)
        self.group = group

    def __call__(self, g: int, x: Shaped[Array, "..."]) -> Shaped[Array, "..."]:
        self.group.check_element(g)
        return x

    def _key(self) -> Hashable:
        return self.group


class RegularAction(Action):
    r"""Left translation of functions on the group, $(\rho(g) f)(h) = f(g^{-1} h)$: a permutation of one axis.

    Args:
        group: the group that acts, on itself.
        axis: the axis of arrays that runs over the group, counted from the end: -1 for vectors, -2 for feature maps
            `[..., order, channels]`.

    Raises:
        ValueError: if `axis` is not a negative integer.
    """

    def __init__(self, group: FiniteGroup, axis: int = -1) -> None:
        if isinstance(axis, bool) or not isinstance(axis, int | np.integer) or axis >= 0:
            raise ValueError(f"`axis`: expected a negative integer, counted from the last axis, got {shown(axis)}.")
        check_group("group", group)
        self.group, self.axis = group, int(axis)

    def __call__(self, g: int, x: Shaped[Array, "..."]) -> Shaped[Array, "..."]:
        g, order = self.group.check_element(g), self.group.order
        x = as_array("x", x)
        if x.ndim < -self.axis or x.shape[self.axis] != order:
            raise ValueError(
                f"`x`: expected size {order}, the order of the group, on axis {self.axis}, got shape {x.shape}."
            )
        return jnp.take(x, self.group.table[self.group.inverse[g]], axis=self.axis)

    def _key(self) -> Hashable:
        return self.group, self.axis


class MatrixAction(Action):
    r"""$\rho(g) x = M_g x$ on the last axis, for orthogonal matrices with $M_{gh} = M_g M_h$.

    Args:
        group: the group that acts.
        matrices: $M_g$ for each element, `[order, d, d]`.

    Raises:
        ValueError: if the matrices are not orthogonal, do not multiply as the group does, or are abstract (inside
            `jit`).
    """

    def __init__(self, group: FiniteGroup, matrices: Float[Array, "order d d"]) -> None:
        check_group("group", group)
        check_known("matrices", matrices)
        check_finite("matrices", matrices)
        matrices = np.array(matrices, np.float64)  # a copy: the caller may go on to change its own
        if matrices.ndim != 3 or matrices.shape[0] != group.order or matrices.shape[1] != matrices.shape[2]:
            raise ValueError(
                f"`matrices`: expected [order, d, d] with order = {group.order}, got shape {matrices.shape}."
            )
        size = matrices.shape[1]
        tolerance = 1e-5  # wide enough for matrices computed in float32, far below any error of a wrong element
        if not np.allclose(matrices @ matrices.transpose(0, 2, 1), np.eye(size), atol=tolerance):
            raise ValueError("`matrices`: expected orthogonal matrices, got one with M M^T different from 1.")
        for g in group.elements:
            if not np.allclose(matrices[g] @ matrices, matrices[group.table[g]], atol=tolerance):
                raise ValueError(f"`matrices`: expected M_g M_h = M_gh, which fails for g = {g} ({group.names[g]}).")
        self.group, self.matrices = group, matrices

    def __call__(self, g: int, x: Float[Array, "*batch d"]) -> Float[Array, "*batch d"]:
        x = as_array("x", x)
        # Cast to the dtype of integers, the matrix would be cut to integers as well.
        x = x if jnp.issubdtype(x.dtype, jnp.inexact) else as_float(x)
        size = self.matrices.shape[1]
        if x.ndim == 0 or x.shape[-1] != size:
            raise ValueError(f"`x`: expected a last axis of size {size}, got shape {x.shape}.")
        matrix = jnp.asarray(self.matrices[self.group.check_element(g)], x.dtype)
        return jnp.matmul(x, matrix.T, precision="highest")

    def _key(self) -> Hashable:
        return self.group, self.matrices.tobytes()


class ImageAction(Action):
    r"""Rotations by multiples of 90 degrees, and reflections, of square images `[..., size, size, channels]`.

    $(\rho(g) f)(x) = f(g^{-1} x)$: element `r1` turns the picture counter-clockwise, `s` mirrors it left to right. Each
    element permutes pixels, so that the action is exact. Images are square also for groups without quarter turns.

    Args:
        group: `cyclic(1)`, `cyclic(2)`, `cyclic(4)`, `dihedral(1)`, `dihedral(2)` or `dihedral(4)`.

    Raises:
        ValueError: for every other group: its rotations do not map the pixel grid to itself.
    """

    def __init__(self, group: FiniteGroup) -> None:
        if not acts_on_pixels(group):
            raise ValueError(
                f"`group`: expected {PIXEL_GROUPS}, got {shown(group)}; other rotations need interpolation and are not "
                "an exact action: take `RotationAction(cyclic(n))` for them."
            )
        self.group = group
        self._rotations, self._reflects = _pixel_groups()[group]

    def __call__(self, g: int, x: Shaped[Array, "*batch size size channels"]) -> Shaped[Array, "..."]:
        x = as_array("x", x)
        check_square_images("x", x)
        g = self.group.check_element(g)
        rows, columns = x.ndim - 3, x.ndim - 2
        if g >= self._rotations:  # r^k s: the reflection acts first
            x = jnp.flip(x, columns)
        return jnp.rot90(x, (g % self._rotations) * (4 // self._rotations), axes=(rows, columns))

    def _key(self) -> Hashable:
        return self.group


@functools.cache
def _pixel_groups() -> dict[FiniteGroup, tuple[int, bool]]:
    """The groups that permute pixels: how many rotations they have, and whether reflections."""
    return {make(n): (n, make is dihedral) for n in (1, 2, 4) for make in (dihedral, cyclic)}


def acts_on_pixels(group: object) -> bool:
    """Whether the elements of a group permute the pixels of a square image, as `ImageAction` has it."""
    return isinstance(group, FiniteGroup) and group in _pixel_groups()

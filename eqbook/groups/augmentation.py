"""Full augmentation: a training set replaced by the orbits of its examples."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Shaped

from eqbook._checks import check_finite, check_int, check_known
from eqbook._shown import shown
from eqbook.groups.actions import Action, ImageAction, MatrixAction, RegularAction, check_action
from eqbook.groups.arguments import as_array
from eqbook.groups.finite import FiniteGroup, check_group
from eqbook.groups.rotations import RotationAction


def orbit(action: Action, x: Shaped[Array, "..."]) -> Shaped[Array, "order ..."]:
    r"""$(\rho(g) x)_{g \in G}$, the group axis in front.

    Args:
        action: how the group moves `x`.
        x: array, with any batch axes that the action allows.

    Returns:
        Array of shape `[order, *x.shape]`.

    Raises:
        ValueError: if `action` is none, `x` is nothing that it moves, or its numbers do not fit into those of JAX.
    """
    check_action("action", action)
    x = as_array("x", x)
    return jnp.stack([jnp.asarray(action(g, x)) for g in action.group.elements])


def augment(
    action_x: Action, x: Shaped[Array, "n ..."], action_y: Action, y: Shaped[Array, "n ..."]
) -> tuple[Shaped[Array, "order_n ..."], Shaped[Array, "order_n ..."]]:
    r"""The augmented set $\{(\rho_X(g) x_i, \rho_Y(g) y_i)\}$, example $i$ moved by $g$ at index $g n + i$.

    Args:
        action_x: action on inputs.
        x: inputs, `[n, ...]`.
        action_y: action on targets; `TrivialAction(group)` for an invariant task.
        y: targets, `[n, ...]`.

    Returns:
        Inputs and targets with `order * n` examples.

    Raises:
        ValueError: if the two actions belong to different groups, an action would move the axis of examples, `x` and
            `y` differ in length, or numbers do not fit into those of JAX.
    """
    check_action("action_x", action_x)
    check_action("action_y", action_y)
    if action_x.group != action_y.group:
        raise ValueError(f"`action_y`: expected an action of {action_x.group!r}, got one of {action_y.group!r}.")
    arrays = {}
    for name, action, z in (("x", action_x, x), ("y", action_y, y)):
        arrays[name] = as_array(name, z)
        if arrays[name].ndim == 0:
            raise ValueError(f"`{name}`: expected examples [n, ...], got one number, {shown(z)}.")
        check_batch_axis(name, action, arrays[name])
    x, y = arrays["x"], arrays["y"]
    if x.shape[:1] != y.shape[:1]:
        raise ValueError(f"`y`: expected {x.shape[:1]} examples as in `x`, got shape {y.shape}.")
    return tuple(_merge(orbit(action, z)) for action, z in ((action_x, x), (action_y, y)))


def check_batch_axis(name: str, action: Action, x: Shaped[Array, "n ..."]) -> None:
    """Raise if an action of this package moves the first axis of an array, and so would mix examples.

    Raises:
        ValueError: naming the argument.
    """
    moves = 0
    if isinstance(action, RegularAction):
        moves = -action.axis
    elif isinstance(action, MatrixAction):
        moves = 1
    elif isinstance(action, ImageAction | RotationAction):
        moves = 3
    if np.ndim(x) <= moves:
        raise ValueError(
            f"`{name}`: expected an axis of examples in front of the {moves} that {action!r} moves, got shape "
            f"{np.shape(x)}; add it to one example with `{name}[None]`."
        )


def _merge(stacked: Array) -> Array:
    order, n, *features = stacked.shape  # no -1: without features there is nothing to count
    return stacked.reshape(order * n, *features)


def augmented_permutation(group: FiniteGroup, n: int, g: int) -> Int[np.ndarray, " order_n"]:
    r"""$\pi_g$ with $\rho(g) x_j = x_{\pi_g(j)}$ on a set augmented by `augment`.

    Example $i$ moved by $h$, at index $h n + i$, goes to index $(g h) n + i$.

    Args:
        group: the group.
        n: number of examples before augmentation.
        g: element of the group.

    Returns:
        Permutation of `order * n` indices.

    Raises:
        ValueError: if `group` is none, `g` is not an element or `n` not positive.
    """
    check_group("group", group)
    n, g = check_int("n", n, 1), group.check_element(g)
    return (group.table[g][:, None] * n + np.arange(n)).reshape(-1)


def permutation_matrix(permutation: Int[np.ndarray, " m"]) -> Int[np.ndarray, "m m"]:
    r"""$\Pi$ with $(\Pi a)_j = a_{\pi(j)}$, so that $\Pi(g)$ acts on stacked values as $x_j \mapsto \rho(g) x_j$.

    Args:
        permutation: $\pi$, `[m]`.

    Raises:
        ValueError: if it is not a permutation, or abstract (inside `jit`).
    """
    check_known("permutation", permutation)
    check_finite("permutation", permutation)
    permutation = np.asarray(permutation)
    if permutation.ndim != 1 or not np.array_equal(np.sort(permutation), np.arange(permutation.size)):
        raise ValueError(
            f"`permutation`: expected each of 0 .. m - 1 once, got an array of shape {permutation.shape} without this; "
            "make one with `augmented_permutation`."
        )
    return np.eye(len(permutation), dtype=int)[permutation.astype(int)]

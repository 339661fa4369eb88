"""Augmentation on the device: examples are moved by group elements when their batch is drawn."""

from dataclasses import dataclass
from functools import partial

import jax
from jaxtyping import Array, Int, Shaped

from eqbook.groups import Action, TrivialAction
from eqbook.groups.actions import check_action


@dataclass(frozen=True)
class Augmentation:
    r"""Examples $(\rho_X(g) x_i, \rho_Y(g) y_i)$ in place of $(x_i, y_i)$, made when they are needed.

    The data stay as they are in memory. Made by `full_orbits` or `random_elements`.

    Attributes:
        action_x: action on inputs.
        action_y: action on targets, of the same group.
        random: whether $g$ is drawn, or runs over the whole group.
    """

    action_x: Action
    action_y: Action
    random: bool

    def __post_init__(self) -> None:
        for name, action in (("action_x", self.action_x), ("action_y", self.action_y)):
            check_action(name, action)
        if self.action_x.group != self.action_y.group:
            raise ValueError(
                f"`action_y`: expected an action of {self.action_x.group!r}, got one of {self.action_y.group!r}."
            )

    def size(self, n: int) -> int:
        """Examples in one epoch."""
        return n if self.random else n * self.action_x.group.order

    def draw(
        self, key: jax.Array | None, rows: Int[Array, " b"], x: Shaped[Array, "n ..."], y: Shaped[Array, "n ..."]
    ) -> tuple[Shaped[Array, "b ..."], Shaped[Array, "b ..."]]:
        """The examples of a batch.

        Args:
            key: for random elements, one for each example; not used otherwise.
            rows: numbers of the examples below `size(n)`; over full orbits, $g n + i$ is example i moved by g.
            x: inputs.
            y: targets.
        """
        n, order = len(x), self.action_x.group.order
        g, i = (jax.random.randint(key, rows.shape, 0, order), rows) if self.random else (rows // n, rows % n)
        return _moved(self.action_x, g, x[i]), _moved(self.action_y, g, y[i])


def full_orbits(action_x: Action, action_y: Action | None = None) -> Augmentation:
    r"""Train on all orbits: $|G| n$ examples in an epoch, those of `eqbook.groups.augment` in the same order.

    With full batches each step sees every orbit; with smaller ones the order is drawn over all $|G| n$ examples.

    Args:
        action_x: action on inputs.
        action_y: action on targets; `None` for an invariant task.

    Raises:
        ValueError: if the two are not actions of one group.
    """
    return Augmentation(action_x, _or_trivial(action_x, action_y), random=False)


def random_elements(action_x: Action, action_y: Action | None = None) -> Augmentation:
    """Move each example by an element drawn uniformly, anew in each step, for each member on its own.

    Args:
        action_x: action on inputs.
        action_y: action on targets; `None` for an invariant task.

    Raises:
        ValueError: if the two are not actions of one group.
    """
    return Augmentation(action_x, _or_trivial(action_x, action_y), random=True)


def _or_trivial(action_x: Action, action_y: Action | None) -> Action | None:
    return TrivialAction(action_x.group) if action_y is None and isinstance(action_x, Action) else action_y


def _moved(action: Action, g: Int[Array, " b"], z: Shaped[Array, "b ..."]) -> Shaped[Array, "b ..."]:
    """Each example moved by its own element: an action wants a number, so all of them are made and one is chosen."""
    if isinstance(action, TrivialAction):
        return z
    moves = [partial(action, element) for element in action.group.elements]
    return jax.vmap(lambda g, one: jax.lax.switch(g, moves, one))(g, z)

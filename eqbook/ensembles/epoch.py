"""One member, one pass over the data; and how members are put side by side in one program."""

from collections.abc import Callable
from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

Loss = Callable[[Array, Array], Array]


@partial(jax.jit, static_argnums=0)
def _init_member(net: Any, key: jax.Array, example: Array) -> Any:
    """Parameters of one member; a Flax module wants an example, a `Sequential` a shape."""
    return net.init(key, example if isinstance(net, nn.Module) else example.shape)


def init_members(net: Any, keys: jax.Array, example: Array) -> Any:
    """Parameters of all members, each leaf `[members, ...]`.

    XLA compiles random numbers slowly. A program for one member is compiled once, for any number of members; they are
    stacked by NumPy, because a stack of hundreds of arrays would be compiled slowly again.
    """
    stack = lambda *leaves: jnp.asarray(np.stack(leaves))  # noqa: E731
    return jax.tree.map(stack, *[_init_member(net, key, example) for key in keys])


def over_members(function: Callable, at_once: int | None, *arguments: Any) -> Any:
    """`function` of each member, `at_once` members in parallel; `None` means all of them.

    Args:
        function: of the arguments of one member.
        at_once: 1 runs the members one after the other (`lax.map`), all inside the same program.
        *arguments: trees whose leaves have the member axis in front.
    """
    members = jax.tree.leaves(arguments)[0].shape[0]
    if at_once is None or at_once >= members:
        return jax.vmap(function)(*arguments)
    batch_size = None if at_once == 1 else at_once
    return jax.lax.map(lambda one: function(*one), arguments, batch_size=batch_size)


def train_epochs(
    net: Any,
    loss: Loss,
    optimizer: optax.GradientTransformation,
    batch_size: int | None,
    x,
    y,
    params,
    state,
    key,
    first,
    last,
) -> tuple[Any, Any, Float[Array, ""], Array]:
    """Epochs `first` to `last` of one member.

    Returns:
        Parameters, optimiser state, mean loss, and the first epoch whose loss is not finite, or 0.
    """

    def step(carry, rows):
        params, state = carry
        inputs, targets = (x, y) if rows is None else (x[rows], y[rows])
        value, gradient = jax.value_and_grad(lambda p: loss(net.apply(p, inputs), targets))(params)
        updates, state = optimizer.update(gradient, state, params)
        return (optax.apply_updates(params, updates), state), value

    def epoch(i, carry):
        params, state, total, bad = carry
        if batch_size is None:
            (params, state), value = step((params, state), None)
        else:
            order = jax.random.permutation(jax.random.fold_in(key, i), len(x))
            batches = order[: len(x) // batch_size * batch_size].reshape(-1, batch_size)
            (params, state), values = jax.lax.scan(step, (params, state), batches)
            value = jnp.mean(values)
        bad = jnp.where((bad == 0) & ~jnp.isfinite(value), i + 1, bad)
        return params, state, total + value.astype(total.dtype), bad

    start = (params, state, jnp.zeros((), jnp.result_type(float)), jnp.zeros((), jnp.int32))
    params, state, total, bad = jax.lax.fori_loop(first, last, epoch, start)
    return params, state, total / (last - first), bad

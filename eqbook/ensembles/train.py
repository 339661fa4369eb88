"""All members of an ensemble in one program: vmap over members, scan over steps."""

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float
from tqdm import tqdm

from eqbook.ensembles import arguments
from eqbook.ensembles.epoch import Loss, init_members, over_members, train_epochs
from eqbook.ensembles.losses import cross_entropy, squared_error
from eqbook.ensembles.run import EnsembleRun

LOSSES: dict[str, Loss] = {"squared_error": squared_error, "cross_entropy": cross_entropy}


def train_ensemble(
    net: Any,
    key: jax.Array,
    x: Float[Array, "n ..."],
    y: Array,
    *,
    members: int,
    epochs: int,
    optimizer: optax.GradientTransformation,
    loss: str | Loss = "squared_error",
    batch_size: int | None = None,
    watch: Mapping[str, Array] | None = None,
    record: Sequence[int] | None = None,
    progress: bool = True,
    at_once: int | None = None,
    watch_batch: int = 1024,
) -> EnsembleRun:
    r"""Train independent members of one network on the same data.

    Member $m$ starts from parameters drawn with `fold_in(key, m)` and shuffles the data with its own key, so it does
    not depend on the number of members.

    On a GPU train many members at once. On a CPU small dense networks are quickest all at once; convolutional networks
    are often quicker with `at_once=1`, when one member's activations fit in the cache, and their convolutions should be
    `eqbook.networks.PatchConv`.

    Args:
        net: a `Sequential`, or a Flax module.
        key: random key of the whole ensemble.
        x: training inputs, `[n, ...]`.
        y: training targets, `[n, k]` for `squared_error`, integer classes `[n]` for `cross_entropy`.
        members: number of networks.
        epochs: passes over the data; with full batches, steps.
        optimizer: from optax, for example `optax.sgd(0.1)`.
        loss: `"squared_error"` (half the sum over the batch, as in the theory), `"cross_entropy"` (mean over the
            batch), or a function of outputs and targets.
        batch_size: examples in a step; `None` is the full batch. The order is drawn anew in each epoch, and the rest
            that does not fill a batch is left out of it.
        watch: named batches of inputs on which all members' outputs are recorded.
        record: epochs to record at, increasing, 0 for initialisation; every epoch and 0 if not given.
        progress: show a progress bar on a terminal.
        at_once: members computed in parallel; `None` is all of them. Fewer need less memory.
        watch_batch: watched inputs evaluated in one go; bounds the memory of the evaluation.

    Returns:
        `EnsembleRun`.

    Raises:
        ValueError: if an argument does not fit the others.
        FloatingPointError: if a member's loss is no longer finite; names member and epoch.
    """
    x, y = jnp.asarray(x), jnp.asarray(y)
    arguments.check_key(key)
    arguments.check_training(net, optimizer)
    arguments.check_data(x, y)
    arguments.check_sizes(len(x), members, epochs, batch_size, at_once, watch_batch)
    watch, record = arguments.check_watch(x, watch), arguments.check_record(record, epochs)
    member_keys = jax.vmap(partial(jax.random.fold_in, key))(jnp.arange(members))
    init_keys, shuffle_keys = jax.vmap(jax.random.split, out_axes=1)(member_keys)
    params = init_members(net, init_keys, x[:1])
    if loss == "cross_entropy" and jnp.issubdtype(y.dtype, jnp.integer):
        one = jax.tree.map(lambda leaf: leaf[0], params)
        arguments.check_classes(y, jax.eval_shape(net.apply, one, x[:1]).shape[-1])
    state = jax.jit(jax.vmap(optimizer.init))(params)
    one_member = partial(train_epochs, net, _loss(loss), optimizer, batch_size)

    # The data are arguments: captured, they would be constants of the program, compiled into it.
    @partial(jax.jit, donate_argnums=(0, 1))
    def advance(params, state, x, y, first, last):
        def member(params, state, key):
            return one_member(x, y, params, state, key, first, last)

        return over_members(member, at_once, params, state, shuffle_keys)

    @jax.jit
    def evaluate(params, inputs):
        return over_members(lambda p: net.apply(p, inputs), at_once, params)

    def outputs_of(inputs):
        batches = range(0, len(inputs), watch_batch)
        return np.concatenate([np.asarray(evaluate(params, inputs[i : i + watch_batch])) for i in batches], axis=1)

    losses, outputs, done = [], {name: [] for name in watch}, 0
    stops = record if record[-1] == epochs else (*record, epochs)
    with tqdm(total=epochs, unit="epoch", disable=None if progress else True, file=sys.stderr, leave=False) as bar:
        for stop in stops:
            value = np.full(members, np.nan)
            if stop > done:
                params, state, value, bad = advance(params, state, x, y, done, stop)
                value = np.asarray(value)
                arguments.check_losses(value, np.asarray(bad))
                bar.update(stop - done)
                bar.set_postfix(loss=f"{value.mean():.3g}")
                done = stop
            if stop in record:
                losses.append(value)
                for name, inputs in watch.items():
                    outputs[name].append(outputs_of(inputs))
    stacked = {name: np.stack(values) for name, values in outputs.items()}
    return EnsembleRun(params, np.asarray(record), np.stack(losses), stacked)


def _loss(loss: str | Loss) -> Loss:
    if callable(loss):
        return loss
    if loss not in LOSSES:
        raise ValueError(f"`loss`: expected one of {', '.join(LOSSES)} or a function, got {loss!r}.")
    return LOSSES[loss]

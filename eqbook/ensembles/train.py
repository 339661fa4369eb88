"""Training many members of one network: chunks of them side by side, each in one compiled program."""

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh
from jaxtyping import Array, Float

from eqbook.ensembles import arguments
from eqbook.ensembles.augmentation import Augmentation
from eqbook.ensembles.epoch import Loss, Recipe
from eqbook.ensembles.losses import cross_entropy, squared_error
from eqbook.ensembles.programs import Programs, choose_width
from eqbook.ensembles.progress import Progress
from eqbook.ensembles.run import EnsembleRun
from eqbook.ensembles.settings import describe_run
from eqbook.ensembles.store import Store, stored_width
from eqbook.ensembles.training import Training, train_chunks
from eqbook.grams import workers

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
    augment: Augmentation | None = None,
    part: int | None = None,
    watch: Mapping[str, Array] | None = None,
    record: Sequence[int] | None = None,
    store: str | os.PathLike | None = None,
    checkpoint_every: int | None = None,
    progress: bool = True,
    at_once: int | None = None,
    watch_batch: int = 1024,
    mesh: Mesh | None = None,
) -> EnsembleRun:
    r"""Train independent members of one network on the same data.

    Member $m$ starts from parameters drawn with the first key of `split(fold_in(key, m))` and shuffles the data with
    the second. Members are trained in chunks of `at_once`, and the last chunk is always a whole one. So member $m$ is
    the same, bit for bit on the same device, in a run of 10 and in a run of 1000: it has the same place in the same
    program.

    With a `store`, a run that was stopped or killed goes on from its last checkpoint when the call is made again, to
    the same bits as if nothing had happened; and it is extended by a call with more `members`, or more `epochs`.

    On a CPU convolutional networks are quickest with `at_once=1`, when one member's activations fit in the cache; a
    small `part` helps, and their convolutions should be `eqbook.networks.PatchConv`. Chunks are trained on all cores in
    any case.

    Args:
        net: a `Sequential`, or a Flax module.
        key: random key of the whole ensemble.
        x: training inputs, `[n, ...]`.
        y: training targets, `[n, k]` for `squared_error`, integer classes `[n]` for `cross_entropy`.
        members: number of networks.
        epochs: passes over the data; with full batches, steps.
        optimizer: from optax, for example `optax.sgd(0.1)`; `ntk_learning_rate` finds a rate that does not diverge.
        loss: `"squared_error"` (half the sum over the batch, as in the theory), `"cross_entropy"` (mean over the
            batch), or a function of outputs and targets.
        batch_size: examples in a step; `None` is the full batch. The order is drawn anew in each epoch, and the rest
            that does not fill a batch is left out of it.
        augment: `full_orbits(...)` or `random_elements(...)`, applied when a batch is drawn; `None` for none.
        part: examples of a batch whose gradients are computed at a time, and added up; divides the batch. `None` is
            the whole batch. A part whose activations fit the cache is quicker on a CPU. For the two losses by name.
        watch: named batches of inputs on which all members' outputs are recorded.
        record: epochs to record at, increasing, 0 for initialisation; every epoch and 0 if not given.
        store: folder that keeps the members at each record, a checkpoint to go on from, and the losses.
        checkpoint_every: epochs between checkpoints in the store; `None` makes one at each record. What is lost when a
            process is killed is the time since.
        progress: show a progress bar on a terminal.
        at_once: members in a chunk; `None` finds a number that keeps the device busy and fits its memory.
        watch_batch: watched inputs evaluated in one go; bounds the memory of the evaluation.
        mesh: devices that share each chunk; `at_once` is then a multiple of their number.

    Returns:
        `EnsembleRun`.

    Raises:
        ValueError: if an argument does not fit the others, or the store holds members trained otherwise.
        FloatingPointError: if a member's loss is no longer finite; names member and epoch.
    """
    x, y = jnp.asarray(x), jnp.asarray(y)
    arguments.check_key(key)
    arguments.check_training(net, optimizer)
    arguments.check_data(x, y)
    size = arguments.check_augment(augment, len(x))
    arguments.check_sizes(size, members, epochs, batch_size, watch_batch, checkpoint_every)
    arguments.check_width(at_once, mesh)
    watch, record = arguments.check_watch(x, watch), arguments.check_record(record, epochs)
    arguments.check_part(part, size if batch_size is None else batch_size, loss)
    recipe = Recipe(net, _loss(loss), optimizer, batch_size, augment, part, mean=loss == "cross_entropy")
    threads = workers.cores() if mesh is None else 1
    width = at_once or stored_width(store) or choose_width(recipe, key, x, y, mesh, threads)
    arguments.check_width(width, mesh)  # that of a store may not suit the mesh
    programs = Programs(recipe, key, x, y, width, mesh)
    if loss == "cross_entropy" and jnp.issubdtype(y.dtype, jnp.integer):
        arguments.check_classes(y, programs.output_shape[-1])
    kept = None
    if store is not None:
        kept = Store(store, describe_run(recipe, key, x, y, width), programs.shapes)

    stops = record if record[-1] == epochs else (*record, epochs)
    chunks = range(-(-members // width))
    losses = np.full((len(record), members), np.nan)
    outputs = {name: programs.room(len(record), members, inputs) for name, inputs in watch.items()}
    last = {}

    def look(chunk: int, number: int, params: Any, loss: np.ndarray) -> None:
        shown = slice(chunk * width, min(members, (chunk + 1) * width))
        count = shown.stop - shown.start
        if number < len(record):
            losses[number, shown] = loss[:count]
            for name, inputs in watch.items():
                outputs[name][number, shown] = programs.outputs(params, inputs, watch_batch)[:count]
        if kept is None and number == len(stops) - 1:
            last[chunk] = jax.tree.map(np.array, params)

    batches = [part for inputs in watch.values() for part in programs.parts(inputs, watch_batch)]
    programs.prepare(train=epochs > 0, batches=batches)
    with Progress(members, epochs, width, progress) as bar:
        training = Training(programs, stops, kept, checkpoint_every, members, bar, look)
        train_chunks(training, chunks, min(threads, len(chunks)))
    params = partial(_in_memory, last) if kept is None else partial(_in_store, kept)
    epochs_kept = stops if kept is not None else stops[-1:]
    return EnsembleRun(np.asarray(record), losses, outputs, members, tuple(epochs_kept), programs, params)


def _in_memory(last: dict[int, Any], chunk: int, _epoch: int) -> Any:
    return last[chunk]


def _in_store(kept: Store, chunk: int, epoch: int) -> Any:
    params = kept.params(chunk, epoch)
    if params is None:
        raise ValueError(
            f"`store`: expected chunk {chunk} of the members at epoch {epoch} in {kept.folder}, got a file that is "
            "gone or damaged; call `train_ensemble` again, which makes it anew."
        )
    return params


def _loss(loss: str | Loss) -> Loss:
    if callable(loss):
        return loss
    if loss not in LOSSES:
        raise ValueError(f"`loss`: expected one of {', '.join(LOSSES)} or a function, got {loss!r}.")
    return LOSSES[loss]

"""Training many members of one network: chunks of them side by side, each in one compiled program."""

import os
from collections.abc import Mapping, Sequence
from contextlib import closing, nullcontext
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh
from jaxtyping import Array, Float

from eqbook._checks import check_key, native
from eqbook._hosts import Hosts, hosts_of, local
from eqbook._shown import shown
from eqbook._stores import store_directory
from eqbook.ensembles import arguments
from eqbook.ensembles.augmentation import Augmentation
from eqbook.ensembles.epoch import Loss, Recipe, held_by
from eqbook.ensembles.losses import cross_entropy, squared_error
from eqbook.ensembles.programs import Programs, member_bytes
from eqbook.ensembles.progress import Progress
from eqbook.ensembles.run import EnsembleRun
from eqbook.ensembles.settings import describe_run, digest, hash_array
from eqbook.ensembles.store import Store, folder_for, stored_width
from eqbook.ensembles.training import Training, train_chunks
from eqbook.ensembles.width import chunk_width, free_memory
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
    the same, bit for bit on the same device and with the same `at_once`, in a run of 10 and in a run of 1000: it has
    the same place in the same program.

    With a `store`, a run that was stopped or killed goes on from its last checkpoint when the call is made again, to
    the same bits as if nothing had happened; and it is extended by a call with more `members`, or more `epochs`.

    On a CPU convolutional networks are quickest with `at_once=1`, when one member's activations fit in the cache; a
    small `part` helps, and their convolutions should be `eqbook.networks.PatchConv`. Chunks are trained on all cores in
    any case. On an accelerator small networks are quickest with a large `at_once` that divides `members`, such as 100.

    Args:
        net: a `Sequential`, or a module of flax.linen all of whose variables are parameters, without the running means
            of BatchNorm, and which is called with inputs only, without the random keys of a dropout.
        key: random key of the whole ensemble. Shuffles and random elements are drawn by threefry: where a key is one of
            another generator, such as rbg, by a threefry key that is made of its bits, since those draw for all
            members of a chunk from the key of the first. So does the noise of an optimiser that was given such a key:
            it is another one with another `at_once`, or on other devices.
        x: training inputs, `[n, ...]`.
        y: training targets, `[n, k]` for `squared_error`, integer classes `[n]` for `cross_entropy`.
        members: number of networks.
        epochs: passes over the data; with full batches, steps.
        optimizer: from optax, for example `optax.sgd(0.1)`; `ntk_learning_rate` finds a rate that does not diverge. The
            same object in several calls with the same network and shapes lets them share their compiled programs.
        loss: `"squared_error"` (half the sum over the batch, as in the theory), `"cross_entropy"` (mean over the
            batch), or a function of outputs and targets.
        batch_size: examples in a step; `None` is the full batch. Epoch e, counted from 0, takes the examples in the
            order `permutation(fold_in(shuffle, e), size)`, with the member's second key `shuffle` (see `key`), and
            leaves out the rest that does not fill a batch.
        augment: `full_orbits(...)` or `random_elements(...)`, applied when a batch is drawn; `None` for none.
        part: examples of a batch whose gradients are computed at a time, and added up; divides the batch. `None` is
            the whole batch. A part whose activations fit the cache is quicker on a CPU. For the two losses by name.
        watch: named batches of inputs on which all members' outputs are recorded.
        record: epochs to record at, increasing, 0 for initialisation; every epoch and 0 if not given.
        store: folder that keeps the members at each record, a checkpoint to go on from, and the losses; if not given,
            one in the directory that the environment variable `EQBOOK_STORE_DIR` names, and none if it names none.
        checkpoint_every: epochs between checkpoints in the store; `None` makes one at each record. What is lost when a
            process is killed is the time since. Members that begin anew, as for records that were not kept, make none
            before they have come as far as the one that is there.
        progress: show a progress bar on a terminal.
        at_once: members in a chunk; `None` finds a number that keeps the device busy and fits the memory that is free,
            which may be another in the next call. Another width is another program, so give the number where bits
            matter; a store keeps to that of its first call.
        watch_batch: watched inputs evaluated in one go; bounds the memory of the evaluation.
        mesh: devices that share each chunk; `at_once` is then a multiple of their number. The devices may belong to
            several processes (`jax.distributed`) that make the same call: then each process trains every n-th chunk on
            its own devices, and all have the whole result. A store must be a folder that all of them see. It does
            not tell meshes apart: members trained on another number of devices differ by rounding.

    Returns:
        `EnsembleRun`.

    Raises:
        ValueError: if an argument does not fit the others, or the store holds members trained otherwise.
        FloatingPointError: if a member's loss, a parameter or a watched output is no longer finite; names member and
            epoch.
    """
    hosts, devices = hosts_of(mesh), local(mesh)
    with hosts.together():
        arguments.check_arrays(x, y)
        # With their dtype, which makes a weak type, as that of `jnp.full((8, 3), 0.3)`, a strong one.
        x, y = (jnp.asarray(array, array.dtype) for array in map(jnp.asarray, (native(x), native(y))))
        check_key("key", key)
        arguments.check_store(store)
        arguments.check_training(net, optimizer)
        arguments.check_data(x, y)
        size = arguments.check_augment(augment, len(x))
        sizes = arguments.check_sizes(size, members, epochs, batch_size, watch_batch, checkpoint_every)
        members, epochs, batch_size, watch_batch, checkpoint_every = sizes
        at_once = arguments.check_width(at_once, devices)
        watch, record = arguments.check_watch(x, watch), arguments.check_record(record, epochs)
        step = size if batch_size is None else batch_size
        part = arguments.check_part(part, step, loss)
        loss, mean = _loss(loss), isinstance(loss, str) and loss == "cross_entropy"
        held = held_by(net), held_by(None, loss, optimizer, augment)
        one = arguments.check_collections(net, held[0], key, x)
        recipe = Recipe(net, loss, optimizer, batch_size, augment, held, part, mean)
        classes = arguments.check_step(recipe, key, x, y, step).shape[-1:]
    on_cpu = jax.default_backend() == "cpu"
    # An accelerator trains one chunk while the other is made ready or looked at.
    threads = 1 if devices is not None else workers.cores() if on_cpu else 2
    about: dict[str, Any] = {}
    with hosts.together():
        directory = store_directory() if store is None else None
        if store is not None or directory is not None or hosts.count > 1:
            about = describe_run(recipe, key, x, y)
        if directory is not None:
            store = folder_for(directory, about | ({"at_once": at_once} if at_once else {}))
        width = at_once or stored_width(store)
        if width is None:
            needed = member_bytes(recipe, key, x, y)
            width = chunk_width(needed, devices=1 if devices is None else devices.size, at_once=threads)
        elif threads > 1 and not on_cpu and threads * width * member_bytes(recipe, key, x, y) > free_memory():
            threads = 1  # who gave the width may have meant it to fill the memory
    width = hosts.smallest(width)  # they may have different memory
    stops = record if record[-1] == epochs else (*record, epochs)
    with hosts.together():
        arguments.check_width(width, devices)  # that of a store may not suit the mesh
        programs = Programs(recipe, key, x, y, width, devices, one)
        if recipe.loss is cross_entropy and jnp.issubdtype(y.dtype, jnp.integer):
            arguments.check_classes(y, *classes)
        losses = np.full((len(record), members), np.nan)
        outputs = {name: programs.room(len(record), members, inputs) for name, inputs in watch.items()}
    last: dict[int, Any] = {}
    chunks = range(-(-members // width))
    mine = hosts.share(chunks)
    # On an accelerator they stay where they are, if that leaves most of its memory free.
    size = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(programs.shapes.params)) * len(chunks)
    stay = jax.default_backend() != "cpu" and devices is None and size <= free_memory() // 8

    def look(chunk: int, number: int, params: Any, loss: np.ndarray) -> None:
        shown = slice(chunk * width, min(members, (chunk + 1) * width))
        count = shown.stop - shown.start
        if number < len(record):
            losses[number, shown] = loss[:count]
            for name, inputs in watch.items():
                outputs[name][number, shown] = programs.outputs(params, inputs, watch_batch)[:count]
                found = outputs[name][number, shown]
                arguments.check_outputs(f"watch[{name!r}]", found, range(members)[shown], record[number])
        if kept is None and number == len(stops) - 1:
            last[chunk] = params if stay else jax.device_get(params)

    batches = [part for inputs in watch.values() for part in programs.parts(inputs, watch_batch)]
    kept: Store | None = None
    if about:
        about["at_once"] = width
        watched = {name: hash_array(inputs) for name, inputs in watch.items()}
        same = [about, members, epochs, list(record), watched, store is None]
        hosts.check_same("arguments of `train_ensemble`", digest(same))
        with hosts.together():
            kept = None if store is None else Store(store, about, programs.shapes, hosts)
    own = sum(min(members, (c + 1) * width) - c * width for c in mine)
    with hosts.together(), closing(kept) if kept else nullcontext(), Progress(own, epochs, width, progress) as bar:
        programs.prepare(train=epochs > 0, batches=batches)
        training = Training(programs, stops, kept, checkpoint_every, members, bar, look)
        train_chunks(training, mine, max(1, min(threads, len(mine))))
    if hosts.count > 1:
        for array in (losses, *outputs.values()):
            _exchange(hosts, array, width)
        if kept is None:
            last = _exchange_params(hosts, last, chunks, programs.shapes.params)
    params = partial(_in_memory, last) if kept is None else partial(_in_store, kept)
    epochs_kept = stops if kept is not None else stops[-1:]
    return EnsembleRun(np.asarray(record), losses, outputs, members, tuple(epochs_kept), programs, params)


def _exchange(hosts: Hosts, array: np.ndarray, width: int) -> None:
    """Fill in `[records, members, ...]` what other processes have found."""
    parts = [array[:, first : first + width] for first in range(0, array.shape[1], width)]
    shape = (len(array), width, *array.shape[2:])
    for part, found in zip(parts, hosts.exchange(hosts.share(parts), len(parts), shape, array.dtype)):
        part[...] = found[:, : part.shape[1]]


def _exchange_params(hosts: Hosts, last: dict[int, Any], chunks: range, shapes: Any) -> dict[int, Any]:
    """The parameters of all chunks, from those of each process."""
    mine = [jax.tree.leaves(last[c]) for c in hosts.share(chunks)]
    leaves, tree = jax.tree.flatten(shapes)
    found = [
        list(hosts.exchange([own[k] for own in mine], len(chunks), leaf.shape, leaf.dtype))
        for k, leaf in enumerate(leaves)
    ]
    return {c: jax.tree.unflatten(tree, values) for c, values in zip(chunks, zip(*found))}


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
    if not isinstance(loss, str) or loss not in LOSSES:
        raise ValueError(f"`loss`: expected one of {', '.join(LOSSES)} or a function, got {shown(loss)}.")
    return LOSSES[loss]

"""Checks of the arguments of `train_ensemble`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Float

from eqbook._checks import (
    check_batch,
    check_finite,
    check_int,
    check_integers,
    check_net,
    check_numeric,
    check_path,
    check_rectangular,
    native,
)
from eqbook._shown import shown
from eqbook.ensembles.augmentation import Augmentation
from eqbook.ensembles.epoch import Recipe, abstract_member
from eqbook.ensembles.remembered import remembered, shape_of


def check_arrays(x: Any, y: Any) -> None:
    """Raise unless both can be made arrays of numbers."""
    for name, value in (("x", x), ("y", y)):
        if isinstance(value, jax.core.Tracer):
            raise ValueError(
                f"`{name}`: expected an array of numbers, got one that is being traced; `train_ensemble` compiles its "
                "own programs: call it outside of `jit`, `vmap` and `grad`."
            )
        if not isinstance(value, np.ndarray | jax.Array):  # what is one is looked at on the device
            check_finite(name, value)
        check_numeric(name, value)
        check_integers(name, value)


def check_store(store: Any) -> None:
    """Raise unless `store` is a path, or nothing."""
    if store is not None:
        check_path("store", store)


def check_hashable_net(net: Any) -> None:
    """Raise unless there is a network that can be initialised and applied, and that programs can be kept for."""
    check_net("net", net)
    try:
        hash(net)
    except TypeError as error:
        raise ValueError(f"`net`: expected tuples in place of lists as attributes, got {shown(net)}.") from error


def check_training(net: Any, optimizer: Any) -> None:
    """Raise unless there is a network that can be initialised and applied, and an optimiser of optax."""
    check_hashable_net(net)
    if not (callable(getattr(optimizer, "init", None)) and callable(getattr(optimizer, "update", None))):
        raise ValueError(f"`optimizer`: expected one of optax such as optax.sgd(0.1), got {shown(optimizer)}.")


def check_collections(net: Any, held: tuple, key: jax.Array, x: Array) -> Any:
    """Shapes and dtypes of a member's parameters; `held` is what the network holds.

    Raise unless it has some; a Flax module, nothing else: gradient steps would change that, too.
    """
    return _variables(net, held, shape_of(key), shape_of(x, 1))


@remembered
def _variables(net: Any, _held: tuple, key: Any, example: Any) -> Any:
    variables = _usable(net, lambda: abstract_member(net, key, example))
    if isinstance(net, nn.Module) and (others := sorted(set(variables) - {"params"})):
        raise ValueError(
            f"`net`: expected a network all of whose variables are parameters, got also {', '.join(others)}; give "
            "constants as attributes, and take a normalisation without running means, such as LayerNorm or GroupNorm."
        )
    for leaf in jax.tree.leaves(variables):
        if not jnp.issubdtype(leaf.dtype, jnp.inexact):
            raise ValueError(f"`net`: expected parameters of a floating dtype, got one of {leaf.dtype}.")
    if not jax.tree.leaves(variables):
        raise ValueError(f"`net`: expected a network with parameters, got none from {shown(net)}.")
    return variables


def check_step(recipe: Recipe, key: jax.Array, x: Array, y: Array, size: int) -> jax.ShapeDtypeStruct:
    """Shape and dtype of the outputs of a step of `size` examples.

    Raise unless their loss is a number, from whose gradient the optimiser makes steps.
    """
    return _check_step(recipe, shape_of(key), shape_of(x, 1), shape_of(x, size), shape_of(y, size))


@remembered
def _check_step(recipe: Recipe, key: Any, example: Any, *batch: Any) -> jax.ShapeDtypeStruct:
    """The check for abstract arrays."""
    params = abstract_member(recipe.net, key, example)
    outputs = _usable(recipe.net, lambda: jax.eval_shape(recipe.net.apply, params, batch[0]))
    if not isinstance(outputs, jax.ShapeDtypeStruct):
        raise ValueError(f"`net`: expected a network whose output is one array, got {shown(outputs)}.")
    found = jax.eval_shape(lambda p, inputs, y: recipe.loss(recipe.net.apply(p, inputs), y), params, *batch)
    if getattr(found, "shape", None) != () or not jnp.issubdtype(found.dtype, jnp.floating):
        raise ValueError(f"`loss`: expected one real number for a batch, as a mean or a sum is, got {found!r}.")
    try:
        state = jax.eval_shape(recipe.optimizer.init, params)
    except Exception as error:  # whatever an optimiser of one's own raises, or optax for a key of a wrong kind
        raise ValueError(
            f"`optimizer`: expected one that begins with the parameters, got {type(error).__name__}: {error}"
        ) from error
    try:
        jax.eval_shape(recipe.optimizer.update, params, state, params)
    except TypeError as error:
        raise ValueError(
            f"`optimizer`: expected one that makes steps from the gradient, its state and the parameters only, got "
            f"{error}; take another, such as optax.adam(1e-3)."
        ) from error
    return outputs


def _usable(net: Any, made: Callable[[], Any]) -> Any:
    """What a network makes; raise if that takes more than parameters and inputs."""
    try:
        return made()
    except Exception as error:  # whatever a module of one's own raises
        if isinstance(error, ValueError) and "`" in str(error):  # names an argument of a layer
            raise
        raise ValueError(
            "`net`: expected a network that is made by net.init(key, x) and evaluated by net.apply(params, x), without "
            f"other arguments or random keys, got {type(error).__name__}: {error} Give switches as attributes, such as "
            "deterministic=True of a dropout, and choose between numbers with jnp.where."
        ) from error


def check_classes(y: Array, classes: int) -> None:
    """Raise unless integer targets are classes of a network with that many outputs."""
    low, high = int(np.min(y)), int(np.max(y))
    if low < 0 or high >= classes:
        raise ValueError(f"`y`: expected classes 0 .. {classes - 1}, one for each output, got {low} .. {high}.")


def check_data(x: Float[Array, "n ..."], y: Array) -> None:
    """Raise unless there is one finite target for each finite input."""
    check_batch("x", x)
    if np.ndim(y) == 0 or y.shape[:1] != x.shape[:1]:
        raise ValueError(f"`y`: expected {x.shape[0]} targets as in `x`, got shape {y.shape}.")
    check_finite("y", y)


def check_augment(augment: Any, n: int) -> int:
    """The number of examples in an epoch, of `n` before augmentation; raise unless `augment` is one."""
    if augment is not None and not isinstance(augment, Augmentation):
        raise ValueError(f"`augment`: expected full_orbits(...) or random_elements(...), got {shown(augment)}.")
    return n if augment is None else augment.size(n)


def check_sizes(
    n: int, members: int, epochs: int, batch_size: int | None, watch_batch: int, checkpoint_every: int | None
) -> tuple[int, int, int | None, int, int | None]:
    """The numbers but `n`, as Python's integers; raise unless they are in range.

    `n` is the number of examples in an epoch.
    """
    members, epochs = check_int("members", members, 1), check_int("epochs", epochs, 0)
    watch_batch = check_int("watch_batch", watch_batch, 1)
    if batch_size is not None and (batch_size := check_int("batch_size", batch_size, 1)) > n:
        raise ValueError(f"`batch_size`: expected at most {n} (the examples of an epoch), got {batch_size}.")
    if checkpoint_every is not None:
        checkpoint_every = check_int("checkpoint_every", checkpoint_every, 1)
    return members, epochs, batch_size, watch_batch, checkpoint_every


def check_part(part: int | None, batch: int, loss: Any) -> int | None:
    """The part as Python's integer; raise unless such parts make up a batch, and the loss adds up examples."""
    if part is None:
        return None
    if batch % (part := check_int("part", part, 1)):
        raise ValueError(f"`part`: expected a divisor of {batch}, the examples of a batch, got {part}.")
    if callable(loss):
        raise ValueError("`part`: expected `None` with a loss function of your own, which may mix the examples.")
    return part


def check_width(at_once: int | None, mesh: Mesh | None) -> int | None:
    """The width as Python's integer; raise unless it is a positive number of members, as many on each device."""
    if at_once is None:
        return None
    if (at_once := check_int("at_once", at_once, 1)) % (mesh.size if mesh is not None else 1):
        raise ValueError(f"`at_once`: expected a multiple of the {mesh.size} devices of `mesh`, got {at_once}.")
    return at_once


def check_watch(x: Float[Array, "n ..."], watch: Mapping[str, Any] | None) -> dict[str, np.ndarray]:
    """Watched batches as NumPy arrays; raise unless each is a finite batch of inputs like `x`."""
    if watch is not None and not isinstance(watch, Mapping):
        raise ValueError(f"`watch`: expected a dictionary of named batches, got {type(watch).__name__}.")
    for name in watch or {}:
        if not isinstance(name, str):
            raise ValueError(f"`watch`: expected names that are text, got {name!r}.")
    for name, inputs in (watch or {}).items():
        check_rectangular(f"watch[{name!r}]", inputs)
        check_integers(f"watch[{name!r}]", inputs)
    checked = {name: native(np.asarray(inputs)) for name, inputs in (watch or {}).items()}
    for name, inputs in checked.items():
        check_batch(f"watch[{name!r}]", inputs)
        if inputs.shape[1:] != x.shape[1:]:
            raise ValueError(f"`watch[{name!r}]`: expected inputs {x.shape[1:]} as `x`, got {inputs.shape[1:]}.")
    return checked


def check_record(record: Sequence[int] | None, epochs: int) -> tuple[int, ...]:
    """The epochs to record at; raise unless they increase between 0 and `epochs`."""
    listed = isinstance(record, Sequence) or (isinstance(record, np.ndarray | jax.Array) and record.ndim == 1)
    if record is not None and not listed:
        raise ValueError(f"`record`: expected a list of epochs such as [0, {epochs}], got {shown(record)}.")
    record = (
        tuple(range(epochs + 1))
        if record is None
        else tuple(np.asarray(record) if isinstance(record, jax.Array) else record)
    )
    for epoch in record:
        check_int("record", epoch, 0)
    if not record or list(record) != sorted(set(record)) or record[-1] > epochs:
        raise ValueError(f"`record`: expected increasing epochs between 0 and {epochs}, got {shown(record)}.")
    return tuple(int(epoch) for epoch in record)


def check_losses(bad_epochs: np.ndarray, first_member: int) -> None:
    """Raise if a member's loss or a parameter was not finite.

    Args:
        bad_epochs: the first such epoch of each member of a chunk, or 0.
        first_member: number of the chunk's first member.

    Raises:
        FloatingPointError: naming the first member and the epoch.
    """
    bad = np.flatnonzero(bad_epochs)
    if bad.size:
        first = bad[np.argmin(bad_epochs[bad])]
        raise FloatingPointError(
            f"training diverged: the loss or a parameter of member {first_member + first} is not finite in epoch "
            f"{bad_epochs[first]} ({bad.size} of {bad_epochs.size} members trained with it diverged so far); "
            "lower the learning rate of `optimizer`."
        )


def check_outputs(name: str, outputs: np.ndarray, members: Sequence[int], epoch: int) -> None:
    """Raise if an output of a member is not finite, though its loss and its parameters are.

    Args:
        name: of the inputs.
        outputs: one set of outputs for each member.
        members: their numbers.
        epoch: epochs that they were trained for.

    Raises:
        FloatingPointError: naming the first member and the epoch.
    """
    good = np.isfinite(outputs).reshape(len(outputs), -1).all(axis=1)
    if not good.all():
        raise FloatingPointError(
            f"`{name}`: an output of member {members[int(np.argmin(good))]} is not finite at epoch {epoch}: training "
            "is about to diverge, or the inputs are too large for the dtype; lower the learning rate of `optimizer`, "
            "or scale the inputs."
        )

"""What decides the numbers of an ensemble, in terms that another process would use too."""

import hashlib
import json
import operator
from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from eqbook._attributes import made_with
from eqbook._identity import numbers_in, without_addresses
from eqbook.ensembles.augmentation import Augmentation
from eqbook.ensembles.epoch import Recipe, init_member, member_keys
from eqbook.ensembles.losses import cross_entropy, squared_error
from eqbook.grams.store import describe

# Counters of an optimiser's state at which its step is looked at: schedules differ early or late.
COUNTS = (*range(17), 24, 32, 48, 64, 100, 128, 256, 512, 1000, 2048, 4096, 10_000, 10**5)
# By how much numbers may differ, relative and absolute: by what other hardware rounds differently, products of matrices
# more than the rest. A number that a function holds may be tiny, as a weight decay is, and still decide.
TOLERANCES = {"optimizer": (1e-4, 1e-6), "optimizer, without a gradient": (1e-4, 1e-30)} | dict.fromkeys(
    (f"{name}, its numbers" for name in ("net", "loss", "optimizer")), (1e-5, 0.0)
)
OTHERS = (1e-3, 1e-6)


def describe_run(recipe: Recipe, key: jax.Array, x: jax.Array, y: jax.Array) -> dict[str, Any]:
    """The settings of a run by the names of their arguments; with equal ones, and `at_once`, members are equal.

    Functions have no names that can be trusted: an optimiser is described by its steps for given gradients, a network
    also by its outputs and by the gradient of its loss, a loss by its values, an action by what it makes of two
    examples; all but the last by the numbers that functions hold.
    """
    params = init_member(recipe.net, member_keys(key, jnp.uint32(0))[0], x[:1])
    few, *others = _few(recipe, params, x, y)
    drawn_by = [] if jax.random.key_impl(key) == "threefry2x32" else ["shuffles by threefry"]  # once by the key itself
    gradient = jax.jit(jax.grad(lambda params: recipe.loss(recipe.net.apply(params, x[few]), y[few])))(params)
    sizes = [jnp.linalg.norm(jnp.ravel(leaf)) for leaf in jax.tree.leaves(gradient)]
    augment = recipe.augment
    actions = None if augment is None else [describe(augment.action_x), describe(augment.action_y), augment.random]
    # One program: operation by operation each of them would be compiled for each number of examples.
    outputs, losses = jax.jit(partial(_outputs_and_losses, recipe))(params, [(x[i], y[i]) for i in (few, *others)])
    return {
        "net": _hash(without_addresses(recipe.net) if isinstance(recipe.net, nn.Module) else describe(recipe.net)),
        "net, its numbers": numbers_in(made_with(recipe.net)),
        "net, its outputs": _numbers(outputs),
        "key": _hash([str(jax.random.key_impl(key)), np.asarray(jax.random.key_data(key)).tolist(), *drawn_by]),
        "x": hash_array(x),
        "y": hash_array(y),
        "loss": [number for loss in losses for number in _numbers(loss)],
        "loss, its numbers": numbers_in(recipe.loss),
        "loss, its gradient": _numbers(jnp.stack(sizes)),
        "optimizer": _steps(recipe.optimizer, params),
        "optimizer, without a gradient": _decay(recipe.optimizer, params),
        "optimizer, its numbers": numbers_in(recipe.optimizer),
        "batch_size": recipe.batch_size,
        "part": recipe.part,
        "augment": _hash(actions),
        "augment, its effect": [] if augment is None else _moves(augment, x[few[:2]], y[few[:2]]),
        "precision": str(jnp.result_type(float)),
    }


def _outputs_and_losses(recipe: Recipe, params: Any, batches: list) -> tuple[jax.Array, list[jax.Array]]:
    """Outputs for the first batch, and the losses of all."""
    outputs = [recipe.net.apply(params, x) for x, _ in batches]
    return outputs[0], [recipe.loss(f, y) for f, (_, y) in zip(outputs, batches, strict=True)]


def _few(recipe: Recipe, params: Any, x: jax.Array, y: jax.Array) -> list[np.ndarray]:
    """Indices of two examples, of three and of seven; of as many as a step has, if the loss takes no other number.

    Half of a sum is a mean of two, and a median of three is none. A loss of one's own also gets one of each class
    beside the two, but no more than a step has: a class may have a weight.
    """

    def fits(rows: np.ndarray) -> bool:
        try:
            jax.eval_shape(lambda params: recipe.loss(recipe.net.apply(params, x[rows]), y[rows]), params)
        except Exception:  # whatever a function raises at shapes that it does not expect
            return False
        return True

    size = len(x) if recipe.augment is None else recipe.augment.size(len(x))
    step = np.arange(recipe.batch_size or size) % len(x)
    few = step[:2]
    if recipe.loss not in (squared_error, cross_entropy) and y.ndim == 1 and jnp.issubdtype(y.dtype, jnp.integer):
        firsts = np.unique(np.asarray(y), return_index=True)[1]
        few = np.array(list(dict.fromkeys([*few, *firsts]))[: max(2, len(step))])
    if not fits(few):
        return [step]
    return [few, *(rows for rows in (step[:3], step[:7]) if fits(rows))]


def _moves(augment: Augmentation, x: jax.Array, y: jax.Array) -> list[float]:
    """What each element makes of two examples, size and product with waves: an action's code may have changed."""
    found = []
    for action, z in ((augment.action_x, x), (augment.action_y, y)):
        for g in action.group.elements:
            moved = np.asarray(action(g, z), np.float64).ravel()
            size = float(np.linalg.norm(moved))
            found += [np.log1p(size), float(moved @ np.sin(1.0 + np.arange(moved.size))) / max(1.0, size)]
    return found


def digest(value: Any) -> str:
    """Hash of what JSON can say about a value; integers of NumPy are integers."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=operator.index).encode()).hexdigest()


def differing(stored: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    """Names of the settings that differ; numbers may differ by what other hardware rounds differently."""
    return [name for name, value in wanted.items() if not _same(stored.get(name), value, TOLERANCES.get(name, OTHERS))]


def _same(a: Any, b: Any, tolerances: tuple[float, float]) -> bool:
    if isinstance(b, list):
        rtol, atol = tolerances
        return isinstance(a, list) and len(a) == len(b) and np.allclose(a, b, rtol=rtol, atol=atol)
    return a == b


def _steps(optimizer: Any, params: Any) -> list[float]:
    """Size and direction of an optimiser's steps, from its start and at later counts."""
    waves = jax.tree.map(lambda leaf: np.sin(1.0 + np.arange(leaf.size)).reshape(leaf.shape), params)
    gradient = jax.tree.map(lambda wave, leaf: jnp.asarray(wave, leaf.dtype), waves, params)

    @jax.jit
    def step(state, count):
        updates, state = optimizer.update(gradient, _counted(state, count), params)
        pairs = [(jnp.vdot(u, g), jnp.vdot(u, u)) for u, g in zip(jax.tree.leaves(updates), jax.tree.leaves(gradient))]
        return jnp.stack([jnp.stack(pair) for pair in pairs]), state

    state, seen = optimizer.init(params), []
    for count in COUNTS:
        pairs, state = step(state, jnp.int32(count))
        for pair in pairs:  # each parameter by itself: some may be frozen, and of one shape with others
            seen.extend(_numbers(pair))
    return seen


def _decay(optimizer: Any, params: Any) -> list[float]:
    """Sizes of some steps of each parameter where the gradient is 0: what decays, and by how much."""

    @jax.jit
    def sizes(params):
        params = jax.tree.map(lambda leaf: leaf + jnp.ones_like(leaf), params)  # biases start at 0
        nothing, state, found = jax.tree.map(jnp.zeros_like, params), optimizer.init(params), []
        for count in (0, 1, 3, 7, 100, 1000):  # a schedule may begin at 0
            updates, _ = optimizer.update(nothing, _counted(state, jnp.int32(count)), params)
            found += [jnp.linalg.norm(jnp.ravel(leaf)) for leaf in jax.tree.leaves(updates)]
        return jnp.stack(found)

    return np.nan_to_num(np.asarray(sizes(params), np.float64)).tolist()


def _counted(state: Any, count: Any) -> Any:
    """The state of an optimiser with all of its counters at a number."""

    def at(leaf: Any) -> Any:
        counts = jnp.ndim(leaf) == 0 and jnp.issubdtype(leaf.dtype, jnp.integer)
        return count.astype(leaf.dtype) if counts else leaf

    return jax.tree.map(at, state)


def _numbers(value: Any) -> list[float]:
    """Up to 64 numbers of an array, in units of the largest, and that one."""
    flat = np.nan_to_num(np.asarray(value, np.float64).reshape(-1)[:64])  # of a run that diverges, too
    largest = float(np.max(np.abs(flat), initial=0.0))
    return [np.log1p(largest), *(flat / largest if largest else flat).tolist()]


def _hash(value: Any) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()


def hash_array(array: Any) -> str:
    """Hash of an array's entries, shape and dtype."""
    array = np.ascontiguousarray(array)
    return hashlib.sha256(f"{array.dtype} {array.shape}".encode() + array.tobytes()).hexdigest()

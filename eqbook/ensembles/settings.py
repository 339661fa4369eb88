"""What decides the numbers of an ensemble, in terms that another process would use too."""

import hashlib
import json
from dataclasses import fields
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from eqbook._identity import numbers_in, without_addresses
from eqbook.ensembles.epoch import Recipe, init_member, member_keys
from eqbook.grams.store import describe

# Counters of an optimiser's state at which its step is looked at: schedules differ early or late.
COUNTS = (*range(17), 24, 32, 48, 64, 100, 128, 256, 512, 1000, 2048, 4096, 10_000, 10**5)
# By how much numbers may differ, relative and absolute: by what other hardware rounds differently, products of matrices
# more than the rest. A number that a function holds may be tiny, as a weight decay is, and still decide.
TOLERANCES = {"optimizer": (1e-4, 1e-6)} | dict.fromkeys(
    (f"{name}, its numbers" for name in ("net", "loss", "optimizer")), (1e-5, 0.0)
)
OTHERS = (1e-3, 1e-6)
FEW_CLASSES = 1000  # one example of each is looked at


def describe_run(recipe: Recipe, key: jax.Array, x: jax.Array, y: jax.Array) -> dict[str, Any]:
    """The settings of a run by the names of their arguments; with equal ones, and `at_once`, members are equal.

    Functions have no names that can be trusted: an optimiser is described by its steps for given gradients, a network
    also by its outputs and by the gradient of its loss, a loss by its values; all by the numbers that functions hold.
    """
    params = init_member(recipe.net, member_keys(key, jnp.uint32(0))[0], x[:1])
    few = _few(recipe, params, x, y)
    gradient = jax.jit(jax.grad(lambda params: recipe.loss(recipe.net.apply(params, x[few]), y[few])))(params)
    sizes = [jnp.linalg.norm(jnp.ravel(leaf)) for leaf in jax.tree.leaves(gradient)]
    augment = recipe.augment
    actions = None if augment is None else [describe(augment.action_x), describe(augment.action_y), augment.random]
    outputs = recipe.net.apply(params, x[few])
    return {
        "net": _hash(without_addresses(recipe.net) if isinstance(recipe.net, nn.Module) else describe(recipe.net)),
        "net, its numbers": numbers_in(_attributes(recipe.net)),
        "net, its outputs": _numbers(outputs),
        "key": _hash([str(jax.random.key_impl(key)), np.asarray(jax.random.key_data(key)).tolist()]),
        "x": _hash_array(x),
        "y": _hash_array(y),
        "loss": _numbers(recipe.loss(outputs, y[few])),
        "loss, its numbers": numbers_in(recipe.loss),
        "loss, its gradient": _numbers(jnp.stack(sizes)),
        "optimizer": _steps(recipe.optimizer, params),
        "optimizer, without a gradient": _decay(recipe.optimizer, params),
        "optimizer, its numbers": numbers_in(recipe.optimizer),
        "batch_size": recipe.batch_size,
        "part": recipe.part,
        "augment": _hash(actions),
        "precision": str(jnp.result_type(float)),
    }


def _few(recipe: Recipe, params: Any, x: jax.Array, y: jax.Array) -> np.ndarray:
    """Indices of two examples and of one of each class; of as many as a step has, if the loss takes no other number."""

    def loss(rows: np.ndarray) -> None:
        jax.eval_shape(lambda params: recipe.loss(recipe.net.apply(params, x[rows]), y[rows]), params)

    size = len(x) if recipe.augment is None else recipe.augment.size(len(x))
    step = np.arange(recipe.batch_size or size) % len(x)
    few = step[:2]
    if y.ndim == 1 and jnp.issubdtype(y.dtype, jnp.integer):  # a class may have a weight of its own
        few = np.concatenate([few, np.unique(np.asarray(y), return_index=True)[1][:FEW_CLASSES]])
    try:
        loss(few)
        return few
    except Exception:  # whatever a function raises at shapes that it does not expect
        loss(step)
        return step


def _attributes(net: Any) -> Any:
    """What a Flax module is made with, and the modules in it; equal names of functions may stand for two functions."""
    if isinstance(net, nn.Module):
        names = sorted(field.name for field in fields(net) if field.name not in ("parent", "name"))
        return [_attributes(getattr(net, name, None)) for name in names]
    if isinstance(net, tuple | list):
        return [_attributes(part) for part in net]
    return net


def digest(value: Any) -> str:
    """Hash of what JSON can say about a value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=repr).encode()).hexdigest()


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
    counter = lambda leaf: jnp.ndim(leaf) == 0 and jnp.issubdtype(leaf.dtype, jnp.integer)  # noqa: E731

    @jax.jit
    def step(state, count):
        state = jax.tree.map(lambda leaf: count.astype(leaf.dtype) if counter(leaf) else leaf, state)
        updates, state = optimizer.update(gradient, state, params)
        pairs = [(jnp.vdot(u, g), jnp.vdot(u, u)) for u, g in zip(jax.tree.leaves(updates), jax.tree.leaves(gradient))]
        return jnp.stack([jnp.stack(pair) for pair in pairs]).sum(0), state

    state, seen = optimizer.init(params), []
    for count in COUNTS:
        numbers, state = step(state, jnp.int32(count))
        seen.extend(_numbers(numbers))
    return seen


def _decay(optimizer: Any, params: Any) -> list[float]:
    """Sizes of the first step of each parameter where the gradient is 0: what decays, and by how much."""
    moved = jax.tree.map(lambda leaf: leaf + jnp.ones_like(leaf), params)  # biases start at 0
    nothing = jax.tree.map(jnp.zeros_like, moved)
    updates, _ = optimizer.update(nothing, optimizer.init(moved), moved)
    return _numbers(jnp.stack([jnp.linalg.norm(jnp.ravel(leaf)) for leaf in jax.tree.leaves(updates)]))


def _numbers(value: Any) -> list[float]:
    """Up to 64 numbers of an array, in units of the largest, and that one."""
    flat = np.nan_to_num(np.asarray(value, np.float64).reshape(-1)[:64])  # of a run that diverges, too
    largest = float(np.max(np.abs(flat), initial=0.0))
    return [np.log1p(largest), *(flat / largest if largest else flat).tolist()]


def _hash(value: Any) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()


def _hash_array(array: Any) -> str:
    array = np.ascontiguousarray(array)
    return hashlib.sha256(f"{array.dtype} {array.shape}".encode() + array.tobytes()).hexdigest()

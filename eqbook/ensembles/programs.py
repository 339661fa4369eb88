"""The compiled programs of one chunk of members: its width decides what they are, not the number of members."""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array

from eqbook.ensembles.epoch import (
    Member,
    Recipe,
    abstract_member,
    chunk_initializer,
    held_by,
    initializer,
    member_keys,
    train_epochs,
    training_keys,
)
from eqbook.ensembles.remembered import remembered, shape_of
from eqbook.ensembles.width import step_bytes


class Programs:
    """Chunk `c` of width `w` holds the members `c w, ..., c w + w - 1`, also those behind the last one asked for.

    A member's numbers are those of its place in its chunk, whatever the number of members. Programs are compiled in
    the thread that asks first, under its settings; threads that only call them need none. An ensemble of the same
    network, optimiser and loss on other data of the same shape finds them compiled.

    Args:
        recipe: how a member is trained.
        key: random key of the ensemble.
        x: training inputs.
        y: training targets.
        width: members of a chunk.
        mesh: devices that share a chunk, each computing `width / mesh.size` members; `None` is one device.
        one: shapes and dtypes of a member's parameters.
    """

    def __init__(
        self, recipe: Recipe, key: jax.Array, x: Array, y: Array, width: int, mesh: Mesh | None, one: Any
    ) -> None:
        self.recipe, self.width, self.mesh, self._one = recipe, width, mesh, one
        self.x64 = jax.config.jax_enable_x64
        self._key, self._example, self._evaluators = key, x[:1], {}
        everywhere = PartitionSpec()
        self._data = tuple(self._place(array, everywhere) for array in (x, y))

    def members(self, chunk: int) -> range:
        """The members of a chunk."""
        return range(chunk * self.width, (chunk + 1) * self.width)

    def start(self, chunk: int) -> Member:
        """A chunk before training: on an accelerator it lies there, else on the host.

        On the host, too, if devices share it, of which none should hold all, or if the user said where arrays lie.
        """
        members = np.asarray(self.members(chunk), np.uint32)
        bound = self.mesh is not None or self._key.committed or self._example.committed
        on_host = jax.default_backend() == "cpu" or bound
        if on_host:
            keys = [member_keys(self._key, m)[0] for m in members]
            # Stacked by NumPy: XLA would compile a program for a stack of hundreds of arrays.
            drawn = [jax.tree.map(np.asarray, self._init(key, self._example)) for key in keys]
            params = jax.tree.map(lambda *leaves: np.stack(leaves), *drawn)
        else:
            params = self._init_chunk(self._key, members, self._example)
        state = jax.tree.map(partial(_own, members=members, on_host=on_host), self._init_state(params))
        dtype = jnp.result_type(float)
        total, lost, bad = (np.zeros(self.width, kind) for kind in (dtype, dtype, np.int32))
        return Member(params, state, total, lost, bad)

    def advance(self, chunk: int, member: Member, first: int, last: int) -> Member:
        """A chunk after epochs `first` to `last`; `member` is used up."""
        keys = _training_keys(self._key, np.asarray(self.members(chunk), np.uint32))
        split = self._split()
        placed = jax.tree.map(lambda leaf: self._place(leaf, split), member)
        return self.train(placed, self._place(keys, split), *self._data, np.int32(first), np.int32(last))

    def outputs(self, params: Any, x: np.ndarray, batch: int) -> np.ndarray:
        """Outputs of all members of a chunk, `[width, n, k]`, `batch` inputs at a time."""
        params = jax.tree.map(lambda leaf: self._place(leaf, self._split()), params)
        found = [self.evaluator(part)(params, self._place(part, PartitionSpec())) for part in self.parts(x, batch)]
        return np.concatenate([np.asarray(one) for one in found], axis=1)

    def parts(self, x: np.ndarray, batch: int) -> list[np.ndarray]:
        """Inputs in pieces of at most `batch`."""
        return [x[i : i + batch] for i in range(0, len(x), batch)]

    def room(self, records: int, members: int, x: np.ndarray) -> np.ndarray:
        """An array for the outputs of members on inputs, `[records, members, n, k]`."""
        found = jax.eval_shape(self.recipe.net.apply, self._one, jax.ShapeDtypeStruct(x.shape, self._dtype(x)))
        return np.empty((records, members, *found.shape), found.dtype)

    def check_inputs(self, x: Any) -> None:
        """Raise unless inputs are like those of the training."""
        if np.shape(x)[1:] != self._example.shape[1:]:
            raise ValueError(f"`x`: expected inputs {self._example.shape[1:]} as in training, got {np.shape(x)[1:]}.")

    def prepare(self, train: bool, batches: Iterable[np.ndarray]) -> None:
        """Compile what is about to be used, here and not in a thread; `batches` are inputs to be evaluated."""
        if train:
            self._init_state, self.train  # noqa: B018 - properties that compile
        for batch in batches:
            self.evaluator(batch)

    @cached_property
    def shapes(self) -> Member:
        """Shapes and dtypes of a chunk."""
        return _shapes(self.recipe, shape_of(self._key), shape_of(self._example), self.width)

    @cached_property
    def _params(self) -> Any:
        return _of_chunk(self._one, self.width)

    @cached_property
    def train(self) -> Callable:
        """The program that trains a chunk."""

        keys = jax.eval_shape(partial(jax.random.split, num=self.width), self._key)
        arguments = (self.shapes, keys, *self._data, np.int32(0), np.int32(0))
        return self._compile(self.recipe.held, _Train(self.recipe), 2, arguments, donate=True)

    def evaluator(self, x: np.ndarray) -> Callable:
        """The program that evaluates a chunk on inputs of the shape of `x`."""
        kind = (x.shape, self._dtype(x))
        if kind not in self._evaluators:
            # On the device of the training data, where the members are, if there is one.
            where = self._data[0].sharding
            example = jax.ShapeDtypeStruct(*kind, sharding=where if len(where.device_set) == 1 else None)
            net = self.recipe.net
            self._evaluators[kind] = self._compile(held_by(net), _Evaluate(net), 1, (self.shapes.params, example))
        return self._evaluators[kind]

    @staticmethod
    def _dtype(x: Any) -> Any:
        return jnp.asarray(x[:0]).dtype  # that of the array on a device: without 64-bit types another one

    @cached_property
    def _init_state(self) -> Callable:
        return self._lowered_state.compile()

    @cached_property
    def _lowered_state(self) -> Any:
        rule = self.recipe.optimizer
        return _shared(self.recipe.held[1], _starting, rule).lower(self._params)

    @cached_property
    def _init(self) -> Callable:
        return initializer(self.recipe.net, self.recipe.held[0])

    @cached_property
    def _init_chunk(self) -> Callable:
        return chunk_initializer(self.recipe.net, self.recipe.held[0])

    def _compile(
        self, held: tuple, function: Callable, mapped: int, arguments: tuple, donate: bool = False
    ) -> Callable:
        """Compile `function` of one member for a chunk: the first `mapped` arguments have an axis of members."""
        mesh = None if self.mesh is None else self._mesh
        made = _shared(held, _of_members, function, mapped, len(arguments), mesh, donate)
        return made.lower(*arguments).compile()

    @cached_property
    def _mesh(self) -> Mesh:
        # Axes of `jax.make_mesh` are explicit ones, which refuse operands that lie elsewhere; these move them.
        return Mesh(self.mesh.devices, self.mesh.axis_names)

    def _split(self) -> PartitionSpec:
        return PartitionSpec(self.mesh.axis_names) if self.mesh is not None else PartitionSpec()

    def _place(self, array: Any, spec: PartitionSpec) -> Array:
        if self.mesh is None:
            return jnp.asarray(array)
        return jax.device_put(array, NamedSharding(self._mesh, spec))


@dataclass(frozen=True)
class _Train:
    """Training of one member. The data are arguments: captured, they would be constants of the program."""

    recipe: Recipe

    def __call__(self, member: Member, key: jax.Array, x: Array, y: Array, first: Array, last: Array) -> Member:
        return train_epochs(self.recipe, member, key, x, y, first, last)


@dataclass(frozen=True)
class _Evaluate:
    """Outputs of one member."""

    net: Any

    def __call__(self, params: Any, x: Array) -> Array:
        return self.net.apply(params, x)


def _starting(optimizer: Any) -> Callable:
    """First states of the optimisers of a chunk, jitted."""
    return jax.jit(jax.vmap(optimizer.init))


def _of_members(function: Callable, mapped: int, count: int, mesh: Mesh | None, donate: bool) -> Callable:
    """`function` of one member, with `count` arguments, for a chunk on a mesh, jitted."""
    local = over_members(function, mapped)
    options: dict[str, Any] = {"donate_argnums": (0,) if donate else ()}
    if mesh is not None:
        split = PartitionSpec(mesh.axis_names)
        specs = tuple(split if k < mapped else PartitionSpec() for k in range(count))
        local = jax.shard_map(local, mesh=mesh, in_specs=specs, out_specs=split, check_vma=False)
        options["in_shardings"] = tuple(NamedSharding(mesh, spec) for spec in specs)
    return jax.jit(local, **options)


def _shared(held: tuple, make: Callable, *arguments: Hashable) -> Callable:
    """`make(*arguments)`, the same object for equal arguments: JAX compiles a function anew that it has not seen.

    Functions are equal if they are one object: `held` tells what they hold now, in their globals and attributes.
    """
    try:
        return _kept(held, make, *arguments)
    except TypeError:  # an optimiser that has no hash; what else is wrong fails again
        return make(*arguments)


@lru_cache(maxsize=32)
def _kept(_held: tuple, make: Callable, *arguments: Hashable) -> Callable:
    return make(*arguments)


def member_bytes(recipe: Recipe, key: jax.Array, x: Array, y: Array) -> int:
    """`step_bytes` of one member."""
    return _epoch_bytes(recipe, shape_of(key), shape_of(x), shape_of(y))


@remembered
def _epoch_bytes(recipe: Recipe, key: Any, x: Any, y: Any) -> int:
    """`step_bytes` of one member, from shapes."""

    def epoch(member, key, x, y):
        return train_epochs(recipe, member, key, x, y, 0, 1)

    one = _shapes(recipe, key, shape_of(x, 1), 1)
    # With the axis of the members, although it is one: a convolution of several of them writes more.
    keys = jax.ShapeDtypeStruct((1, *key.shape), key.dtype)
    return step_bytes(jax.vmap(epoch, (0, 0, None, None)), one, keys, x, y)


@remembered
def _shapes(recipe: Recipe, key: Any, example: Any, width: int) -> Member:
    """Shapes and dtypes of a chunk."""
    params = _of_chunk(abstract_member(recipe.net, key, example), width)
    return Member(params, jax.eval_shape(jax.vmap(recipe.optimizer.init), params), *_numbers(width))


def _of_chunk(one: Any, width: int) -> Any:
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((width, *leaf.shape), leaf.dtype), one)


def _numbers(width: int) -> tuple[jax.ShapeDtypeStruct, ...]:
    """Of the numbers that a `Member` holds besides."""
    number = partial(jax.ShapeDtypeStruct, (width,))
    return (*[number(jnp.result_type(float))] * 2, number(jnp.int32))


def _own(leaf: Array, members: np.ndarray, on_host: bool) -> Array | np.ndarray:
    """A leaf of the optimisers' first states; a random key, alike for all, becomes one for each member."""
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.vmap(jax.random.fold_in)(leaf, members)
    # On an accelerator a copy: an optimiser may keep the first parameters, and no memory can be given up twice.
    return np.asarray(leaf) if on_host else jnp.copy(leaf)


_training_keys = jax.jit(training_keys)


def over_members(function: Callable, mapped: int) -> Callable:
    """`function` of each member side by side; of a single one without the axis, which would slow convolutions.

    Args:
        function: of the arguments of one member, and others.
        mapped: how many of its first arguments are those of one member.
    """

    def call(*arguments: Any) -> Any:
        ours, others = arguments[:mapped], arguments[mapped:]
        if jax.tree.leaves(ours)[0].shape[0] > 1:
            return jax.vmap(function, in_axes=(0,) * mapped + (None,) * len(others))(*arguments)
        result = function(*jax.tree.map(lambda leaf: leaf[0], ours), *others)
        return jax.tree.map(lambda leaf: leaf[None], result)

    return call

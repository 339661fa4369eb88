"""One member, one pass over the data."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from eqbook._attributes import made_with
from eqbook._identity import numbers_in, without_addresses
from eqbook.ensembles.augmentation import Augmentation
from eqbook.ensembles.remembered import equations

Loss = Callable[[Array, Array], Array]
# Epochs are numbered from 0; this one, which is never reached, is the stream of the random group elements.
ELEMENTS = 2**32 - 1

THREEFRY = "threefry2x32"
# Random numbers without a key's own generator, and decompositions.
ALONE = set(
    "rng_bit_generator rng_uniform cholesky eig eigh geqrf householder_product lu qr schur svd tridiagonal".split()
)


class Member(NamedTuple):
    """A member in training; of a chunk of members each leaf has one more axis in front.

    Attributes:
        params: parameters of the network.
        state: state of the optimiser.
        total: loss, added up over the epochs since the last record.
        lost: what rounding has taken from that sum; in single precision a million epochs would lose a hundredth.
        bad: the first epoch whose loss was not finite, counted from 1; the last one that was trained where only a
            parameter is not, since these are looked at when a call of `train_epochs` ends; 0 if all is finite.
    """

    params: Any
    state: Any
    total: Float[Array, ""]
    lost: Float[Array, ""]
    bad: Int[Array, ""]


@dataclass(frozen=True)
class Recipe:
    """How each member is trained; the arguments of `train_ensemble` that define a step.

    Attributes:
        net: network.
        loss: of outputs and targets.
        optimizer: from optax.
        batch_size: examples of a step; `None` is all of them.
        augment: augmentation, or `None`.
        held: what the network held when training began, and what loss, optimiser and augmentation did, see `held_by`:
            recipes of the same objects that have changed since are not equal.
        part: examples of a step whose gradients are computed at a time; `None` is all of them.
        mean: whether the loss is a mean over examples, and not a sum.
    """

    net: Any
    loss: Loss
    optimizer: optax.GradientTransformation
    batch_size: int | None
    augment: Augmentation | None
    held: tuple[tuple, tuple]
    part: int | None = None
    mean: bool = False


def held_by(net: Any, *functions: Any) -> tuple:
    """The numbers that a network and functions hold now: a program that was made of the same objects may hold others.

    Not seen is what `numbers_in` does not see, such as a variable of a package that has changed. What cannot be read,
    as an array on other processes' devices, equals nothing, itself at a later time included.
    """
    try:
        # 1 and 1.0 are equal, and have equal hashes; what they make has another dtype.
        return (*numbers_in([made_with(net), *functions]), without_addresses(net))
    except Exception:  # noqa: BLE001 - whatever reading an unknown object may raise
        return (object(),)


def initializer(net: Any, held: tuple) -> Callable:
    """A function of a key and an example that draws a member's parameters; not inside another jit.

    A Flax module wants an example, a `Sequential` a shape. XLA compiles random numbers slowly: a program for one member
    serves any number of them.
    """
    return partial(_initializer(jax.default_backend()), net, held)


def chunk_initializer(net: Any, held: tuple) -> Callable:
    """A function of the ensemble's key, numbers of members `[width]` and an example that draws all their parameters.

    For an accelerator, which takes longer to be asked than to draw: one program, and nothing goes through the host.
    """
    return partial(_chunk_initializer, net, held)


@partial(jax.jit, static_argnums=(0, 1))
def _chunk_initializer(net: Any, held: tuple, key: jax.Array, members: Int[Array, " width"], example: Array) -> Any:
    def one(m):
        return _init(net, held, member_keys(key, m)[0], example)

    if side_by_side(jax.make_jaxpr(one)(members[0]).jaxpr):
        return jax.vmap(one)(members)
    return jax.lax.map(one, members)


def training_keys(key: jax.Array, members: Int[Array, " width"]) -> jax.Array:
    """The second key of each of some members."""
    each = jax.vmap if jax.random.key_impl(key) == THREEFRY else lambda one: partial(jax.lax.map, one)
    return each(lambda m: member_keys(key, m)[1])(members)


def side_by_side(traced: Any) -> bool:
    """Whether a traced function gives many members side by side what it gives each of them.

    Generators other than threefry draw for all from the key of the first one, decompositions of many matrices may round
    in another way than those of one, and functions on the host may not know what to do with many.
    """
    known = jax.eval_shape(lambda: jax.random.key(0, impl=THREEFRY)).dtype
    for equation in equations(traced):
        name = equation.primitive.name
        if name in ALONE or "callback" in name:
            return False
        for variable in (*equation.invars, *equation.outvars):
            dtype = getattr(variable.aval, "dtype", known)
            if jnp.issubdtype(dtype, jax.dtypes.prng_key) and dtype != known:
                return False
    return True


def init_member(net: Any, key: jax.Array, example: Array) -> Any:
    """Parameters of one member, see `initializer`."""
    return initializer(net, held_by(net))(key, example)


def abstract_member(net: Any, key: jax.Array, example: Array) -> Any:
    """Shapes and dtypes of the parameters of one member."""
    return jax.eval_shape(partial(_init, net, ()), key, example)


@cache
def _initializer(backend: str) -> Callable:
    """On a CPU few optimisations give the same bits, and take a quarter of the time to compile."""
    options = {"xla_backend_optimization_level": 1} if backend == "cpu" else {}
    return jax.jit(_init, static_argnums=(0, 1), compiler_options=options)


def _init(net: Any, _held: tuple, key: jax.Array, example: Array) -> Any:
    return net.init(key, example if isinstance(net, nn.Module) else example.shape)


def member_keys(key: jax.Array, m: Int[Array, ""]) -> tuple[jax.Array, jax.Array]:
    """Keys of member `m`, for its initial parameters and for its training: they depend on no other member."""
    init, training = jax.random.split(jax.random.fold_in(key, m))
    return init, training


def threefry_key(key: jax.Array) -> jax.Array:
    """The key itself if it is one of threefry; else one that is made of its bits.

    Other generators draw for all members side by side from the key of the first one.
    """
    if jax.random.key_impl(key) == THREEFRY:
        return key
    made = jax.random.key(0, impl=THREEFRY)
    for word in jax.random.key_data(key).ravel():
        made = jax.random.fold_in(made, word)
    return made


def loss_and_gradient(recipe: Recipe, params: Any, inputs: Array, targets: Array) -> tuple[Array, Any]:
    """Loss of a batch and its gradient, part by part: what one part needs may fit a cache, or a memory."""

    def of(inputs, targets):
        return jax.value_and_grad(lambda p: recipe.loss(recipe.net.apply(p, inputs), targets))(params)

    if recipe.part is None or recipe.part >= len(inputs):
        return of(inputs, targets)
    parts = [z.reshape(-1, recipe.part, *z.shape[1:]) for z in (inputs, targets)]
    found = jax.eval_shape(of, *[z[0] for z in parts])
    # With the 8 bits of bfloat16 a sum of parts would stand still once it is 256 times as large as one of them.
    zero = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, jnp.promote_types(leaf.dtype, jnp.float32)), found)
    added, _ = jax.lax.scan(lambda total, part: (jax.tree.map(jnp.add, total, of(*part)), None), zero, tuple(parts))
    count = len(parts[0]) if recipe.mean else 1
    return jax.tree.map(lambda total, leaf: (total / count).astype(leaf.dtype), added, found)


def _added(total: Array, lost: Array, value: Array) -> tuple[Array, Array]:
    """A sum as two numbers: the rounding of an addition is a number itself (Knuth), and kept beside it."""
    found = total + value
    part = found - total
    lost = lost + ((total - (found - part)) + (value - part))
    total = found + lost
    return total, lost - (total - found)


def train_epochs(recipe: Recipe, member: Member, key: jax.Array, x: Array, y: Array, first: int, last: int) -> Member:
    """Epochs `first` to `last` of one member; both may be abstract, so that one program serves all of them."""
    augment, batch_size = recipe.augment, recipe.batch_size
    size = len(x) if augment is None else augment.size(len(x))
    if batch_size is None and augment is not None and not augment.random:
        x, y = augment.draw(None, jnp.arange(size), x, y)  # once, and not in each step
        augment = None
    key = threefry_key(key)
    elements = jax.random.fold_in(key, jnp.uint32(ELEMENTS))

    def examples(rows, epoch, number):
        if augment is None:
            return (x, y) if rows is None else (x[rows], y[rows])
        drawn = jax.random.fold_in(jax.random.fold_in(elements, epoch), number)
        return augment.draw(drawn, jnp.arange(size) if rows is None else rows, x, y)

    def step(carry, batch):
        params, state, epoch = carry
        inputs, targets = examples(*batch[:1], epoch, batch[1])
        value, gradient = loss_and_gradient(recipe, params, inputs, targets)
        updates, state = recipe.optimizer.update(gradient, state, params)
        return (optax.apply_updates(params, updates), state, epoch), value

    def run_epoch(epoch, member):
        start = (member.params, member.state, epoch)
        if batch_size is None:
            (params, state, _), value = step(start, (None, jnp.int32(0)))
        else:
            order = jax.random.permutation(jax.random.fold_in(key, epoch), size)
            batches = order[: size // batch_size * batch_size].reshape(-1, batch_size)
            (params, state, _), values = jax.lax.scan(step, start, (batches, jnp.arange(len(batches))))
            value = jnp.mean(values)
        bad = jnp.where((member.bad == 0) & ~jnp.isfinite(value), epoch + 1, member.bad)
        return Member(params, state, *_added(member.total, member.lost, value.astype(member.total.dtype)), bad)

    member = jax.lax.fori_loop(first, last, run_epoch, member)
    # The last step may diverge, and no loss would show it.
    finite = jnp.array(True)
    for leaf in jax.tree.leaves(member.params):
        finite &= jnp.all(jnp.isfinite(leaf))
    return member._replace(bad=jnp.where((member.bad == 0) & ~finite, last, member.bad))

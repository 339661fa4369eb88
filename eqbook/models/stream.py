"""Training and testing one network on batches, which need not fit in memory together."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int

from eqbook._checks import check_finite, check_int, check_ndim
from eqbook._shown import shown
from eqbook.data.image_folder import batch_rows
from eqbook.ensembles.arguments import check_hashable_net, check_training
from eqbook.ensembles.losses import cross_entropy

Batches = Iterable[tuple[Array, Array]]


def initial_params(net: Any, key: jax.Array, x: Float[Array, "n h w c"]) -> Any:
    """Initial parameters of a network, by a program that is compiled once for each network.

    Args:
        net: module of flax.linen.
        key: random key.
        x: one image or more, of which only the shape and the dtype matter.

    Raises:
        ValueError: if `net` is not of its kind, or has lists as attributes.
    """
    check_hashable_net(net)
    return _initial_params(net, key, x[:1])


@partial(jax.jit, static_argnums=0)
def _initial_params(net: Any, key: jax.Array, x: Float[Array, "1 h w c"]) -> Any:
    return net.init(key, x)


def train_on_stream(
    net: Any,
    params: Any,
    batches: Batches,
    rates: Sequence[float] | Float[np.ndarray, " steps"],
    optimizer: optax.GradientTransformation,
) -> tuple[Any, Float[np.ndarray, " steps"]]:
    r"""Train one network by cross-entropy, $\theta_{s+1} = \theta_s - \eta_s u_s$, a step for each batch.

    The program of a step is compiled once for a network, an optimiser and a size of batches, and serves every call:
    runs on many data sets cost one compilation. The next batch is read while the device computes.

    Args:
        net: module of flax.linen.
        params: where to start.
        batches: images `[n, h, w, c]` in floating numbers and classes `[n]`, as many batches as there are steps.
        rates: $\eta_s$, `[steps]`.
        optimizer: from optax, without a step size: $u_s$ is what it makes of the gradient; such as `flax_momentum()`.

    Returns:
        Parameters, and the loss of each step in nats, before it.

    Raises:
        ValueError: if there are not as many batches as steps, a batch is no pair or empty, images are no floating
            numbers, there is not one class for each, a class is not one of the network's outputs, or an argument is not
            of its kind.
        FloatingPointError: if the loss is no longer finite; names the step.
    """
    check_training(net, optimizer)
    check_ndim("rates", rates, 1, "steps")
    check_finite("rates", rates)
    _check_batches(batches)
    state, losses, reader, classes = optimizer.init(params), [], iter(batches), None
    for number, rate in enumerate(np.asarray(rates, float)):
        batch = next(reader, None)
        if batch is None:
            raise ValueError(f"`batches`: expected {len(rates)}, one for each step size, got {number}.")
        x, y = _pair(batch)
        _check_batch(x, y)
        if classes is None:
            classes = jax.eval_shape(net.apply, params, x).shape[-1]
        _check_classes(y, classes)
        params, state, value = _step(net, optimizer, params, state, x, jnp.asarray(y), rate)
        losses.append(value)
        if number % 100 == 99 or number == len(rates) - 1:  # looking at each would wait for it
            _check(losses, number - number % 100)
    if next(reader, None) is not None:
        raise ValueError(f"`batches`: expected {len(rates)}, one for each step size, got more.")
    return params, np.asarray(losses)


def predict_on_stream(
    net: Any, params: Any, batches: Batches
) -> tuple[Float[np.ndarray, "n classes"], Int[np.ndarray, " n"]]:
    """Outputs of a network for all images, and their classes.

    Args:
        net: module of flax.linen.
        params: its parameters.
        batches: images `[n, h, w, c]` in floating numbers and classes `[n]`, which are handed back as they are.

    Raises:
        ValueError: if `net` is not of its kind, there is no batch, one is no pair, images are no floating numbers, or
            there is not one class for each.
    """
    check_hashable_net(net)
    _check_batches(batches)
    found = []
    for batch in batches:
        x, y = _pair(batch)
        _check_images(x, y)
        found.append((np.asarray(_outputs(net, params, x)), y))
    if not found:
        raise ValueError("`batches`: expected at least one batch, got none.")
    scores, labels = zip(*found)
    return np.concatenate(scores), np.concatenate(labels)


def batches_of(
    x: Float[Array, "n h w c"], y: Int[Array, " n"], batch_size: int, *, epochs: int = 1, seed: int | None = None
) -> Iterator[tuple[Array, Array]]:
    """Batches of images in memory, as `eqbook.data.ImageFolder.batches` makes them of files.

    Args:
        x: images.
        y: classes.
        batch_size: images in a batch.
        epochs: passes over them.
        seed: draws the order of each pass anew, and leaves out the rest that does not fill a batch; `None` keeps the
            order and the rest.

    Raises:
        ValueError: if the numbers of images and of classes differ, or a number is out of range; at once, before the
            first batch is asked for.
    """
    for name, array in (("x", x), ("y", y)):
        if not isinstance(array, np.ndarray | jax.Array) or array.ndim == 0:
            raise ValueError(f"`{name}`: expected an array [n, ...], got {shown(array)}.")
    if len(x) != len(y):
        raise ValueError(f"`y`: expected a class for each of {len(x)} images, got {len(y)}.")
    check_int("batch_size", batch_size, 1)
    check_int("epochs", epochs, 0)
    if seed is not None:
        check_int("seed", seed, 0)
    # Not `yield`: it would put off these checks until the first batch.
    return ((x[rows], y[rows]) for rows in batch_rows(range(len(x)), batch_size, epochs, seed))


def _check_batches(batches: Any) -> None:
    if not isinstance(batches, Iterable):
        raise ValueError(f"`batches`: expected pairs of images and classes, got {shown(batches)}; see `batches_of`.")


def _pair(batch: Any) -> tuple[Array, np.ndarray]:
    """Images and classes of a batch. An array is refused: its first two rows would be taken for them."""
    if not isinstance(batch, tuple | list) or len(batch) != 2:
        raise ValueError(f"`batches`: expected pairs of images and classes, got {shown(batch)}; see `batches_of`.")
    return jnp.asarray(batch[0]), np.asarray(batch[1])


def _check_images(x: Array, y: np.ndarray) -> None:
    """Raise unless images are floating numbers, which integers from files are not yet, and each has a class."""
    if not jnp.issubdtype(x.dtype, jnp.floating):
        raise ValueError(f"`batches`: expected images in floating numbers, got {x.dtype}; see `eqbook.data.to_unit`.")
    if y.ndim != 1 or y.shape != x.shape[:1]:
        raise ValueError(f"`batches`: expected a class for each of {x.shape[:1]} images, got shape {y.shape}.")


def _check_batch(x: Array, y: np.ndarray) -> None:
    """Raise unless there are floating images, at least one, and an integer for each."""
    if y.ndim != 1 or not jnp.issubdtype(y.dtype, jnp.integer):
        raise ValueError(f"`batches`: expected integer classes [n], got shape {y.shape}, dtype {y.dtype}.")
    _check_images(x, y)
    if y.size == 0:
        raise ValueError("`batches`: expected at least one image in each batch, got none; leave empty ones out.")


def _check_classes(y: np.ndarray, classes: int) -> None:
    """Raise unless the network has an output for each class."""
    low, high = int(y.min()), int(y.max())
    if low < 0 or high >= classes:
        raise ValueError(f"`batches`: expected classes 0 .. {classes - 1}, one for each output, got {low} .. {high}.")


@partial(jax.jit, static_argnums=(0, 1))
def _step(net, optimizer, params, state, x, y, rate):
    value, gradient = jax.value_and_grad(lambda p: cross_entropy(net.apply(p, x), y))(params)
    updates, state = optimizer.update(gradient, state, params)
    moved = jax.tree.map(lambda p, u: p - jnp.asarray(rate, p.dtype) * u, params, updates)
    return moved, state, value


@partial(jax.jit, static_argnums=0)
def _outputs(net, params, x):
    return net.apply(params, x)


def _check(losses: list[Any], first: int) -> None:
    for number in range(first, len(losses)):
        losses[number] = float(losses[number])
        if not np.isfinite(losses[number]):
            raise FloatingPointError(
                f"training diverged: the loss of step {number + 1} is {losses[number]}; lower `rates`."
            )

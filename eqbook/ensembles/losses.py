"""Losses of one batch of one member."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int


def squared_error(outputs: Float[Array, "n k"], targets: Float[Array, "n k"]) -> Float[Array, ""]:
    r"""$\frac12 \sum_i \| f(x_i) - y_i \|^2$, summed over the batch: the loss of `eqbook.dynamics`.

    Args:
        outputs: outputs of the network, `[n, k]`.
        targets: targets, `[n, k]`.

    Raises:
        ValueError: if the shapes differ; a silent broadcast would train on something else.
    """
    if np.shape(outputs) != np.shape(targets):
        raise ValueError(f"`y`: expected targets of the outputs' shape {np.shape(outputs)}, got {np.shape(targets)}.")
    return 0.5 * jnp.sum((outputs - targets) ** 2)


def cross_entropy(outputs: Float[Array, "n k"], targets: Int[Array, " n"]) -> Float[Array, ""]:
    r"""$-\frac1n \sum_i \log \mathrm{softmax}(f(x_i))_{y_i}$, averaged over the batch, in nats.

    Args:
        outputs: scores of the classes, `[n, k]`.
        targets: classes, integers, `[n]`.

    Raises:
        ValueError: if the outputs have other axes, the targets are not one integer per example, or one of them is no
            class; inside `jit`, where values are not known, one that is no class is not seen.
    """
    if outputs.ndim != 2:
        raise ValueError(
            f"`outputs`: expected scores [n, classes], got shape {outputs.shape}; end the network with vectors, for "
            "example by Flatten() or GlobalAvgPool(), and Dense(classes)."
        )
    if targets.shape != outputs.shape[:1] or not jnp.issubdtype(targets.dtype, jnp.integer):
        raise ValueError(
            f"`y`: expected one integer class for each of {outputs.shape[0]} examples, got shape {targets.shape}, "
            f"dtype {targets.dtype}."
        )
    if not isinstance(targets, jax.core.Tracer) and targets.size:
        low, high, classes = int(targets.min()), int(targets.max()), outputs.shape[-1]
        if low < 0 or high >= classes:
            raise ValueError(f"`y`: expected classes 0 .. {classes - 1}, one for each score, got {low} .. {high}.")
    return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(outputs, targets))

"""The optimiser of Flax's ImageNet example."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Float

from eqbook._checks import check_int, check_number


def flax_rates(
    examples: int, epochs: int, batch_size: int, *, base_rate: float = 0.1, warmup_epochs: float = 5
) -> Float[np.ndarray, " steps"]:
    r"""The step size of each step: it rises linearly, and falls like a cosine.

    In step $s$ of $S$, with $w$ steps of warm-up and batches of $|B|$, it is $\eta_0 |B| / 256$ times $s / w$ for
    $s < w$ and $\frac12 (1 + \cos \pi \frac{s - w}{S - w})$ after that.

    Args:
        examples: training examples.
        epochs: passes over them.
        batch_size: $|B|$.
        base_rate: $\eta_0$.
        warmup_epochs: epochs of warm-up; at most a tenth of all are used.

    Raises:
        ValueError: if a number is out of range, or a batch is larger than the data.

    References:
        Goyal, Dollár, Girshick, Noordhuis, Wesolowski, Kyrola, Tulloch, Jia, He, "Accurate, Large Minibatch SGD:
        Training ImageNet in 1 Hour", 2017, https://arxiv.org/abs/1706.02677
    """
    examples, epochs = check_int("examples", examples, 1), check_int("epochs", epochs, 1)
    if check_int("batch_size", batch_size, 1) > examples:
        raise ValueError(f"`batch_size`: expected at most {examples}, the examples, got {batch_size}.")
    peak = check_number("base_rate", base_rate, positive=True) * batch_size / 256
    each = examples // batch_size
    warm = round(min(check_number("warmup_epochs", warmup_epochs), epochs / 10) * each)
    s = np.arange(epochs * each)
    fall = 0.5 * (1 + np.cos(np.pi * (s - warm) / (epochs * each - warm)))
    return peak * np.where(s < warm, s / max(warm, 1), fall)


@cache
def flax_momentum(weight_decay: float = 1e-4, momentum: float = 0.9) -> optax.GradientTransformation:
    r"""Gradients with decay of the weights and Nesterov's momentum, to be multiplied by a step size.

    The loss gets the term $\frac\lambda2 |W|^2$ of all weights with two axes or more: not of biases, nor of the scales
    of norms. It commutes with orthogonal maps of the weights of a layer, so networks can be coupled. Called again
    in the same way it returns the same object, so that programs compiled for it are found again.

    Args:
        weight_decay: $\lambda$.
        momentum: of Nesterov.

    Raises:
        ValueError: if one of them is no number >= 0.
    """
    decay = optax.add_decayed_weights(check_number("weight_decay", weight_decay), mask=_weights)
    return optax.chain(decay, optax.trace(check_number("momentum", momentum), nesterov=True))


def flax_recipe(
    examples: int, epochs: int, batch_size: int, *, weight_decay: float = 1e-4, momentum: float = 0.9, **rates: float
) -> optax.GradientTransformation:
    """`flax_momentum` with the step sizes of `flax_rates`, for `eq.train_ensemble`.

    Args:
        examples: training examples.
        epochs: passes over them.
        batch_size: examples of a step.
        weight_decay: as for `flax_momentum`.
        momentum: as for `flax_momentum`.
        rates: `base_rate` and `warmup_epochs` of `flax_rates`.

    Raises:
        ValueError: if a number is out of range, or a batch is larger than the data.
    """
    sizes = flax_rates(examples, epochs, batch_size, **rates)
    step = optax.scale_by_schedule(lambda count: -jnp.asarray(sizes, jnp.float32)[count])
    return optax.chain(flax_momentum(weight_decay, momentum), step)


def _weights(params):
    return jax.tree.map(lambda leaf: jnp.ndim(leaf) > 1, params)

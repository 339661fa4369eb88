"""How far outputs change over the orbit of an input."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from eqbook._checks import as_float, check_finite, check_ndim, joined
from eqbook.groups.actions import Action
from eqbook.metrics.wide import in_all_digits, is_narrowed, narrowed


def orbit_same_predictions(outputs: Float[Array, "order n classes"]) -> Int[Array, " n"]:
    r"""Number of group elements that leave the predicted class unchanged.

    $\mathrm{OSP}(x) = |\{g \in G : \arg\max f(\rho(g) x) = \arg\max f(x)\}|$. The identity counts, so the value is
    between 1 and $|G|$; a model with invariant classes reaches $|G|$ everywhere.

    Args:
        outputs: class scores over the orbit of each input, `[order, n, classes]`, the identity first.

    Raises:
        ValueError: if the shape is another or a score is not finite.

    References:
        Gerken, Kessel, "Emergent Equivariance in Deep Ensembles", ICML 2024, https://arxiv.org/abs/2403.03103
    """
    outputs = _check_scores("outputs", outputs, "order")
    predicted = _predicted(outputs)
    return jnp.sum(predicted == predicted[0], axis=0)


def relative_orbit_std(outputs: Float[Array, "order n"]) -> Float[Array, " n"]:
    r"""Standard deviation over the orbit in units of the orbit's mean.

    $\mathrm{std}_{g} f(\rho(g) x) \,/\, |\mathrm{mean}_{g} f(\rho(g) x)|$: the spread (population form) over
    the orbit. It is 0 exactly for an invariant model and does not change when the outputs are rescaled, unless they
    leave the range of normal numbers; it is infinite where the mean is 0 and the spread is not.

    Args:
        outputs: scalar outputs over the orbit of each input, `[order, n]`.

    Raises:
        ValueError: if the shape is another or an output is not finite.

    References:
        Gerken, Kessel, "Emergent Equivariance in Deep Ensembles", ICML 2024, https://arxiv.org/abs/2403.03103
    """
    outputs = joined("outputs", outputs)
    check_ndim("outputs", outputs, 2, "order, n")
    check_finite("outputs", outputs)
    if np.shape(outputs)[0] == 0:
        raise ValueError(f"`outputs`: expected at least one element, got shape {np.shape(outputs)}.")
    xp = np if is_narrowed(outputs) else jnp
    outputs = np.asarray(outputs, np.float64) if xp is np else as_float(outputs)
    # In units of a power of 2 about as large as an orbit: squares stay in the range of the dtype, nothing is rounded.
    outputs = xp.ldexp(outputs, -xp.frexp(xp.max(xp.abs(outputs), axis=0))[1])
    # Differences to the first element: they, and so their spread, are exactly 0 where all outputs are equal.
    spread = xp.std(outputs - outputs[0], axis=0)
    with np.errstate(divide="ignore"):
        # Without a spread the result is 0, even if all outputs are 0.
        return jnp.asarray(spread / xp.where(spread > 0, xp.abs(xp.mean(outputs, axis=0)), 1))


def orbit_mse(
    outputs: Float[Array, "order n *features"], action_out: Action | Float[Array, "order k k"]
) -> Float[Array, " n"]:
    r"""Mean squared distance over the orbit between the output at the moved input and the moved output.

    $\frac{1}{|G|\, k} \sum_{g} \| f(\rho_X(g) x) - \rho_Y(g) f(x) \|^2$ for $k$ output features. It is 0 if and only
    if $f$ is equivariant on the orbit of $x$. The identity counts, with the value 0. Averaged over the orbit of $x$ it
    is, for orthogonal $\rho_Y$, twice the variance over $g$ of $\rho_Y(g)^{-1} f(\rho_X(g) x)$.

    Args:
        outputs: $f(\rho_X(g) x)$ over the orbit of each input, `[order, n, ...]`, the identity first; in squared units
            of the result.
        action_out: $\rho_Y$; or, for elements drawn from a continuous group, its matrices for outputs `[order, n, k]`,
            `[order, k, k]`, the identity first.

    Raises:
        ValueError: if a shape does not fit, an output is not finite, the first element is not the identity, or the
            result has left the dtype.

    References:
        Gerken, Kessel, "Emergent Equivariance in Deep Ensembles", ICML 2024, https://arxiv.org/abs/2403.03103 (the
        "orbit MSE" of the appendix on cross products; its normalisation is not stated there and is ours).
    """
    outputs, action_out = joined("outputs", outputs), joined("action_out", action_out)
    check_finite("outputs", outputs)
    if np.ndim(outputs) < 3 or 0 in np.shape(outputs):
        raise ValueError(f"`outputs`: expected [order, n, ...features], got shape {np.shape(outputs)}.")

    def distance() -> Array:
        x = as_float(outputs)
        return jnp.mean((x - _moved(x, action_out)) ** 2, axis=(0, *range(2, x.ndim)))

    return narrowed("outputs", in_all_digits(distance, outputs, action_out))


def _moved(outputs: Array, action_out: Action | Array) -> Float[Array, "order n *features"]:
    """The output at the identity, moved by every element."""
    order = outputs.shape[0]
    if isinstance(action_out, Action):
        if action_out.group.order != order or action_out.group.identity != 0:
            raise ValueError(
                f"`action_out`: expected an action of a group of order {order} as in `outputs`, whose element 0 is the "
                f"identity, got {action_out!r} with identity {action_out.group.identity}."
            )
        return jnp.stack([action_out(g, outputs[0]) for g in action_out.group.elements])
    check_finite("action_out", action_out)
    k = outputs.shape[-1]
    if outputs.ndim != 3 or np.shape(action_out) != (order, k, k):
        raise ValueError(
            f"`action_out`: expected an action, or matrices [order, k, k] for outputs [order, n, k] of shape "
            f"{outputs.shape}, got shape {np.shape(action_out)}."
        )
    # Not `action_out[0]`: inside `jit` even the entries of a known array are abstract.
    if not isinstance(action_out, jax.core.Tracer) and not np.array_equal(np.asarray(action_out)[0], np.eye(k)):
        raise ValueError("`action_out`: expected the identity matrix first; put it, and f(x), in front.")
    return jnp.einsum("gij,nj->gni", jnp.asarray(action_out, outputs.dtype), outputs[0], precision="highest")


def orbit_kl(outputs: Float[Array, "order n classes"]) -> Float[Array, " n"]:
    r"""Symmetrised Kullback-Leibler divergence between predicted class probabilities over the orbit, in nats.

    $\frac{1}{|G|} \sum_g \left( \mathrm{KL}(p_e \| p_g) + \mathrm{KL}(p_g \| p_e) \right)
    = \frac{1}{|G|} \sum_{g, c} (p_g(c) - p_e(c)) \log \frac{p_g(c)}{p_e(c)}$ with
    $p_g = \mathrm{softmax} f(\rho(g) x)$: the sum of both directions, not their mean; the identity counts, with the
    value 0. It is 0 if and only if the probabilities are invariant. Unlike `orbit_same_predictions` it does not depend
    on which of two nearly equal scores is larger.

    Small changes keep their digits: the relative error is some roundings, also where the scores of an element have a
    large shift in common; times the largest $|\log p|$ of the classes that count, if that is large. What is rounded in
    the scores themselves stays.

    Args:
        outputs: class scores before the softmax over the orbit of each input, `[order, n, classes]`, the identity
            first. For an ensemble whose prediction is a mean of probabilities, their logarithms.

    Raises:
        ValueError: if the shape is another, a score is not finite, or the result has left the dtype.

    References:
        Nordenfors, Flinth, "Ensembles provably learn equivariance through data augmentation", 2024,
        https://arxiv.org/abs/2410.01452 (normalised as in their released code)
    """
    outputs = _check_scores("outputs", outputs, "order")
    return narrowed("outputs", in_all_digits(lambda: _symmetrised_kl(as_float(outputs)), outputs))


def _symmetrised_kl(scores: Float[Array, "order n classes"]) -> Float[Array, " n"]:
    log_p = jax.nn.log_softmax(scores, axis=-1)
    ratio = _log_ratio(scores, log_p[0])
    # p_g - p_e by the smaller of the two over the larger, 1 - e^-|ratio|: without cancellation, and without overflow.
    up = ratio > 0
    gain = -jnp.exp(log_p) * jnp.expm1(-jnp.where(up, ratio, 0))
    loss = jnp.exp(log_p[0]) * jnp.expm1(jnp.where(up, 0, ratio))
    # Each term is the product of two numbers of one sign: nothing cancels in the sum.
    return jnp.mean(jnp.sum(jnp.where(up, gain, loss) * ratio, axis=-1), axis=0)


def _log_ratio(scores: Float[Array, "order n classes"], log_p: Float[Array, "n classes"]) -> Array:
    r"""$\log p_g(c) / p_e(c) = \delta_c - \log \sum_{c'} p_e(c') e^{\delta_{c'}}$, for differences $\delta$ of scores.

    Differences are taken first: of close scores they are exact. What they have at the likeliest class of $p_e$ is taken
    off: a change that all classes share is no change of probabilities.
    """
    a, b = scores / 2, scores[0] / 2  # half of a shift as large as the dtype allows is no infinite difference
    half = a - b
    lost = (a - (half - (half - a))) - (b + (half - a))  # a - b - half, exactly: what is rounded off a large shift
    likeliest = jnp.argmax(log_p, axis=-1)[None, :, None]
    half, lost = (part - jnp.take_along_axis(part, likeliest, axis=-1) for part in (half, lost))
    delta = 2 * (half + lost)
    # For small changes 1 + a small number, at least p_e of the likeliest class. Large ones could overflow.
    large = jnp.max(delta, axis=-1, keepdims=True) > 1
    near_1 = jnp.log1p(jnp.sum(jnp.exp(log_p) * jnp.expm1(jnp.minimum(delta, 1)), axis=-1, keepdims=True))
    return delta - jnp.where(large, jax.nn.logsumexp(log_p + delta, axis=-1, keepdims=True), near_1)


def same_class_fraction(
    outputs: Float[Array, "n classes"], rotated: Float[Array, "rotations n classes"]
) -> Float[Array, " n"]:
    r"""Fraction of rotations that leave the predicted class unchanged.

    $\frac1R \sum_{r} 1[\arg\max f(\rho(g_r) x) = \arg\max f(x)]$ over $R$ rotations $g_r$. For $g_r$ drawn
    independently with the Haar measure it estimates the probability $p$ of an unchanged class, with standard error
    $\sqrt{p (1 - p) / R}$.

    Args:
        outputs: class scores of the inputs as they are, `[n, classes]`.
        rotated: class scores of the rotated inputs, `[rotations, n, classes]`; the identity need not be among them.

    Raises:
        ValueError: if a shape does not fit or a score is not finite.

    References:
        Gerken, Kessel, "Emergent Equivariance in Deep Ensembles", ICML 2024, https://arxiv.org/abs/2403.03103
        (figure 3).
    """
    outputs, rotated = joined("outputs", outputs), _check_scores("rotated", rotated, "rotations")
    check_finite("outputs", outputs)
    if np.shape(outputs) != np.shape(rotated)[1:]:
        raise ValueError(
            f"`outputs`: expected [n, classes] of shape {np.shape(rotated)[1:]} as in `rotated`, "
            f"got {np.shape(outputs)}."
        )
    return jnp.mean(_predicted(rotated) == _predicted(outputs), axis=0, dtype=jnp.result_type(float))


def _predicted(scores: Array) -> Array:
    """The class of the largest score. JAX would narrow NumPy's of 64 bits to 32, where different ones are equal."""
    return jnp.argmax(scores, axis=-1) if isinstance(scores, jax.Array) else np.argmax(np.asarray(scores), axis=-1)


def _check_scores(name: str, scores: Array, first: str) -> Array:
    scores = joined(name, scores)
    check_ndim(name, scores, 3, f"{first}, n, classes")
    check_finite(name, scores)
    if 0 in (np.shape(scores)[0], np.shape(scores)[2]):
        raise ValueError(f"`{name}`: expected at least one element and one class, got shape {np.shape(scores)}.")
    return scores

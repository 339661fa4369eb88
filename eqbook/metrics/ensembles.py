"""A metric of ensembles of every size, made from the members of one run, and how sure it is."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Shaped

from eqbook._checks import (
    check_finite,
    check_function,
    check_int,
    check_key,
    check_known,
    check_numeric,
    check_range,
    check_rectangular,
)
from eqbook._shown import summary

Metric = Callable[[Array], Array]


@dataclass(frozen=True)
class BootstrapDraws:
    """Resampled values, `[resamples]` each, drawn together: their differences are paired.

    Attributes:
        ensemble: the metric of the mean over the resampled members, averaged over the resampled inputs.
        members: the mean over the resampled members of their own metric, averaged over the same inputs.
    """

    ensemble: Float[np.ndarray, " resamples"]
    members: Float[np.ndarray, " resamples"]

    __repr__ = summary


def disjoint_ensembles(outputs: Shaped[Array, "members ..."], size: int) -> Shaped[np.ndarray, "count ..."]:
    r"""Mean outputs of $\lfloor M / m \rfloor$ disjoint ensembles of $m$ of the $M$ members, in their order.

    Ensembles that share no member are independent, so their spread is an error bar.

    Args:
        outputs: outputs of the members, `[members, ...]`.
        size: m, members of each ensemble.

    Returns:
        Mean outputs, `[members // size, ...]`, of the dtype of `outputs`, float64 for integers; members that do not
        fill an ensemble are left out.

    Raises:
        ValueError: if an output is not finite or abstract (inside `jit`), or `size` is not between 1 and the number of
            members.
    """
    check_known("outputs", outputs)
    check_finite("outputs", outputs, real=False)
    outputs = np.asarray(outputs)
    members = outputs.shape[0] if outputs.ndim else 0
    size = check_int("size", size, 1)
    if size > members:
        raise ValueError(f"`size`: expected at most the {members} members of `outputs`, got {size}; train more.")
    count = members // size
    # NumPy adds members one after the other, float32 in float32 and bfloat16 in bfloat16, where 256 + 1 = 256.
    wide = np.complex128 if outputs.dtype.kind == "c" else np.float64
    narrow = _is_narrower(outputs.dtype, wide)
    with np.errstate(over="ignore"):
        means = outputs[: count * size].reshape(count, size, *outputs.shape[1:]).mean(1, dtype=wide if narrow else None)
        return check_range("outputs", means.astype(outputs.dtype) if narrow else means)


def bootstrap_ensembles(
    key: jax.Array, outputs: Float[Array, "members order n features"], metric: Metric, resamples: int = 300
) -> BootstrapDraws:
    r"""Bootstrap a metric of an ensemble, and of its members, over members and inputs at once.

    Each resampled set draws as many members and as many inputs as there are, with replacement and independently of each
    other. A resampled ensemble holds some members twice, so it averages over fewer different ones (about $0.63 M$): its
    values lean towards those of smaller ensembles, the careful side for a claim that ensembles are more invariant.

    Args:
        key: random key.
        outputs: outputs of the members over orbits, `[members, order, n, features]`, the identity first.
        metric: a function of outputs `[order, n, features]` that returns one value for each input, `[n]`, such as
            `eqbook.metrics.orbit_same_predictions`.
        resamples: number of resampled sets.

    Returns:
        `BootstrapDraws`.

    Raises:
        ValueError: if there are fewer than two members or inputs, an output is not finite, `key` or an output is
            abstract (inside `jit`), or `metric` is no function or returns another shape or what is no finite number.

    References:
        Owen, "The pigeonhole bootstrap", Annals of Applied Statistics 1, 2007.
    """
    check_known("outputs", outputs)
    check_known("key", key, "one random key")
    check_rectangular("outputs", outputs)
    outputs = np.asarray(outputs)
    if outputs.dtype.kind in "biu":  # a mean of integers is none
        outputs = outputs.astype(np.float64)
    elif _is_narrower(outputs.dtype, np.float32):  # nor is one whose sum is rounded to a few digits at every step
        outputs = outputs.astype(np.float32)
    if outputs.ndim != 4 or min(outputs.shape[0], outputs.shape[2]) < 2:
        expected = "[members, order, n, features] with at least 2 members and 2 inputs"
        raise ValueError(f"`outputs`: expected {expected}, got shape {outputs.shape}.")
    check_finite("outputs", outputs)
    resamples = check_int("resamples", resamples, 2)
    check_key("key", key)
    check_function("metric", metric, "eqbook.metrics.orbit_same_predictions")
    members, _, n, _ = outputs.shape
    own = np.stack([_values(metric, member, n) for member in outputs])
    with jax.ensure_compile_time_eval():  # inside of the user's jit too
        rng = np.random.default_rng(np.asarray(jax.random.bits(key, (4,))))
    chosen = rng.multinomial(members, np.full(members, 1 / members), resamples) / members
    inputs = rng.multinomial(n, np.full(n, 1 / n), resamples) / n
    flat = outputs.reshape(members, -1)
    ensemble = [
        _values(metric, (weights.astype(flat.dtype) @ flat).reshape(outputs.shape[1:]), n) @ counts
        for weights, counts in zip(chosen, inputs)
    ]
    return BootstrapDraws(np.array(ensemble), np.einsum("rm,mi,ri->r", chosen, own, inputs))


def _is_narrower(dtype: np.dtype, other: type) -> bool:
    """Whether a dtype is one of rounded numbers of fewer bits than another."""
    # jnp, not np: NumPy does not know bfloat16 as floating.
    return bool(jnp.issubdtype(dtype, jnp.inexact)) and dtype.itemsize < np.dtype(other).itemsize


def _values(metric: Metric, outputs: np.ndarray, n: int) -> np.ndarray:
    made = metric(outputs)
    check_known("metric", made)
    check_numeric("metric", made)
    values = np.asarray(made)
    if np.iscomplexobj(values):
        raise ValueError(f"`metric`: expected real numbers, got dtype {values.dtype}; take the real parts.")
    values = values.astype(np.float64)
    check_finite("metric", values)
    if values.shape != (n,):
        raise ValueError(f"`metric`: expected one value for each input, [{n}], got shape {values.shape}.")
    return values

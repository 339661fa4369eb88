"""An exact test of what augmentation promises for a single member: a law that the group leaves alone."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from eqbook._checks import check_finite, check_int, check_known, check_range, check_rectangular
from eqbook.groups.actions import Action, check_action
from eqbook.groups.finite import FiniteGroup, check_group
from eqbook.testing import tolerance

AT_ONCE = 2**22  # numbers of a temporary array


def equivariance_p_value(
    outputs: Float[Array, "members order n *features"],
    group: FiniteGroup,
    action_out: Action | None = None,
    draws: int = 999,
    seed: int = 0,
) -> float:
    r"""Exact $p$-value of the hypothesis that the law of the members is equivariant.

    Let $u_m(h) = \rho_Y(h)^{-1} f_m(\rho_X(h) x)$, for all inputs $x$ at once. If $\rho_Y(g)^{-1} f_m \circ \rho_X(g)$
    has the law of $f_m$ for each $g$, then $h \mapsto u_m(gh)$ has that of $u_m$, and independent members may each be
    translated by an element $g_m$ of its own. The statistic is the variance of the ensemble's mean over the orbit,
    summed over inputs and features,

    $$T(g_1, \dots, g_M) = \sum_{h \in G} \Big\| \frac1M \sum_m \big( u_m(g_m h) - \bar u_m \big) \Big\|^2 ,$$

    with $\bar u_m$ the mean over $h$, and $p = (1 + r) / (1 + D)$, where $r$ of $D$ uniform draws of $(g_1, \dots,
    g_M)$ have a $T$ at least as large as that of the ensemble as it is. $P(p \leq \alpha) \leq \alpha$ holds for every
    number of members, inputs and draws, whatever the law; members need be independent only. A small $p$ says that
    members prefer an orientation: that part of the error does not average out.

    Members do not have to be equivariant. If they are, $p = 1$; where they are to rounding only, it speaks of the
    rounding. A subgroup $H$ is tested with the elements of each coset $Hx$ of `[order]` as further inputs.

    Args:
        outputs: $f_m(\rho_X(h) x)$, `[members, order, n, ...features]` in the order of the group's elements.
        group: $G$.
        action_out: $\rho_Y$; the trivial one, of an invariant task, if not given.
        draws: $D$; $p$ is a multiple of $1 / (1 + D)$.
        seed: of the draws.

    Raises:
        ValueError: if the shape is another, there are fewer than two members, an output is not finite or abstract
            (inside `jit`), `action_out` acts with another group, `draws` is not a positive integer or `seed` not one
            of at least 0.

    References:
        Hemerik, Goeman, "Exact testing with random permutations", TEST 27, 2018 (random elements of a group).
        Nordenfors, Flinth, "Ensembles provably learn equivariance through data augmentation", 2024,
        https://arxiv.org/abs/2410.01452 (the law of augmented members, at any width).
    """
    check_group("group", group)
    u = _check_outputs(outputs, group)
    draws, seed = check_int("draws", draws, 1), check_int("seed", seed, 0)
    if action_out is not None:
        u = _moved_back(u, group, action_out)
    u = u.reshape(*u.shape[:2], -1)
    size = float(np.abs(u).max())
    drawn = np.random.default_rng(seed).integers(0, group.order, (1 + draws, len(u)))
    drawn[0] = group.identity
    # Pairs of members cost M^2 each, sums as many as there are draws.
    statistic = _by_pairs if len(u) <= draws else _by_sums
    step = max(1, AT_ONCE // (group.order * max(len(u), draws if statistic is _by_sums else 0)))
    T, largest = np.zeros(1 + draws), 0.0
    for start in range(0, u.shape[-1], step):
        y = u[..., start : start + step].astype(np.float64) / (size or 1.0)
        y -= y[:, :1]  # differences: exactly 0 where an orbit has one value
        y -= y.mean(1, keepdims=True)
        T += statistic(y, group, drawn)
        largest += float(len(y) * np.sum(y**2))  # T is at most this, by Cauchy and Schwarz
    # Two draws may be the same ensemble: then their T are equal to rounding.
    return float(np.mean(T >= T[0] - tolerance(np.float64, u.size) * largest))


def _by_pairs(y: np.ndarray, group: FiniteGroup, drawn: Int[np.ndarray, "draws members"]) -> np.ndarray:
    """M^2 T from sums over pairs, of y_m(k) and y_l(qk) over k: a draw changes q = g_l / g_m only."""
    flat, m = y.reshape(len(y), -1), np.arange(len(y))
    products = np.stack([flat @ y[:, group.table[q]].reshape(flat.shape).T for q in group.elements])
    return np.array([products[group.table[g, group.inverse[g][:, None]], m[:, None], m].sum() for g in drawn])


def _by_sums(y: np.ndarray, group: FiniteGroup, drawn: Int[np.ndarray, "draws members"]) -> np.ndarray:
    """M^2 T from the sums over members themselves, those with one translation at a time."""
    flat, total = y.reshape(len(y), -1), 0.0
    for g in group.elements:
        total = total + ((drawn == g).astype(np.float64) @ flat).reshape(-1, *y.shape[1:])[:, group.table[g]]
    return np.einsum("dhi,dhi->d", total, total)


def _moved_back(outputs: np.ndarray, group: FiniteGroup, action_out: object) -> np.ndarray:
    check_action("action_out", action_out)
    if action_out.group != group:
        raise ValueError(f"`action_out`: expected an action of `group`, {group!r}, got one of {action_out.group!r}.")
    with jax.enable_x64(True), jax.ensure_compile_time_eval():
        u = jnp.asarray(outputs, np.float64)
        moved = [np.asarray(action_out(int(group.inverse[g]), u[:, g])) for g in group.elements]
    return check_range("outputs", np.stack(moved, 1))


def _check_outputs(outputs: object, group: FiniteGroup) -> np.ndarray:
    check_known("outputs", outputs)
    check_rectangular("outputs", outputs)
    outputs = np.asarray(outputs)
    if outputs.ndim < 3 or outputs.shape[1] != group.order or outputs.shape[0] < 2 or outputs.size == 0:
        raise ValueError(
            f"`outputs`: expected [members, order, n, ...features] with at least 2 members and order = {group.order}, "
            f"got shape {outputs.shape}."
        )
    check_finite("outputs", outputs)
    return outputs if outputs.dtype in (np.float32, np.float64) else outputs.astype(np.float64)

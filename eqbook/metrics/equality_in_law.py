"""An exact test of what augmentation promises for a single member: a law that the group leaves alone."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from eqbook._checks import check_finite, check_int, check_known, check_numeric, check_range
from eqbook._shown import shown
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
    g_M)$ have a $T$ at least as large as that of the ensemble as it is. Over members and draws $P(p \leq \alpha) \leq
    \alpha$ for every number of members, inputs and draws, whatever the law; members need be independent only. Choose
    inputs and `seed` without a look at the outputs. A small $p$ speaks against equality in law, or independence. Mostly
    it says that members prefer an orientation, and that part of the error no average removes.

    Members do not have to be equivariant. If they are, $p = 1$; where they are to rounding only, it speaks of the
    rounding. To test a subgroup $H$, give outputs `[members, order of H, cosets * n, ...]`: entry $h$ of the coset $Hx$
    is $f_m(\rho_X(h x) x_i)$.

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
    u = _scaled(u)
    if action_out is not None:
        u = _moved_back(u, group, action_out)
    u = u.reshape(*u.shape[:2], -1)
    u = u - u[:, :1]  # differences: exactly 0 where an orbit has one value
    u = _scaled(u - u.mean(1, keepdims=True))
    members, order, size = u.shape
    drawn = np.random.default_rng(seed).integers(
        0, order, (1 + draws, members), dtype=np.uint8 if order <= 256 else np.uint32
    )
    drawn[0] = group.identity
    # Pairs of members look at M^2 numbers for each draw, sums at all outputs: measured, 40 sums cost as much as a look.
    by_pairs = order**2 * size * (draws - members) > 40 * draws * members and order * members**2 <= AT_ONCE
    T = (_by_pairs if by_pairs else _by_sums)(u, group, drawn)
    # Two draws may be the same ensemble: then their T are equal to rounding. T is at most M times the sum of squares.
    return float(np.mean(T >= T[0] - tolerance(np.float64, u.size) * members * np.sum(u**2)))


def _scaled(x: np.ndarray) -> np.ndarray:
    """Numbers up to 1 / 2 in size, times a power of 2 of what was: squares stay in range, and nothing is rounded."""
    return np.ldexp(x, -1 - int(np.frexp(np.abs(x).max())[1]))


def _by_pairs(u: np.ndarray, group: FiniteGroup, drawn: Int[np.ndarray, "draws members"]) -> np.ndarray:
    """M^2 T from sums over pairs, of u_m(k) and u_l(qk) over k: a draw changes q = g_l / g_m only."""
    flat, m = u.reshape(len(u), -1), np.arange(len(u))
    products = np.empty((group.order, len(u), len(u)))
    for q in group.elements:
        np.matmul(flat, u[:, group.table[q]].reshape(flat.shape).T, out=products[q])
    return np.array([products[group.table[g, group.inverse[g][:, None]], m[:, None], m].sum() for g in drawn])


def _by_sums(u: np.ndarray, group: FiniteGroup, drawn: Int[np.ndarray, "draws members"]) -> np.ndarray:
    """M^2 T from the sums over members themselves, those with one translation at a time."""
    T, block = np.zeros(len(drawn)), max(1, AT_ONCE // len(drawn))
    step = max(1, block // group.order)
    for start in range(0, u.shape[-1], step):
        y, total = u[..., start : start + step], 0.0
        flat = y.reshape(len(y), -1)
        for g in group.elements:
            for m in range(0, len(y), block):
                chosen = (drawn[:, m : m + block] == g).astype(np.float64) @ flat[m : m + block]
                total = total + chosen.reshape(-1, *y.shape[1:])[:, group.table[g]]
        T += np.einsum("dhi,dhi->d", total, total)
    return T


def _moved_back(outputs: np.ndarray, group: FiniteGroup, action_out: object) -> np.ndarray:
    check_action("action_out", action_out)
    acting = getattr(action_out, "group", None)
    if acting != group:
        raise ValueError(f"`action_out`: expected an action of `group`, {group!r}, got one of {acting!r}.")
    with jax.enable_x64(True), jax.ensure_compile_time_eval():
        u = jnp.asarray(outputs)
        # A single output first: with the axes in front of it, an action on another axis would find one.
        for example in (u[0, 0, 0], u[:, 0]):
            try:
                moved = np.asarray(action_out(group.identity, example))
            except (ValueError, TypeError, IndexError) as error:
                raise ValueError(
                    f"`action_out`: expected an action on outputs of shape {outputs.shape[3:]}, got one that refuses "
                    f"an array of shape {example.shape}: {error}"
                ) from error
            if moved.shape != example.shape or not np.isrealobj(moved):
                raise ValueError(
                    f"`action_out`: expected an action that keeps real outputs of shape {example.shape}, got "
                    f"{moved.dtype} of shape {moved.shape}."
                )
        moved = [np.asarray(action_out(int(group.inverse[g]), u[:, g]), np.float64) for g in group.elements]
    return check_range("action_out", np.stack(moved, 1))


def _check_outputs(outputs: object, group: FiniteGroup) -> np.ndarray:
    check_known("outputs", outputs)
    check_numeric("outputs", outputs)
    shape = np.shape(outputs)
    if len(shape) < 3 or shape[1] != group.order or shape[0] < 2 or 0 in shape:
        raise ValueError(
            f"`outputs`: expected [members, order, n, ...features] with at least 2 members and order = {group.order}, "
            f"got {f'shape {shape}' if shape else shown(outputs)}; stack, transpose or reshape what the members give."
        )
    check_finite("outputs", outputs)
    with np.errstate(over="ignore"):
        return check_range("outputs", np.asarray(outputs).astype(np.float64))

"""Before anything is timed: do both sides compute the same numbers?"""

import math
from dataclasses import dataclass, replace

import jax.numpy as jnp
import numpy as np

import eqbook as eq
from benchmarks.cases import Case
from benchmarks.peers import PEERS, Matrices, ours, pairs_of_rotations
from eqbook.kernels import so3
from eqbook.testing import tolerance


class WrongAnswer(AssertionError):
    """Two implementations differ by more than rounding allows."""


@dataclass(frozen=True)
class Check:
    """The largest relative difference, and what it must stay below."""

    what: str
    difference: float
    bound: float

    def __str__(self) -> str:
        return f"{self.what}: {self.difference:.1e} (bound {self.bound:.1e})"


def rounding(case: Case) -> tuple[float, float]:
    r"""Relative difference to expect in float32 off the diagonal, and on it.

    Each layer adds a rounding error of its sum, the mean over pixels or rotations one more (`tolerance`); a mean over
    pairs of pixels is two means over pixels, one after the other, or is summed in as many parts. A relu turns
    an error $\delta$ of the correlation $\cos\theta$ into one of $\delta / (\pi \sin\theta)$ or less in its derivative,
    at most $\delta$ for correlations up to 0.94. On the diagonal $\theta = 0$, and an implementation that computes the
    angle from the correlation errs by $\sqrt{2 \delta} / \pi$ in each relu.
    """
    layers, means = case.net.layers, 1
    if len(case.shape) == 1:
        first, last = case.shape[0], 1
    elif case.on_sphere:
        bandwidth = case.shape[0] // 2
        rule = case.net.layers[0].quadrature or so3.default_quadrature(bandwidth)
        first, last = so3.feature_count(bandwidth), len(so3.rotation_points(rule)[1])
    else:
        pixels = math.prod(case.shape[:2]) * getattr(getattr(layers[0], "group", None), "order", 1)
        first, last, means = 9 * case.shape[-1], pixels, 1 if isinstance(layers[-2], eq.Flatten) else 2
    one = tolerance(jnp.float32, first)
    relus = sum(isinstance(layer, eq.Relu) for layer in layers)
    off = len(layers) * one + means * tolerance(jnp.float32, last)
    return off, off + relus * math.sqrt(2 * one) / math.pi


def compare(mine: Matrices, theirs: Matrices, bounds: tuple[float, float], name: str) -> list[Check]:
    """Largest differences of the entries that both have, in units of the geometric mean of both diagonal entries."""
    found = []
    for kind, a, b in zip(("NNGP", "NTK"), mine, theirs, strict=True):
        n = min(len(a), len(b))
        a, b = (np.asarray(k, np.float64)[:n, :n] for k in (a, b))
        scale = np.sqrt(np.outer(np.diag(b), np.diag(b)))
        error, diagonal = np.abs(a - b) / scale, np.eye(n, dtype=bool)
        for where, mask, bound in (("off", ~diagonal, bounds[0]), ("on", diagonal, bounds[1])):
            worst = error[mask].max()  # NaN if one is
            found.append(Check(f"{kind} {where} the diagonal, against {name}", float(worst), bound))
    return found


def against_truncation(case: Case) -> list[Check]:
    r"""SO(3), on signals of bandwidth 2: the recursion over pairs of rotations with filters of bandwidth B converges.

    What it lacks falls faster than $B^{-3}$ from B = 2 to 5 (a unit test of the package says so). With two sizes
    $A < B$, $e(B) \le |k_B - k_A| B^{-3} / (A^{-3} - B^{-3})$.
    """
    sizes = 2, 5
    x = replace(case, shape=(4, 3, case.shape[-1])).inputs(2)
    mine = ours(case.net)(x)
    coarse, fine = (np.asarray(pairs_of_rotations(case.net, size)(x)) for size in sizes)
    share = sizes[1] ** -3.0 / (sizes[0] ** -3.0 - sizes[1] ** -3.0)
    found = []
    for kind, a, b, c in zip(("NNGP", "NTK"), mine, fine, coarse, strict=True):
        difference, lacking = abs(a[0, 1] / b[0, 1] - 1), abs(c[0, 1] / b[0, 1] - 1)
        bound = float(share * lacking) + rounding(case)[0]
        found.append(Check(f"{kind} at L = 2, against pairs of rotations", float(difference), bound))
    return found


def check(case: Case, mine: Matrices | None = None, theirs: Matrices | None = None) -> list[Check]:
    """All checks of a case.

    Args:
        case: the case; one without a peer is compared with the literal recursion at its first two inputs.
        mine: what `eqbook` has computed, if it has.
        theirs: what the peer has.

    Raises:
        WrongAnswer: if one of them fails.
    """
    mine = ours(case.net)(case.inputs()) if mine is None else mine
    truncated = case.on_sphere and case.net.layers[0].quadrature is None  # a peer that is coarser than ours
    peer = "double index" if case.peer is None or truncated else case.peer
    if theirs is None or peer != case.peer:
        size = case.n if case.peer_n is None else case.peer_n
        theirs = PEERS[peer](case.net)(case.inputs(2 if case.peer is None else size))
    # On the sphere the literal method is the reduction for one pair, by another program.
    found = compare(mine, theirs, rounding(case), "the reduction of one pair" if truncated else peer)
    if truncated and case.peer:
        found += against_truncation(case)
    for one in found:
        if not one.difference <= one.bound:
            raise WrongAnswer(f"{case.name}: {one}")
    return found

r"""What rounding leaves of a Gram matrix: eigenvalues below a floor mean nothing, and must not decide a result."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from eqbook._precision import use_float64

FEW = 20  # inputs; with fewer the floor alone would let through errors of a third of the targets


def rounding_floor(eigenvalues: Float[Array, " n"]) -> float:
    r"""$\max(n \epsilon \lambda_{max}, -\lambda_{min})$: an eigenvalue that is not above it may be 0.

    A Gram matrix has no negative eigenvalue. One that is computed shows how far all of them may be off, be it by the
    rounding of the diagonalisation, or of entries that were computed in a narrower dtype.

    Args:
        eigenvalues: of the computed Gram matrix, `[n]`.
    """
    eigenvalues = np.asarray(eigenvalues)
    floor = len(eigenvalues) * float(jnp.finfo(eigenvalues.dtype).eps) * float(eigenvalues.max())
    return max(floor, -float(eigenvalues.min()), 0.0)


def check_resolved(
    eigenvalues: Float[Array, " n"], weights: Float[Array, "n k"], targets: Float[Array, "n k"], t: float
) -> None:
    r"""Raise if modes below the floor $f$ have weights $\|w\| > \|y\| / f$; of few inputs, $f$ is that of 20 here.

    A prediction $\Theta(x, X)\, w$ errs by the rounding of $\Theta(x, X)$ times $\|w\|$. A mode above the floor is
    learned with at most $1 / \lambda < 1 / f$, so that this can only happen below, where the weights grow with $t$
    because no eigenvalue stops them: for duplicate inputs with different targets, and whatever else is singular. It is
    the condition that $t = \infty$ demands of all modes.

    Args:
        eigenvalues: of the Gram matrix, `[n]`.
        weights: $w$ in its eigenbasis, `[n, k]`.
        targets: $y$ in the eigenbasis, `[n, k]`.
        t: training time, for the message.

    Raises:
        ValueError: saying what to do. Abstract values (inside `jit`) pass: they cannot be looked at.
    """
    if isinstance(weights, jax.core.Tracer) or isinstance(eigenvalues, jax.core.Tracer):
        return
    floor, values = rounding_floor(eigenvalues), np.asarray(eigenvalues)
    below = np.asarray(weights, np.float64)[values <= floor]
    with np.errstate(over="ignore", invalid="ignore"):
        grown = floor * max(1, FEW / len(values)) * np.linalg.norm(below, axis=0)
    # Not `>`: NaN is refused as well.
    if not (grown <= np.linalg.norm(np.asarray(targets, np.float64), axis=0)).all():
        wider = "" if values.dtype == np.float64 else f", or {use_float64()}"
        raise ValueError(
            f"`t`: expected a time at which modes with eigenvalues below rounding ({floor:.2g}; {len(below)} of "
            f"{len(values)}, the largest of all is {values.max():.3g}) are not learned yet, got {t:g}: rounding would "
            f"decide the result. Take a smaller `t`, or `diag_reg` > 0{wider}; and look for duplicate inputs with "
            "different targets."
        )

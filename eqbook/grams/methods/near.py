r"""Inputs that nearly coincide, or of which one is nearly a multiple of the other.

The derivative kernel of a relu depends on the angle between two inputs, of which a covariance in finite precision knows
no more than the square root of a rounding. For pairs that are near each other the recursion is run again, with their
semivariance $\gamma = \frac12 E[(u / s - v / s')^2]$ beside the covariance: it comes from the difference of the inputs
and is 0 where they coincide. Sizes $s$, $s'$, the root mean squares of the inputs, make multiples coincide.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from eqbook.grams.methods.program import Affine, Branch, Pointwise
from eqbook.grams.methods.steps import Field, Pair, Walk

NEAR = 1e-2  # of the mean semivariance of inputs, 1 less their cosine: farther apart a covariance has enough digits

Near = tuple[Field, Field | None, Field]  # NNGP, NTK and semivariance


def size(squares: Float[Array, "... n"]) -> Float[Array, " n"]:
    """Root mean square of each input, and 1 for 0.

    Args:
        squares: of its entries, the inputs along the last axis.
    """
    mean = jax.lax.stop_gradient(jnp.mean(squares, tuple(range(squares.ndim - 1))))
    return jnp.sqrt(jnp.where(mean > 0, mean, 1))


def semivariance(x1: Float[Array, "... channels n"], x2: Array, size1: Array, size2: Array) -> Field:
    """That of the inputs: half the mean over channels of their squared difference, `[..., n]`."""
    apart = x1 / size1 - x2 / size2
    return 0.5 * jnp.mean(apart * apart, -2)


def helps(steps: Sequence) -> bool:
    """Whether there are nonlinearities, and the semivariance can be carried through all of them."""
    rules = [step.rule.near for step in pointwise(steps)]
    return bool(rules) and None not in rules


def pointwise(steps: Sequence) -> list[Pointwise]:
    """All pointwise steps, those of branches too."""
    inner = [pointwise(step.steps) if isinstance(step, Branch) else [step] for step in steps]
    return [step for part in inner for step in part if isinstance(step, Pointwise)]


@dataclass(frozen=True)
class NearWalk(Walk):
    """`Walk` for the kernels and the semivariance.

    Attributes:
        sizes: of both inputs.
    """

    sizes: tuple[Float[Array, " pairs"], Float[Array, " pairs"]]

    def affine(self, step: Affine, pair: Near) -> Near:
        """Behind a layer with weights."""
        one, two = self.sizes
        lag = step.layer.b_std * (1 / one - 1 / two)
        semivariance = step.layer.W_std**2 * self.gather(step, pair[2]) + 0.5 * lag * lag
        return *super().affine(step, pair[:2]), semivariance

    def pointwise(self, step: Pointwise, pair: Near) -> Near:
        """Behind a nonlinearity."""
        nngp, derivative, semivariance = step.rule.near(*self.scales(step.index), self.sizes, pair[2])
        return nngp, None if pair[1] is None else pair[1] * derivative, semivariance


def where_near(near: Bool[Array, " pairs"], kernels: Callable[[], Pair], otherwise: Pair) -> Pair:
    """`kernels()` for the pairs that are near each other, if there are any.

    Args:
        near: which they are.
        kernels: NNGP and NTK by the semivariance, `[pairs]`.
        otherwise: what they are for the rest.
    """

    def both() -> Pair:
        return tuple(
            None if far is None else jnp.where(near, closer, far)
            for closer, far in zip(kernels(), otherwise, strict=True)
        )

    return jax.lax.cond(near.any(), both, lambda: otherwise)


def is_near(semivariance: Field) -> Bool[Array, " pairs"]:
    """Which pairs are near each other and do not coincide."""
    mean = jnp.mean(semivariance, tuple(range(semivariance.ndim - 1)))
    return (mean > 0) & (mean < NEAR)

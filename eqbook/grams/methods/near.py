r"""Inputs that nearly coincide, or of which one is nearly a multiple of the other.

The derivative kernel of a relu depends on the angle between two inputs, of which a covariance in finite precision knows
no more than the square root of a rounding. For pairs that are near each other the recursion is run again, with their
semivariance $\gamma = \frac12 E[(u / s - v / s')^2]$ beside the covariance: it comes from the difference of the inputs
and is 0 where they coincide. Sizes $s$, $s'$, the root mean squares of the inputs, make multiples coincide. Only equal
pixels are treated so: other pixels of two such inputs are no nearer to each other than those of one input.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from types import ModuleType

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from eqbook._checks import lies_on_host
from eqbook.grams import workers
from eqbook.grams.methods.program import Affine, Branch, Pointwise
from eqbook.grams.methods.steps import Field, Pair, Walk
from eqbook.groups import Action, orbit

NEAR = 0.99  # cosine of inputs: a covariance of those farther apart has enough digits
SIDE = 64  # of the blocks of a product on one core: OpenBLAS shares those of more than 2^18 multiplications

Near = tuple[Field, Field | None, Field]  # NNGP, NTK and semivariance


Asked = tuple[Bool[Array, "order n1 n2"], Bool[Array, ""]]  # which pairs are near, and whether any is


def ask(x1: Float[Array, "n1 ..."], x2: Float[Array, "n2 ..."], symmetric: bool, action: Action | None) -> Asked:
    """Begin to look for inputs that are near each other; an accelerator is not waited for.

    Args:
        x1: inputs.
        x2: other inputs.
        symmetric: whether these are the same; then each pair is found once, with i <= j.
        action: of a group; an input of which one of all images under it is near another counts. `None` for none.
    """
    if not (lies_on_host(x1) and lies_on_host(x2)):
        return workers.jitted(_near_orbit, (2, 3), False)(x1, x2, symmetric, action)
    with np.errstate(all="ignore"):  # a number that has left the range is nobody's neighbour
        return _near(np.asarray(x1), np.asarray(_moved(x2, action)), symmetric)  # NumPy has nothing to compile


def pairs(
    asked: Asked, x1: Float[Array, "n1 ..."], x2: Float[Array, "n2 ..."], action: Action | None
) -> tuple[np.ndarray, np.ndarray]:
    """Indices (i, j) of inputs that are near each other and do not coincide, from what `ask` began."""
    mask, some = asked
    if not some:  # as a rule: one number comes from the device, not one for each pair
        return np.zeros(0, int), np.zeros(0, int)
    g, i, j = np.nonzero(np.asarray(mask))
    one, others = np.asarray(x1), np.asarray(_moved(x2, action)).reshape(-1, *x2.shape)
    # One after the other: where all inputs are near each other, all pairs of them would fill the memory.
    apart = [(one[a] != others[e, b]).any() for e, a, b in zip(g, i, j, strict=True)]
    found = np.unique(np.stack([i, j])[:, np.array(apart, bool)], axis=1)
    return found[0], found[1]


def _moved(x: Float[Array, "n ..."], action: Action | None) -> Float[Array, "..."]:
    """All that a group makes of inputs, `[order, n, ...]`, or the inputs."""
    return x if action is None else orbit(action, x)


def _near_orbit(
    x1: Float[Array, "n1 ..."], x2: Float[Array, "n2 ..."], symmetric: bool, action: Action | None
) -> Asked:
    return _near(x1, _moved(x2, action), symmetric)


def _near(x1: Float[Array, "n1 ..."], others: Float[Array, "..."], symmetric: bool) -> Asked:
    """The same for `others` that are moved; for arrays of NumPy or of JAX."""
    on_host = isinstance(x1, np.ndarray)
    xp = np if on_host else jnp
    product = _on_one_core if on_host else partial(jnp.matmul, precision="highest")
    order = others.shape[0] if others.ndim > x1.ndim else 1
    one, two = (x.reshape(-1, x1[0].size) for x in (x1, others))
    one, two = (x / size((x * x).T, xp)[:, None] for x in (one, two))
    cosines = product(one, two.T) / one.shape[1]
    mask = xp.moveaxis(cosines.reshape(len(one), order, -1), 1, 0) > NEAR
    if symmetric:  # without each input and itself, unless that is what a group makes of it
        mask = xp.triu(mask, 1 if order == 1 else 0)
    return mask, mask.any()


def _on_one_core(one: Float[np.ndarray, "n1 d"], two: Float[np.ndarray, "d n2"]) -> Float[np.ndarray, "n1 n2"]:
    """The product of two matrices, in blocks that NumPy's library computes in the calling thread.

    Its other threads would wait for more work, and take the cores from the kernels for some hundredths of a second.
    """
    (n1, d), n2 = one.shape, two.shape[1]
    found = np.zeros((n1, n2), np.result_type(one, two))
    for i in range(0, n1, SIDE):
        for j in range(0, n2, SIDE):
            for k in range(0, d, SIDE):
                found[i : i + SIDE, j : j + SIDE] += one[i : i + SIDE, k : k + SIDE] @ two[k : k + SIDE, j : j + SIDE]
    return found


def size(squares: Float[Array, "... n"], xp: ModuleType = jnp) -> Float[Array, " n"]:
    """Root mean square of each input, and 1 for 0.

    Args:
        squares: of its entries, the inputs along the last axis.
        xp: NumPy for its arrays, or JAX.
    """
    mean = xp.mean(squares, tuple(range(squares.ndim - 1)))
    return xp.sqrt(xp.where(mean > 0, mean, 1))


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
    """`Walk` for pairs that are near each other.

    Attributes:
        x1: inputs, `[..., channels, pairs]`.
        x2: inputs near these.
    """

    x1: Float[Array, "... channels pairs"]
    x2: Float[Array, "... channels pairs"]

    @property
    def sizes(self) -> tuple[Float[Array, " pairs"], Float[Array, " pairs"]]:
        """Of both inputs."""
        return size(self.x1**2), size(self.x2**2)

    def kernels(self, steps: Sequence) -> Pair:
        """Kernels behind the steps from those of the inputs."""
        one, two = self.sizes
        apart = self.x1 / one - self.x2 / two
        start = jnp.mean(self.x1 * self.x2, -2), None, 0.5 * jnp.mean(apart * apart, -2)
        return self.run(steps, start)[:2]

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

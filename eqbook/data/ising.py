r"""The two-dimensional Ising model on a periodic square lattice: sampled configurations and their energies.

Spins $s_i = \pm 1$ have the local energies $E(i) = \sum_{j \in N(i)} s_i s_j$ over the four neighbours, and the total
energy $E = -\frac{J}{|\Lambda|} \sum_i E(i)$. Rotations of the lattice move $E(i)$ and leave $E$ alone. The sum counts
each bond twice, so $E$ is twice the energy per site $u$ of the textbooks. The Boltzmann weight is
$e^{-|\Lambda| u / T}$ with $J = 1$ and temperatures in units of $J / k_B$.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key, Shaped

from eqbook._checks import as_float, check_finite, check_int, check_key, check_number, check_range

CRITICAL_TEMPERATURE = 2 / float(np.log1p(np.sqrt(2)))  # of the infinite lattice: 2.269
OFFERED = 0.9  # share of the spins that a Metropolis step offers a flip

Spins = Float[Array, "*batch side side 1"]


def ising_configurations(
    key: Key[Array, ""],
    n: int,
    side: int,
    temperature: float,
    sweeps: int | None = None,
    algorithm: str = "cluster",
) -> Float[Array, "n side side 1"]:
    r"""Draw spin configurations, $p(s) \propto \exp(\frac{1}{T} \sum_{\langle ij \rangle} s_i s_j)$.

    Every configuration comes from a Markov chain of its own, started from random spins, so the n draws are independent:
    there is no autocorrelation between them, and what is left to choose is the number of steps to equilibrium.

    * `"cluster"` (default): each step joins equal neighbours with probability $1 - e^{-2/T}$ and gives each of the
      clusters a random sign (Swendsen and Wang; Wolff's algorithm flips one of these clusters). Whole domains flip at
      once, so a few steps suffice at every temperature: at the critical one, where they are slowest, the energy's
      integrated autocorrelation time was measured as 2.6, 3.3 and 4.0 steps for sides 8, 16 and 32. Default 100 steps.
    * `"metropolis"`: each step offers nine spins of ten a flip, black sites first, then white ones, accepted with
      probability $\min(1, e^{-\Delta / T})$. With all ten, lattices where every flip is free, such as diagonal stripes,
      would alternate for ever. It is simple and slow: its autocorrelation time grows as $L^{2.2}$ with the side $L$
      at the critical temperature. Default $4 L^{2.2}$ steps, at least 100. At low temperatures domains in stripes live
      for some $e^{4/T}$ steps, which for side 8 is more than the default steps below T = 0.7: of such lattices a fifth
      is in stripes after these at T = 0.5, one in seventeen at T = 0.6. Take `"cluster"` there.

    Args:
        key: random key.
        n: number of configurations.
        side: sites on a side, at least 2; even for `"metropolis"`, whose two colours must not touch across the border.
        temperature: T > 0 in units of $J / k_B$; the critical one is `CRITICAL_TEMPERATURE`.
        sweeps: number of steps of each chain.
        algorithm: `"cluster"` or `"metropolis"`.

    Returns:
        Spins -1 and 1, as float32, `[n, side, side, 1]`: images with one channel, which `ImageAction` rotates.

    Raises:
        ValueError: if an argument is out of range.

    References:
        Swendsen, Wang, "Nonuniversal critical dynamics in Monte Carlo simulations", Physical Review Letters 58, 1987,
        https://doi.org/10.1103/PhysRevLett.58.86
    """
    check_key("key", key)
    n, side = check_int("n", n, 1), check_int("side", side, 2)
    check_number("temperature", temperature, positive=True)
    if algorithm not in ("cluster", "metropolis"):
        raise ValueError(f"`algorithm`: expected 'cluster' or 'metropolis', got {algorithm!r}.")
    if algorithm == "metropolis" and side % 2:
        raise ValueError(f"`side`: expected an even number for 'metropolis', got {side}; or take 'cluster'.")
    if sweeps is None:
        sweeps = 100 if algorithm == "cluster" else max(100, round(4 * side**2.2))
    step = {"cluster": cluster_step, "metropolis": metropolis_step}[algorithm]
    # Infinite in float32, a cost of 0 would give NaN, and no spin would move. 1e30 makes every cost prohibitive too.
    inverse = jnp.float32(min(1 / temperature, 1e30))
    spins = _run(key, inverse, n, side, check_int("sweeps", sweeps, 0), step)
    return jnp.where(spins, 1.0, -1.0).astype(jnp.float32)[..., None]


@functools.partial(jax.jit, static_argnums=(2, 3, 4, 5))
def _run(key: Array, inverse_temperature: Array, n: int, side: int, sweeps: int, step: Callable) -> Array:
    start_key, steps_key = jax.random.split(key)

    def sweep(spins: Array, step_key: Array) -> tuple[Array, None]:
        return step(step_key, spins, inverse_temperature), None

    spins = jax.random.bernoulli(start_key, shape=(n, side, side))
    return jax.lax.scan(sweep, spins, jax.random.split(steps_key, sweeps))[0]


def cluster_step(
    key: Key[Array, ""], spins: Bool[Array, "n side side"], inverse_temperature: Float[Array, ""]
) -> Bool[Array, "n side side"]:
    """One step of Swendsen and Wang for every lattice: draw bonds, find the clusters, give each a random sign.

    Args:
        key: random key.
        spins: True for spin up.
        inverse_temperature: 1 / T.
    """
    bond_key, sign_key = jax.random.split(key)
    open_bond = jax.random.uniform(bond_key, (2, *spins.shape)) < -jnp.expm1(-2 * inverse_temperature)
    bonds = [open_bond[axis - 1] & (spins == jnp.roll(spins, -1, axis)) for axis in (1, 2)]
    labels = _clusters(*bonds)  # of each site, the smallest index in its cluster
    signs = jax.random.bernoulli(sign_key, shape=(len(spins), labels[0].size))
    return jnp.take_along_axis(signs, labels.reshape(len(spins), -1), axis=1).reshape(spins.shape)


def _clusters(down: Bool[Array, "n side side"], right: Bool[Array, "n side side"]) -> Array:
    """Label the sites that bonds join by the smallest index among them: every site takes that of its neighbours."""
    n, side, _ = down.shape
    start = jnp.broadcast_to(jnp.arange(side * side).reshape(side, side), (n, side, side))

    def spread(state: tuple[Array, Array]) -> tuple[Array, Array]:
        labels = before = state[0]
        for axis, bond in ((1, down), (2, right)):
            labels = jnp.where(bond, jnp.minimum(labels, jnp.roll(labels, -1, axis)), labels)
            from_before = jnp.where(bond, labels, side * side)
            labels = jnp.minimum(labels, jnp.roll(from_before, 1, axis))
        return labels, jnp.any(labels != before)

    return jax.lax.while_loop(lambda state: state[1], spread, (start, jnp.bool_(True)))[0]


def metropolis_step(
    key: Key[Array, ""], spins: Bool[Array, "n side side"], inverse_temperature: Float[Array, ""]
) -> Bool[Array, "n side side"]:
    """One step of Metropolis for every lattice: all black sites at once, which are not neighbours, then all white ones.

    Args:
        key: random key.
        spins: True for spin up.
        inverse_temperature: 1 / T.
    """
    side = spins.shape[-1]
    colour = np.indices((side, side)).sum(axis=0) % 2
    uniform = jax.random.uniform(key, spins.shape)
    for now in (0, 1):
        value = jnp.where(spins, 1.0, -1.0)
        cost = 2 * local_energies(value[..., None])[..., 0]  # of flipping the spin
        accepted = uniform < OFFERED * jnp.exp(-jnp.maximum(cost, 0) * inverse_temperature)
        spins = spins ^ ((colour == now) & accepted)
    return spins


def local_energies(spins: Shaped[Array, "*batch side side 1"]) -> Spins:
    r"""$E(i) = \sum_{j \in N(i)} s_i s_j$ over the four neighbours on the periodic lattice.

    Args:
        spins: $s$, or any numbers in their place, `[..., side, side, 1]`.

    Returns:
        Floats of the same shape, of the dtype of `spins` if that is floating; a lattice of spins 1 has E(i) = 4.

    Raises:
        ValueError: if there are fewer than three axes or more than one channel, spins are not finite real numbers, or
            an energy has left the dtype. A lattice need not be square.
    """
    check_finite("spins", spins)
    # Floats: products of integers would wrap around, those of 8 bits at 128.
    with np.errstate(over="ignore"):
        spins = as_float(spins, "spins")
    if spins.ndim < 3 or spins.shape[-1] != 1:
        raise ValueError(f"`spins`: expected [..., side, side, 1], got shape {spins.shape}; add the axis of channels.")
    neighbours = sum(jnp.roll(spins, shift, axis) for shift in (1, -1) for axis in (-3, -2))
    return check_range("spins", spins * neighbours)


def total_energy(spins: Shaped[Array, "*batch side side 1"], J: float = 1.0) -> Float[Array, "*batch"]:
    r"""$E = -\frac{J}{|\Lambda|} \sum_i E(i)$, between $-4|J|$ and $4|J|$ for spins: twice the energy per site.

    Args:
        spins: $s$, `[..., side, side, 1]`.
        J: coupling, of either sign.

    Raises:
        ValueError: as `local_energies`, or if the coupling is no finite real number.
    """
    check_finite("J", J)
    with np.errstate(over="ignore"):
        # Of an unsigned integer there is no -J; Python's numbers leave the dtype to the spins.
        J = as_float(float(J) if isinstance(J, int) else J, "J")
    return check_range("spins` and `J", -J * jnp.mean(local_energies(spins), axis=(-3, -2, -1)))

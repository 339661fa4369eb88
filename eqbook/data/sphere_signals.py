r"""Molecules as signals on spheres around their atoms, and kernels of molecules from kernels of atoms."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from eqbook._checks import (
    as_float,
    check_finite,
    check_int,
    check_integers,
    check_ndim,
    check_number,
    check_range,
    check_rectangular,
)
from eqbook._shown import shown
from eqbook.data.molecules import ELEMENTS

POWERS = (2, 6)
_WEIGHT = 0.05


def _beta(angle: float) -> float:
    """The width at which a neighbour's weight falls to 5 per cent at this angle from its direction, in radians."""
    return float(-((np.cos(angle) - 1) ** 2) / np.log(_WEIGHT))


BETA = _beta(np.pi / 4)  # 0.0286


def sphere_signals(
    charges: Int[Array, "*batch atoms"],
    positions: Float[Array, "*batch atoms 3"],
    bandwidth: int = 6,
    chunk: int = 64,
    *,
    powers: tuple[float, ...] = POWERS,
    angle: float = 45.0,
) -> Float[Array, "*batch atoms latitudes longitudes channels"]:
    r"""What each atom sees in each direction, one channel for each element z and power p.

    $$
    F_i^{(z, p)}(x) = \sum_{j \ne i,\, Z_j = z} \frac{Z_i Z_j}{|r_{ij}|^p}\,
    \exp\Big(-\frac{(\hat r_{ij} \cdot x - 1)^2}{\beta}\Big), \qquad r_{ij} = r_j - r_i ,
    $$

    for z in (1, 6, 7, 8, 9) and p in `powers`, with $\beta = -(\cos a - 1)^2 / \log 0.05$ for the angle a, on the grid
    of `eqbook.kernels.so3.sphere_grid`. Rotating the molecule rotates the signals. They do not change when it is moved,
    and a permutation of atoms permutes them. Channels are element-major: channel |powers| i + j holds element i and
    power j. The powers 2 and 6 and the angle of 45 degrees are those of the paper.

    Args:
        charges: Z, nuclear charges, 0 in empty slots; other elements are not seen. `[..., atoms]`.
        positions: r, in angstrom, `[..., atoms, 3]`.
        bandwidth: L; signals have 2L colatitudes and 2L - 1 longitudes.
        chunk: molecules computed at once, to bound the memory: one of 29 atoms takes 0.5 MB on its way.
        powers: p, exponents of the distance, not negative.
        angle: a, in degrees, above 0 and at most 180: how far from a neighbour's direction its weight falls to 5 per
            cent.

    Returns:
        $F$, of the dtype of `positions`, `[..., atoms, 2L, 2L - 1, 5 |powers|]`; 0 in empty slots.

    Raises:
        ValueError: if the shapes do not fit, `powers` or `angle` are no such numbers, an array is not one of finite
            real numbers, there is no slot for an atom, or two atoms lie on each other, or so close or so far apart that
            signals or the square of the distance are not finite in the dtype.

    References:
        Misof, Kessel, Gerken, "Equivariant Neural Tangent Kernels", 2025, https://arxiv.org/abs/2406.06504; after
        Esteves, Slotine, Makadia, "Scaling spherical CNNs", 2023, https://arxiv.org/abs/2306.05420
    """
    check_finite("charges", charges)
    check_finite("positions", positions)
    check_integers("charges", charges)
    given = charges, positions
    with np.errstate(over="ignore"):
        charges = jnp.asarray(charges)
        if not isinstance(positions, jax.Array):
            positions = check_range("positions", jnp.asarray(positions))  # 1e300 is infinite in float32
    if positions.ndim < 2 or positions.shape != (*charges.shape, 3):
        raise ValueError(
            f"`positions`: expected [..., atoms, 3] for charges of shape {charges.shape}, got shape {positions.shape}."
        )
    if charges.shape[-1] == 0:
        raise ValueError(f"`charges`: expected at least one slot for an atom, got shape {charges.shape}.")
    if not jnp.issubdtype(positions.dtype, jnp.floating):
        raise ValueError(f"`positions`: expected floats in angstrom, got {positions.dtype}; convert them.")
    if not isinstance(powers, tuple | list) or not powers:
        raise ValueError(f"`powers`: expected a tuple of numbers such as {POWERS}, got {shown(powers)}.")
    powers = tuple(check_number("powers", power) for power in powers)
    angle = check_number("angle", angle, positive=True)
    if angle > 180:
        raise ValueError(f"`angle`: expected degrees, above 0 and at most 180, got {angle}.")
    x = jnp.asarray(grid_directions(bandwidth), positions.dtype)
    batch = charges.shape[:-1]
    flat = charges.reshape(-1, charges.shape[-1]), positions.reshape(-1, *positions.shape[-2:])
    chunk = min(check_int("chunk", chunk, 1), len(flat[0]))
    signals = _all_signals(*flat, x, chunk, powers, _beta(np.deg2rad(angle)))
    try:
        check_range("positions", signals)
    except ValueError:
        raise ValueError(_advice(*given, positions.dtype)) from None
    return signals.reshape(*batch, *signals.shape[1:])


@partial(jax.jit, static_argnames=("chunk", "powers", "beta"))
def _all_signals(
    charges: Int[Array, "n atoms"],
    positions: Float[Array, "n atoms 3"],
    x: Float[Array, "t p 3"],
    chunk: int,
    powers: tuple[float, ...],
    beta: float,
) -> Float[Array, "n atoms t p channels"]:
    return jax.lax.map(lambda one: _signals(*one, x, powers, beta), (charges, positions), batch_size=chunk)


def _advice(charges: Int[Array, "*batch atoms"], positions: Float[Array, "*batch atoms 3"], dtype: np.dtype) -> str:
    """What to say where signals are not finite: which atoms are the closest."""
    positions, seen = np.asarray(positions).astype(np.float64), np.asarray(charges) > 0
    with np.errstate(over="ignore"):
        distance = np.linalg.norm(positions[..., None, :] - positions[..., None, :, :], axis=-1)
    other = seen[..., None] & seen[..., None, :] & ~np.eye(seen.shape[-1], dtype=bool)
    distance = np.where(other, distance, np.inf)
    *molecule, i, j = (int(index) for index in np.unravel_index(distance.argmin(), distance.shape))
    where = f" of molecule {tuple(molecule)}" if molecule else ""
    return (
        f"`positions`: expected atoms whose signals are finite in {dtype}, got NaN or infinity; the closest are atoms "
        f"{i} and {j}{where}, {distance.min():.3g} angstrom apart. Drop duplicates, convert lengths to angstrom, and "
        "give empty slots the charge 0."
    )


def grid_directions(bandwidth: int) -> Float[np.ndarray, "latitudes longitudes 3"]:
    r"""Unit vectors at the colatitudes $(2t+1)\pi/4L$ and longitudes $2\pi p/(2L-1)$, `[2L, 2L-1, 3]`.

    Args:
        bandwidth: L.

    Raises:
        ValueError: if it is not a positive integer.
    """
    L = check_int("bandwidth", bandwidth, 1)
    colatitude = ((2 * np.arange(2 * L) + 1) * np.pi / (4 * L))[:, None]
    longitude = 2 * np.pi * np.arange(2 * L - 1) / (2 * L - 1)
    parts = np.sin(colatitude) * np.cos(longitude), np.sin(colatitude) * np.sin(longitude), np.cos(colatitude)
    return np.stack(np.broadcast_arrays(*parts), axis=-1)


def _signals(
    charges: Int[Array, " atoms"],
    positions: Float[Array, "atoms 3"],
    x: Float[Array, "t p 3"],
    powers: tuple[float, ...],
    beta: float,
) -> Float[Array, "atoms t p channels"]:
    """The signals of one molecule."""
    r = positions - positions[:, None]  # r[i, j] = r_j - r_i
    pair = (charges[:, None] > 0) & (charges > 0) & ~np.eye(len(charges), dtype=bool)
    # Double where: pairs that do not count have distance 1, so that no gradient is NaN.
    distance = jnp.sqrt(jnp.where(pair, jnp.sum(r**2, axis=-1), 1))
    distance = jnp.where(distance < jnp.inf, distance, jnp.nan)  # else a square out of range would pass for a number
    cosine = jnp.einsum("ijk,tpk->ijtp", r / distance[..., None], x, precision="highest")
    directional = jnp.exp(-((cosine - 1) ** 2) / beta)
    Z = charges.astype(x.dtype)  # before the product: 17 * 8 is no number of 8 bits
    strength = jnp.where(pair, Z[:, None] * Z, 0)
    falling = distance[..., None] ** -np.array(powers, x.dtype)
    is_element = (charges[:, None] == np.array(ELEMENTS)).astype(x.dtype)
    weights = jnp.einsum("ij,ijb,ja->ijab", strength, falling, is_element, precision="highest")
    weights = weights.reshape(*distance.shape, -1)  # [i, j, |powers| a + b]
    return jnp.einsum("ijtp,ijc->itpc", directional, weights, precision="highest")


def sum_over_atoms(
    kernel: Float[Array, "n1_atoms n2_atoms"],
    charges1: Int[Array, "n1 atoms"],
    charges2: Int[Array, "n2 atoms"],
    pairs: str = "all",
) -> Float[Array, "n1 n2"]:
    r"""The kernel of molecules, from the kernel of their atoms, when the outputs of the atoms are added up.

    * `"all"`: one network sees every atom. $f(M) = \sum_a f(F_a)$ has the kernel $\sum_{a, b} k(F_a, F'_b)$, over all
      pairs of atoms: it does not depend on their order.
    * `"slots"`: each slot has a network of its own, and independent networks have no covariance. The kernel is
      $\sum_a k(F_a, F'_a)$, and depends on the order of the atoms in the file. The paper's experiment does this.

    Args:
        kernel: k between the atoms, in the order of the flattened slots, `[n1 * atoms, n2 * atoms]`, such as
            `eq.gram(net, signals1, signals2).ntk` for `signals.reshape(-1, *signals.shape[2:])`.
        charges1: nuclear charges, 0 in empty slots, which do not count, `[n1, atoms]`.
        charges2: of the other molecules, `[n2, atoms]`.
        pairs: `"all"` or `"slots"`.

    Raises:
        ValueError: if the shapes do not fit, charges are not finite real numbers, the kernel holds no real numbers, or
            `pairs` is another word.
    """
    if pairs not in ("all", "slots"):
        raise ValueError(f"`pairs`: expected 'all' or 'slots', got {pairs!r}.")
    for name, charges in (("charges1", charges1), ("charges2", charges2)):
        check_ndim(name, charges, 2, "molecules, atoms")
        check_finite(name, charges)
    check_rectangular("kernel", kernel)  # and not finite: between empty slots it may be anything
    (n1, atoms), (n2, others) = np.shape(charges1), np.shape(charges2)
    if atoms != others or np.shape(kernel) != (n1 * atoms, n2 * atoms):
        raise ValueError(
            f"`kernel`: expected [{n1} * {atoms}, {n2} * {others}] with equal numbers of slots, "
            f"got shape {np.shape(kernel)}."
        )
    blocks = as_float(kernel, "kernel").reshape(n1, atoms, n2, atoms)
    present1, present2 = (jnp.asarray(charges) > 0 for charges in (charges1, charges2))
    blocks = jnp.where(present1[:, :, None, None] & present2, blocks, 0)
    return jnp.einsum("iajb->ij" if pairs == "all" else "iaja->ij", blocks)

r"""Irreducible representations of finite groups, and the basis in which what commutes with the group is block-diagonal.

Closed forms for $C_n$ and $D_n$; every other group is split numerically from its Cayley table. All constants are NumPy
arrays in double precision.
"""

from dataclasses import dataclass
from functools import lru_cache

import jax.numpy as jnp
import numpy as np
from jaxtyping import Complex, Float, Inexact, Int

from eqbook._checks import check_finite, check_known
from eqbook._shown import shown, summary
from eqbook.groups.arguments import check_flag
from eqbook.groups.finite import FiniteGroup, check_group
from eqbook.groups.planar import cyclic, dihedral


@dataclass(frozen=True, eq=False)
class Irrep:
    r"""One irreducible representation $\sigma(g) \sigma(h) = \sigma(gh)$ by unitary matrices, orthogonal if real.

    Attributes:
        name: `"A"`, `"B"`, `"E1"`, ... as in crystallography where the group is $C_n$ or $D_n$.
        matrices: $\sigma(g)$ for each element, `[order, d, d]`; copied.
        copies: how often it occurs in the regular representation: $d$ for an irreducible representation over the
            complex numbers; $d/2$ for a real one that splits over them.

    Raises:
        ValueError: if `matrices` are no finite square ones, one for each element, or abstract (inside `jit`).
    """

    name: str
    matrices: Inexact[np.ndarray, "order d d"]
    copies: int

    __repr__ = summary

    def __post_init__(self) -> None:
        check_known("matrices", self.matrices)
        check_finite("matrices", self.matrices, real=False)
        # A copy: the caller may go on to change its own.
        matrices = np.array(self.matrices, np.complex128 if np.iscomplexobj(self.matrices) else np.float64)
        if matrices.ndim != 3 or matrices.shape[1] != matrices.shape[2]:
            raise ValueError(f"`matrices`: expected [order, d, d], got shape {matrices.shape}.")
        matrices.setflags(write=False)  # `irreps` gives the same arrays to all
        object.__setattr__(self, "matrices", matrices)

    @property
    def dimension(self) -> int:
        """$d$."""
        return self.matrices.shape[1]

    @property
    def character(self) -> Inexact[np.ndarray, " order"]:
        r"""$\chi(g) = \operatorname{tr} \sigma(g)$."""
        return np.trace(self.matrices, axis1=1, axis2=2)


def irreps(group: FiniteGroup, real: bool = False) -> tuple[Irrep, ...]:
    r"""The irreducible representations of a group, one of each class, the trivial one first.

    $C_n$: `A` is trivial, `B` sends the rotation $r$ to $-1$ ($n$ even), `Ek+` and `Ek-` send it to $e^{\pm 2\pi i
    k/n}$. $D_n$: `A1` is trivial, `A2` is $-1$ on reflections, `B1` and `B2` send $r$ to $-1$ and the reflection $s$ to
    $1$ and $-1$ ($n$ even), `Ek` turns the plane by $2\pi k/n$ for $r$, with $s = \mathrm{diag}(1, -1)$. $D_1$ has the
    table of $C_2$, and so its names, `A` and `B`.

    Args:
        group: the group.
        real: irreducible over the real numbers in place of the complex ones: on $C_n$ the pair `Ek+`, `Ek-` is then one
            rotation `Ek` of the plane. Known for $C_n$ and $D_n$.

    Returns:
        `Irrep` objects with $\sum_\sigma d_\sigma \cdot$ `copies` $= |G|$.

    Raises:
        ValueError: if `group` is no group, `real` no truth value, or `real` is asked for and the group is neither
            `cyclic(n)` nor `dihedral(n)`.

    References:
        Serre, "Linear Representations of Finite Groups", 1977, sections 2.4, 5.1, 5.3 and 13.2.
    """
    check_group("group", group)  # what is no group may have no hash, which the cache needs
    return _irreps(group, check_flag("real", real))


@lru_cache(maxsize=64)
def _irreps(group: FiniteGroup, real: bool) -> tuple[Irrep, ...]:
    if np.array_equal(group.table, cyclic(group.order).table):
        return _cyclic(group.order, real)
    if group.order % 2 == 0 and np.array_equal(group.table, dihedral(group.order // 2).table):
        return _dihedral(group.order // 2)
    if real:
        raise ValueError(
            f"`real`: expected False for a group other than cyclic(n) and dihedral(n), got True for {group!r}; "
            "use the complex irreps, real=False."
        )
    return _split(group)


def _rotations(n: int, k: int) -> Float[np.ndarray, "n 2 2"]:
    angles = 2 * np.pi * k * np.arange(n) / n
    return np.moveaxis(np.array([[np.cos(angles), -np.sin(angles)], [np.sin(angles), np.cos(angles)]]), -1, 0)


def _cyclic(n: int, real: bool) -> tuple[Irrep, ...]:
    lines = [Irrep("A", np.ones((n, 1, 1)), 1)]
    if n % 2 == 0:
        lines.append(Irrep("B", (-1.0) ** np.arange(n)[:, None, None], 1))
    for k in range(1, (n + 1) // 2):
        turn = _rotations(n, k)
        wave = (turn[:, 0, 0] + 1j * turn[:, 1, 0])[:, None, None]
        pair = (Irrep(f"E{k}+", wave, 1), Irrep(f"E{k}-", wave.conj(), 1))
        lines += [Irrep(f"E{k}", turn, 1)] if real else pair
    return tuple(lines)


def _dihedral(n: int) -> tuple[Irrep, ...]:
    """All of them are real; elements are the rotations, followed by r^k s."""

    def with_reflections(name: str, rotations: np.ndarray, s: np.ndarray) -> Irrep:
        return Irrep(name, np.concatenate([rotations, rotations @ s]), s.shape[0])

    one, flip = np.ones((1, 1)), -np.ones((1, 1))
    even, odd = np.ones((n, 1, 1)), (-1.0) ** np.arange(n)[:, None, None]
    lines = [with_reflections("A1", even, one), with_reflections("A2", even, flip)]
    if n % 2 == 0:
        lines += [with_reflections("B1", odd, one), with_reflections("B2", odd, flip)]
    planes = (with_reflections(f"E{k}", _rotations(n, k), np.diag([1.0, -1.0])) for k in range(1, (n + 1) // 2))
    return (*lines, *planes)


def _split(group: FiniteGroup) -> tuple[Irrep, ...]:
    """Eigenspaces of a random Hermitian matrix that commutes with left translation are irreducible, almost surely."""
    n, rng = group.order, np.random.default_rng(0)
    c = rng.normal(size=n) + 1j * rng.normal(size=n)
    c = c + c[group.inverse].conj()
    commuting = c[group.table[group.inverse]]  # entry (h, h') is c(h^-1 h')
    values, vectors = np.linalg.eigh(commuting)
    edges = [0, *(np.flatnonzero(np.diff(values) > 1e-8 * np.abs(values).max()) + 1), n]
    found: list[np.ndarray] = []
    for low, high in zip(edges[:-1], edges[1:], strict=True):
        space = vectors[:, low:high]
        left = space[group.table[group.inverse]]  # row h of the copy g is row g^-1 h: L(g) applied to the space
        sigma = space.conj().T @ left
        characters = [np.trace(s, axis1=1, axis2=2) for s in found]
        if all(abs(np.vdot(chi, np.trace(sigma, axis1=1, axis2=2))) < n / 2 for chi in characters):
            found.append(sigma)
    assert sum(s.shape[1] ** 2 for s in found) == n, "the random matrix had coinciding eigenvalues"
    found.sort(key=lambda s: (s.shape[1], -np.trace(s, axis1=1, axis2=2).real.min()))
    return tuple(Irrep(f"{s.shape[1]}-{i}", s, s.shape[1]) for i, s in enumerate(found))


def multiplicities(group: FiniteGroup, character: Inexact[np.ndarray, " order"]) -> Int[np.ndarray, " irreps"]:
    r"""How often each of `irreps(group)` occurs in a representation, $m_\sigma = \frac{1}{|G|} \sum_g
    \overline{\chi_\sigma(g)}\, \chi(g)$.

    Args:
        group: the group.
        character: $\chi(g)$, the trace of the representation at each element, `[order]`.

    Raises:
        ValueError: if `group` is none, the multiplicities are not integers, up to the rounding of the traces in their
            dtype: no representation has this character; or it is abstract (inside `jit`).
    """
    check_group("group", group)
    check_known("character", character)
    check_finite("character", character, real=False)
    chi = np.asarray(character)
    if chi.shape != (group.order,):
        raise ValueError(f"`character`: expected one trace per element, [{group.order}], got shape {chi.shape}.")
    counts = np.array([np.vdot(sigma.character, chi) for sigma in irreps(group)]) / group.order
    # The traces are rounded in their dtype, and a character of dimension d multiplies them by up to d.
    epsilon = float(jnp.finfo(chi.dtype if jnp.issubdtype(chi.dtype, jnp.inexact) else np.float64).eps)
    rounding = 4 * epsilon * max(sigma.dimension for sigma in irreps(group)) * float(np.abs(chi).max())
    whole = np.rint(counts.real).astype(int)
    # Beyond a quarter nothing would be left to refuse.
    if np.abs(counts - whole).max() > np.clip(rounding, 1e-6, 0.25) or (whole < 0).any():
        raise ValueError(f"`character`: expected the traces of a representation, got multiplicities {counts}.")
    return whole


def isotypic_projector(irrep: Irrep, representation: Inexact[np.ndarray, "order m m"]) -> Inexact[np.ndarray, "m m"]:
    r"""$P_\sigma = \frac{c_\sigma}{|G|} \sum_g \overline{\chi_\sigma(g)}\, \rho(g)$ with `copies` $c_\sigma$: onto all
    copies of $\sigma$.

    Args:
        irrep: $\sigma$.
        representation: $\rho(g)$ for each element, unitary matrices, `[order, m, m]`.

    Raises:
        ValueError: if `irrep` is none, there is not one finite matrix for each element, or they are abstract (inside
            `jit`).
    """
    _check_irrep(irrep)
    check_known("representation", representation)
    check_finite("representation", representation, real=False)
    rho = np.asarray(representation)
    if rho.ndim != 3 or len(rho) != len(irrep.matrices) or rho.shape[1] != rho.shape[2]:
        raise ValueError(
            f"`representation`: expected [order, m, m] with order = {len(irrep.matrices)}, got shape {rho.shape}."
        )
    return irrep.copies / len(rho) * np.einsum("g,gij->ij", irrep.character.conj(), rho)


def symmetry_adapted_basis(
    group: FiniteGroup, real: bool = False
) -> Float[np.ndarray, "order order"] | Complex[np.ndarray, "order order"]:
    r"""Unitary $Q$ whose columns are $\sqrt{d_\sigma / |G|}\; \sigma_{ab}(h)$, in the order $(\sigma, a, b)$.

    A matrix $A$ with entries $A_{hh'} = k(h^{-1} h')$, or blocks such as those of a Gram matrix on augmented data,
    becomes block-diagonal: $Q^* A Q$ holds, for each $\sigma$ and each $a = 1, \dots,$ `copies`, the block
    `fourier_block(sigma, k)`. For blocks of size $n$ take $Q \otimes 1_n$.

    Args:
        group: the group.
        real: real irreducible representations, and a real $Q$; see `irreps`.

    Raises:
        ValueError: as `irreps`.
    """
    columns = [
        np.sqrt(sigma.dimension / group.order) * sigma.matrices[:, : sigma.copies].reshape(group.order, -1)
        for sigma in irreps(group, real)
    ]
    return np.concatenate(columns, axis=1)


def fourier_block(irrep: Irrep, k: Inexact[np.ndarray, "order n m"]) -> Inexact[np.ndarray, "dn dm"]:
    r"""$\hat k(\sigma) = \sum_q \sigma(q) \otimes k(q)$, the Fourier transform of a function on the group.

    Args:
        irrep: $\sigma$, of dimension $d$.
        k: a number or a matrix for each element, `[order]` or `[order, n, m]`.

    Returns:
        `[d n, d m]`; row $b n + i$ belongs to row $b$ of $\sigma$ and row $i$ of `k`.

    Raises:
        ValueError: if `irrep` is none, `k` has not one finite matrix for each element, or is abstract (inside `jit`).
    """
    _check_irrep(irrep)
    check_known("k", k)
    check_finite("k", k, real=False)
    k = np.asarray(k)
    if k.ndim not in (1, 3) or len(k) != len(irrep.matrices):
        raise ValueError(f"`k`: expected [order, n, m] with order = {len(irrep.matrices)}, got shape {k.shape}.")
    k = k.reshape(len(k), *(k.shape[1:] or (1, 1)))
    d, (n, m) = irrep.dimension, k.shape[1:]
    return np.einsum("gab,gij->aibj", irrep.matrices, k).reshape(d * n, d * m)


def _check_irrep(irrep: object) -> None:
    if not isinstance(irrep, Irrep):
        raise ValueError(f"`irrep`: expected one of eq.groups.irreps(group), got {shown(irrep)}.")

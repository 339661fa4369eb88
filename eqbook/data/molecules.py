"""Molecules as padded arrays, and their atomisation energies."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float32, Float64, Int32

from eqbook._shown import summary

ELEMENTS = (1, 6, 7, 8, 9)  # H, C, N, O, F
SLOTS = 29  # atoms of the largest molecule of QM9
HARTREE_IN_MEV = 27_211.386245981
# U0 of one atom at the level of theory of QM9, B3LYP/6-31G(2df,p), in hartree
ATOM_ENERGIES = {1: -0.500273, 6: -37.846772, 7: -54.583861, 8: -75.064579, 9: -99.718730}


@dataclass(frozen=True, eq=False)
class Molecules:
    """Molecules with up to 29 atoms. The arrays that `eqbook` returns are read-only.

    Args:
        charges: nuclear charges, int32, `[n, 29]`; 0 where a molecule has no further atom.
        positions: positions of the nuclei in angstrom, float32, `[n, 29, 3]`; 0 for missing atoms.
        energies: internal energies at 0 K in hartree, float64, `[n]`.
        index: number of each molecule in QM9, from 1, int32, `[n]`.

    Raises:
        ValueError: if a dtype or a shape is wrong, an element is unknown, or atoms stand behind an empty slot.
    """

    charges: Int32[np.ndarray, "n 29"]
    positions: Float32[np.ndarray, "n 29 3"]
    energies: Float64[np.ndarray, " n"]
    index: Int32[np.ndarray, " n"]

    __repr__ = summary

    def __post_init__(self) -> None:
        for name in ("charges", "positions", "energies", "index"):
            if not isinstance(array := getattr(self, name), np.ndarray):
                raise ValueError(f"`{name}`: expected a NumPy array, got {type(array).__name__}; convert it.")
        n = len(self.energies) if self.energies.ndim else 0
        expected = {
            "charges": (np.int32, (n, SLOTS)),
            "positions": (np.float32, (n, SLOTS, 3)),
            "energies": (np.float64, (n,)),
            "index": (np.int32, (n,)),
        }
        for name, (dtype, shape) in expected.items():
            array = getattr(self, name)
            if array.dtype != dtype or array.shape != shape:
                raise ValueError(
                    f"`{name}`: expected {np.dtype(dtype)} {shape}, got {array.dtype} {array.shape}; convert it."
                )
        if not np.isin(self.charges, (0, *ELEMENTS)).all():
            raise ValueError(f"`charges`: expected 0 or one of {ELEMENTS}, got others.")
        present = self.charges > 0
        if (present[:, 1:] & ~present[:, :-1]).any():
            raise ValueError("`charges`: expected the atoms in the first slots, got one behind an empty slot.")

    @property
    def atom_counts(self) -> Int32[np.ndarray, " n"]:
        """Number of atoms of each molecule."""
        return (self.charges > 0).sum(axis=1, dtype=np.int32)

    @property
    def atomisation_energies(self) -> Float[np.ndarray, " n"]:
        r"""$U_0 - \sum_a U_0(Z_a)$ in hartree, `[n]`: negative, what is gained by making the molecule of its atoms."""
        atoms = sum(energy * (self.charges == charge).sum(axis=1) for charge, energy in ATOM_ENERGIES.items())
        return self.energies - atoms

    def __getitem__(self, which: slice | np.ndarray) -> "Molecules":
        """Some of the molecules: a slice, or an array of indices.

        Raises:
            ValueError: if `which` is a number.
        """
        if isinstance(which, int | np.integer):
            raise ValueError(f"`which`: expected a slice or an array, got {which}; write [{which}:{which} + 1].")
        some = Molecules(self.charges[which], self.positions[which], self.energies[which], self.index[which])
        for array in (some.charges, some.positions, some.energies, some.index):
            array.flags.writeable = False
        return some


def pack_molecules(
    counts: np.ndarray, charges: np.ndarray, positions: np.ndarray, energies: np.ndarray, index: np.ndarray
) -> Molecules:
    """Put atoms that are listed one molecule after the other into slots.

    Args:
        counts: number of atoms of each molecule, `[n]`.
        charges: of all atoms, `[atoms]`.
        positions: of all atoms, in angstrom, `[atoms, 3]`.
        energies: in hartree, `[n]`.
        index: number of each molecule in QM9, `[n]`.

    Raises:
        ValueError: if the lengths do not fit, or a molecule has no or too many atoms.
    """
    counts = np.asarray(counts, np.int64)
    if counts.size and not 1 <= counts.min() <= counts.max() <= SLOTS:
        raise ValueError(f"`counts`: expected 1..{SLOTS} atoms, got {counts.min()}..{counts.max()}.")
    if not counts.sum() == len(charges) == len(positions):
        raise ValueError(f"`charges`: expected {counts.sum()} atoms, got {len(charges)}, {len(positions)} positions.")
    present = np.arange(SLOTS) < counts[:, None]
    slots = np.zeros((len(counts), SLOTS), np.int32), np.zeros((len(counts), SLOTS, 3), np.float32)
    for target, source in zip(slots, (charges, positions), strict=True):
        target[present] = source
    arrays = (*slots, np.asarray(energies, np.float64), np.asarray(index, np.int32))
    for array in arrays:
        array.flags.writeable = False
    return Molecules(*arrays)

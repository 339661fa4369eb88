"""Finite groups, their actions on data, and full augmentation by orbits.

A `FiniteGroup` is its Cayley table. An action says how each element moves the data (images, vectors, labels). `augment`
replaces a training set by all of its orbits, on which the group acts by the permutations `augmented_permutation`.
"""

from eqbook.groups.actions import Action as Action
from eqbook.groups.actions import ImageAction as ImageAction
from eqbook.groups.actions import MatrixAction as MatrixAction
from eqbook.groups.actions import RegularAction as RegularAction
from eqbook.groups.actions import TrivialAction as TrivialAction
from eqbook.groups.augmentation import augment as augment
from eqbook.groups.augmentation import augmented_permutation as augmented_permutation
from eqbook.groups.augmentation import orbit as orbit
from eqbook.groups.augmentation import permutation_matrix as permutation_matrix
from eqbook.groups.finite import FiniteGroup as FiniteGroup
from eqbook.groups.planar import cyclic as cyclic
from eqbook.groups.planar import dihedral as dihedral

__all__ = [
    "Action",
    "FiniteGroup",
    "ImageAction",
    "MatrixAction",
    "RegularAction",
    "TrivialAction",
    "augment",
    "augmented_permutation",
    "cyclic",
    "dihedral",
    "orbit",
    "permutation_matrix",
]

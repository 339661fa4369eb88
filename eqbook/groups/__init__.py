"""Finite groups, their actions on data, and full augmentation by orbits.

A `FiniteGroup` is its Cayley table. An action says how each element moves the data (images, vectors, labels). `augment`
replaces a training set by all of its orbits, on which the group acts by the permutations `augmented_permutation`.
`irreps` and `symmetry_adapted_basis` take apart what commutes with these permutations.
`tetrahedron_rotations`, `cube_rotations` and `icosahedron_rotations` are finite subgroups of the rotations of space,
`POLYHEDRA` has them by name. `RotationAction` turns images by angles at which pixels have to be interpolated.
`rand_image_symmetry` draws from continuous groups of orthogonal transformations of images.
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
from eqbook.groups.irreps import Irrep as Irrep
from eqbook.groups.irreps import fourier_block as fourier_block
from eqbook.groups.irreps import irreps as irreps
from eqbook.groups.irreps import isotypic_projector as isotypic_projector
from eqbook.groups.irreps import multiplicities as multiplicities
from eqbook.groups.irreps import symmetry_adapted_basis as symmetry_adapted_basis
from eqbook.groups.orthogonal import IMAGE_SYMMETRIES as IMAGE_SYMMETRIES
from eqbook.groups.orthogonal import ColourRotation as ColourRotation
from eqbook.groups.orthogonal import EntryPermutation as EntryPermutation
from eqbook.groups.orthogonal import EntryRotation as EntryRotation
from eqbook.groups.orthogonal import ImageSymmetry as ImageSymmetry
from eqbook.groups.orthogonal import haar_orthogonal as haar_orthogonal
from eqbook.groups.orthogonal import rand_image_symmetry as rand_image_symmetry
from eqbook.groups.planar import cyclic as cyclic
from eqbook.groups.planar import dihedral as dihedral
from eqbook.groups.polyhedral import POLYHEDRA as POLYHEDRA
from eqbook.groups.polyhedral import cube_rotations as cube_rotations
from eqbook.groups.polyhedral import icosahedron_rotations as icosahedron_rotations
from eqbook.groups.polyhedral import tetrahedron_rotations as tetrahedron_rotations
from eqbook.groups.rotations import RotationAction as RotationAction
from eqbook.groups.rotations import disc_mask as disc_mask
from eqbook.groups.rotations import group_law_error as group_law_error
from eqbook.groups.rotations import rotate_images as rotate_images

__all__ = [
    "POLYHEDRA",
    "Action",
    "ColourRotation",
    "EntryPermutation",
    "EntryRotation",
    "FiniteGroup",
    "IMAGE_SYMMETRIES",
    "ImageAction",
    "ImageSymmetry",
    "Irrep",
    "MatrixAction",
    "RegularAction",
    "RotationAction",
    "TrivialAction",
    "augment",
    "augmented_permutation",
    "cube_rotations",
    "cyclic",
    "dihedral",
    "disc_mask",
    "fourier_block",
    "group_law_error",
    "haar_orthogonal",
    "icosahedron_rotations",
    "irreps",
    "isotypic_projector",
    "multiplicities",
    "orbit",
    "permutation_matrix",
    "rand_image_symmetry",
    "rotate_images",
    "symmetry_adapted_basis",
    "tetrahedron_rotations",
]

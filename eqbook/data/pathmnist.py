"""PathMNIST, whole: 107,180 small images of colorectal tissue, scaled down from NCT-CRC-HE-100K."""

import io
import math
import os
from pathlib import Path

import numpy as np
from jaxtyping import Integer
from numpy.lib.format import read_array_header_1_0, read_array_header_2_0, read_magic

from eqbook.data.archives import ZipMembers, open_zip
from eqbook.data.catalogue import PATHMNIST
from eqbook.data.errors import AlteredFileError
from eqbook.data.images import ImageSet, image_set
from eqbook.data.obtain import obtain
from eqbook.data.registry import DataSet


def fetch_pathmnist(
    data_dir: str | os.PathLike[str] | None = None, progress: bool = True, test: str = "test"
) -> ImageSet:
    """Return the 89,996 training and 7,180 test images of PathMNIST (28 x 28, RGB, nine kinds of tissue).

    The first call downloads 206 MB; later calls read that file, check its digest, and need no network.

    Args:
        data_dir: directory for data; default the one `EQBOOK_DATA_DIR` names, else the user's cache.
        progress: show progress on stderr, if that is a terminal.
        test: `"test"`, or `"val"` to get the 10,004 validation images, which come from the same slides as the
            training images, in place of the test images, which come from other patients.

    Raises:
        DataDirectoryError: if the directory is missing or, when something must be fetched, cannot be written.
        UnreachableError: if the file is missing and no route leads to it. It says what to place where.
        ValueError: if `test` is another word.

    References:
        Yang et al., "MedMNIST v2: a large-scale lightweight benchmark for 2D and 3D biomedical image classification",
        Scientific Data 10, 2023, https://doi.org/10.1038/s41597-022-01721-8
    """
    if test not in ("test", "val"):
        raise ValueError(f"`test`: expected 'test' or 'val', got {test!r}.")
    _, paths = obtain(PATHMNIST, data_dir, progress)
    return read_pathmnist(paths["pathmnist.npz"], PATHMNIST, test)


def read_pathmnist(path: Path, data_set: DataSet, test: str) -> ImageSet:
    """Read the npz file; `data_set.facts` says how many images each part has.

    Raises:
        AlteredFileError: if an array is missing, holds objects, or has another dtype or shape.
    """
    arrays = []
    with open_zip(path) as archive:
        for part in ("train", test):
            n = data_set.facts[part]
            arrays.append(_array(archive, path, f"{part}_images", (n, 28, 28, 3), itemsize=1))
            labels = _array(archive, path, f"{part}_labels", (n, 1), itemsize=8)
            if not 0 <= labels.min() <= labels.max() < len(data_set.class_names):
                raise AlteredFileError(
                    f"`{path}`: expected labels 0..{len(data_set.class_names) - 1} in {part}_labels, "
                    f"got {labels.min()}..{labels.max()}; fetch it again."
                )
            arrays.append(labels)
    return image_set(data_set.class_names, *arrays)


def _array(
    archive: ZipMembers, path: Path, name: str, shape: tuple[int, ...], itemsize: int
) -> Integer[np.ndarray, "..."]:
    """Read one npy member. Its header is checked before anything is allocated; an array of objects is refused."""
    content = archive.read(f"{name}.npy", limit=1024 + itemsize * math.prod(shape))
    stream = io.BytesIO(content)
    try:
        read_header = {(1, 0): read_array_header_1_0, (2, 0): read_array_header_2_0}[read_magic(stream)]
        got, fortran_order, dtype = read_header(stream)
    except (ValueError, KeyError) as error:
        raise AlteredFileError(f"`{path}`: expected {name} in npy format, got damaged data; fetch it again.") from error
    data = content[stream.tell() :]
    if (
        got != shape
        or dtype.kind not in "iu"
        or dtype.itemsize > itemsize
        or len(data) != math.prod(got) * dtype.itemsize
    ):
        raise AlteredFileError(
            f"`{path}`: expected {name} to hold integers of at most {itemsize} bytes, shape {shape}, got {dtype}, "
            f"shape {got}, {len(data)} bytes; fetch it again."
        )
    return np.frombuffer(data, dtype).reshape(shape, order="F" if fortran_order else "C")

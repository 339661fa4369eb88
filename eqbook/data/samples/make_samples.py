"""Rebuild the samples of this folder from the full data sets: `python -m eqbook.data.samples.make_samples`.

The samples are idx files packed by gzip without name and time stamp. The same zlib writes the same bytes; another
version may pack differently, but the content, whose sha256 is in `contents.py`, is the same. The script stops before it
replaces anything if that sha256 differs.
"""

import argparse
import gzip
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from eqbook.data.cifar10 import fetch_cifar10
from eqbook.data.fetch import fetch_fashion_mnist, fetch_mnist
from eqbook.data.idx import format_idx
from eqbook.data.images import ImageSet
from eqbook.data.molecules import Molecules
from eqbook.data.obtain import obtain
from eqbook.data.pictures import read_picture
from eqbook.data.qm9 import fetch_qm9
from eqbook.data.registry import DataFile, DataSet, Edition, Package
from eqbook.data.samples.contents import SAMPLES
from eqbook.data.verify import check_content

# Lengths of the beginnings that make the samples of images.
LENGTHS = {"fashion_mnist": (6_000, 2_000), "mnist": (1_000, 2_000), "cifar10": (800, 200)}
MOLECULES = 2_000
_SCIKIT_IMAGE = DataSet(
    name="scikit_image",
    title="immunohistochemistry image of scikit-image",
    editions=(
        Edition(
            "png",
            (DataFile("ihc.png", 477_916, "f8dd1aa387ddd1f49d8ad13b50921b237df8e9b262606d258770687b0ef93cef"),),
            packages=(Package("pip", "scikit-image==0.26.0", "skimage/data/{name}"),),
        ),
    ),
    licence="no known copyright restrictions, Center for Microscopy And Molecular Imaging",
    homepage="https://scikit-image.org/docs/stable/api/skimage.data.html",
)


def cut_images(name: str, full: ImageSet) -> list[np.ndarray]:
    """Return the beginnings of the training and test data that make the sample `name`."""
    arrays = []
    for split, n in zip(("train", "test"), LENGTHS[name], strict=True):
        images, labels = getattr(full, f"{split}_images")[:n], getattr(full, f"{split}_labels")[:n]
        arrays += [images[..., 0] if images.shape[-1] == 1 else images, labels.astype(np.uint8)]
    return arrays


def cut_molecules(full: Molecules) -> list[np.ndarray]:
    """Return counts, charges, positions, energies and numbers of 2,000 molecules in random order.

    The order is that of the sha256 of the molecules' numbers: it looks random, and no version of a library changes it.
    """
    order = sorted(range(len(full.index)), key=lambda i: hashlib.sha256(str(full.index[i]).encode()).digest())
    sample = full[np.array(order[:MOLECULES])]
    present = sample.charges > 0
    return [
        sample.atom_counts.astype(np.uint8),
        sample.charges[present].astype(np.uint8),
        sample.positions[present],
        sample.energies,
        sample.index,
    ]


def fetch_histology() -> list[np.ndarray]:
    """Return the image of stained tissue that comes with scikit-image."""
    _, paths = obtain(_SCIKIT_IMAGE)
    return [read_picture(paths["ihc.png"].read_bytes(), "PNG", (512, 512), "ihc.png")]


SOURCES: dict[str, Callable[[], list[np.ndarray]]] = {
    "fashion_mnist": lambda: cut_images("fashion_mnist", fetch_fashion_mnist()),
    "mnist": lambda: cut_images("mnist", fetch_mnist()),
    "cifar10": lambda: cut_images("cifar10", fetch_cifar10()),
    "qm9": lambda: cut_molecules(fetch_qm9()),
    "histology": fetch_histology,
}


def sample_contents(name: str, arrays: list[np.ndarray]) -> dict[DataFile, bytes]:
    """Return the unpacked files of the sample `name`, checked against their digests.

    Raises:
        AlteredFileError: if one is another.
    """
    contents = {}
    for file, array in zip(SAMPLES[name], arrays, strict=True):
        contents[file] = check_content(format_idx(array), file, file.name)
    return contents


def write_samples(name: str, arrays: list[np.ndarray], folder: Path) -> list[Path]:
    """Write the packed files of the sample `name` to `folder`, each under a temporary name first."""
    paths = []
    for file, content in sample_contents(name, arrays).items():
        path = folder / f"{file.name}.gz"
        temporary = path.with_suffix(".tmp")
        temporary.write_bytes(_pack(content))
        os.replace(temporary, path)
        paths.append(path)
    return paths


def _pack(content: bytes) -> bytes:
    packed = gzip.compress(content, compresslevel=6, mtime=0)  # level 9: 1 per cent less in 10 times the time
    return packed[:9] + b"\xff" + packed[10:]  # byte 9 names the system; Python versions disagree: "unknown"


def main() -> None:
    """Fetch the full data sets and write their samples."""
    parser = argparse.ArgumentParser(description="Rebuild the samples from the full data sets.")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent, help="folder to write to")
    parser.add_argument("names", nargs="*", default=list(SOURCES), help="samples to write; default all")
    arguments = parser.parse_args()
    for name in arguments.names:
        for path in write_samples(name, SOURCES[name](), arguments.out):
            print(f"{path.name}  {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()

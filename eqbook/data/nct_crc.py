"""NCT-CRC-HE-100K: 100,000 images of human colorectal tissue, and 7,180 of other patients."""

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from jaxtyping import Int32, UInt8

from eqbook._checks import check_int
from eqbook.data.archives import open_zip
from eqbook.data.catalogue import NCT_CRC
from eqbook.data.errors import AlteredFileError
from eqbook.data.images import ImageSet, image_set
from eqbook.data.obtain import obtain
from eqbook.data.pictures import read_picture
from eqbook.data.store import data_directory

TISSUE_FOLDERS = ("ADI", "BACK", "DEB", "LYM", "MUC", "MUS", "NORM", "STR", "TUM")  # in the order of the class names
_SIDE = 224  # pixels
_LIMIT = 10**6  # bytes of one tif; three for each pixel and a header are 151 kB


def fetch_nct_crc(
    n_train: int,
    n_test: int,
    size: int = 32,
    seed: int = 0,
    data_dir: str | os.PathLike[str] | None = None,
    progress: bool = True,
) -> ImageSet:
    r"""Return images of NCT-CRC-HE-100K for training and of CRC-VAL-HE-7K for testing, scaled down.

    The first call downloads 12.5 GB; a download that breaks off resumes. Only the images that are asked for are
    decoded, by Pillow, which must be installed. They are drawn without replacement, the same ones for the same seed,
    and the first $m$ of a longer draw are a draw of $m$. Scaling takes the mean over squares of $224 / s$ pixels for
    images of $s$ pixels on a side.

    Instead of the zip files, the folder `nct_crc` may hold the unpacked folders `NCT-CRC-HE-100K` and
    `CRC-VAL-HE-7K`, each with one folder per tissue (`ADI`, ..., `TUM`). No digest is checked then, only the number of
    images and the format of each.

    Args:
        n_train: number of training images, at most 100,000.
        n_test: number of test images, at most 7,180.
        size: pixels on a side, a divisor of 224.
        seed: which images are drawn.
        data_dir: directory for data; default the one `EQBOOK_DATA_DIR` names, else the user's cache.
        progress: show progress on stderr, if that is a terminal.

    Raises:
        DataDirectoryError: if the directory is missing or, when something must be fetched, cannot be written.
        UnreachableError: if a file is missing and no route leads to it. It says what to place where.
        DataError: if Pillow is needed and not installed.
        AlteredFileError: if an image is not an RGB image of 224 x 224 pixels, or one is missing.
        ValueError: if a number is out of range.

    References:
        Kather, Halama, Marx, "100,000 histological images of human colorectal cancer and healthy tissue", 2018,
        https://doi.org/10.5281/zenodo.1214456
    """
    counts = {"NCT-CRC-HE-100K": n_train, "CRC-VAL-HE-7K": n_test}
    for name, n, part in zip(("n_train", "n_test"), (n_train, n_test), counts, strict=True):
        if check_int(name, n, 1) > NCT_CRC.facts[part]:
            raise ValueError(f"`{name}`: expected at most {NCT_CRC.facts[part]}, the images of {part}, got {n}.")
    check_int("seed", seed, 0)
    if _SIDE % check_int("size", size, 1):
        raise ValueError(f"`size`: expected a divisor of {_SIDE}, so that pixels are means of squares, got {size}.")
    folder = data_directory(data_dir) / NCT_CRC.name
    if all((folder / part).is_dir() for part in counts):
        sources = {part: folder / part for part in counts}
    else:
        _, paths = obtain(NCT_CRC, data_dir, progress)
        sources = {part: paths[f"{part}.zip"] for part in counts}
    arrays = []
    for part, n in counts.items():
        arrays += read_tissues(sources[part], NCT_CRC.facts[part], n, size, seed)
    return image_set(NCT_CRC.class_names, *arrays)


def read_tissues(
    source: Path, published: int, n: int, size: int, seed: int
) -> tuple[UInt8[np.ndarray, "n size size 3"], Int32[np.ndarray, " n"]]:
    """Read `n` images, drawn at random, from a zip archive or from an unpacked folder.

    Args:
        source: the archive or the folder, with images `TISSUE/NAME.tif`, directly or one folder below.
        published: number of images that it must hold.
        n: number of images to read.
        size: pixels on a side to scale them to.
        seed: which images are drawn.

    Raises:
        AlteredFileError: if it does not hold that many images, or one is not what it claims to be.
    """
    with _opened(source) as (names, read):
        labelled = [(name, _label(name)) for name in sorted(names) if name.lower().endswith((".tif", ".tiff"))]
        if len(labelled) != published:
            raise AlteredFileError(f"`{source}`: expected {published} images, got {len(labelled)}; fetch it again.")
        unknown = next((name for name, label in labelled if label is None), None)
        if unknown is not None:
            raise AlteredFileError(f"`{source}`: expected images in {', '.join(TISSUE_FOLDERS)}, got {unknown!r}.")
        drawn = np.random.default_rng(seed).permutation(published)[:n]
        images = np.empty((n, size, size, 3), np.uint8)
        for i, k in enumerate(drawn):
            name = labelled[k][0]
            images[i] = shrink(read_picture(read(name), "TIFF", (_SIDE, _SIDE), name), size)
    return images, np.array([labelled[k][1] for k in drawn], np.int32)


def shrink(image: UInt8[np.ndarray, "side side 3"], size: int) -> UInt8[np.ndarray, "size size 3"]:
    """Scale an image down: each pixel is the mean of a square, rounded."""
    step = len(image) // size
    mean = image.reshape(size, step, size, step, 3).mean(axis=(1, 3))
    return np.rint(mean).astype(np.uint8)


def _label(name: str) -> int | None:
    tissue = name.split("/")[-2] if "/" in name else ""
    return TISSUE_FOLDERS.index(tissue) if tissue in TISSUE_FOLDERS else None


@contextlib.contextmanager
def _opened(source: Path) -> Iterator[tuple[tuple[str, ...], Callable[[str], bytes]]]:
    """Names in a zip archive or a folder, and a function that reads one of them."""
    if not source.is_dir():
        with open_zip(source) as archive:
            yield archive.names, lambda name: archive.read(name, _LIMIT)
        return
    paths = {path.relative_to(source).as_posix(): path for path in source.rglob("*") if path.is_file()}
    yield tuple(paths), lambda name: _read_bounded(paths[name])


def _read_bounded(path: Path) -> bytes:
    with path.open("rb") as stream:
        content = stream.read(_LIMIT + 1)
    if len(content) > _LIMIT:
        raise AlteredFileError(f"`{path}`: expected an image of at most {_LIMIT} bytes, got more.")
    return content

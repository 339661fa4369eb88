"""The files of the samples, with their digests. Each is an idx file packed by gzip, in the folder of this module."""

from eqbook.data.registry import DataFile

_LABELS, _PAIRS, _IMAGES, _COLOURS = 8, 12, 16, 20  # bytes of an idx header for 1, 2, 3 and 4 axes


def _file(name: str, size: int, sha256: str) -> DataFile:
    return DataFile(name, size, sha256, gzip=True)


SAMPLES = {
    # the first 6,000 and 2,000 images
    "fashion_mnist": (
        _file(
            "fashion_mnist-train-images-idx3-ubyte",
            _IMAGES + 6_000 * 784,
            "6dded81672539b5d148c1a85358069d1808c316dc6f6c0abfd12ba3ced5dd394",
        ),
        _file(
            "fashion_mnist-train-labels-idx1-ubyte",
            _LABELS + 6_000,
            "d7c464914ae4b919728c5c99c3cdde5a0259febf1e99ddc6927a15768731d7dc",
        ),
        _file(
            "fashion_mnist-t10k-images-idx3-ubyte",
            _IMAGES + 2_000 * 784,
            "862035b0a96959b614c9574f4c2b0ae9584ca234813e8d6d7adb7838b12ca46b",
        ),
        _file(
            "fashion_mnist-t10k-labels-idx1-ubyte",
            _LABELS + 2_000,
            "aa3f574d30afaf0d4d9da084a6f8541771e20693d6a97fae6e9a4953fca8f078",
        ),
    ),
    # the first 1,000 and 2,000 images
    "mnist": (
        _file(
            "mnist-train-images-idx3-ubyte",
            _IMAGES + 1_000 * 784,
            "386bb018796babeaca208787b77c1b9db39532c4098951ea35f4694e744eb4b7",
        ),
        _file(
            "mnist-train-labels-idx1-ubyte",
            _LABELS + 1_000,
            "895f65588e45d05babf0b5fa7aee2a0d782d8143b40b5764e596df91bc9dddeb",
        ),
        _file(
            "mnist-t10k-images-idx3-ubyte",
            _IMAGES + 2_000 * 784,
            "3f6bd66dee48df299584c67669bceee490faa25f931496bd7473b42106d7daed",
        ),
        _file(
            "mnist-t10k-labels-idx1-ubyte",
            _LABELS + 2_000,
            "7b098e5f6a3065807cebeabf36fb1724a8aff19f2673ac08b4923e0e8c715bce",
        ),
    ),
    # the first 800 and 200 images
    "cifar10": (
        _file(
            "cifar10-train-images-idx4-ubyte",
            _COLOURS + 800 * 3_072,
            "a08d0eef980df29d6fd69a3764d0aed4125085d74a4b060802af978f47ff126f",
        ),
        _file(
            "cifar10-train-labels-idx1-ubyte",
            _LABELS + 800,
            "bb47a732a5a97520e801ec0a66550dd1e12f2e52cef0c499bc3e8077f561541f",
        ),
        _file(
            "cifar10-test-images-idx4-ubyte",
            _COLOURS + 200 * 3_072,
            "e2bcd040dffc2ecbccbc07c77066e65f2037ca97478c74a71809a5bbfd194126",
        ),
        _file(
            "cifar10-test-labels-idx1-ubyte",
            _LABELS + 200,
            "7bbc46397ceee868c8de4488b700d1c328e48811ab6fce5f04f2291f37845bbf",
        ),
    ),
    # 2,000 molecules in random order, atoms one molecule after the other
    "qm9": (
        _file(
            "qm9-counts-idx1-ubyte",
            _LABELS + 2_000,
            "2d54d75e947779f17c3aabfaa1927010412ea219eabb4caadb64d6de2b868817",
        ),
        _file(
            "qm9-charges-idx1-ubyte",
            _LABELS + 35_982,
            "b4981b28d039a5c47de057d5945949a7acaa46fa798b327d52533eedc3a81e3b",
        ),
        _file(
            "qm9-positions-idx2-float",
            _PAIRS + 35_982 * 3 * 4,
            "10c29fa885cf6f823416fa97b5868d29edd3f9923d56ab313469c2f9493a6c4d",
        ),
        _file(
            "qm9-energies-idx1-double",
            _LABELS + 2_000 * 8,
            "ed8578bf1e9d800e55fff72cb62aa90bd07020e16b92425d5d51dd7b8c384812",
        ),
        _file(
            "qm9-index-idx1-int",
            _LABELS + 2_000 * 4,
            "c276d8513b37e977a1441e4ce93b10a046d87fd0d952c825b689ae291182f395",
        ),
    ),
    # one image of 512 x 512 pixels
    "histology": (
        _file(
            "histology-image-idx3-ubyte",
            _IMAGES + 512 * 512 * 3,
            "6b5610c05d1c4412704c2d341303fa5d54c63db66a34b22b6d66a323250899b0",
        ),
    ),
}

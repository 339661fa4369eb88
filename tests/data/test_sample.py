"""The samples inside the package are real, small, unaltered, and can be rebuilt."""

import ast
import gzip
import hashlib
from pathlib import Path

import numpy as np
import pytest

import eqbook.data
from eqbook.data import (
    DATA_SETS,
    SAMPLES,
    AlteredFileError,
    UnreachableError,
    fetch_cifar10,
    fetch_fashion_mnist,
    fetch_mnist,
    fetch_qm9,
    load_sample,
    sample_image,
    stain_amounts,
    stained_patches,
)
from eqbook.data.samples.make_samples import SOURCES, cut_images, cut_molecules, sample_contents, write_samples

PACKAGE = Path(eqbook.data.__file__).parent
FOLDER = PACKAGE / "samples"
LEAST = {"fashion_mnist": (4000, 1000), "mnist": (0, 500), "cifar10": (800, 200)}


@pytest.mark.parametrize("name", SAMPLES)
def test_files_have_the_registered_sha256(name):
    for file in SAMPLES[name]:
        content = gzip.decompress((FOLDER / f"{file.name}.gz").read_bytes())
        assert hashlib.sha256(content).hexdigest() == file.sha256


def test_samples_are_small_and_carry_their_licences():
    assert sum(path.stat().st_size for path in FOLDER.iterdir() if path.is_file()) < 12e6
    holders = {
        "fashion-mnist": "Zalando SE",
        "mnist": "Yann LeCun and Corinna Cortes",
        "cifar10": "Alex Krizhevsky",
        "qm9": "MIT License",
        "histology": "No known copyright restrictions",
    }
    for name, holder in holders.items():
        assert holder in (FOLDER / f"LICENSE-{name}").read_text()
    assert {path.name for path in FOLDER.glob("*.gz")} == {f"{f.name}.gz" for fs in SAMPLES.values() for f in fs}


@pytest.mark.parametrize("name", LEAST)
def test_sample_is_large_enough_and_balanced(name):
    images = load_sample(name)
    n_train, n_test = LEAST[name]
    assert len(images.train_labels) >= n_train and len(images.test_labels) >= n_test
    assert images.class_names == DATA_SETS[name].class_names
    for labels in (images.train_labels, images.test_labels):
        counts = np.bincount(labels, minlength=10)
        # A class of a fair draw of n has n/10 members, with standard deviation sqrt(0.09 n). MNIST's own classes
        # differ by up to 13 per cent of their mean (5421 and 6742 of 60,000), which is allowed on top.
        n = len(labels)
        assert np.abs(counts - n / 10).max() <= 4 * np.sqrt(0.09 * n) + 0.13 * n / 10


def test_first_labels_are_the_known_ones():
    assert load_sample("fashion_mnist").train_labels[:10].tolist() == [9, 0, 0, 3, 0, 2, 7, 2, 5, 5]
    assert load_sample("mnist").train_labels[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
    assert load_sample("cifar10").train_labels[:10].tolist() == [6, 9, 9, 4, 1, 1, 2, 7, 8, 3]
    assert load_sample("cifar10").test_labels[:10].tolist() == [3, 8, 8, 0, 6, 6, 1, 6, 3, 1]


@pytest.mark.parametrize("name", ["pathmnist", "", "MNIST"])
def test_unknown_sample_is_named(name):
    with pytest.raises(
        ValueError,
        match=f"`name`: expected one of 'fashion_mnist', 'mnist', 'cifar10', 'qm9', 'histology', got '{name}'",
    ):
        load_sample(name)


def test_altered_sample_is_refused(monkeypatch, tmp_path):
    (tmp_path / "samples").mkdir()
    for file in SAMPLES["mnist"]:
        (tmp_path / "samples" / f"{file.name}.gz").write_bytes((FOLDER / f"{file.name}.gz").read_bytes()[:-9])
    monkeypatch.setattr("eqbook.data.sample.files", lambda package: tmp_path)
    with pytest.raises(AlteredFileError, match="mnist-train-images-idx3-ubyte.gz`: damaged gzip data"):
        load_sample("mnist")


def arrays_of(name):
    """The arrays from which the script writes a sample: a sample of images is the beginning of the full set."""
    if name == "histology":
        return [sample_image()]
    return cut_molecules(load_sample(name)) if name == "qm9" else cut_images(name, load_sample(name))


@pytest.mark.parametrize("name", SAMPLES)
def test_script_writes_the_same_samples_again(name, tmp_path):
    first = {path.name: path.read_bytes() for path in write_samples(name, arrays_of(name), tmp_path)}
    second = {path.name: path.read_bytes() for path in write_samples(name, arrays_of(name), tmp_path)}
    assert first == second and set(SOURCES) == set(SAMPLES)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(first)
    for file, content in first.items():
        assert gzip.decompress(content) == gzip.decompress((FOLDER / file).read_bytes())


def test_script_stops_before_it_writes_another_slice(tmp_path):
    with pytest.raises(AlteredFileError, match="expected"):
        write_samples("mnist", arrays_of("fashion_mnist"), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_molecules_are_as_published():
    """Numbers of the whole set, within the standard error of a random draw of 2,000."""
    molecules = load_sample("qm9")
    assert molecules.charges.shape == (2000, 29) and len(set(molecules.index.tolist())) == 2000
    for values, mean, std in (
        (molecules.atom_counts, 18.03, 2.94),
        (molecules.atomisation_energies * 27.211386, -76.116, 10.324),  # eV
    ):
        assert abs(values.mean() - mean) < 4 * std / np.sqrt(2000)
        # the sample deviation of n normal numbers has standard deviation std / sqrt(2 n); these have heavier tails
        assert abs(values.std() - std) < 8 * std / np.sqrt(2 * 2000)
    small = molecules.charges > 0
    distance = np.linalg.norm(molecules.positions[:, :, None] - molecules.positions[:, None], axis=-1)
    pairs = small[:, :, None] & small[:, None] & ~np.eye(29, dtype=bool)
    assert 0.95 < distance[pairs].min() < 1.0  # O-H, the shortest bond, has 0.96 angstrom


def test_stains_are_those_that_made_the_colours():
    """The law of Beer and Lambert forward, with rounded bytes, and back."""
    from eqbook.data.stains import ABSORPTION

    amounts = np.random.default_rng(0).uniform(0, 0.5, (200, 3))
    colours = 255 * 10 ** (-amounts @ ABSORPTION)
    bytes_ = np.rint(colours).astype(np.uint8)
    # Rounding moves a colour by half a step, its density by that over colour and log 10.
    bound = (0.5 / np.log(10) / bytes_) @ np.abs(np.linalg.inv(ABSORPTION)) * 1.01
    assert (np.abs(stain_amounts(bytes_) - amounts) <= bound).all()
    assert np.abs(stain_amounts(np.full((1, 3), 255, np.uint8))).max() == 0
    with pytest.raises(ValueError, match="`images`: expected uint8"):
        stain_amounts(colours)


def test_histology_labels_are_those_of_the_dye_and_invariant():
    patches = load_sample("histology")
    assert patches.train_images.shape == (588, 32, 32, 3) and patches.test_images.shape == (196, 32, 32, 3)
    assert np.bincount(patches.train_labels).tolist() == [294, 294]  # by the median
    counts = np.bincount(patches.test_labels)
    assert counts.min() > 0.4 * counts.sum()
    dab = stain_amounts(patches.test_images)[..., 2].mean(axis=(1, 2))
    assert dab[patches.test_labels == 1].min() > dab[patches.test_labels == 0].max()
    # A brown patch is darker in blue: the label can be seen.
    blue = patches.test_images[..., 2].mean(axis=(1, 2))
    assert blue[patches.test_labels == 1].mean() < blue[patches.test_labels == 0].mean() - 30


def test_no_pixel_is_in_training_and_test_patches():
    """Give every pixel its own colour and look for shared ones."""
    number = np.arange(128 * 128)
    image = np.stack([number // 256, number % 256, 0 * number], axis=-1).reshape(128, 128, 3).astype(np.uint8)
    patches = stained_patches(image, 8, 4)
    train, test = (
        {tuple(colour) for colour in images.reshape(-1, 3).tolist()}
        for images in (patches.train_images, patches.test_images)
    )
    assert not train & test and len(train) + len(test) == 128 * 128 and len(train) == 3 * len(test)
    np.testing.assert_array_equal(patches.train_images[0], image[:8, :8])
    with pytest.raises(ValueError, match="`size`: expected at most 32"):
        stained_patches(image, 33, 4)
    with pytest.raises(ValueError, match="`image`: expected"):
        stained_patches(image[:100], 8, 4)


def test_no_module_reads_by_a_function_that_believes_the_file():
    """Not even an `np.load` that refuses pickles: npy headers are checked before anything is read."""
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            assert not (isinstance(node, ast.Attribute) and node.attr == "load"), path


FULL = {
    # mean and standard deviation of the training pixels in [0, 1], as published with many loaders
    "fashion_mnist": (fetch_fashion_mnist, [0.2860], [0.3530], [6000] * 10),
    "mnist": (fetch_mnist, [0.1307], [0.3081], [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]),
    "cifar10": (fetch_cifar10, [0.4914, 0.4822, 0.4465], [0.2470, 0.2435, 0.2616], [5000] * 10),
}


def or_skip(fetch, folder):
    try:
        return fetch(folder)
    except UnreachableError as error:
        pytest.skip(str(error))


@pytest.mark.network
@pytest.mark.parametrize("name", FULL)
def test_samples_are_slices_of_the_full_sets(name, tmp_path):
    fetch, mean, std, counts = FULL[name]
    full = or_skip(fetch, tmp_path)
    sample = load_sample(name)
    for part in ("train_images", "train_labels", "test_images", "test_labels"):
        array = getattr(sample, part)
        np.testing.assert_array_equal(array, getattr(full, part)[: len(array)])
    for file, content in sample_contents(name, cut_images(name, full)).items():
        assert gzip.decompress((FOLDER / f"{file.name}.gz").read_bytes()) == content
    assert len(full.train_images) == 10 * np.mean(counts) and len(full.test_images) == 10_000
    assert np.bincount(full.train_labels).tolist() == counts
    pixels = full.train_images.reshape(-1, full.train_images.shape[-1]) / np.float32(255)
    assert np.round(pixels.mean(axis=0, dtype=float), 4).tolist() == mean
    assert np.round(pixels.std(axis=0, dtype=float), 4).tolist() == std


@pytest.mark.network
def test_molecules_are_some_of_the_full_set(tmp_path):
    full = or_skip(fetch_qm9, tmp_path)
    assert len(full.index) == 130_831 and full.atom_counts.sum() == 2_359_210
    for file, content in sample_contents("qm9", cut_molecules(full)).items():
        assert gzip.decompress((FOLDER / f"{file.name}.gz").read_bytes()) == content
    energies = full.atomisation_energies * 27.211386  # eV; mean and deviation as published
    assert round(energies.mean(), 3) == -76.116 and round(energies.std(), 3) == 10.324


@pytest.mark.network
def test_image_of_tissue_is_that_of_scikit_image(tmp_path, monkeypatch):
    monkeypatch.setenv("EQBOOK_DATA_DIR", str(tmp_path))
    try:
        arrays = SOURCES["histology"]()
    except UnreachableError as error:
        pytest.skip(str(error))
    np.testing.assert_array_equal(arrays[0], sample_image())

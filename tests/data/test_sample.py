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
    fetch_fashion_mnist,
    fetch_mnist,
    load_sample,
)
from eqbook.data.samples.make_samples import sample_contents, write_samples

PACKAGE = Path(eqbook.data.__file__).parent
FOLDER = PACKAGE / "samples"
LEAST = {"fashion_mnist": (4000, 1000), "mnist": (0, 500)}


@pytest.mark.parametrize("name", SAMPLES)
def test_files_have_the_registered_sha256(name):
    for file in SAMPLES[name]:
        content = gzip.decompress((FOLDER / f"{file.name}.gz").read_bytes())
        assert hashlib.sha256(content).hexdigest() == file.sha256


def test_samples_are_small_and_carry_their_licences():
    assert sum(path.stat().st_size for path in FOLDER.iterdir() if path.is_file()) < 8e6
    assert "Zalando SE" in (FOLDER / "LICENSE-fashion-mnist").read_text()
    assert "Yann LeCun and Corinna Cortes" in (FOLDER / "LICENSE-mnist").read_text()
    assert {path.name for path in FOLDER.glob("*.gz")} == {f"{f.name}.gz" for fs in SAMPLES.values() for f in fs}


@pytest.mark.parametrize("name", SAMPLES)
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


@pytest.mark.parametrize("name", ["cifar10", "", "MNIST"])
def test_unknown_sample_is_named(name):
    with pytest.raises(ValueError, match=f"`name`: expected one of 'fashion_mnist', 'mnist', got '{name}'"):
        load_sample(name)


def test_altered_sample_is_refused(monkeypatch, tmp_path):
    (tmp_path / "samples").mkdir()
    for file in SAMPLES["mnist"]:
        (tmp_path / "samples" / f"{file.name}.gz").write_bytes((FOLDER / f"{file.name}.gz").read_bytes()[:-9])
    monkeypatch.setattr("eqbook.data.sample.files", lambda package: tmp_path)
    with pytest.raises(AlteredFileError, match="mnist-train-images-idx3-ubyte.gz`: damaged gzip data"):
        load_sample("mnist")


@pytest.mark.parametrize("name", SAMPLES)
def test_script_writes_the_same_samples_again(name, tmp_path):
    """A sample is the beginning of the full set, so its own beginning rebuilds it."""
    sample = load_sample(name)
    first = {path.name: path.read_bytes() for path in write_samples(name, sample, tmp_path)}
    second = {path.name: path.read_bytes() for path in write_samples(name, sample, tmp_path)}
    assert first == second
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(first)
    for file, content in first.items():
        assert gzip.decompress(content) == gzip.decompress((FOLDER / file).read_bytes())


def test_script_stops_before_it_writes_another_slice(tmp_path):
    with pytest.raises(AlteredFileError, match="sha256"):
        write_samples("mnist", load_sample("fashion_mnist"), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_no_module_can_unpickle():
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            assert not {"pickle", "marshal", "shelve"} & set(names), path
            assert not (isinstance(node, ast.Attribute) and node.attr == "load"), path


FULL = {
    # mean and standard deviation of the training pixels in [0, 1], as published with many loaders
    "fashion_mnist": (fetch_fashion_mnist, 0.2860, 0.3530, [6000] * 10),
    "mnist": (fetch_mnist, 0.1307, 0.3081, [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]),
}


@pytest.mark.network
@pytest.mark.parametrize("name", SAMPLES)
def test_samples_are_slices_of_the_full_sets(name, tmp_path):
    fetch, mean, std, counts = FULL[name]
    try:
        full = fetch(tmp_path)
    except UnreachableError as error:
        pytest.skip(str(error))
    sample = load_sample(name)
    for part in ("train_images", "train_labels", "test_images", "test_labels"):
        array = getattr(sample, part)
        np.testing.assert_array_equal(array, getattr(full, part)[: len(array)])
    for file, content in sample_contents(name, full).items():
        assert gzip.decompress((FOLDER / f"{file.name}.gz").read_bytes()) == content
    assert full.train_images.shape == (60_000, 28, 28, 1) and full.test_images.shape == (10_000, 28, 28, 1)
    assert np.bincount(full.train_labels).tolist() == counts
    pixels = full.train_images / 255.0
    assert round(pixels.mean(), 4) == mean and round(pixels.std(), 4) == std

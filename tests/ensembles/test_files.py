"""Archives of arrays from strangers: known by their headers, before anything is unpacked."""

import tracemalloc
import zipfile

import jax
import numpy as np
import pytest

from eqbook.ensembles.files import load_tree, save_tree

LONG = 3 * 10**7
TREE = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.int32(3), "key": jax.random.split(jax.random.key(3))}
SHAPES = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), TREE)


def rewritten(path, method, changes=()):
    """The same archive with some members changed, added, or left out where the content is `None`."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in (members | dict(changes)).items():
            if content is not None:
                archive.writestr(name, content)


@pytest.fixture
def path(tmp_path):
    save_tree(tmp_path / "tree.npz", TREE)
    return tmp_path / "tree.npz"


def is_read(path):
    """Whether it is; that it takes little memory is checked."""
    tracemalloc.start()
    found = load_tree(path, SHAPES)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10**6
    return found is not None


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_an_archive_may_be_deflated(path, method):
    rewritten(path, method)
    assert is_read(path)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_methods_are_refused(path, method):
    rewritten(path, method)
    assert not is_read(path)


@pytest.mark.parametrize("name", ["leaf0.npy", "leaf2.npy", "sha256.npy", "leaf3.npy", "other"])
@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
def test_what_is_longer_than_its_array_is_not_unpacked(path, name, method):
    np.save(path.with_name("long.npy"), np.zeros(LONG, np.uint8))
    rewritten(path, method, {name: path.with_name("long.npy").read_bytes()})
    assert path.stat().st_size < 10**5 and not is_read(path)


def test_a_member_that_is_missing_or_named_twice(path):
    rewritten(path, zipfile.ZIP_STORED, {"leaf1.npy": None})
    assert not is_read(path)
    save_tree(path, TREE)
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("leaf1.npy", archive.read("leaf1.npy"))
    assert not is_read(path)

"""The readers of the full data sets, on small files in the same formats, good and hostile."""

import bz2
import hashlib
import io
import json
import sys
import tarfile
import zipfile
import zlib
from dataclasses import replace

import numpy as np
import pytest

from eqbook.data import AlteredFileError, DataError, cifar10, fetch_nct_crc, fetch_pathmnist, load_sample, nct_crc
from eqbook.data.catalogue import CIFAR10, NCT_CRC, PATHMNIST, QM9
from eqbook.data.nct_crc import TISSUE_FOLDERS, read_tissues, shrink
from eqbook.data.pathmnist import read_pathmnist
from eqbook.data.pictures import read_picture
from eqbook.data.qm9 import read_csv, read_xyz


def picture(array, kind):
    Image = pytest.importorskip("PIL.Image")
    stream = io.BytesIO()
    Image.fromarray(array).save(stream, kind)
    return stream.getvalue()


def random_image(seed, *shape):
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)


# Pictures


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_pictures_come_back(kind):
    image = random_image(0, 5, 7, 3)
    np.testing.assert_array_equal(read_picture(picture(image, kind), kind, (5, 7), "x"), image)


def test_other_pictures_are_refused():
    image = random_image(0, 5, 7, 3)
    png = picture(image, "PNG")
    for content, kind, size, said in [
        (png, "TIFF", (5, 7), "damaged data"),  # another format than the name says
        (png, "PNG", (7, 5), "expected an RGB image of 5 x 7 pixels, got RGB 7 x 5"),
        (picture(image[..., 0], "PNG"), "PNG", (5, 7), "got L 7 x 5"),
        (png[: len(png) // 2], "PNG", (5, 7), "damaged data"),
        (b"", "PNG", (5, 7), "damaged data"),
        (b"#!/bin/sh\n", "TIFF", (5, 7), "damaged data"),
    ]:
        with pytest.raises(AlteredFileError, match=said):
            read_picture(content, kind, size, "x")


def test_large_picture_is_refused_from_its_header():
    """A header of a large image in a few bytes: nothing is allocated for it."""
    png = bytearray(picture(random_image(0, 5, 7, 3), "PNG"))
    start = png.index(b"IHDR")
    png[start + 4 : start + 12] = (9_000).to_bytes(4, "big") * 2
    png[start + 17 : start + 21] = zlib.crc32(bytes(png[start : start + 17])).to_bytes(4, "big")
    with pytest.raises(AlteredFileError, match="`x`: expected an RGB image of 7 x 5 pixels, got RGB 9000 x 9000"):
        read_picture(bytes(png), "PNG", (5, 7), "x")


def test_missing_pillow_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(DataError, match="reading PNG images needs Pillow"):
        read_picture(b"", "PNG", (1, 1), "x")


# CIFAR-10


@pytest.fixture
def small_cifar(monkeypatch):
    """Six batches of four images, in both editions."""
    labels = np.arange(24, dtype=np.uint8).reshape(6, 4) % 10
    images = random_image(1, 6, 4, 32, 32, 3)
    planes = images.transpose(0, 1, 4, 2, 3).reshape(6, 4, -1)
    batches = [np.c_[y[:, None], x].tobytes() for y, x in zip(labels, planes, strict=True)]
    digests = {name: hashlib.sha256(b).hexdigest() for name, b in zip(cifar10._BATCHES, batches, strict=True)}
    monkeypatch.setattr(cifar10, "_COUNT", 4)
    monkeypatch.setattr(cifar10, "_BATCHES", digests)
    return images, labels, batches


def check_cifar(data, images, labels):
    np.testing.assert_array_equal(data.train_images, images[:5].reshape(20, 32, 32, 3))
    np.testing.assert_array_equal(data.test_images, images[5])
    np.testing.assert_array_equal(data.train_labels, labels[:5].reshape(-1))
    np.testing.assert_array_equal(data.test_labels, labels[5])


def as_files(folder, contents, data_set, name, monkeypatch, module):
    """Put files into the data directory and register them as the edition `name` of a data set."""
    (folder / data_set.name).mkdir()
    edition = next(e for e in data_set.editions if e.name == name)
    files = []
    for file in edition.files:
        content = contents[file.name]
        (folder / data_set.name / file.name).write_bytes(content)
        files.append(replace(file, size=len(content), sha256=hashlib.sha256(content).hexdigest()))
    small = replace(data_set, editions=(replace(edition, files=tuple(files), addresses=(), packages=()),))
    monkeypatch.setattr(f"eqbook.data.{module}.{data_set.name.upper()}", small)


def binary_archive(batches):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        for name, content in zip(cifar10._BATCHES, batches, strict=True):
            info = tarfile.TarInfo(f"cifar-10-batches-bin/{name}.bin")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return stream.getvalue()


def test_cifar10_from_the_binary_archive(small_cifar, store, monkeypatch):
    images, labels, batches = small_cifar
    contents = {"cifar-10-binary.tar.gz": binary_archive(batches)}
    as_files(store, contents, CIFAR10, "binary", monkeypatch, "cifar10")
    check_cifar(cifar10.fetch_cifar10(store), images, labels)


def png_files(images, labels):
    contents = {
        f"{name}.png": picture(x.reshape(4, 1024, 3), "PNG") for name, x in zip(cifar10._BATCHES, images, strict=True)
    }
    for part, y in (("train", labels[:5]), ("test", labels[5:])):
        contents[f"{part}_lables.json"] = json.dumps(y.reshape(-1).tolist()).encode()
    return contents


def test_cifar10_from_pictures(small_cifar, store, monkeypatch):
    images, labels, _ = small_cifar
    as_files(store, png_files(images, labels), CIFAR10, "png", monkeypatch, "cifar10")
    check_cifar(cifar10.fetch_cifar10(store), images, labels)


def test_cifar10_with_other_pixels_or_labels_is_refused(small_cifar, store, tmp_path, monkeypatch):
    """Also if the files are the registered ones, the content must be the official one."""
    images, labels, _ = small_cifar
    other = images.copy()
    other[3, 0, 0, 0, 0] ^= 1
    as_files(store, png_files(other, labels), CIFAR10, "png", monkeypatch, "cifar10")
    with pytest.raises(AlteredFileError, match="`data_batch_4`: expected content with sha256"):
        cifar10.fetch_cifar10(store)
    contents = png_files(images, labels) | {"train_lables.json": b'[1, "evil"]'}
    (tmp_path / "second").mkdir()
    as_files(tmp_path / "second", contents, CIFAR10, "png", monkeypatch, "cifar10")
    with pytest.raises(AlteredFileError, match="expected a list of integers 0..9"):
        cifar10.fetch_cifar10(tmp_path / "second")


# QM9

PROPERTIES = (
    "gdb 1\t157.7118\t157.70997\t157.70699\t0.\t13.21\t-0.3877\t0.1171\t0.5048\t35.3641\t0.044749\t"
    "-40.47893\t-40.476062\t-40.475117\t-40.498597\t6.469\t"
)
METHANE = f"""5
{PROPERTIES}
C\t-0.0126981359\t 1.0858041578\t 0.0080009958\t-0.535689
H\t 0.002150416\t-0.0060313176\t 0.0019761204\t 0.133921
H\t 1.0117308433\t 1.4637511618\t 0.0002765748\t 0.133922
H\t-0.540815069\t 1.4475266138\t-0.8766437152\t 0.133923
H\t-0.5238136345\t 1.4379326443\t 0.9063972942\t 0.133923
1341.307\t1341.3284\t1341.365\t1562.6731\t1562.7453\t3038.3205\t3151.6034\t3151.6788\t3151.7078
C\tC\t
InChI=1S/CH4/h1H4\tInChI=1S/CH4/h1H4
"""
WATER = METHANE.replace("5\n", "3\n", 1).replace("gdb 1", "gdb 3").replace("-40.47893", "-76.404702")
WATER = "\n".join(WATER.splitlines()[:2] + ["O 0. 0. 1.*^-6", "H 0. 0.7 -2.5*^-1", "H 0. -0.7 -0.25"]) + "\n"
LISTED = "header\n" * 9 + "   2  C  C\n   7  N  N\n2 compounds\n"
FACTS = {"published": 3, "uncharacterised": 2, "molecules": 2}


def xyz_paths(folder, texts=None, listed=LISTED):
    texts = texts or {"1": METHANE, "2": METHANE.replace("gdb 1", "gdb 2"), "3": WATER}
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name, text in texts.items():
            info = tarfile.TarInfo(f"dsgdb9nsd_00000{name}.xyz")
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
    (folder / "molecules").write_bytes(bz2.compress(stream.getvalue()))
    (folder / "listed").write_text(listed)
    return {"dsgdb9nsd.xyz.tar.bz2": folder / "molecules", "uncharacterized.txt": folder / "listed"}


def test_qm9_from_xyz_files(tmp_path):
    """Molecule 2 is listed and left out; exponents are written as Mathematica does."""
    molecules = read_xyz(xyz_paths(tmp_path), replace(QM9, facts=FACTS))
    assert molecules.index.tolist() == [1, 3] and molecules.energies.tolist() == [-40.47893, -76.404702]
    assert molecules.charges[0].tolist() == [6, 1, 1, 1, 1] + 24 * [0]
    assert molecules.charges[1].tolist() == [8, 1, 1] + 26 * [0]
    np.testing.assert_array_equal(molecules.positions[0, 1], np.float32([0.002150416, -0.0060313176, 0.0019761204]))
    np.testing.assert_array_equal(molecules.positions[1, :2], np.float32([[0, 0, 1e-6], [0, 0.7, -0.25]]))
    assert not molecules.positions[0, 5:].any() and molecules.atom_counts.tolist() == [5, 3]
    # U0 of methane minus its atoms, in eV, as QM9's derived tables have it
    assert molecules.atomisation_energies[0] * 27.211386 == pytest.approx(-17.172, abs=5e-4)


@pytest.mark.parametrize(
    ("texts", "listed", "said"),
    [
        ({"1": METHANE, "3": WATER[:60]}, LISTED, "expected an xyz file of QM9"),
        ({"1": METHANE, "3": WATER.replace("O", "Xx")}, LISTED, "expected an xyz file of QM9"),
        ({"1": METHANE, "3": WATER.replace("0.7", "zero")}, LISTED, "expected three numbers for each atom"),
        ({"1": METHANE, "3": METHANE}, LISTED, "expected 2 different molecules, got 1"),
        ({"1": METHANE}, LISTED, "expected 2 different molecules, got 1"),
        ({"1": METHANE, "3": "30\n" + WATER[2:] + 27 * "H 0. 0. 9.\n"}, LISTED, "expected 1..29 atoms, got 5..30"),
        ({"1": METHANE, "3": WATER + 100_000 * "H"}, LISTED, "at most 100000 bytes"),
        ({str(i): METHANE for i in range(4)}, LISTED, "at most 3 members"),
        (None, "nothing here", "expected the numbers of 2 molecules, got 0"),
        (None, LISTED.replace("7", "x"), "expected a number in each line"),
    ],
)
def test_other_xyz_files_are_refused(tmp_path, texts, listed, said):
    with pytest.raises(AlteredFileError, match=said):
        read_xyz(xyz_paths(tmp_path, texts, listed), replace(QM9, facts=FACTS))


def csv_paths(folder, rows):
    header = "XYZ_file,Index,N_atoms,Elements,XYZ_Ang,InternalEnergy_0K_au\n"
    (folder / "part.csv").write_text(header + "\n\n".join(rows) + "\n")  # the tables have empty lines
    return {"part.csv": folder / "part.csv"}


CSV_METHANE = (
    "\"dsgdb9nsd_000001.xyz\",1,5,\"['C','H','H','H','H']\",\"[[-0.0126981359,1.0858041578,0.0080009958],"
    "[0.002150416,-0.0060313176,0.0019761204],[1.0117308433,1.4637511618,0.0002765748],"
    '[-0.540815069,1.4475266138,-0.8766437152],[-0.5238136345,1.4379326443,0.9063972942]]",-40.47893'
)
CSV_WATER = "\"x\",3,3,\"['O','H','H']\",\"[[0.,0.,1.E-6],[0.,0.7,-2.5E-1],[0.,-0.7,-0.25]]\",-76.404702"


def test_both_editions_of_qm9_agree(tmp_path):
    data_set = replace(QM9, facts=FACTS)
    tables = read_csv(csv_paths(tmp_path, [CSV_METHANE, CSV_WATER]), data_set)
    files = read_xyz(xyz_paths(tmp_path), data_set)
    for name in ("charges", "positions", "energies", "index"):
        np.testing.assert_array_equal(getattr(tables, name), getattr(files, name))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("3,3,", "3,4,", "row 1, got something else .another number of atoms"),
        ("'O'", "'Kr'", "row 1, got something else"),
        ("0.7", "zero", "expected three numbers for each atom"),
        ("-76.404702", "", "row 1, got something else"),
        ('"x",3', '"x",1', "expected 2 different molecules, got 1"),
    ],
)
def test_other_tables_are_refused(tmp_path, old, new, said):
    with pytest.raises(AlteredFileError, match=said):
        read_csv(csv_paths(tmp_path, [CSV_METHANE, CSV_WATER.replace(old, new, 1)]), replace(QM9, facts=FACTS))


def test_molecules_refuse_what_does_not_belong_together():
    molecules = load_sample("qm9")
    some = molecules[:3]
    assert some.index.tolist() == molecules.index[:3].tolist()
    for part in (some, molecules[np.arange(3)], molecules):
        arrays = (part.charges, part.positions, part.energies, part.index)
        assert not any(array.flags.writeable for array in arrays)
    charges = some.charges.copy()
    charges[0, 0] = 0
    with pytest.raises(ValueError, match="`charges`: expected the atoms in the first slots"):
        replace(some, charges=charges)
    charges[0, 0] = 3
    with pytest.raises(ValueError, match="`charges`: expected 0 or one of"):
        replace(some, charges=charges)
    for number in (1, np.int64(1)):
        with pytest.raises(ValueError, match=r"`which`: expected a slice or an array, got 1; write \[1:1 \+ 1\]"):
            molecules[number]


# PathMNIST

SMALL_PATHMNIST = replace(PATHMNIST, facts={"train": 6, "val": 3, "test": 2})


def npz(path, **changes):
    arrays = {}
    for seed, (part, n) in enumerate(SMALL_PATHMNIST.facts.items()):
        arrays[f"{part}_images"] = random_image(seed, n, 28, 28, 3)
        arrays[f"{part}_labels"] = (np.arange(n, dtype=np.uint8) % 9)[:, None]
    arrays |= changes
    np.savez_compressed(path, **{name: array for name, array in arrays.items() if array is not None})
    return arrays


def test_pathmnist(tmp_path):
    arrays = npz(tmp_path / "a.npz")
    for test in ("test", "val"):
        images = read_pathmnist(tmp_path / "a.npz", SMALL_PATHMNIST, test)
        np.testing.assert_array_equal(images.train_images, arrays["train_images"])
        np.testing.assert_array_equal(images.test_images, arrays[f"{test}_images"])
        assert images.test_labels.tolist() == arrays[f"{test}_labels"][:, 0].tolist()
        assert images.class_names[8] == "colorectal adenocarcinoma epithelium"
    with pytest.raises(ValueError, match="`test`: expected 'test' or 'val', got 'train'"):
        fetch_pathmnist(tmp_path, test="train")


class Evil:
    """Unpickling it would raise."""

    def __reduce__(self):
        return pytest.fail, ("unpickled",)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"train_labels": np.array([[Evil()]] * 6)}, "got object"),
        ({"train_images": np.array([Evil()])}, "got object"),
        ({"train_images": random_image(0, 5, 28, 28, 3)}, r"shape \(6, 28, 28, 3\), got uint8, shape \(5, 28, 28, 3\)"),
        ({"train_labels": np.zeros((6, 1))}, "integers .*got float64"),
        ({"train_labels": np.full((6, 1), 9)}, "expected labels 0..8 in train_labels, got 9..9"),
        ({"test_images": None}, "expected a member 'test_images.npy'"),
        ({"train_images": random_image(0, 12, 28, 28, 3)}, "at most"),  # longer than can be right
    ],
)
def test_other_npz_files_are_refused(tmp_path, changes, said):
    npz(tmp_path / "a.npz", **changes)
    with pytest.raises(AlteredFileError, match=said):
        read_pathmnist(tmp_path / "a.npz", SMALL_PATHMNIST, "test")


def test_npy_header_that_promises_too_much(tmp_path):
    """A header of an array of 10^12 entries in front of few bytes: refused before anything is allocated."""
    npz(tmp_path / "a.npz")
    stream = io.BytesIO()
    header = {"descr": "|u1", "fortran_order": False, "shape": (10**12, 28, 28, 3)}
    np.lib.format.write_array_header_1_0(stream, header)
    with zipfile.ZipFile(tmp_path / "b.npz", "w") as target, zipfile.ZipFile(tmp_path / "a.npz") as source:
        for name in source.namelist():
            target.writestr(name, stream.getvalue() if name == "train_images.npy" else source.read(name))
    with pytest.raises(AlteredFileError, match="shape .1000000000000, 28, 28, 3., 0 bytes"):
        read_pathmnist(tmp_path / "b.npz", SMALL_PATHMNIST, "test")


# NCT-CRC-HE


def tissue_files(n, side=224):
    """Names and tif images in the layout of the archives, n for each tissue; tissue k is a constant of colour k."""
    files = {}
    for k, tissue in enumerate(TISSUE_FOLDERS):
        for i in range(n):
            image = np.full((side, side, 3), 20 * k, np.uint8)
            image[: side // 2, :, 0] = i
            files[f"NCT-CRC-HE-100K/{tissue}/{tissue}-{i}.tif"] = picture(image, "TIFF")
    return files


def tissue_zip(path, files):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("NCT-CRC-HE-100K/", "")
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def test_tissues_from_zip_and_from_folder(tmp_path):
    files = tissue_files(2)
    path = tissue_zip(tmp_path / "a.zip", files)
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    images, labels = read_tissues(path, 18, 18, 32, seed=0)
    assert images.shape == (18, 32, 32, 3) and np.bincount(labels).tolist() == [2] * 9
    assert (images[:, -1, 0, 1] == 20 * labels).all() and set(images[:, 0, 0, 0].tolist()) == {0, 1}
    again, same = read_tissues(tmp_path / "NCT-CRC-HE-100K", 18, 18, 32, seed=0)
    np.testing.assert_array_equal(again, images)
    np.testing.assert_array_equal(same, labels)
    fewer, labels5 = read_tissues(path, 18, 5, 32, seed=0)
    np.testing.assert_array_equal(fewer, images[:5])  # a shorter draw is the beginning of a longer one
    assert labels5.tolist() == labels[:5].tolist()
    assert read_tissues(path, 18, 18, 8, seed=1)[1].tolist() != labels.tolist()


def test_shrinking_takes_means():
    image = np.zeros((4, 4, 3), np.uint8)
    image[:2, :2, 0] = [[1, 2], [3, 5]]  # mean 2.75
    image[2:, 2:, 1] = 255
    small = shrink(image, 2)
    assert small[..., 0].tolist() == [[3, 0], [0, 0]] and small[..., 1].tolist() == [[0, 0], [0, 255]]
    np.testing.assert_array_equal(shrink(image, 4), image)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda files: files.popitem(), "expected 9 images, got 8"),
        (lambda files: files.update({"NCT-CRC-HE-100K/EVIL/x.tif": files.popitem()[1]}), "expected images in ADI"),
        (lambda files: files.update({"NCT-CRC-HE-100K/TUM/TUM-0.tif": b"MZ evil"}), "expected a TIFF image"),
        (lambda files: files.update({"NCT-CRC-HE-100K/TUM/TUM-0.tif": bytes(10**6 + 1)}), "at most 1000000 bytes"),
        (
            lambda files: files.update({"NCT-CRC-HE-100K/TUM/TUM-0.tif": picture(random_image(0, 9, 9, 3), "TIFF")}),
            "expected an RGB image of 224 x 224 pixels, got RGB 9 x 9",
        ),
        (lambda files: files.update({"../TUM/TUM-0.tif": files.popitem()[1]}), "stay inside the archive"),
    ],
)
def test_other_archives_of_tissue_are_refused(tmp_path, change, said):
    files = tissue_files(1)
    change(files)
    with pytest.raises(AlteredFileError, match=said):
        read_tissues(tissue_zip(tmp_path / "a.zip", files), 9, 9, 32, seed=0)


def test_nct_crc_from_unpacked_folders(store, monkeypatch):
    facts = {"NCT-CRC-HE-100K": 18, "CRC-VAL-HE-7K": 9}
    monkeypatch.setattr(nct_crc, "NCT_CRC", replace(NCT_CRC, facts=facts))
    for part, n in (("NCT-CRC-HE-100K", 2), ("CRC-VAL-HE-7K", 1)):
        for name, content in tissue_files(n).items():
            path = store / "nct_crc" / name.replace("NCT-CRC-HE-100K", part)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    images = fetch_nct_crc(10, 9, size=28, data_dir=store)
    assert images.train_images.shape == (10, 28, 28, 3) and np.bincount(images.test_labels).tolist() == [1] * 9
    for arguments, said in (((19, 1), "`n_train`: expected at most 18"), ((1, 10), "`n_test`"), ((0, 1), "`n_train`")):
        with pytest.raises(ValueError, match=said):
            fetch_nct_crc(*arguments, data_dir=store)
    with pytest.raises(ValueError, match="`size`: expected a divisor of 224"):
        fetch_nct_crc(1, 1, size=30, data_dir=store)


def test_nct_crc_from_zip_files(store, monkeypatch):
    contents = {}
    for part, n in (("NCT-CRC-HE-100K", 2), ("CRC-VAL-HE-7K", 1)):
        contents[f"{part}.zip"] = tissue_zip(store / "a.zip", tissue_files(n)).read_bytes()
    as_files(store, contents, NCT_CRC, "zip", monkeypatch, "nct_crc")
    facts = {"NCT-CRC-HE-100K": 18, "CRC-VAL-HE-7K": 9}
    monkeypatch.setattr(nct_crc, "NCT_CRC", replace(nct_crc.NCT_CRC, facts=facts))
    images = fetch_nct_crc(18, 4, data_dir=store)
    assert images.train_images.shape == (18, 32, 32, 3) and images.class_names == NCT_CRC.class_names
    assert np.bincount(images.train_labels).tolist() == [2] * 9

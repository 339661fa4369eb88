"""A tiny folder that looks like ImageNet."""

import numpy as np
import pytest

from eqbook.data import AlteredFileError, DataDirectoryError, ImageFolder
from eqbook.data.image_folder import read_square

Image = pytest.importorskip("PIL.Image")


@pytest.fixture
def root(tmp_path):
    """Two classes with pictures of one colour: red is their class, green the number of the picture."""
    for split, counts in (("train", (3, 4)), ("val", (2, 1))):
        for label, (name, count) in enumerate(zip(("n01", "n02"), counts)):
            folder = tmp_path / split / name
            folder.mkdir(parents=True)
            for k in range(count):
                picture = np.full((40 + 10 * k, 60, 3), (100 * label, 10 * k, 5), np.uint8)
                suffix = "png" if k % 2 else "JPEG"
                Image.fromarray(picture).save(folder / f"{k}.{suffix}", quality=100)
    (tmp_path / "train" / "n01" / "readme.txt").write_text("not a picture")
    return tmp_path


def test_reads_classes_and_pictures(root):
    folder = ImageFolder(root, side=8)
    assert folder.class_names == ("n01", "n02")
    paths, labels = folder.files("train")
    assert len(paths) == 7 and labels.tolist() == [0, 0, 0, 1, 1, 1, 1]
    ((x, y),) = folder.batches("train", range(7), 10)
    assert x.shape == (7, 8, 8, 3) and x.dtype == np.uint8 and y.tolist() == labels.tolist()
    np.testing.assert_allclose(x[..., 0], np.broadcast_to(100 * y[:, None, None], (7, 8, 8)), atol=3)  # JPEG
    np.testing.assert_array_equal(x[1, ..., 1], 10)  # PNG


def test_the_middle_square_is_kept(tmp_path):
    """Of a picture twice as wide as high, black left, grey in the middle, white right."""
    for split in ("train", "val"):
        (tmp_path / split / "a").mkdir(parents=True)
    picture = np.zeros((64, 128, 3), np.uint8)
    picture[:, 36:92], picture[:, 92:] = 128, 255
    Image.fromarray(picture).save(tmp_path / "train" / "a" / "a.png")
    ((x, _),) = ImageFolder(tmp_path, side=56).batches("train", [0], 1)  # 64 pixels high: nothing is resized
    np.testing.assert_array_equal(x, 128)


def test_orders(root):
    folder = ImageFolder(root, side=4)
    rows = folder.subset("train", None, 3)
    assert sorted(rows) == list(range(7)) and folder.subset("train", 4, 3) == rows[:4] != folder.subset("train", 4, 4)

    def seen(**options):
        return [y.tolist() for _, y in folder.batches("train", rows, 2, **options)]

    assert [len(y) for y in seen()] == [2, 2, 2, 1]
    passes = seen(epochs=2, seed=1)
    assert [len(y) for y in passes] == [2] * 6 and passes == seen(epochs=2, seed=1) and passes[:3] != passes[3:]


def test_errors_name_the_path(root, tmp_path):
    with pytest.raises(DataDirectoryError, match="nowhere.train`: expected a folder with one folder of pictures"):
        ImageFolder(tmp_path / "nowhere")
    folder = ImageFolder(root, side=4)
    with pytest.raises(ValueError, match="`size`: expected at most 3"):
        folder.subset("val", 4, 0)
    for rows in ([-1], [7]):
        with pytest.raises(ValueError, match="`rows`: expected a list of pictures 0 .. 6"):
            list(folder.batches("train", rows, 1))
    (root / "val" / "n02" / "0.JPEG").unlink()
    with pytest.raises(DataDirectoryError, match="n02`: expected a folder with pictures"):
        folder.files("val")
    (root / "train" / "n01" / "0.JPEG").write_bytes(b"nothing")
    with pytest.raises(AlteredFileError, match="0.JPEG`: expected a JPEG or PNG picture"):
        list(folder.batches("train", [0], 1))


@pytest.mark.parametrize("size", [(90, 9), (7, 700), (5, 123)])
def test_the_middle_of_a_long_picture(tmp_path, size):
    """It is the same, up to the rounding of two passes, as when the whole picture is resized."""
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (*size[::-1], 3), np.uint8))
    noise.save(tmp_path / "long.png")
    scale = 64 / min(size)
    whole = noise.resize([round(scale * length) for length in size], Image.Resampling.BILINEAR)
    left, top = ((length - 56) // 2 for length in whole.size)
    expected = np.asarray(whole.crop((left, top, left + 56, top + 56)), int)
    assert np.abs(read_square(tmp_path / "long.png", 56) - expected).max() <= 1


def test_a_line_of_pixels_is_not_resized_as_a_whole(tmp_path, monkeypatch):
    """85 bytes would become 524 MB."""
    Image.new("RGB", (1, 2000), (9, 8, 7)).save(tmp_path / "thin.png")
    sizes, resize = [], Image.Image.resize
    monkeypatch.setattr(
        Image.Image, "resize", lambda self, size, *a, **o: sizes.append(size) or resize(self, size, *a, **o)
    )
    picture = read_square(tmp_path / "thin.png", 224)
    assert picture.shape == (224, 224, 3) and np.all(picture == (9, 8, 7)) and sizes == [(224, 224)]


def test_grey_pictures_of_16_bits(tmp_path):
    ramp = np.linspace(0, 65535, 64).astype(np.uint16)[:, None].repeat(64, 1)
    Image.fromarray(ramp).save(tmp_path / "wide.png")
    Image.fromarray((ramp >> 8).astype(np.uint8)).save(tmp_path / "narrow.png")
    wide, narrow = (read_square(tmp_path / f"{name}.png", 56) for name in ("wide", "narrow"))
    np.testing.assert_array_equal(wide, narrow)
    assert len(np.unique(wide)) > 50


def test_a_class_that_train_does_not_have(root):
    (root / "val" / "n03").mkdir()
    with pytest.raises(DataDirectoryError, match="val`: expected the folders of train/, got others beside them: n03"):
        ImageFolder(root, side=4).files("val")

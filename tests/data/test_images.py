"""`ImageSet` refuses arrays that do not belong together; `to_unit` scales once."""

import re

import numpy as np
import pytest
from jaxtyping import TypeCheckError

from eqbook.data import ImageSet, to_unit


def arrays(**changes):
    good = {
        "train_images": np.zeros((3, 28, 28, 1), np.uint8),
        "train_labels": np.array([0, 1, 1], np.int32),
        "test_images": np.zeros((2, 28, 28, 1), np.uint8),
        "test_labels": np.array([1, 0], np.int32),
        "class_names": ("a", "b"),
    }
    return good | changes


def test_good_arrays_pass_and_cannot_be_swapped():
    images = ImageSet(**arrays())
    with pytest.raises(AttributeError):
        images.train_labels = images.test_labels


@pytest.mark.parametrize(
    ("changes", "name", "got"),
    [
        ({"train_images": np.zeros((3, 28, 28, 1), np.float32)}, "train_images", "float32"),
        ({"test_images": np.zeros((2, 28, 28), np.uint8)}, "test_images", r"\(2, 28, 28\)"),
        ({"train_labels": np.zeros(3, np.uint8)}, "train_labels", "uint8"),
        ({"test_labels": np.zeros(3, np.int32)}, "test_labels", r"\(3,\)"),
        ({"train_labels": np.array([0, 1, 2], np.int32)}, "train_labels", r"0\.\.2"),
        ({"test_labels": np.array([-1, 0], np.int32)}, "test_labels", r"-1\.\.0"),
    ],
)
def test_bad_arrays_are_named(changes, name, got):
    with pytest.raises((ValueError, TypeCheckError)) as caught:
        ImageSet(**arrays(**changes))
    if not isinstance(caught.value, TypeCheckError):  # that comes first where the shapes are checked at run time
        assert re.search(f"`{name}`: expected .*, got .*{got}", str(caught.value))


def test_to_unit_is_division_by_255():
    x = np.arange(256, dtype=np.uint8)
    unit = to_unit(x)
    assert unit.dtype == np.float32 and unit[0] == 0 and unit[255] == 1
    # one rounded division: half a unit in the last place
    np.testing.assert_allclose(unit, np.arange(256) / 255.0, rtol=np.finfo(np.float32).eps / 2)


def test_to_unit_refuses_to_scale_twice():
    with pytest.raises(ValueError, match="`images`: expected uint8 .*, got float32; scale images only once"):
        to_unit(to_unit(np.zeros((2, 28, 28, 1), np.uint8)))

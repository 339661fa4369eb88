"""The idx reader takes what the writer wrote and refuses everything else."""

import numpy as np
import pytest

from eqbook.data import AlteredFileError
from eqbook.data.idx import format_idx, parse_idx

GOOD = format_idx(np.arange(24, dtype=np.uint8).reshape(2, 3, 4))


@pytest.mark.parametrize("shape", [(5,), (2, 3, 4), (0, 28, 28), (1, 2, 1, 3)])
def test_round_trip(shape):
    array = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    again = parse_idx(format_idx(array), "x")
    np.testing.assert_array_equal(again, array)
    assert again.dtype == np.uint8 and not again.flags.writeable


@pytest.mark.parametrize("dtype", ["u1", "i4", "f4", "f8"])
def test_round_trip_of_types(dtype):
    array = np.random.default_rng(0).normal(0, 100, (3, 5)).astype(dtype)
    content = format_idx(array)
    again = parse_idx(content, "x")
    assert again.dtype == array.dtype and again.dtype.isnative and not again.flags.writeable
    np.testing.assert_array_equal(again, array)
    assert content[12:] == array.astype(array.dtype.newbyteorder(">")).tobytes()  # big-endian, as the format says


def test_other_types_have_no_code():
    with pytest.raises(ValueError, match="`array`: expected one of .*got int64"):
        format_idx(np.zeros(3, np.int64))
    with pytest.raises(ValueError, match="`array`: expected at least one axis, got a number"):
        format_idx(np.zeros((), np.uint8))


def test_header_is_that_of_the_format():
    assert GOOD[:16].hex(" ", 4) == "00000803 00000002 00000003 00000004"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "an empty file"),
        (b"\0\0\x0b" + GOOD[3:], "00 00 0b 03"),  # 16-bit integers
        (b"\x80\x04\x95\x00" + GOOD[4:], "80 04 95 00"),  # a pickle
        (b"\x1f\x8b\x08\x00" + GOOD[4:], "unpack it if it is compressed"),
        (b"\0\0\x08\0" + GOOD[4:], "00 00 08 00"),  # no axes
        (GOOD[:10], "header of 16 bytes for 3 axes, got 10"),
        (GOOD[:-1], "expected 40 bytes for the shape (2, 3, 4) in its header, got 39"),
        (GOOD + b"\0", "got 41"),
        (GOOD[:4] + b"\xff" * 12, "got 16"),  # a header that promises 2^96 entries
    ],
    ids=["empty", "short integers", "pickle", "gzip", "no axes", "short header", "short", "long", "huge"],
)
def test_bad_files_are_refused(content, said):
    with pytest.raises(AlteredFileError, match="`labels`: expected") as caught:
        parse_idx(content, "labels")
    assert said in str(caught.value)

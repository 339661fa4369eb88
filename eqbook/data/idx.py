"""The idx format of MNIST and FashionMNIST: a header in big-endian 32-bit words, then the array in C order.

Byte 0 and 1 are zero, byte 2 codes the type of the entries (8: unsigned byte), byte 3 the number of axes;
then one 32-bit length per axis, and the entries, big-endian. Nothing in it can run code, unlike a pickle.
"""

import math
import struct

import numpy as np
from jaxtyping import Shaped

from eqbook.data.errors import AlteredFileError

_TYPES = {8: np.dtype("u1"), 12: np.dtype(">i4"), 13: np.dtype(">f4"), 14: np.dtype(">f8")}
_CODES = {dtype.newbyteorder("="): code for code, dtype in _TYPES.items()}


def parse_idx(content: bytes, source: str) -> Shaped[np.ndarray, "..."]:
    """Read an idx file of unsigned bytes, 32-bit integers, or floats.

    Args:
        content: the unpacked file.
        source: the file's name, for error messages.

    Returns:
        The array in the machine's byte order, read-only.

    Raises:
        AlteredFileError: if the magic number, an axis or the length is wrong.
    """
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in _TYPES or content[3] == 0:
        raise AlteredFileError(
            f"`{source}`: expected an idx file (first bytes 00 00, a type {', '.join(map(str, _TYPES))}, and the "
            f"number of axes), got {content[:4].hex(' ') or 'an empty file'}; unpack it if it is compressed, else "
            "fetch it again."
        )
    dtype, ndim = _TYPES[content[2]], content[3]
    start = 4 + 4 * ndim
    if len(content) < start:
        raise AlteredFileError(
            f"`{source}`: expected a header of {start} bytes for {ndim} axes, got {len(content)} bytes; fetch it again."
        )
    shape = struct.unpack(f">{ndim}I", content[4:start])
    size = start + math.prod(shape) * dtype.itemsize
    if len(content) != size:
        raise AlteredFileError(
            f"`{source}`: expected {size} bytes for the shape {shape} in its header, "
            f"got {len(content)}; fetch it again."
        )
    try:
        array = np.frombuffer(content, dtype, offset=start).reshape(shape).astype(dtype.newbyteorder("="), copy=False)
    except ValueError as error:  # an empty array may have any number of axes, of any length
        raise AlteredFileError(f"`{source}`: expected the shape of an array, got {shape}; fetch it again.") from error
    array.flags.writeable = False
    return array


def format_idx(array: Shaped[np.ndarray, "..."]) -> bytes:
    """Write an array as an idx file; the inverse of `parse_idx`.

    Raises:
        ValueError: if the format has no code for its dtype, or there is no axis.
    """
    if array.ndim == 0:
        raise ValueError("`array`: expected at least one axis, got a number; give it one.")
    if array.dtype not in _CODES:
        raise ValueError(f"`array`: expected one of {', '.join(map(str, _CODES))}, got {array.dtype}; convert it.")
    code = _CODES[array.dtype]
    header = bytes((0, 0, code, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + np.ascontiguousarray(array, _TYPES[code]).tobytes()

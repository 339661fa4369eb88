"""The idx format of MNIST and FashionMNIST: a header in big-endian 32-bit words, then the array in C order.

Byte 0 and 1 are zero, byte 2 codes the type of the entries (8: unsigned byte), byte 3 the number of axes;
then one 32-bit length per axis. Nothing in it can run code, unlike a pickle.
"""

import math
import struct

import numpy as np
from jaxtyping import UInt8

from eqbook.data.errors import AlteredFileError

_UNSIGNED_BYTE = 8


def parse_idx(content: bytes, source: str) -> UInt8[np.ndarray, "..."]:
    """Read an idx file of unsigned bytes.

    Args:
        content: the unpacked file.
        source: the file's name, for error messages.

    Returns:
        The array, read-only (it shares its memory with `content`).

    Raises:
        AlteredFileError: if the magic number, an axis or the length is wrong.
    """
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] != _UNSIGNED_BYTE or content[3] == 0:
        raise AlteredFileError(
            f"`{source}`: expected an idx file of unsigned bytes (first bytes 00 00 08 and the number of axes), "
            f"got {content[:4].hex(' ') or 'an empty file'}; unpack it if it is compressed, else fetch it again."
        )
    ndim = content[3]
    start = 4 + 4 * ndim
    if len(content) < start:
        raise AlteredFileError(
            f"`{source}`: expected a header of {start} bytes for {ndim} axes, got {len(content)} bytes; fetch it again."
        )
    shape = struct.unpack(f">{ndim}I", content[4:start])
    if len(content) != start + math.prod(shape):
        raise AlteredFileError(
            f"`{source}`: expected {start + math.prod(shape)} bytes for the shape {shape} in its header, "
            f"got {len(content)}; fetch it again."
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def format_idx(array: UInt8[np.ndarray, "..."]) -> bytes:
    """Write an array of unsigned bytes as an idx file; the inverse of `parse_idx`."""
    header = bytes((0, 0, _UNSIGNED_BYTE, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + np.ascontiguousarray(array).tobytes()

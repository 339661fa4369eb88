"""PNG and TIFF images as arrays. Pillow decodes them; it is needed for these formats alone."""

import io

import numpy as np
from jaxtyping import UInt8

from eqbook.data.errors import AlteredFileError, DataError


def read_picture(
    content: bytes, kind: str, size: tuple[int, int], source: str
) -> UInt8[np.ndarray, "height width channels"]:
    """Decode an RGB image of known format and size.

    Nothing else is decoded: a file that claims another format, mode or size is refused from its header, so that a
    small hostile file cannot become a large image.

    Args:
        content: the file.
        kind: its format, `"PNG"` or `"TIFF"`.
        size: height and width that are expected.
        source: name of the file, for error messages.

    Raises:
        AlteredFileError: if the format, mode or size is another one, or the file is damaged.
        DataError: if Pillow is not installed.
    """
    try:
        from PIL import Image
    except ImportError as error:
        raise DataError(f"`{source}`: reading {kind} images needs Pillow; install it (pip install pillow).") from error
    try:
        with Image.open(io.BytesIO(content), formats=[kind]) as picture:
            if (picture.mode, picture.size) != ("RGB", size[::-1]):
                raise AlteredFileError(
                    f"`{source}`: expected an RGB image of {size[1]} x {size[0]} pixels, got {picture.mode} "
                    f"{picture.size[0]} x {picture.size[1]}; fetch it again."
                )
            return np.asarray(picture, np.uint8)
    except AlteredFileError:
        raise
    except Exception as error:  # Pillow's decoders raise many kinds, from SyntaxError to struct.error
        raise AlteredFileError(f"`{source}`: expected a {kind} image, got damaged data ({error}).") from error

r"""How much of each dye an image of tissue shows, and patches labelled by it.

Light passes through dyes by the law of Beer and Lambert, $I = 255 \cdot 10^{-\sum_s c_s m_s}$ for amounts $c_s$ and the
absorption $m_s$ of dye $s$ in red, green and blue, so that the optical density $-\log_{10}(I / 255)$ is linear in $c$.
"""

import numpy as np
from jaxtyping import Float64, UInt8

from eqbook._checks import check_int
from eqbook.data.images import ImageSet, image_set

# Optical density of haematoxylin, eosin and DAB in red, green, blue, from Ruifrok and Johnston.
_ABSORPTION = np.array([[0.65, 0.70, 0.29], [0.07, 0.99, 0.11], [0.27, 0.57, 0.78]])
ABSORPTION = _ABSORPTION / np.linalg.norm(_ABSORPTION, axis=1, keepdims=True)
STAIN_CLASSES = ("little DAB", "much DAB")
_TEST_COLUMNS = (3, 0, 1, 2)  # of the tiles of row 0, 1, 2, 3: the choice with the most even test labels in the sample


def stain_amounts(images: UInt8[np.ndarray, "*batch 3"]) -> Float64[np.ndarray, "*batch 3"]:
    r"""Amounts of haematoxylin, eosin and DAB, $c = -\log_{10}(\max(I, 1) / 255)\, M^{-1}$.

    $M$ is `eqbook.data.stains.ABSORPTION`, with one row of unit length for each dye.

    Args:
        images: RGB images, uint8, 255 is white, `[..., 3]`.

    Returns:
        $c$ in units of optical density, `[..., 3]`. Noise and other dyes make small amounts negative.

    Raises:
        ValueError: if `images` is not uint8 with three channels.

    References:
        Ruifrok, Johnston, "Quantification of histochemical staining by color deconvolution", Analytical and
        Quantitative Cytology and Histology 23, 2001
    """
    images = np.asarray(images)
    if images.dtype != np.uint8 or images.shape[-1:] != (3,):
        raise ValueError(f"`images`: expected uint8 [..., 3], got {images.dtype} {images.shape}; convert it.")
    density = -np.log10(np.maximum(images, 1) / 255.0)
    return density @ np.linalg.inv(ABSORPTION)


def stained_patches(image: UInt8[np.ndarray, "side side 3"], size: int = 32, stride: int = 16) -> ImageSet:
    """Cut an image into patches and label each by whether it has more DAB than the median training patch.

    The image is first cut into 4 x 4 tiles, of which one in each row and column gives test patches and the other twelve
    training patches, so that no pixel is in both. Within a tile patches overlap if `stride` is less than `size`. The
    label is that of a mean over the patch, so it does not change when the patch is rotated or mirrored.

    Args:
        image: uint8, `[side, side, 3]`, with a side that is divisible by 4.
        size: pixels on a side of a patch.
        stride: pixels from one patch to the next.

    Returns:
        An `ImageSet` with the classes "little DAB" and "much DAB".

    Raises:
        ValueError: if the image is not uint8, not square, or a patch does not fit into a tile.
    """
    size, stride = check_int("size", size, 1), check_int("stride", stride, 1)
    if getattr(image, "dtype", None) != np.uint8 or image.ndim != 3:
        got = f"{image.dtype} {image.shape}" if hasattr(image, "dtype") else type(image).__name__
        raise ValueError(f"`image`: expected uint8 [side, side, 3], got {got}; convert it.")
    tile, rest = divmod(image.shape[0], 4)
    if image.shape != (4 * tile, 4 * tile, 3) or rest:
        raise ValueError(f"`image`: expected [side, side, 3] with a side divisible by 4, got shape {image.shape}.")
    if size > tile:
        raise ValueError(f"`size`: expected at most {tile}, the side of a tile, got {size}.")
    parts: dict[bool, list[np.ndarray]] = {False: [], True: []}
    for row in range(4):
        for column in range(4):
            corner = image[row * tile : (row + 1) * tile, column * tile : (column + 1) * tile]
            parts[column == _TEST_COLUMNS[row]].append(_patches(corner, size, stride))
    train, test = np.concatenate(parts[False]), np.concatenate(parts[True])
    dab = [stain_amounts(patches)[..., 2].mean(axis=(1, 2)) for patches in (train, test)]
    labels = [(amounts > np.median(dab[0])).astype(np.int32) for amounts in dab]
    return image_set(STAIN_CLASSES, train, labels[0], test, labels[1])


def _patches(image: UInt8[np.ndarray, "height width 3"], size: int, stride: int) -> UInt8[np.ndarray, "n size size 3"]:
    windows = np.lib.stride_tricks.sliding_window_view(image, (size, size), axis=(0, 1))[::stride, ::stride]
    return np.ascontiguousarray(windows.transpose(0, 1, 3, 4, 2)).reshape(-1, size, size, 3)

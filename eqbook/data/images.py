"""What a data set is once it is read: four arrays and the names of the classes."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Int32, Integer, UInt8

from eqbook._shown import shown, summary


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Images with labels, split in training and test data. The arrays that `eqbook` returns are read-only.

    Args:
        train_images: uint8, `[n_train, height, width, channels]`, 0 is black.
        train_labels: int32, `[n_train]`, index into `class_names`.
        test_images: uint8, `[n_test, height, width, channels]`.
        test_labels: int32, `[n_test]`.
        class_names: name of class 0, 1, ...

    Raises:
        ValueError: if a dtype or a shape is wrong, lengths differ, or a label has no class.
    """

    train_images: UInt8[np.ndarray, "n_train height width channels"]
    train_labels: Int32[np.ndarray, " n_train"]
    test_images: UInt8[np.ndarray, "n_test height width channels"]
    test_labels: Int32[np.ndarray, " n_test"]
    class_names: tuple[str, ...]

    __repr__ = summary

    def __post_init__(self) -> None:
        for split in ("train", "test"):
            images, labels = getattr(self, f"{split}_images"), getattr(self, f"{split}_labels")
            if getattr(images, "dtype", None) != np.uint8 or images.ndim != 4:
                raise ValueError(f"`{split}_images`: expected uint8 [n, height, width, channels], got {_kind(images)}.")
            if getattr(labels, "dtype", None) != np.int32 or labels.shape != images.shape[:1]:
                raise ValueError(
                    f"`{split}_labels`: expected int32 {images.shape[:1]}, one per image, got {_kind(labels)}."
                )
            if not isinstance(self.class_names, tuple | list):
                raise ValueError(f"`class_names`: expected a tuple of names, got {shown(self.class_names)}.")
            if labels.size and not 0 <= labels.min() <= labels.max() < len(self.class_names):
                raise ValueError(
                    f"`{split}_labels`: expected labels 0..{len(self.class_names) - 1}, one for each of `class_names`, "
                    f"got {labels.min()}..{labels.max()}."
                )


def _kind(array: object) -> str:
    """What was given in place of an array of one dtype, in words."""
    return f"{array.dtype} {array.shape}" if hasattr(array, "dtype") else type(array).__name__


def image_set(
    class_names: tuple[str, ...],
    train_images: UInt8[np.ndarray, "n_train ..."],
    train_labels: Integer[np.ndarray, "n_train ..."],
    test_images: UInt8[np.ndarray, "n_test ..."],
    test_labels: Integer[np.ndarray, "n_test ..."],
) -> ImageSet:
    """Make an `ImageSet` of read-only arrays; grey images get their channel axis, labels one axis and type int32."""
    images = [x if x.ndim == 4 else x[..., None] for x in (train_images, test_images)]
    labels = [y.astype(np.int32).reshape(-1) for y in (train_labels, test_labels)]
    for array in images + labels:
        array.flags.writeable = False
    return ImageSet(images[0], labels[0], images[1], labels[1], class_names)


def to_unit(images: np.ndarray) -> Float32[np.ndarray, "..."]:
    """Scale bytes to numbers, $x / 255$.

    Args:
        images: uint8, any shape.

    Returns:
        float32 in [0, 1], same shape.

    Raises:
        ValueError: if `images` is not uint8 (it was scaled already, perhaps).
    """
    if getattr(images, "dtype", None) != np.uint8:
        got = getattr(images, "dtype", type(images).__name__)
        raise ValueError(f"`images`: expected uint8 in 0..255, got {got}; scale images only once.")
    return images.astype(np.float32) / np.float32(255)

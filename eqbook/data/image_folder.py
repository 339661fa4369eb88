"""Pictures in a folder for each class, as ImageNet is kept, in batches: for data that do not fit in memory."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from jaxtyping import Int, Int32, UInt8

from eqbook._checks import check_int, check_path
from eqbook._shown import shown
from eqbook.data.errors import AlteredFileError, DataDirectoryError, DataError

SUFFIXES = (".jpeg", ".jpg", ".png")
LONG = 8  # ratio of the sides from which on only the middle of a picture is resized


@dataclass(frozen=True)
class ImageFolder:
    """Pictures `<root>/train/<class>/*.JPEG` and `<root>/val/<class>/*.JPEG`, also `.jpg` and `.png`.

    Classes are numbered in the alphabetical order of the folders below `train`. A picture is resized so that its
    shorter side is `side * 256 / 224` pixels, and the middle square of `side` pixels is cut out: the usual way of
    testing on ImageNet. There is no random crop, so that a transformation of pixels is the same for all examples.

    Args:
        root: the folder.
        side: side of the pictures, in pixels.

    Raises:
        DataDirectoryError: if a folder is missing, or a class has no picture.
        ValueError: if `root` is no path, or `side` not positive.
    """

    root: str | os.PathLike[str]
    side: int = 224
    class_names: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        check_path("root", self.root)
        check_int("side", self.side, 1)
        object.__setattr__(self, "class_names", tuple(path.name for path in _folders(Path(self.root) / "train")))

    def files(self, split: str) -> tuple[list[Path], Int32[np.ndarray, " n"]]:
        """All pictures of a split, class by class, and their classes.

        Args:
            split: `"train"` or `"val"`.

        Raises:
            DataDirectoryError: if a folder is missing, a class has no picture, or `train` has no folder of its name.
            ValueError: if `split` is no text.
        """
        if not isinstance(split, str):
            raise ValueError(f"`split`: expected 'train' or 'val', got {split!r}.")
        found: list[Path] = []
        labels: list[int] = []
        unknown = {path.name for path in _folders(Path(self.root) / split)} - set(self.class_names)
        if unknown:
            raise DataDirectoryError(
                f"`{Path(self.root) / split}`: expected the folders of train/, got others beside them: "
                f"{', '.join(sorted(unknown))}; move them away, or give each one below train/ too."
            )
        for label, name in enumerate(self.class_names):
            folder = Path(self.root) / split / name
            here = sorted(p for p in folder.iterdir() if p.suffix.lower() in SUFFIXES) if folder.is_dir() else []
            if not here:
                raise DataDirectoryError(
                    f"`{folder}`: expected a folder with pictures ({', '.join(SUFFIXES)}), got none; each class of "
                    f"train/ needs one below {split}/ too."
                )
            found += here
            labels += [label] * len(here)
        return found, np.asarray(labels, np.int32)

    def subset(self, split: str, size: int | None, seed: int) -> list[int]:
        """Indices of a random part of a split in random order; one of a smaller size is the beginning of it.

        Args:
            split: `"train"` or `"val"`.
            size: how many; `None` is all.
            seed: of the order.

        Raises:
            ValueError: if there are not so many, or `seed` is not an integer of at least 0.
        """
        check_int("seed", seed, 0)
        count = len(self.files(split)[0])
        if size is not None and check_int("size", size, 1) > count:
            raise ValueError(f"`size`: expected at most {count}, the pictures of {split!r}, got {size}.")
        return np.random.default_rng(seed).permutation(count)[:size].tolist()

    def batches(
        self, split: str, rows: Sequence[int], batch_size: int, *, epochs: int = 1, seed: int | None = None
    ) -> Iterator[tuple[UInt8[np.ndarray, "n side side 3"], Int32[np.ndarray, " n"]]]:
        """Batches of some pictures, decoded by threads, one batch ahead.

        Args:
            split: `"train"` or `"val"`.
            rows: indices of pictures.
            batch_size: pictures in a batch.
            epochs: passes over them.
            seed: draws the order of each pass anew, and leaves out the rest that does not fill a batch; `None` keeps
                the order and the rest.

        Raises:
            AlteredFileError: if a file is no picture.
            DataError: if Pillow is not installed.
            ValueError: if a picture is not there, or a number is out of range.
        """
        paths, labels = self.files(split)
        wanted = np.asarray(rows)
        if wanted.ndim != 1 or (
            wanted.size and (wanted.dtype.kind not in "iu" or wanted.min() < 0 or wanted.max() >= len(paths))
        ):
            raise ValueError(f"`rows`: expected a list of pictures 0 .. {len(paths) - 1}, got {shown(rows)}.")
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            batches = (
                (labels[rows], [pool.submit(read_square, paths[i], self.side) for i in rows])
                for rows in batch_rows(rows, batch_size, epochs, seed)
            )
            here = next(batches, None)
            while here is not None:
                ahead = next(batches, None)
                yield np.stack([one.result() for one in here[1]]), here[0]
                here = ahead


def batch_rows(rows: Sequence[int], batch_size: int, epochs: int, seed: int | None) -> Iterator[Int[np.ndarray, " b"]]:
    """The rows of each batch, one pass after the other.

    Args:
        rows: indices of examples.
        batch_size: examples in a batch.
        epochs: passes over them.
        seed: draws the order of each pass anew, and leaves out the rest that does not fill a batch; `None` keeps the
            order and the rest.

    Raises:
        ValueError: if a number is out of range.
    """
    check_int("batch_size", batch_size, 1)
    if seed is not None:
        check_int("seed", seed, 0)
    for epoch in range(check_int("epochs", epochs, 0)):
        order = np.asarray(rows)
        if seed is not None:
            order = np.random.default_rng((seed, epoch)).permutation(order)[: len(order) // batch_size * batch_size]
        for i in range(0, len(order), batch_size):
            yield order[i : i + batch_size]


def read_square(path: Path, side: int) -> UInt8[np.ndarray, "side side 3"]:
    """The middle square of a picture whose shorter side was made `side * 256 / 224` pixels.

    Args:
        path: a JPEG or PNG file.
        side: side of the square, in pixels.

    Raises:
        AlteredFileError: if the file is no picture.
        DataError: if Pillow is not installed.
    """
    try:
        from PIL import Image
    except ImportError as error:
        raise DataError(f"`{path}`: reading pictures needs Pillow; install it (pip install pillow).") from error
    shorter = round(side * 256 / 224)
    try:
        with Image.open(path, formats=("JPEG", "PNG")) as picture:
            scale = shorter / min(picture.size)
            width, height = (max(shorter, round(scale * length)) for length in picture.size)
            left, top = (width - side) // 2, (height - side) // 2
            square = np.array((left, top, left + side, top + side))
            if picture.mode.startswith("I"):  # grey, of 16 bits, which Pillow would cut off at 255
                picture = Image.fromarray((np.asarray(picture) >> 8).astype(np.uint8))
            picture, bilinear = picture.convert("RGB"), Image.Resampling.BILINEAR
            if max(width, height) > LONG * shorter:
                # A line of pixels, packed to some bytes, would become gigabytes. This is the same square up to the
                # rounding of the box; ordinary pictures keep every bit.
                box = square * np.tile(picture.size, 2) / np.tile((width, height), 2)
                return np.asarray(picture.resize((side, side), bilinear, box=tuple(box.tolist())), np.uint8)
            return np.asarray(picture.resize((width, height), bilinear).crop(tuple(square.tolist())), np.uint8)
    except Exception as error:  # Pillow's decoders raise many kinds, from SyntaxError to struct.error
        raise AlteredFileError(f"`{path}`: expected a JPEG or PNG picture, got damaged data ({error}).") from error


def _folders(path: Path) -> list[Path]:
    """The folders below `path`, by name."""
    found = sorted(p for p in path.iterdir() if p.is_dir()) if path.is_dir() else []
    if not found:
        raise DataDirectoryError(
            f"`{path}`: expected a folder with one folder of pictures for each class, as ImageNet has them, "
            f"got {'none below it' if path.is_dir() else 'nothing there'}."
        )
    return found

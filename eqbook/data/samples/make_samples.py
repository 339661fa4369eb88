"""Rebuild the samples of this folder from the full data sets: `python -m eqbook.data.samples.make_samples`.

The samples are the first images of each full set, in its order, as idx files packed by gzip without name and
time stamp. The same zlib writes the same bytes; another version may pack differently, but the content, whose
sha256 the registry holds, is the same. The script stops before it replaces anything if that sha256 differs.
"""

import argparse
import gzip
import os
from pathlib import Path

import numpy as np

from eqbook.data.fetch import fetch
from eqbook.data.idx import format_idx
from eqbook.data.images import ImageSet
from eqbook.data.registry import DATA_SETS, SAMPLES, DataFile
from eqbook.data.verify import check_content


def sample_contents(name: str, full: ImageSet) -> dict[DataFile, bytes]:
    """Return the unpacked files of the sample `name`, cut from the full set and checked against the registry.

    Raises:
        AlteredFileError: if a slice is not the one the registry holds.
    """
    arrays = (full.train_images[..., 0], full.train_labels, full.test_images[..., 0], full.test_labels)
    contents = {}
    for file, array in zip(SAMPLES[name], arrays, strict=True):
        content = format_idx(array[: file.shape[0]].astype(np.uint8))
        contents[file] = check_content(content, file, file.name)
    return contents


def write_samples(name: str, full: ImageSet, folder: Path) -> list[Path]:
    """Write the four packed files of the sample `name` to `folder`, each under a temporary name first."""
    paths = []
    for file, content in sample_contents(name, full).items():
        path = folder / f"{file.name}.gz"
        temporary = path.with_suffix(".tmp")
        temporary.write_bytes(_pack(content))
        os.replace(temporary, path)
        paths.append(path)
    return paths


def _pack(content: bytes) -> bytes:
    packed = gzip.compress(content, compresslevel=6, mtime=0)  # level 9: 1 per cent less in 10 times the time
    return packed[:9] + b"\xff" + packed[10:]  # byte 9 names the system; Python versions disagree: "unknown"


def main() -> None:
    """Fetch both full data sets and write their samples."""
    parser = argparse.ArgumentParser(description="Rebuild the samples from the full data sets.")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent, help="folder to write to")
    out = parser.parse_args().out
    for name, data_set in DATA_SETS.items():
        for path in write_samples(name, fetch(data_set), out):
            print(f"{path.name}  {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()

"""Small real samples inside the package, for chapters and tests that must run anywhere, without a network."""

from importlib.resources import as_file, files

from eqbook.data.idx import parse_idx
from eqbook.data.images import ImageSet, image_set
from eqbook.data.registry import DATA_SETS, SAMPLES
from eqbook.data.verify import read_verified


def load_sample(name: str) -> ImageSet:
    """Return the first images of a data set, which come with the package.

    `"fashion_mnist"`: 6,000 training and 2,000 test images; `"mnist"`: 1,000 and 2,000. Their order is that
    of the full data set, so `load_sample(name).test_images` equals `fetch_...().test_images[:2000]`.

    Args:
        name: `"fashion_mnist"` or `"mnist"`.

    Raises:
        ValueError: for another name.
        AlteredFileError: if a file of the installed package was altered.
    """
    if name not in SAMPLES:
        raise ValueError(f"`name`: expected one of {', '.join(map(repr, SAMPLES))}, got {name!r}.")
    arrays = []
    for file in SAMPLES[name]:
        with as_file(files("eqbook.data") / "samples" / f"{file.name}.gz") as path:
            arrays.append(parse_idx(read_verified(path, file), file.name))
    return image_set(DATA_SETS[name], arrays)

"""Tiles of a Gram matrix on disk: written whole, checked when read, used for the computation they belong to only."""

import hashlib
import io
import json
import os
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from eqbook._attributes import parts_of
from eqbook._files import is_sealed, not_written, remove_left_over, report, sealed, unpacked, write_whole
from eqbook._identity import key_numbers, numbers_in, without_addresses
from eqbook._version import __version__
from eqbook.groups import Action, FiniteGroup
from eqbook.layers import Residual, Sequential

# Every change of a kernel's numbers raises it, as one of the files does: a run would go on from tiles of the old ones.
FORMAT = 9
MANIFEST = "gram.json"
# Where the values of a function are looked at: densely around 0, and over many orders of magnitude.
LARGE = np.logspace(-6, 6, 97)
PLACES = np.concatenate([np.linspace(-4, 4, 257), -LARGE, LARGE]).astype(np.float32)


def describe(value: Any, within: tuple[int, ...] = ()) -> Any:
    """What a network, a group, an array or a function is, in terms that another process would use too.

    Args:
        value: anything.
        within: of which values it is a part, by `id`; a part that is the whole again ends the description.
    """
    if id(value) in within:
        return "itself"
    part_of = partial(describe, within=(*within, id(value)))
    if isinstance(value, Sequential):
        return ["Sequential", *map(describe, value.layers)]
    if isinstance(value, Residual):
        return ["Residual", *map(describe, value.branch.layers)]
    if isinstance(value, FiniteGroup):
        return ["FiniteGroup", value.names, value.table.tolist()]
    if isinstance(value, Action):
        return [type(value).__name__, *[[name, part_of(part)] for name, part in sorted(vars(value).items())]]
    if is_dataclass(value) and not isinstance(value, type):
        return [
            type(value).__name__,
            *[[field.name, describe(getattr(value, field.name))] for field in fields(value) if field.init],
        ]
    if isinstance(value, np.ndarray | jax.Array):
        return [str(value.dtype), np.asarray(key_numbers(value)).tolist()]
    if isinstance(value, tuple | list):
        return [part_of(part) for part in value]
    if isinstance(value, set | frozenset):  # in the next process they have another order
        return sorted(map(repr, map(part_of, value)))
    if isinstance(value, dict):
        return [[part_of(key), part_of(part)] for key, part in value.items()]
    if callable(value):  # the same name may mean two functions, and a lambda has none
        return [getattr(value, "__name__", ""), _values(value), numbers_in(value)]
    shown, parts = without_addresses(value), parts_of(value)
    return [type(value).__name__, shown, *[[name, part_of(part)] for name, part in parts.items()]] if parts else shown


def _values(function: Callable) -> list[list[float] | None]:
    """Values of a function of numbers, and derivatives: `None` if it is one of something else, or has none.

    Derivatives by sign and size, in steps of a quarter: other programs and other processors round them otherwise.
    """
    places = jnp.asarray(PLACES)

    def listed(values: Callable) -> list[float] | None:
        try:
            return np.asarray(values(), np.float32).tolist()
        except Exception:  # whatever it raises
            return None

    def derivatives() -> np.ndarray:
        found = np.nan_to_num(np.asarray(jax.jvp(function, (places,), (jnp.ones_like(places),))[1], np.float64))
        size = np.abs(found)
        # Limits between steps where no function has its derivatives: not at powers of 2 or 10.
        steps = np.floor(10 * np.log10(np.maximum(size, 1e-6)) + 0.318)
        return np.where(size < 1.37e-6, 0, np.sign(found) * (steps + 100))

    return [listed(lambda: function(places)), listed(derivatives)]


def fingerprint(net: Any, arrays: list[np.ndarray], **settings: Any) -> str:
    """Hash of all that a Gram matrix depends on."""
    digest = hashlib.sha256(json.dumps([FORMAT, describe(net), settings], sort_keys=True, default=repr).encode())
    for array in arrays:
        digest.update(f"{array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


class Store:
    """A folder of tiles.

    Args:
        folder: where; made if it does not exist.
        key: fingerprint of the computation.
        dtype: of the tiles; `None` for one that NumPy itself has.

    Raises:
        ValueError: if the folder belongs to another computation, or cannot be written.
    """

    def __init__(self, folder: str | os.PathLike, key: str, dtype: np.dtype | None = None) -> None:
        self.folder, self.key, self.dtype = Path(folder), key, dtype
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            manifest = self.folder / MANIFEST
            names = {path.name for path in self.folder.iterdir() if not path.name.startswith(".")}
            if MANIFEST not in names and not manifest.exists():  # another process may have come first
                if names:
                    raise ValueError(f"`store`: expected an empty folder or a store, got {folder}; choose another.")
                about = sealed({"format": FORMAT, "fingerprint": key, "eqbook": __version__})
                write_whole(manifest, json.dumps(about, indent=2).encode())
            remove_left_over(self.folder)
            content = manifest.read_bytes()
        except OSError as error:
            raise ValueError(f"`store`: {folder} cannot be used ({error}); choose another folder.") from error
        try:
            found = json.loads(content)
        except (ValueError, RecursionError):  # not JSON, or not even text, or nested without end
            found = None
        if not is_sealed(found) or found.get("format") != FORMAT:
            raise ValueError(
                f"`store`: {manifest} is damaged or of another version; choose another folder, or delete it."
            )
        if found["fingerprint"] != key:
            raise ValueError(
                f"`store`: {folder} holds tiles of another network, other inputs or other settings; "
                "choose another folder, or delete it."
            )

    def tile(self, place: tuple[int, int], compute: Callable[[], np.ndarray]) -> np.ndarray:
        """The tile at a place: read if it is there and whole, else computed and written."""
        path = self.folder / f"tile-{place[0]:05d}-{place[1]:05d}"
        found = self._read(path)
        if found is None:
            found = compute()
            buffer = io.BytesIO()
            np.save(buffer, found, allow_pickle=False)
            try:
                write_whole(path, self._digest(path, buffer.getvalue()) + buffer.getvalue())
            except OSError as error:
                raise not_written(path, error) from error
        return found

    def _read(self, path: Path) -> np.ndarray | None:
        """The array in a file; `None` if there is no file, or its content is not what was written to this place."""
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            report(f"`store`: {path} cannot be read ({error.strerror}); it is computed again.")
            return None
        digest, body = content[:32], content[32:]
        if self._digest(path, body) != digest:
            report(f"`store`: {path} is not what was written there; it is computed again.")
            return None
        found = unpacked(lambda: np.load(io.BytesIO(body), allow_pickle=False))
        return found if self.dtype is None else found.view(self.dtype)  # NumPy reads bfloat16 as bytes without meaning

    def _digest(self, path: Path, body: bytes) -> bytes:
        """Of a tile, its place and the computation: one that was moved is as useless as one that was altered."""
        digest = hashlib.sha256(f"{self.key} {path.name}".encode())
        digest.update(body)
        return digest.digest()

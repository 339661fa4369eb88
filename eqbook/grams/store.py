"""Tiles of a Gram matrix on disk: written whole, checked when read, used for the computation they belong to only."""

import hashlib
import io
import json
import os
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from eqbook._files import WRITING, write_whole
from eqbook._version import __version__
from eqbook.groups import Action, FiniteGroup
from eqbook.layers import Residual, Sequential

FORMAT = 1
MANIFEST = "gram.json"


def describe(value: Any) -> Any:
    """What a network, a group, an array or a function is, in terms that another process would use too."""
    if isinstance(value, Sequential):
        return ["Sequential", *map(describe, value.layers)]
    if isinstance(value, Residual):
        return ["Residual", *map(describe, value.branch.layers)]
    if isinstance(value, FiniteGroup):
        return ["FiniteGroup", value.names, value.table.tolist()]
    if isinstance(value, Action):
        moved = [np.asarray(part).tolist() for part in vars(value).values() if isinstance(part, np.ndarray)]
        return [type(value).__name__, describe(value.group), moved]
    if is_dataclass(value):
        return [type(value).__name__, *[[field.name, describe(getattr(value, field.name))] for field in fields(value)]]
    if callable(value):  # the same name may mean two functions, and a lambda has none
        return [getattr(value, "__name__", ""), np.asarray(value(jnp.linspace(-4, 4, 257)), np.float32).tolist()]
    return repr(value)


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

    Raises:
        ValueError: if the folder belongs to another computation, or cannot be written.
    """

    def __init__(self, folder: str | os.PathLike, key: str) -> None:
        self.folder = Path(folder)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            manifest = self.folder / MANIFEST
            if not manifest.exists():
                if any(path.name != MANIFEST and not path.name.startswith(WRITING) for path in self.folder.iterdir()):
                    raise ValueError(f"`store`: expected an empty folder or a store, got {folder}; choose another.")
                text = json.dumps({"format": FORMAT, "fingerprint": key, "eqbook": __version__}, indent=2)
                write_whole(manifest, text.encode())
            found = json.loads(manifest.read_text()).get("fingerprint")
        except (OSError, json.JSONDecodeError, AttributeError) as error:
            raise ValueError(f"`store`: {folder} cannot be used ({error}); choose another folder.") from error
        if found != key:
            raise ValueError(
                f"`store`: {folder} holds tiles of another network, other inputs or other settings; "
                "choose another folder, or delete it."
            )

    def tile(self, place: tuple[int, int], compute: Callable[[], np.ndarray]) -> np.ndarray:
        """The tile at a place: read if it is there and whole, else computed and written."""
        path = self.folder / f"tile-{place[0]:05d}-{place[1]:05d}"
        found = _read(path)
        if found is None:
            found = compute()
            write_whole(path, _packed(found))
        return found


def _packed(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return hashlib.sha256(buffer.getvalue()).digest() + buffer.getvalue()


def _read(path: Path) -> np.ndarray | None:
    """The array in a file; `None` if there is no file, or its content is not what was written."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    digest, body = content[:32], content[32:]
    if hashlib.sha256(body).digest() != digest:
        return None
    return np.load(io.BytesIO(body), allow_pickle=False)

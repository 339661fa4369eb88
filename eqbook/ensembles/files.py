"""Arrays in a file: written whole, checked when read."""

import hashlib
import io
import math
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from eqbook._files import DIGEST, report, unpacked, write_whole

_MOST_HEADER = 4096  # bytes in front of the numbers of an array; NumPy writes 128
_STORED, _DEFLATED = 0, 8  # methods of zip archives


def save_tree(path: Path, tree: Any, seal: str = "") -> None:
    """The leaves of a tree as a `.npz` file, the SHA-256 of their content and of the file's name among them.

    Args:
        path: where.
        tree: tree of arrays.
        seal: what the file belongs to; enters the digest.
    """
    arrays = {f"leaf{i}": leaf for i, leaf in enumerate(host(tree))}
    buffer = io.BytesIO()
    np.savez(buffer, **arrays, **{DIGEST: _digest(arrays, path, seal)})
    write_whole(path, buffer.getvalue())


def load_tree(path: Path, like: Any, seal: str = "") -> Any | None:
    """The tree in a file; `None` if there is no file, or its content is not what was written under this name.

    Args:
        path: where.
        like: tree of arrays or of `ShapeDtypeStruct` with the same structure.
        seal: what the file belongs to.
    """
    found = _load(path, like, seal) if path.exists() else None
    if found is None and path.exists():
        report(f"`store`: {path} is not what was written there; what it held is computed again.")
    return found


def _load(path: Path, like: Any, seal: str) -> Any | None:
    shapes, structure = jax.tree.flatten(like)
    try:
        content = path.read_bytes()
        found = unpacked(lambda: _arrays(content, shapes))
    except Exception:  # noqa: BLE001 - a damaged archive raises errors of many kinds
        return None
    digest = None if found is None else found.pop(DIGEST, None)
    if digest is None or len(found) != len(shapes) or not np.array_equal(digest, _digest(found, path, seal)):
        return None
    leaves = [_as(found[f"leaf{i}"], shape) for i, shape in enumerate(shapes)]
    return None if any(leaf is None for leaf in leaves) else jax.tree.unflatten(structure, leaves)


def _arrays(content: bytes, shapes: list[Any]) -> dict[str, np.ndarray] | None:
    """The members of an archive; `None` if they are not as long as those of a tree."""
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        return {name: file[name] for name in file.files} if _are_as_long(file.zip.infolist(), shapes) else None


def _are_as_long(members: list[Any], shapes: list[Any]) -> bool:
    """Whether members of an archive, by their headers, are those of a tree, none longer than its array.

    The digest is one of unpacked arrays, and some hundred bytes may hold gigabytes of them. Python unpacks no more than
    the length in the header where a member is stored or deflated; of other methods all, whatever the header says.
    """
    most = {f"leaf{i}.npy": _size(shape) for i, shape in enumerate(shapes)} | {f"{DIGEST}.npy": 32}
    return sorted(one.filename for one in members) == sorted(most) and all(
        one.compress_type in (_STORED, _DEFLATED) and one.file_size <= most[one.filename] + _MOST_HEADER
        for one in members
    )


def _size(like: Any) -> int:
    """Bytes of an array; of random keys, those of their bits."""
    bits = jax.eval_shape(jax.random.key_data, like) if _is_key(like) else like
    return math.prod(bits.shape) * bits.dtype.itemsize


def host(tree: Any) -> list[np.ndarray]:
    """The leaves of a tree as NumPy arrays of their own; of random keys, their bits."""
    leaves = jax.tree.leaves(tree)
    return [np.array(jax.random.key_data(leaf) if _is_key(leaf) else leaf) for leaf in leaves]


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _as(array: np.ndarray, like: Any) -> Any | None:
    if _is_key(like):
        impl = jax.random.key_impl(jnp.empty(0, like.dtype))  # `like` may be a shape only
        keys = jax.random.wrap_key_data(jnp.asarray(array), impl=impl)
        return keys if keys.shape == like.shape else None
    if array.dtype.itemsize != like.dtype.itemsize or array.shape != like.shape:
        return None
    return array.view(like.dtype)  # NumPy reads bfloat16 back as bytes without a meaning


def _digest(arrays: dict[str, np.ndarray], path: Path, seal: str) -> np.ndarray:
    digest = hashlib.sha256(f"{path.name} {seal}".encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.shape} {array.dtype.itemsize}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return np.frombuffer(digest.digest(), np.uint8)

"""An ensemble in a folder: members at the recorded epochs, the state to go on from, and the losses as they come.

The arrays are plain `.npz` files, one for each chunk of members and epoch, with a checksum. They are never pickled, so
that reading a folder of unknown origin runs no code of it; they need no library but NumPy to be read, now or later; and
a rename makes each of them appear whole or not at all, which is all that a single writer asks of a checkpoint format.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import jax
import numpy as np

from eqbook._checks import check_path
from eqbook._files import DIGEST, in_use, is_sealed, not_written, remove_left_over, report, sealed, write_whole
from eqbook._hosts import ALONE, Hosts
from eqbook._stores import first_folder
from eqbook._version import __version__
from eqbook.ensembles.epoch import Member
from eqbook.ensembles.files import load_tree, save_tree
from eqbook.ensembles.settings import differing, digest

FORMAT = 7
MANIFEST, METRICS = "ensemble.json", "metrics.jsonl"


class Checkpoint(NamedTuple):
    """A chunk of members from which training goes on.

    Attributes:
        member: parameters, optimiser state and loss sums, leaves `[width, ...]`.
        epoch: epochs done.
        since: epoch of the last record, from which on losses are summed.
    """

    member: Member
    epoch: int | np.ndarray
    since: int | np.ndarray


class Store:
    """A folder that holds one ensemble; one process at a time writes to it.

    Args:
        folder: where; made if it does not exist.
        settings: what decides the numbers of the ensemble.
        shapes: of a chunk.
        hosts: processes that share the chunks, and write to the folder together.

    Raises:
        ValueError: if the folder holds something else, or cannot be written.
    """

    def __init__(
        self, folder: str | os.PathLike, settings: dict[str, Any], shapes: Member, hosts: Hosts = ALONE
    ) -> None:
        self.folder, self.shapes, self._lock = Path(folder), shapes, Lock()
        self._metrics = self.folder / (f"metrics-{hosts.rank:04d}.jsonl" if hosts.rank else METRICS)
        self._in_use = None
        self._losses: dict[int, dict[tuple[int, int], np.ndarray]] = {}  # by chunk, then by first and last epoch
        for turn in (hosts.rank == 0, hosts.rank > 0):  # the first process opens the folder for all
            with hosts.together():
                if turn:
                    self._open(settings, alone=hosts.rank == 0)

    def close(self) -> None:
        """Let other processes write to the folder; it can still be read."""
        if self._in_use is not None:
            self._in_use.close()

    def _open(self, settings: dict[str, Any], alone: bool) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            # Listed first: whatever another process writes in the meantime, its manifest comes before the rest.
            names = [path.name for path in self.folder.iterdir() if not path.name.startswith(".")]
            stored = read_manifest(self.folder)
            if stored is None and names:
                raise ValueError(f"`store`: expected an empty folder or a store, got {self.folder}; choose another.")
            if alone:
                self._in_use = in_use(self.folder)
                remove_left_over(self.folder)
                stored = read_manifest(self.folder)  # another process may have been quicker
            if stored is None:
                about = sealed({"format": FORMAT, "eqbook": __version__, "settings": settings})
                write_whole(self.folder / MANIFEST, json.dumps(about, indent=1).encode())
                stored = settings
            self._seal = _seal(self.folder)
            _end_last_line(self._metrics)
            for one in read_metrics(self.folder):
                self._losses.setdefault(one["chunk"], {})[one["since"], one["epoch"]] = one["loss"]
        except Exception as error:
            self.close()
            if not isinstance(error, OSError):
                raise
            raise ValueError(f"`store`: {self.folder} cannot be used ({error}); choose another folder.") from error
        if different := differing(stored, settings):
            self.close()
            raise ValueError(
                f"`store`: {self.folder} holds members trained with other settings: {', '.join(different)}; "
                "choose another folder, delete it, or train with its settings."
            )

    def checkpoint(self, chunk: int) -> Checkpoint | None:
        """Where a chunk stands; `None` if it has not begun, or its file is damaged."""
        number = jax.ShapeDtypeStruct((), np.int32)
        found = load_tree(self.folder / f"state-{chunk:05d}.npz", Checkpoint(self.shapes, number, number), self._seal)
        return None if found is None else Checkpoint(found.member, int(found.epoch), int(found.since))

    def keep(self, chunk: int, checkpoint: Checkpoint) -> None:
        """Replace where a chunk stands."""
        numbers = np.int32(checkpoint.epoch), np.int32(checkpoint.since)
        self._save(self.folder / f"state-{chunk:05d}.npz", Checkpoint(checkpoint.member, *numbers))

    def params(self, chunk: int, epoch: int) -> Any | None:
        """Parameters of a chunk at an epoch; `None` if they were not recorded, or their file is damaged."""
        return load_tree(self._recorded(chunk, epoch), self.shapes.params, self._seal)

    def record(self, chunk: int, since: int, epoch: int, params: Any, losses: np.ndarray) -> None:
        """Keep the parameters of a chunk at an epoch, and its mean losses since the record before."""
        if epoch > since:
            losses = losses.astype(float)
            line = {"chunk": chunk, "since": since, "epoch": epoch, "loss": losses.tolist()}
            text = json.dumps(sealed(line | {"store": self._seal})) + "\n"
            try:
                with self._lock, open(self._metrics, "a", encoding="utf8") as file:
                    file.write(text)
                    file.flush()
                    os.fsync(file.fileno())
                    self._losses.setdefault(chunk, {})[since, epoch] = losses
            except OSError as error:
                raise not_written(self._metrics, error) from error
        self._save(self._recorded(chunk, epoch), params)

    def mean_losses(self, chunk: int, stops: Sequence[int]) -> list[np.ndarray] | None:
        """Mean losses `[width]` of a chunk between one stop and the next; `None` if some were not recorded."""
        with self._lock:
            lines = dict(self._losses.get(chunk, {}))
        found, since = [], 0
        for stop in stops:
            nothing = np.full(self.shapes.total.shape, np.nan)
            found.append(nothing if since == stop else _between(lines, since, stop))
            since = stop
        return None if any(one is None for one in found) else found

    def _save(self, path: Path, tree: Any) -> None:
        try:
            save_tree(path, tree, self._seal)
        except OSError as error:
            raise not_written(path, error) from error

    def _recorded(self, chunk: int, epoch: int) -> Path:
        return self.folder / f"params-{chunk:05d}-{epoch:07d}.npz"


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """The settings of the ensemble in a folder; `None` if there is none.

    Raises:
        ValueError: if its manifest is damaged or of another format.
    """
    path = folder / MANIFEST
    if not path.exists():
        return None
    about = _json(path.read_bytes())
    if not is_sealed(about) or about.get("format") != FORMAT:
        raise ValueError(f"`store`: {path} is damaged or of another version; choose another folder, or delete it.")
    return about["settings"]


def read_metrics(folder: str | os.PathLike) -> list[dict[str, Any]]:
    """The losses in a store, in the order in which they were written; lines that are torn or altered are left out.

    Args:
        folder: the store.

    Returns:
        For each chunk and record a dictionary: `chunk`, its number; `since` and `epoch`, the record before and this
        one; `loss`, the mean over the epochs between them of each member of the chunk, `[width]`. The list is empty for
        a folder that holds no store.

    Raises:
        ValueError: if there is no such folder, or its manifest is damaged or of another format.
    """
    check_path("folder", folder)
    if not Path(folder).is_dir():
        raise ValueError(f"`folder`: expected the folder of a store, got {str(folder)!r}, where there is none.")
    found, seal = [], _seal(Path(folder))
    for path in sorted(Path(folder).glob("metrics*.jsonl")):
        for number, line in enumerate(path.read_bytes().splitlines(keepends=True), 1):
            value = _json(line)
            if not is_sealed(value) or value.pop("store") != seal:
                if line.endswith(b"\n"):  # one without an end may be on its way
                    report(f"`store`: {path}, line {number}: torn, or not what was written there; it is left out.")
                continue
            del value[DIGEST]
            found.append(value | {"loss": np.asarray(value["loss"], float)})
    return found


def _json(text: bytes) -> Any:
    """What a text says; `None` if it is not JSON, or not even text, or nested without end."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _seal(folder: Path) -> str:
    """What the files of a folder belong to: a digest of its settings; empty if there is no store."""
    settings = read_manifest(folder)
    return "" if settings is None else digest(settings)


def _between(lines: dict[tuple[int, int], np.ndarray], since: int, stop: int) -> np.ndarray | None:
    """Mean loss over the epochs after `since` up to `stop`, put together from what was recorded."""
    if (since, stop) in lines:
        return lines[since, stop]
    sums = {since: 0.0}  # of the losses from `since` to each epoch that records lead to: some lead no further
    for start, end in sorted(lines):
        if start in sums and end not in sums:
            sums[end] = sums[start] + (end - start) * lines[start, end]
    return sums[stop] / (stop - since) if stop in sums else None


def stored_width(folder: str | os.PathLike | None) -> int | None:
    """Members in a chunk of the ensemble in a folder; `None` if there is no folder, or nothing in it."""
    settings = None if folder is None else read_manifest(Path(folder))
    return None if settings is None else settings["at_once"]


def folder_for(directory: Path, settings: dict[str, Any]) -> Path:
    """The folder of an ensemble among others.

    Its name is a digest of what is exact. What is known up to rounding, an optimiser by its steps, is compared.
    """
    exact = {name: value for name, value in settings.items() if not isinstance(value, list)}

    def fits(folder: Path) -> bool:
        stored = read_manifest(folder)
        return stored is None or not differing(stored, settings)

    return first_folder(directory, f"ensemble-{digest([FORMAT, exact])[:16]}", fits)


def _end_last_line(path: Path) -> None:
    """A torn line gets its end, so that the next one begins anew."""
    if path.exists() and (content := path.read_bytes()) and not content.endswith(b"\n"):
        with open(path, "ab") as file:
            file.write(b"\n")

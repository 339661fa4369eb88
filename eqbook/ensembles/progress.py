"""A progress bar on a terminal: members times epochs, the loss, the rate and the time left."""

import sys
import time
from threading import Lock
from typing import Any

import numpy as np
from tqdm import tqdm

SECONDS = 0.5  # a call that takes longer makes the bar look stuck


class Progress:
    """The bar, for chunks of members that are trained by several threads.

    Args:
        members: how many members.
        epochs: epochs of each.
        width: members of a chunk.
        show: whether to show it on a terminal.
    """

    def __init__(self, members: int, epochs: int, width: int, show: bool) -> None:
        disable = None if show else True  # None: quiet if this is no terminal
        self._bar = tqdm(total=members * epochs, unit="epoch", disable=disable, file=sys.stderr, leave=False)
        self._members, self._width, self._lock = members, width, Lock()
        self._losses: dict[int, float] = {}
        self._slice, self._last = 1, time.perf_counter()

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: Any) -> None:
        self._bar.close()

    def slice(self) -> int:
        """Epochs to train in one call: as many as the next stop asks for, fewer if somebody is watching."""
        return 2**30 if self._bar.disable else self._slice

    def add(self, chunk: int, epochs: int, total: Any, summed: int = 1) -> None:
        """A chunk has done more epochs; `total` is its loss added up over `summed` epochs, `None` for earlier ones."""
        if self._bar.disable:
            return
        shown = max(0, min(self._width, self._members - chunk * self._width))
        with self._lock:
            now = time.perf_counter()
            quick, self._last = now - self._last < SECONDS, now
            if total is not None:  # epochs that were trained just now, and not before
                self._slice = self._slice * 2 if quick else max(1, self._slice // 2)
                self._losses[chunk] = float(np.mean(np.asarray(total)[:shown])) / summed
                loss = np.mean(list(self._losses.values()))
                self._bar.set_postfix(loss=f"{loss:.3g}", refresh=False)
            self._bar.update(epochs * shown)

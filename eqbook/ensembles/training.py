"""One chunk of members from where it stands to the last epoch, and all chunks on the cores at hand."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from eqbook.ensembles.arguments import check_losses
from eqbook.ensembles.epoch import Member
from eqbook.ensembles.programs import Programs
from eqbook.ensembles.progress import Progress
from eqbook.ensembles.store import Checkpoint, Store
from eqbook.grams.workers import settings


@dataclass
class Training:
    """What the chunks of a run share.

    Attributes:
        programs: the compiled programs.
        stops: epochs at which members are looked at, increasing; the last one ends the training.
        store: where members are kept; `None` keeps those of the last epoch in memory.
        every: epochs between checkpoints; `None` makes one at each stop.
        members: how many members were asked for; the chunks may hold more.
        progress: the bar.
        look: called with chunk, number of the stop, parameters and mean losses `[width]`.
        stopped: set when a chunk has failed, so that the others end too.
    """

    programs: Programs
    stops: Sequence[int]
    store: Store | None
    every: int | None
    members: int
    progress: Progress
    look: Callable[[int, int, Any, np.ndarray], None]
    stopped: threading.Event = field(default_factory=threading.Event)

    def chunk(self, c: int) -> None:
        """Train a chunk to the last stop, from where the store has it."""
        here, losses, kept = self.resumed(c)
        self.progress.add(c, min(here.epoch, self.stops[-1]), None)
        for number, stop in enumerate(self.stops):
            if stop <= here.epoch and number < len(losses):
                params = here.member.params if self.store is None else self.store.params(c, stop)
                if params is None:  # it was there when the chunk was resumed
                    raise ValueError(
                        f"`store`: expected the file of chunk {c} at epoch {stop} that was there just now, got none or "
                        "a damaged one; call again: what is missing is computed again."
                    )
                self.look(c, number, params, losses[number])
                continue
            here = self.until(c, here, stop, kept)
            if self.stopped.is_set():
                return
            mean = _mean_loss(here)
            if self.store is not None:
                self.store.record(c, here.since, stop, here.member.params, mean)
                before = self.stops[number - 1] if number else 0
                if here.since != before:  # a run with other stops has recorded in between
                    mean = self.store.mean_losses(c, [before, stop])[-1]
            zero = np.zeros_like(here.member.total)
            member = here.member._replace(total=zero, lost=zero)
            here = Checkpoint(member, stop, stop)
            if self.store is not None and stop >= kept:
                self.store.keep(c, here)
            self.look(c, number, member.params, mean)

    def resumed(self, c: int) -> tuple[Checkpoint, list[np.ndarray], int]:
        """Where a chunk goes on, its losses at the stops that lie behind it, and the epoch of its checkpoint, or 0.

        If one of these was not recorded, or its file is damaged, the chunk begins anew: it ends at the same numbers.
        The checkpoint stays until the chunk has come as far again: another call may go on from it.
        """
        here = self.store.checkpoint(c) if self.store is not None else None
        if here is not None:
            behind = [stop for stop in self.stops if stop <= here.epoch]
            # The loss at the next stop, if there is one, is put together from here on and from what leads here.
            more = [here.since] if len(behind) < len(self.stops) else []
            losses = self.store.mean_losses(c, [*behind, *more])
            there = all(self.store.params(c, stop) is not None for stop in behind)
            if losses is not None and there:
                self.check(c, here.member)
                return here, losses[: len(behind)], here.epoch
        # One that no records lead to is of no use to any call.
        useful = here is not None and self.store.mean_losses(c, [here.since]) is not None
        return Checkpoint(self.programs.start(c), 0, 0), [], here.epoch if useful else 0

    def until(self, c: int, here: Checkpoint, stop: int, kept: int) -> Checkpoint:
        """Train up to a stop, and move the bar; on the way make the checkpoints that are due, from epoch `kept` on."""
        while here.epoch < stop and not self.stopped.is_set():
            due = stop if self.every is None else min(stop, (here.epoch // self.every + 1) * self.every)
            epoch = min(due, here.epoch + self.progress.slice())
            member = jax.block_until_ready(self.programs.advance(c, here.member, here.epoch, epoch))
            self.check(c, member)
            self.progress.add(c, epoch - here.epoch, member.total, epoch - here.since)
            here = Checkpoint(member, epoch, here.since)
            if self.store is not None and kept <= epoch == due < stop:
                self.store.keep(c, here)
        return here

    def check(self, c: int, member: Member) -> None:
        """Raise if the loss of a member that was asked for is not finite in an epoch that was asked for."""
        shown = max(0, self.members - c * self.programs.width)
        bad = np.asarray(member.bad)[:shown]  # a longer run, of fewer members, may have gone on in the same store
        check_losses(np.where(bad <= max(self.stops, default=0), bad, 0), c * self.programs.width)


def _mean_loss(here: Checkpoint) -> np.ndarray:
    """Mean loss of each member since the last record; NaN if there was no epoch."""
    total, lost = (np.array(part, np.float64) for part in (here.member.total, here.member.lost))
    return (total + lost) / (here.epoch - here.since) if here.epoch > here.since else np.full_like(total, np.nan)


def train_chunks(training: Training, chunks: range, at_once: int) -> None:
    """All chunks, several of them on threads: the loop of one leaves cores of a CPU idle."""
    here = settings()

    def one(c: int) -> None:
        with here():
            training.chunk(c)

    if at_once == 1:
        for c in chunks:
            training.chunk(c)
        return
    with ThreadPoolExecutor(at_once, thread_name_prefix="eqbook") as pool:
        waiting, running = list(reversed(chunks)), set()
        try:
            while waiting or running:
                while waiting and len(running) < at_once:
                    running.add(pool.submit(one, waiting.pop()))
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    future.result()
        except BaseException:
            training.stopped.set()
            raise

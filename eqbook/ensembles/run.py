"""What training an ensemble leaves behind."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from eqbook._checks import check_batch, check_int, check_integers, native
from eqbook._shown import shown, summary
from eqbook.ensembles.arguments import check_outputs


@dataclass(frozen=True)
class EnsembleRun:
    """What training left behind.

    Attributes:
        epochs: epochs at which outputs were recorded, `[records]`; 0 is initialisation.
        losses: loss of each member, averaged over the steps since the record before; NaN at epoch 0.
            `[records, members]`.
        outputs: for each watched batch, the outputs of every member, `[records, members, n, k]`.
        members: number of members.
        kept: epochs at which members can be evaluated on other inputs: with a store, those recorded and the last one;
            without, the last one.
    """

    epochs: Int[np.ndarray, " records"]
    losses: Float[np.ndarray, "records members"]
    outputs: dict[str, Float[np.ndarray, "records members n k"]]
    members: int
    kept: tuple[int, ...]
    _programs: Any = field(repr=False)
    _chunk_params: Callable[[int, int], Any] = field(repr=False)

    __repr__ = summary

    @cached_property
    def params(self) -> Any:
        """Parameters of all members after the last epoch, each leaf `[members, ...]`; read from the store if needed."""
        width = self._programs.width
        chunks = [self._chunk_params(c, self.kept[-1]) for c in range(-(-self.members // width))]
        with jax.enable_x64(self._programs.x64):
            return jax.tree.map(lambda *leaves: _joined(leaves, self.members), *chunks)

    def mean(self, name: str) -> Float[np.ndarray, "records n k"]:
        """The ensemble's prediction, the mean over members, on a watched batch.

        Raises:
            ValueError: if no batch of that name was watched.
        """
        outputs = self._watched(name)  # NumPy sums short floats in themselves, and loses most of a thousand
        return outputs.mean(axis=1, dtype=np.float64).astype(outputs.dtype)

    def standard_error(self, name: str) -> Float[np.ndarray, "records n k"]:
        r"""$s / \sqrt M$ with $s^2 = \frac{1}{M-1} \sum_m (f_m - \bar f)^2$: the standard error of `mean`.

        Members are independent: so far, typically, is their mean from that of infinitely many of the same width.

        Args:
            name: of a watched batch.

        Raises:
            ValueError: if no batch of that name was watched, or there is one member only.
        """
        outputs = self._watched(name)
        if self.members < 2:
            raise ValueError("`members`: expected at least 2 for a standard error, got a run of 1; train more of them.")
        # Record by record: the squares of all of them would take twice the memory of the outputs.
        found = [np.std(record.astype(np.float64), axis=0, ddof=1) for record in outputs]
        return (np.stack(found) / np.sqrt(self.members)).astype(outputs.dtype)

    def predict(
        self,
        x: Float[Array, "n ..."],
        *,
        epoch: int | None = None,
        members: Sequence[int] | None = None,
        batch: int = 1024,
    ) -> Float[np.ndarray, "members n k"]:
        """Outputs of members on any inputs; one chunk of members is in memory at a time.

        Args:
            x: inputs, `[n, ...]`.
            epoch: one of `kept`; `None` is the last.
            members: which members, in this order; `None` is all of them.
            batch: inputs evaluated in one go.

        Raises:
            ValueError: if an epoch or member is not there, or the inputs do not fit.
            FloatingPointError: if an output is not finite; names member and epoch.
        """
        wanted = self._wanted(members)
        place = {m: i for i, m in enumerate(wanted)}
        found = None
        for chunk_members, outputs in self._evaluated(x, epoch, wanted, batch):
            for m, values in zip(chunk_members, outputs):
                found = np.empty((len(wanted), *values.shape), values.dtype) if found is None else found
                found[place[m]] = values
        return found

    def predict_mean(
        self,
        x: Float[Array, "n ..."],
        *,
        epoch: int | None = None,
        members: Sequence[int] | None = None,
        batch: int = 1024,
    ) -> Float[np.ndarray, "n k"]:
        r"""The ensemble's prediction $\frac1M \sum_m f_m(x)$; the outputs of one chunk are in memory at a time.

        Arguments are those of `predict`. The sum is carried in double precision.
        """
        wanted, total = self._wanted(members), 0.0
        for _, outputs in self._evaluated(x, epoch, wanted, batch):
            total, dtype = total + outputs.sum(axis=0, dtype=float), outputs.dtype
        return (total / len(wanted)).astype(dtype)

    def _watched(self, name: str) -> Float[np.ndarray, "records members n k"]:
        if name not in self.outputs:
            watched = ", ".join(self.outputs) or "none: nothing was watched"
            raise ValueError(f"`name`: expected one of {watched}, got {shown(name)}.")
        return self.outputs[name]

    def _wanted(self, members: Sequence[int] | None) -> list[int]:
        if members is None:
            return list(range(self.members))
        if np.ndim(members) != 1:
            raise ValueError(f"`members`: expected a list of members such as [0, 2], got {shown(members)}.")
        wanted = [check_int("members", m, 0) for m in np.asarray(members).tolist()]
        if not wanted or max(wanted) >= self.members or len(set(wanted)) < len(wanted):
            raise ValueError(f"`members`: expected different members below {self.members}, got {shown(members)}.")
        return wanted

    def _evaluated(self, x: Any, epoch: int | None, wanted: list[int], batch: int) -> Iterator[tuple[list, np.ndarray]]:
        """For each chunk with wanted members: which they are, and their outputs."""
        epoch = self.kept[-1] if epoch is None else epoch
        if isinstance(epoch, np.generic | np.ndarray | jax.Array) and epoch.ndim == 0:
            epoch = epoch.item()
        if isinstance(epoch, bool) or not isinstance(epoch, int):
            check_int("epoch", epoch, 0)  # says what it is in place of an integer
        if epoch not in self.kept:
            advice = "" if len(self.kept) > 1 else "; train with `store` to keep the members at each record"
            raise ValueError(f"`epoch`: expected one of {', '.join(map(str, self.kept))}, got {shown(epoch)}{advice}.")
        check_batch("x", x)
        with jax.enable_x64(self._programs.x64):
            check_integers("x", x)
        check_int("batch", batch, 1)
        self._programs.check_inputs(x)
        chosen, width = set(wanted), self._programs.width
        for chunk in sorted({m // width for m in wanted}):
            here = [m for m in self._programs.members(chunk) if m in chosen]
            with jax.enable_x64(self._programs.x64):
                outputs = self._programs.outputs(self._chunk_params(chunk, epoch), native(np.asarray(x)), batch)
            outputs = outputs[[m % width for m in here]]
            check_outputs("x", outputs, here, epoch)
            yield here, outputs


def _joined(leaves: Sequence[Array | np.ndarray], members: int) -> Array:
    """Those of all chunks; what lies on a device is put together there."""
    if all(isinstance(leaf, jax.Array) for leaf in leaves):
        # A copy, also of a single chunk: what the run evaluates is not the caller's to give away.
        return jnp.concatenate(leaves)[:members] if len(leaves) > 1 else jnp.array(leaves[0][:members], copy=True)
    return jnp.asarray(np.concatenate(leaves)[:members])

"""What training an ensemble leaves behind."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int


@dataclass(frozen=True)
class EnsembleRun:
    """What training left behind.

    Attributes:
        params: parameters of all members after the last epoch, each leaf `[members, ...]`.
        epochs: epochs at which outputs were recorded, `[records]`; 0 is initialisation.
        losses: loss of each member, averaged over the steps since the record before; NaN at epoch 0.
            `[records, members]`.
        outputs: for each watched batch, the outputs of every member, `[records, members, n, k]`.
    """

    params: Any
    epochs: Int[np.ndarray, " records"]
    losses: Float[np.ndarray, "records members"]
    outputs: dict[str, Float[np.ndarray, "records members n k"]]

    def mean(self, name: str) -> Float[np.ndarray, "records n k"]:
        """The ensemble's prediction, the mean over members, on a watched batch.

        Raises:
            ValueError: if no batch of that name was watched.
        """
        if name not in self.outputs:
            watched = ", ".join(self.outputs) or "none: nothing was watched"
            raise ValueError(f"`name`: expected one of {watched}, got {name!r}.")
        return self.outputs[name].mean(axis=1)

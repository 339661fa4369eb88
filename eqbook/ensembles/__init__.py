"""Training many members of one network at once, in chunks that are one compiled program each.

`train_ensemble` trains them, reproducibly one by one; with a folder as its `store` it can be killed, resumed and
extended. It returns an `EnsembleRun`, whose members predict on any inputs. `full_orbits` and `random_elements` augment
the data on the device; `ntk_learning_rate` finds the largest step of gradient descent that does not diverge.
"""

from eqbook.ensembles.augmentation import Augmentation as Augmentation
from eqbook.ensembles.augmentation import full_orbits as full_orbits
from eqbook.ensembles.augmentation import random_elements as random_elements
from eqbook.ensembles.learning_rate import ntk_learning_rate as ntk_learning_rate
from eqbook.ensembles.losses import cross_entropy as cross_entropy
from eqbook.ensembles.losses import squared_error as squared_error
from eqbook.ensembles.run import EnsembleRun as EnsembleRun
from eqbook.ensembles.store import read_metrics as read_metrics
from eqbook.ensembles.train import train_ensemble as train_ensemble

__all__ = [
    "Augmentation",
    "EnsembleRun",
    "cross_entropy",
    "full_orbits",
    "ntk_learning_rate",
    "random_elements",
    "read_metrics",
    "squared_error",
    "train_ensemble",
]

"""Training many members of one network at once, in one compiled program."""

from eqbook.ensembles.losses import cross_entropy as cross_entropy
from eqbook.ensembles.losses import squared_error as squared_error
from eqbook.ensembles.run import EnsembleRun as EnsembleRun
from eqbook.ensembles.train import train_ensemble as train_ensemble

__all__ = ["EnsembleRun", "cross_entropy", "squared_error", "train_ensemble"]

"""Training in closed form: the law of infinitely wide networks after any training time.

A schedule says how each eigenvalue of the NTK is learned (`GradientFlow` for continuous time, `GradientDescent` for
full-batch steps); `EnsembleLaw` turns Gram matrices and a schedule into the mean and covariance of trained networks.
"""

from eqbook.dynamics.law import EnsembleLaw as EnsembleLaw
from eqbook.dynamics.schedule import GradientDescent as GradientDescent
from eqbook.dynamics.schedule import GradientFlow as GradientFlow
from eqbook.dynamics.schedule import Schedule as Schedule

__all__ = ["EnsembleLaw", "GradientDescent", "GradientFlow", "Schedule"]

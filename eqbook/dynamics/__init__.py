"""Training in closed form: the law of infinitely wide networks after any training time.

A schedule says how each eigenvalue of the NTK is learned (`GradientFlow` for continuous time, `GradientDescent` for
full-batch steps); `EnsembleLaw` turns Gram matrices and a schedule into the mean and covariance of trained networks.

Where a Gram matrix is too large to be diagonalised, or to lie on one device, it becomes a `RowMatrix`: `solve` finds
the weights of kernel regression by conjugate gradients, `learned_targets` those of a finite training time by Lanczos'
method.
"""

from eqbook.dynamics.iterative import Solution as Solution
from eqbook.dynamics.iterative import solve as solve
from eqbook.dynamics.krylov import learned_targets as learned_targets
from eqbook.dynamics.law import EnsembleLaw as EnsembleLaw
from eqbook.dynamics.rows import RowMatrix as RowMatrix
from eqbook.dynamics.schedule import GradientDescent as GradientDescent
from eqbook.dynamics.schedule import GradientFlow as GradientFlow
from eqbook.dynamics.schedule import Schedule as Schedule

__all__ = [
    "EnsembleLaw",
    "GradientDescent",
    "GradientFlow",
    "RowMatrix",
    "Schedule",
    "Solution",
    "learned_targets",
    "solve",
]

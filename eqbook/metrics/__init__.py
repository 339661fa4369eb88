"""How equivariant outputs are, how sure an average is, and what theory allows.

Metrics of an orbit take outputs with the group axis in front, the identity first. The bounds are those of the theory of
ensembles: for finitely many members, and for a continuous group of which only finitely many elements were used.
Power laws, with a bend and without, are fitted to learning curves. An exact test tells whether members prefer an
orientation.
"""

from eqbook.metrics.bootstrap import bootstrap_interval as bootstrap_interval
from eqbook.metrics.bootstrap import normal_interval as normal_interval
from eqbook.metrics.continuous_group import continuous_group_bound as continuous_group_bound
from eqbook.metrics.continuous_group import continuous_group_constant as continuous_group_constant
from eqbook.metrics.continuous_group import kernel_distance as kernel_distance
from eqbook.metrics.continuous_group import rkhs_norm as rkhs_norm
from eqbook.metrics.covering import CoveringRadius as CoveringRadius
from eqbook.metrics.covering import cyclic_covering_radius as cyclic_covering_radius
from eqbook.metrics.covering import so3_covering_radius as so3_covering_radius
from eqbook.metrics.ensembles import BootstrapDraws as BootstrapDraws
from eqbook.metrics.ensembles import bootstrap_ensembles as bootstrap_ensembles
from eqbook.metrics.ensembles import disjoint_ensembles as disjoint_ensembles
from eqbook.metrics.equality_in_law import equivariance_p_value as equivariance_p_value
from eqbook.metrics.finite_ensemble import finite_ensemble_deviation as finite_ensemble_deviation
from eqbook.metrics.finite_ensemble import finite_ensemble_tail as finite_ensemble_tail
from eqbook.metrics.finite_ensemble import members_needed as members_needed
from eqbook.metrics.learning_curves import BentPowerLaw as BentPowerLaw
from eqbook.metrics.learning_curves import bend_p_value as bend_p_value
from eqbook.metrics.learning_curves import bent_power_law as bent_power_law
from eqbook.metrics.orbits import orbit_kl as orbit_kl
from eqbook.metrics.orbits import orbit_mse as orbit_mse
from eqbook.metrics.orbits import orbit_same_predictions as orbit_same_predictions
from eqbook.metrics.orbits import relative_orbit_std as relative_orbit_std
from eqbook.metrics.orbits import same_class_fraction as same_class_fraction
from eqbook.metrics.rotations import random_rotation_fraction as random_rotation_fraction

__all__ = [
    "BentPowerLaw",
    "BootstrapDraws",
    "bend_p_value",
    "bent_power_law",
    "CoveringRadius",
    "bootstrap_ensembles",
    "bootstrap_interval",
    "continuous_group_bound",
    "continuous_group_constant",
    "cyclic_covering_radius",
    "disjoint_ensembles",
    "equivariance_p_value",
    "finite_ensemble_deviation",
    "finite_ensemble_tail",
    "kernel_distance",
    "members_needed",
    "normal_interval",
    "orbit_kl",
    "orbit_mse",
    "orbit_same_predictions",
    "random_rotation_fraction",
    "relative_orbit_std",
    "rkhs_norm",
    "same_class_fraction",
    "so3_covering_radius",
]

"""Signals on the sphere and kernels on its rotations, SO(3).

`sphere_coefficients` takes sampled signals to their harmonic coefficients; `correlation_features` multiplies those of
two signals; one matrix product with the Wigner matrices of `rotation_rule` gives their correlation at all rotations, on
which the kernels of an SO(3) network are a pointwise recursion and a weighted mean. `eqbook.kernels.so3.literal` is the
recursion over pairs of rotations instead, the oracle. Conventions are those of `eqbook.kernels.so3.wigner`.
"""

from eqbook.kernels.so3.angles import angles_to_matrix as angles_to_matrix
from eqbook.kernels.so3.angles import matrix_to_angles as matrix_to_angles
from eqbook.kernels.so3.correlation import correlation as correlation
from eqbook.kernels.so3.correlation import correlation_features as correlation_features
from eqbook.kernels.so3.correlation import mean_over_rotations as mean_over_rotations
from eqbook.kernels.so3.correlation import self_table as self_table
from eqbook.kernels.so3.rotations import default_quadrature as default_quadrature
from eqbook.kernels.so3.rotations import identity_points as identity_points
from eqbook.kernels.so3.rotations import identity_rule as identity_rule
from eqbook.kernels.so3.rotations import quadrature_size as quadrature_size
from eqbook.kernels.so3.rotations import rotation_points as rotation_points
from eqbook.kernels.so3.rotations import rotation_rule as rotation_rule
from eqbook.kernels.so3.separable import SeparableRule as SeparableRule
from eqbook.kernels.so3.separable import separable_correlation as separable_correlation
from eqbook.kernels.so3.separable import separable_rule as separable_rule
from eqbook.kernels.so3.sphere import kept_bandwidth as kept_bandwidth
from eqbook.kernels.so3.sphere import rotate_coefficients as rotate_coefficients
from eqbook.kernels.so3.sphere import sphere_coefficients as sphere_coefficients
from eqbook.kernels.so3.sphere import sphere_grid as sphere_grid
from eqbook.kernels.so3.sphere import sphere_signal as sphere_signal
from eqbook.kernels.so3.sphere import sphere_weights as sphere_weights
from eqbook.kernels.so3.wigner import feature_bandwidth as feature_bandwidth
from eqbook.kernels.so3.wigner import feature_count as feature_count
from eqbook.kernels.so3.wigner import spherical_harmonics as spherical_harmonics
from eqbook.kernels.so3.wigner import wigner_matrix as wigner_matrix
from eqbook.kernels.so3.wigner import wigner_table as wigner_table

__all__ = [
    "SeparableRule",
    "angles_to_matrix",
    "correlation",
    "correlation_features",
    "default_quadrature",
    "feature_bandwidth",
    "feature_count",
    "identity_points",
    "identity_rule",
    "kept_bandwidth",
    "matrix_to_angles",
    "mean_over_rotations",
    "quadrature_size",
    "rotate_coefficients",
    "rotation_points",
    "rotation_rule",
    "self_table",
    "separable_correlation",
    "separable_rule",
    "sphere_coefficients",
    "sphere_grid",
    "sphere_signal",
    "sphere_weights",
    "spherical_harmonics",
    "wigner_matrix",
    "wigner_table",
]

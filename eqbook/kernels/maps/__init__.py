"""One module for each kind of layer; importing them registers their maps with `kernel_map`."""

from eqbook.kernels.maps import groups as groups
from eqbook.kernels.maps import pointwise as pointwise
from eqbook.kernels.maps import pooling as pooling
from eqbook.kernels.maps import residual as residual
from eqbook.kernels.maps import sphere as sphere
from eqbook.kernels.maps import weights as weights

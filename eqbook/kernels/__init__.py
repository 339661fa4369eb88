"""Infinite width: the map of kernels that belongs to each layer, written for one pair of inputs.

The recursion carries a `PairKernel` from the input to the output of the network. Batching over pairs lives in
`eqbook.grams` alone.
"""

from eqbook.kernels import maps as maps
from eqbook.kernels.duals import erf_dual as erf_dual
from eqbook.kernels.duals import relu_dual as relu_dual
from eqbook.kernels.quadrature import quadrature_dual as quadrature_dual
from eqbook.kernels.recursion import kernel_map as kernel_map
from eqbook.kernels.recursion import pair_kernel as pair_kernel
from eqbook.kernels.state import PairKernel as PairKernel

__all__ = ["PairKernel", "erf_dual", "kernel_map", "pair_kernel", "quadrature_dual", "relu_dual"]

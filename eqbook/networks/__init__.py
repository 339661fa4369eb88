"""Finite networks: the Flax module that belongs to each layer, and the kernels of a network as it stands.

`init` and `apply` are what `Sequential.init` and `Sequential.apply` call. `PatchConv` and `mean_pool` are a convolution
and a pooling for networks of a user's own, quick where many members are trained.
"""

from eqbook.networks.empirical import empirical_kernels as empirical_kernels
from eqbook.networks.module import apply as apply
from eqbook.networks.module import init as init
from eqbook.networks.module import to_flax as to_flax
from eqbook.networks.patches import PatchConv as PatchConv
from eqbook.networks.patches import mean_pool as mean_pool

__all__ = ["PatchConv", "apply", "empirical_kernels", "init", "mean_pool", "to_flax"]

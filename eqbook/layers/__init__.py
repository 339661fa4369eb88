"""What a layer is: frozen dataclasses that say nothing about how they are computed.

`eqbook.networks` makes a layer finite (a Flax module), `eqbook.kernels` takes it to infinite width (a map of kernels).
Both look up the layer's type, so a new layer is a dataclass here and one function in each of the two folders. If its
output lives elsewhere than its input, on vectors instead of pixels say, it has a rule of `output_domain` too.
"""

from eqbook.layers.activation import Activation as Activation
from eqbook.layers.activation import Erf as Erf
from eqbook.layers.activation import Relu as Relu
from eqbook.layers.conv import Conv as Conv
from eqbook.layers.dense import Dense as Dense
from eqbook.layers.domain import OnGroup as OnGroup
from eqbook.layers.domain import OnRotations as OnRotations
from eqbook.layers.domain import output_domain as output_domain
from eqbook.layers.groups import GroupConv as GroupConv
from eqbook.layers.groups import GroupPool as GroupPool
from eqbook.layers.groups import Lift as Lift
from eqbook.layers.layer import Layer as Layer
from eqbook.layers.locally_connected import LocallyConnected as LocallyConnected
from eqbook.layers.normalisation import LayerNorm as LayerNorm
from eqbook.layers.pooling import AvgPool as AvgPool
from eqbook.layers.pooling import Flatten as Flatten
from eqbook.layers.pooling import GlobalAvgPool as GlobalAvgPool
from eqbook.layers.residual import Residual as Residual
from eqbook.layers.sequential import Sequential as Sequential
from eqbook.layers.sphere import LiftS2 as LiftS2
from eqbook.layers.sphere import SO3Conv as SO3Conv
from eqbook.layers.sphere import SO3Pool as SO3Pool

__all__ = [
    "Activation",
    "AvgPool",
    "Conv",
    "Dense",
    "Erf",
    "Flatten",
    "GlobalAvgPool",
    "GroupConv",
    "GroupPool",
    "Layer",
    "LayerNorm",
    "Lift",
    "LiftS2",
    "LocallyConnected",
    "OnGroup",
    "OnRotations",
    "Relu",
    "Residual",
    "SO3Conv",
    "SO3Pool",
    "Sequential",
    "output_domain",
]

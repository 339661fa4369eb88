"""Residual networks and MLP-Mixers as they are trained on ImageNet, in Flax.

`resnet(50)` and `mixer("S/16")` are the standard sizes; small ones take other numbers of blocks and features. All
normalise each example on its own and have no running averages, so that `eq.train_ensemble` trains them: the parameters
are all there is. `flax_recipe` is the optimiser of Flax's ImageNet example, for `eq.train_ensemble`. `train_on_stream`
takes its two parts, `flax_momentum` and `flax_rates`, trains on batches that come from a disk, or from memory, and
compiles once for data sets of all sizes.
"""

from eqbook.models.conv import StridedConv as StridedConv
from eqbook.models.conv import gaussian as gaussian
from eqbook.models.mixer import MixerBlock as MixerBlock
from eqbook.models.mixer import MLPMixer as MLPMixer
from eqbook.models.mixer import mixer as mixer
from eqbook.models.mixer import patches as patches
from eqbook.models.recipe import flax_momentum as flax_momentum
from eqbook.models.recipe import flax_rates as flax_rates
from eqbook.models.recipe import flax_recipe as flax_recipe
from eqbook.models.resnet import ResidualBlock as ResidualBlock
from eqbook.models.resnet import ResNet as ResNet
from eqbook.models.resnet import resnet as resnet
from eqbook.models.stream import batches_of as batches_of
from eqbook.models.stream import initial_params as initial_params
from eqbook.models.stream import predict_on_stream as predict_on_stream
from eqbook.models.stream import train_on_stream as train_on_stream

__all__ = [
    "MLPMixer",
    "MixerBlock",
    "ResNet",
    "ResidualBlock",
    "StridedConv",
    "batches_of",
    "flax_momentum",
    "flax_rates",
    "flax_recipe",
    "gaussian",
    "initial_params",
    "mixer",
    "patches",
    "predict_on_stream",
    "resnet",
    "train_on_stream",
]

"""What a sceptical reader would compare an augmented ensemble with: networks that are invariant by construction.

`SteerableNet` turns its filters by any angle, `Canonicalized` turns the image into a frame of its own, and `gcnn`
builds an ordinary group-convolutional network. All have `init` and `apply`, so that `eq.train_ensemble` trains them;
`matching_width` gives them equal numbers of parameters.
"""

from eqbook.baselines.canonical import Canonicalized as Canonicalized
from eqbook.baselines.canonical import FrameScores as FrameScores
from eqbook.baselines.canonical import PlainCNN as PlainCNN
from eqbook.baselines.canonical import quarter_turn as quarter_turn
from eqbook.baselines.downsample import halve as halve
from eqbook.baselines.gcnn import cnn_partner as cnn_partner
from eqbook.baselines.gcnn import gcnn as gcnn
from eqbook.baselines.gcnn import matching_width as matching_width
from eqbook.baselines.gcnn import parameter_count as parameter_count
from eqbook.baselines.harmonics import circular_harmonics as circular_harmonics
from eqbook.baselines.harmonics import turned_basis as turned_basis
from eqbook.baselines.steerable import SteerableBody as SteerableBody
from eqbook.baselines.steerable import SteerableConv as SteerableConv
from eqbook.baselines.steerable import SteerableLift as SteerableLift
from eqbook.baselines.steerable import SteerableNet as SteerableNet

__all__ = [
    "Canonicalized",
    "FrameScores",
    "PlainCNN",
    "SteerableBody",
    "SteerableConv",
    "SteerableLift",
    "SteerableNet",
    "circular_harmonics",
    "cnn_partner",
    "gcnn",
    "halve",
    "matching_width",
    "parameter_count",
    "quarter_turn",
    "turned_basis",
]

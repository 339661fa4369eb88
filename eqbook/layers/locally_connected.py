"""The locally connected layer: a convolution whose filter differs from place to place."""

from dataclasses import dataclass

from eqbook.layers.conv import Conv
from eqbook.layers.layer import Layer


@dataclass(frozen=True)
class LocallyConnected(Layer):
    r"""Convolution without weight sharing, in NTK parametrisation.

    $z_i(t) = \frac{\sigma_W}{\sqrt{|F| n_{in}}} \sum_{y \in F} \sum_j W^t_{ij}(y)\, x_j(s t + y) + \sigma_b b^t_i$ with
    $W^t_{ij}(y), b^t_i \sim N(0, 1)$, independent for all output places $t$: neither weights nor biases are shared.
    Filter positions $F$ and strides $s$ are those of `Conv`.

    At infinite width, places of the output are uncorrelated, and at one place the kernels are those of the `Conv`
    with the same settings. A network that ends with `Flatten` therefore has the kernels of the convolutional network;
    one that pools has not.

    Args:
        channels: number of output channels.
        filter_shape: height and width of the filters.
        strides: steps of the filters.
        padding: `"SAME"`, `"VALID"` or `"CIRCULAR"`, as in `Conv`.
        W_std: $\sigma_W$, standard deviation of the weights.
        b_std: $\sigma_b$, standard deviation of the biases. 0 means that the layer has no bias.

    Raises:
        ValueError: if an argument is of the wrong kind.

    References:
        Xiao, Pennington, "Synergy and Symmetry in Deep Learning: Interactions between the Data, Model, and Inference
        Algorithm", 2022, https://arxiv.org/abs/2207.04612
    """

    channels: int
    filter_shape: tuple[int, int]
    strides: tuple[int, int] = (1, 1)
    padding: str = "SAME"
    W_std: float = 1.0
    b_std: float = 0.0

    # The same arguments.
    __post_init__ = Conv.__post_init__
    fan = Conv.fan

    @property
    def shared(self) -> Conv:
        """The convolution with the same settings, which shares one filter among all places."""
        return Conv(self.channels, self.filter_shape, self.strides, self.padding, self.W_std, self.b_std)

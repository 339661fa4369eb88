"""How many channels a feature map has, to refuse a residual branch that does not end with as many as it begins."""

from eqbook.layers.conv import Conv
from eqbook.layers.dense import Dense
from eqbook.layers.domain import Domain, naming, output_domain
from eqbook.layers.groups import GroupConv, Lift
from eqbook.layers.layer import Layer
from eqbook.layers.locally_connected import LocallyConnected
from eqbook.layers.pooling import Flatten
from eqbook.layers.residual import Residual
from eqbook.layers.sequential import Sequential
from eqbook.layers.sphere import LiftS2, SO3Conv


def output_channels(layer: Layer, channels: int | None, domain: Domain) -> int | None:
    """Channels behind a layer; `None` where `Flatten` has made channels of pixels, and they depend on the image.

    Args:
        layer: any layer, known to take such an input.
        channels: those in front of it.
        domain: of its input.

    Raises:
        ValueError: if a residual branch changes their number; the message names the layer and its position.
    """
    if isinstance(layer, Dense):
        return layer.features
    if isinstance(layer, Conv | LocallyConnected | Lift | GroupConv | LiftS2 | SO3Conv):
        return layer.channels
    if isinstance(layer, Sequential):
        for position, inner in enumerate(layer.layers):
            with naming(f"layer {position}"):
                channels = output_channels(inner, channels, domain)
                domain = output_domain(inner, domain)
        return channels
    if isinstance(layer, Residual):
        made = output_channels(layer.branch, channels, domain)
        if None not in (made, channels) and made != channels:
            raise ValueError(f"{layer}: expected a branch with {channels} channels like its input, got {made}.")
    return None if isinstance(layer, Flatten) and domain == "pixels" else channels

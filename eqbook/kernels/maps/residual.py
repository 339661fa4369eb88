"""A branch added to its input."""

from dataclasses import replace

from eqbook.kernels.recursion import kernel_map
from eqbook.kernels.state import PairKernel
from eqbook.layers import Activation, Erf, Relu, Residual, Sequential, output_domain


def ends_with_weights(branch: Sequential, fresh: bool = False) -> bool:
    """Whether the output changes its sign with weights of the branch, which decorrelates it from the input.

    Means over pixels, normalisation and residual sums keep the sign of what they get; a nonlinearity does not.

    Args:
        branch: the layers.
        fresh: whether what comes in does so.
    """
    for layer in branch.layers:
        if hasattr(layer, "W_std"):
            fresh = True
        elif isinstance(layer, Sequential):
            fresh = ends_with_weights(layer, fresh)
        elif isinstance(layer, Relu | Erf | Activation):
            fresh = False
    return fresh


@kernel_map.register
def _(layer: Residual, k: PairKernel) -> PairKernel:
    """The branch ends with fresh weights, so its output is uncorrelated with its input: the kernels add."""
    output_domain(layer, k.domain)
    if not k.wide:
        raise ValueError(
            f"{layer}: expected a layer with weights before it, got the network's input; the branch has as many "
            "channels as the input, which do not become many, and the sum has no limit. Put a Dense or Conv in front."
        )
    branch = kernel_map(layer.branch, k)
    if not ends_with_weights(layer.branch):
        raise ValueError(f"{layer}: expected a branch whose last layer has weights, got {layer.branch.layers[-1]}.")
    if (branch.layout, branch.nngp.shape) != (k.layout, k.nngp.shape):
        raise ValueError(
            f"{layer}: expected a branch that keeps the image's shape, got pairs of {branch.nngp.shape} from "
            f"{k.nngp.shape}; use stride 1 and no pooling in it."
        )
    sums = {name: getattr(k, name) + getattr(branch, name) for name in ("nngp", "ntk", "self1", "self2")}
    return replace(k, **sums)

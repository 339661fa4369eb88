"""Normalisation over channels."""

from dataclasses import dataclass

from eqbook.layers.layer import Layer


@dataclass(frozen=True)
class LayerNorm(Layer):
    r"""Normalisation over channels, $z_i = (x_i - m) / \sqrt{v}$ with their mean $m$ and variance $v$.

    It has no parameters, and stands after a layer with weights.
    """

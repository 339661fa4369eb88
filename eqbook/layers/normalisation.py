"""Normalisation over channels."""

from dataclasses import dataclass

from eqbook.layers.layer import Layer


@dataclass(frozen=True)
class LayerNorm(Layer):
    r"""Normalisation over channels, $z_i = (x_i - m) / \sqrt{v}$ with their mean $m$ and variance $v$.

    It has no parameters, and stands after a layer with weights. A finite network has $z_i = x_i - m$,
    about 0, where $v$ is 0 in its dtype, and NaN where $v$ overflows: in float32 from deviations of about 1e19 on.
    """

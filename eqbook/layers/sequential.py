"""Layers one after the other: the network."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
from jaxtyping import Array, Float

from eqbook._shown import shown
from eqbook.layers.activation import Activation
from eqbook.layers.layer import Layer


@dataclass(frozen=True, init=False, repr=False)
class Sequential(Layer):
    """A network as a list of layers, finite or infinitely wide.

    Args:
        *layers: the layers in the order of the data. A `Sequential` may stand among them, and a function such as
            `jnp.tanh`, which stands for `Activation(jnp.tanh)`.

    Raises:
        ValueError: if there is no layer, or an argument is not a layer (most often the class `Relu` in place of the
            layer `Relu()`).
    """

    layers: tuple[Layer, ...]

    def __init__(self, *layers: Layer | Callable[[Array], Array]) -> None:
        if not layers:
            raise ValueError("Sequential: expected at least one layer, got none; for example Sequential(Dense(1)).")
        object.__setattr__(self, "layers", tuple(_layer(place, layer) for place, layer in enumerate(layers)))

    def init(self, key: jax.Array, input_shape: tuple[int, ...]) -> Any:
        """Draw the parameters of the finite network, all i.i.d. N(0, 1).

        Args:
            key: random key.
            input_shape: shape of a batch, `(n, ...)`; the number of examples `n` does not matter.

        Returns:
            Tree of parameters, as Flax keeps them.

        Raises:
            ValueError: if `input_shape` is not a batch's, `key` is no random key, or a layer cannot stand in its place.
        """
        from eqbook.networks import init  # not at the top: networks needs this module

        return init(self, key, input_shape)

    def apply(self, params: Any, x: Float[Array, "n ..."]) -> Float[Array, "n ..."]:
        """Outputs of the finite network on a batch.

        Args:
            params: what `init` returned, or what training made of it.
            x: batch of inputs, `[n, ...]`.

        Returns:
            Outputs, `[n, features]` of vectors, `[n, h, w, channels]` where the last layer leaves pixels.

        Raises:
            ValueError: if a layer cannot stand in its place, or the parameters are those of other inputs.
        """
        from eqbook.networks import apply

        return apply(self, params, x)

    def __repr__(self) -> str:
        return f"Sequential({', '.join(map(repr, self.layers))})"


def _layer(position: int, layer: object) -> Layer:
    """What stands at a position, a function as an activation."""
    if isinstance(layer, Layer):
        return layer
    if callable(layer) and not isinstance(layer, type):
        try:
            return Activation(layer)
        except ValueError as error:
            raise ValueError(f"Sequential: layer {position}: {error}") from None
    raise ValueError(f"Sequential: layer {position}: expected a layer such as Dense(1) or Relu(), got {shown(layer)}.")

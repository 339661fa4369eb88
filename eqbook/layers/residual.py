"""A branch added to its input."""

from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import Array

from eqbook.layers.layer import Layer
from eqbook.layers.sequential import Sequential


@dataclass(frozen=True, init=False, repr=False)
class Residual(Layer):
    r"""Residual block, $z = x + f(x)$ with the branch $f$.

    Args:
        *layers: the layers of the branch, with weights behind the last nonlinearity: without, the branch and its input
            are correlated, and kernels do not add. The output has the shape of the input. Kernels need a layer
            with weights before it, too, since its channels must become many.

    Raises:
        ValueError: if there is no layer, or an argument is not a layer.
    """

    branch: Sequential

    def __init__(self, *layers: Layer | Callable[[Array], Array]) -> None:
        try:
            branch = Sequential(*layers)
        except ValueError as error:
            # Not everywhere: what was given is shown, and may be the class `Sequential`.
            text = str(error).replace("for example Sequential(", "for example Residual(")
            raise ValueError(text.replace("Sequential:", "Residual:", 1)) from None
        object.__setattr__(self, "branch", branch)

    def __repr__(self) -> str:
        return f"Residual({', '.join(map(repr, self.branch.layers))})"

"""On what the data lives between two layers, and which layers can take it from there.

The finite network and the kernel recursion ask the same rules, so that both refuse a network with the same words.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import singledispatch
from typing import Literal

from eqbook.groups.finite import FiniteGroup
from eqbook.layers.conv import Conv
from eqbook.layers.layer import Layer
from eqbook.layers.locally_connected import LocallyConnected
from eqbook.layers.pooling import AvgPool, Flatten, GlobalAvgPool
from eqbook.layers.residual import Residual
from eqbook.layers.sequential import Sequential


@dataclass(frozen=True)
class OnGroup:
    """Feature maps on a group.

    Attributes:
        group: the finite group.
        planar: whether they have pixels too, that is, live on the translations of the plane and the group.
    """

    group: FiniteGroup
    planar: bool

    def __str__(self) -> str:
        return f"a feature map on {'the plane and ' if self.planar else ''}a group of order {self.group.order}"


@dataclass(frozen=True)
class OnRotations:
    """Feature maps on SO(3)."""

    def __str__(self) -> str:
        return "a feature map on SO(3)"


Domain = Literal["vectors", "pixels", "other"] | OnGroup | OnRotations
_WORDS = {"vectors": "a batch of vectors", "pixels": "a batch of images", "other": "data of another kind"}


def in_words(domain: Domain) -> str:
    """The domain for an error message."""
    return _WORDS[domain] if isinstance(domain, str) else str(domain)


@contextmanager
def naming(where: object) -> Iterator[None]:
    """Put a place, a layer or its position, in front of the text of every `ValueError`."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def domain_of_batch(shape: tuple[int, ...]) -> Domain:
    """Domain of a batch of inputs from its number of axes."""
    return {2: "vectors", 4: "pixels"}.get(len(shape), "other")


@singledispatch
def output_domain(layer: Layer, domain: Domain) -> Domain:
    """Domain of a layer's output; a layer without a rule of its own keeps the domain of its input.

    Args:
        layer: any layer.
        domain: domain of its input.

    Raises:
        ValueError: if the layer cannot take such an input.
    """
    return domain


def _need_pixels(layer: Layer, domain: Domain) -> None:
    if domain != "pixels":
        instead = "; use GroupConv, or GroupPool() at the end" if isinstance(domain, OnGroup) else ""
        instead = "; use SO3Conv, or SO3Pool() at the end" if isinstance(domain, OnRotations) else instead
        raise ValueError(f"{layer} needs images, and its input is {in_words(domain)}{instead}.")


@output_domain.register(Conv)
@output_domain.register(LocallyConnected)
@output_domain.register(AvgPool)
def _(layer: Layer, domain: Domain) -> Domain:
    _need_pixels(layer, domain)
    return domain


@output_domain.register
def _(layer: GlobalAvgPool, domain: Domain) -> Domain:
    _need_pixels(layer, domain)
    return "vectors"


@output_domain.register
def _(layer: Flatten, domain: Domain) -> Domain:
    if isinstance(domain, OnGroup):
        raise ValueError(f"{layer}: expected images or vectors, got {domain}; use GroupPool().")
    if isinstance(domain, OnRotations):
        raise ValueError(f"{layer}: expected images or vectors, got {domain}; use SO3Pool().")
    return "vectors"


@output_domain.register
def _(layer: Residual, domain: Domain) -> Domain:
    with naming(layer):
        output = output_domain(layer.branch, domain)
    if output != domain:
        raise ValueError(
            f"{layer}: expected a branch that keeps the image's shape, got {in_words(output)} from {in_words(domain)}; "
            "use stride 1 and no pooling in it."
        )
    return domain


@output_domain.register
def _(layer: Sequential, domain: Domain) -> Domain:
    for position, inner in enumerate(layer.layers):
        with naming(f"layer {position}"):
            domain = output_domain(inner, domain)
    return domain

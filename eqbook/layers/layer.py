"""The common type of all layers."""


class Layer:
    """A layer of a network: a description, without parameters and without width limits.

    Subclasses are frozen dataclasses. They are final: a layer is never refined by inheritance.
    """

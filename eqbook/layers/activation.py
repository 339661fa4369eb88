"""Pointwise nonlinearities."""

from dataclasses import dataclass

from eqbook.layers.layer import Layer


@dataclass(frozen=True)
class Relu(Layer):
    r"""Rectified linear unit, $\sigma(u) = \max(u, 0)$."""


@dataclass(frozen=True)
class Erf(Layer):
    r"""Error function, $\sigma(u) = \frac{2}{\sqrt\pi} \int_0^u e^{-s^2} ds$."""

"""Neural tangent kernels, deep ensembles and symmetry, in JAX.

Start from a network, written as a list of layers::

    import eqbook as eq

    net = eq.Sequential(eq.Dense(512), eq.Relu(), eq.Dense(1))

The same object is a finite network (`net.init`, `net.apply`) and its infinite-width limit (`eq.gram(net, x1, x2)`
returns the NNGP and the neural tangent kernel). `eq.EnsembleLaw` turns the two Gram matrices into the mean and the
covariance of infinitely many trained networks at any training time; `eq.train_ensemble` trains finitely many.
Groups, their actions on data, and full orbit augmentation live in `eq.groups`.

Names are loaded when they are first used, so that `import eqbook` stays quick.
"""

import importlib
from typing import Any

from eqbook._version import __version__ as __version__

_EXPORTS = {
    "layers": (
        "Activation",
        "AvgPool",
        "Conv",
        "Dense",
        "Erf",
        "Flatten",
        "GlobalAvgPool",
        "GroupConv",
        "GroupPool",
        "LayerNorm",
        "Lift",
        "LiftS2",
        "LocallyConnected",
        "Relu",
        "Residual",
        "SO3Conv",
        "SO3Pool",
        "Sequential",
    ),
    "networks": ("empirical_kernels",),
    "grams": ("Gram", "gram"),
    "dynamics": ("EnsembleLaw", "GradientDescent", "GradientFlow"),
    "groups": ("FiniteGroup", "cyclic", "dihedral"),
    "ensembles": ("EnsembleRun", "train_ensemble"),
    "profiles": ("choose", "profile", "settings"),
}
_HOME = {name: module for module, names in _EXPORTS.items() for name in names}
_SUBMODULES = (
    "baselines",
    "data",
    "dynamics",
    "ensembles",
    "grams",
    "groups",
    "kernels",
    "layers",
    "metrics",
    "models",
    "networks",
    "neural_tangents",
    "plotting",
    "profiles",
    "results",
    "testing",
)

__all__ = sorted([*_HOME, *_SUBMODULES, "__version__"])


def __getattr__(name: str) -> Any:
    """Load a public name on first use (PEP 562)."""
    if name in _HOME:
        return getattr(importlib.import_module(f"eqbook.{_HOME[name]}"), name)
    if name in _SUBMODULES:
        return importlib.import_module(f"eqbook.{name}")
    raise AttributeError(f"module `eqbook` has no attribute `{name}`; it has {', '.join(__all__)}")


def __dir__() -> list[str]:
    return __all__

"""The oracle: neural-tangents 0.6.5 on current JAX, with TensorFlow neither installed nor imported.

neural-tangents is an independent implementation of kernels at infinite width. It was written for JAX up to 0.5.2 and
loads TensorFlow through a submodule that kernels do not need. `load` provides what it misses, before its first import:

* names that moved from `jax.core` to `jax.extend.core`, and the removed module `jax.util`;
* the primitive `zeros_like`, which JAX no longer has and the library only registers rules for;
* an empty `neural_tangents.experimental`, whose real version is the one that imports TensorFlow.

Nothing else in `eqbook` needs it: the tests, the book and the benchmarks compare with it.

References:
    Novak, Xiao, Hron, Lee, Alemi, Sohl-Dickstein, Schoenholz, "Neural Tangents: Fast and Easy Infinite Neural Networks
    in Python", 2020, https://arxiv.org/abs/1912.02803
"""

import importlib
import importlib.util
import sys
from functools import cache
from types import ModuleType

_MOVED = ("Jaxpr", "JaxprEqn", "Literal", "Var", "Primitive", "ClosedJaxpr", "jaxpr_as_fun")


def _restore_jax_names() -> None:
    import jax
    from jax.extend import core as extend_core
    from jax.interpreters import ad

    for name in _MOVED:
        if name not in vars(jax.core):
            setattr(jax.core, name, getattr(extend_core, name))
    if "jax.util" not in sys.modules:
        util = ModuleType("jax.util")
        util.safe_map = lambda f, *xs: [f(*args) for args in zip(*xs, strict=True)]
        util.safe_zip = lambda *xs: list(zip(*xs, strict=True))
        sys.modules["jax.util"] = jax.util = util
    if not hasattr(ad, "zeros_like_p"):
        ad.zeros_like_p = extend_core.Primitive("zeros_like")


@cache
def load() -> ModuleType:
    """Import neural-tangents and return it.

    Returns:
        The module `neural_tangents`, with its `stax`.

    Raises:
        ImportError: if neural-tangents is not installed; the message says how to install it without TensorFlow.
    """
    if importlib.util.find_spec("neural_tangents") is None:
        raise ImportError(
            "neural-tangents is not installed. Install it without its dependencies, which include TensorFlow: "
            "`pip install --no-deps neural-tangents==0.6.5` and `pip install frozendict`."
        )
    _restore_jax_names()
    sys.modules.setdefault("neural_tangents.experimental", ModuleType("neural_tangents.experimental"))
    return importlib.import_module("neural_tangents")

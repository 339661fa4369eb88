"""What Gram matrices do on an accelerator, done on the CPU: other sizes of arrays, one worker, barriers.

What a GPU itself makes of the programs, no test here can say.
"""

from functools import partial

import jax
import numpy as np
import pytest
from grams.cases import ONE_EACH, SPHERES, inputs
from literal import literal_gram

import eqbook as eq
from eqbook.grams import workers
from eqbook.grams.gram import _plan
from eqbook.grams.methods.images import _jitted
from eqbook.testing import relative_error, tolerance

KEPT = (workers.cores, workers._pool, workers.compiler_options, _plan, _jitted)


@pytest.fixture
def accelerator(monkeypatch):
    """The package takes the CPU for a GPU."""

    def forget():
        jax.clear_caches()
        for function in KEPT:
            function.cache_clear()

    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    forget()
    yield
    forget()


def test_the_package_takes_it_for_one(accelerator):
    assert workers.cores() == 1 and workers.entries(1, 2) == 2 and workers.compiler_options() is None


@pytest.mark.every(4)
@pytest.mark.parametrize("case", ONE_EACH.values(), ids=list(ONE_EACH))
def test_equals_the_literal_recursion(case, accelerator, x64):
    x = inputs(case.shape, dtype="float64")
    if case.shape == SPHERES["sphere-linear"].shape:
        x = x[:3]  # equal signals have a rule of their own
    fast, literal = eq.gram(case.net, x), literal_gram(case.net, x, x)
    for kind in ("nngp", "ntk"):
        assert relative_error(getattr(fast, kind), getattr(literal, kind)) < 1e-12


def test_gradients_pass_barriers(accelerator, x64):
    """Along a random direction, as the literal recursion has them."""
    case = ONE_EACH["one-row"]
    x = inputs(case.shape, 3, "float64")
    direction = inputs(case.shape, 3, "float64", seed=1)

    def total(kernels, x):
        k = kernels(case.net, x)
        return k.nngp.sum() + k.ntk.sum()

    fast, literal = (
        jax.jvp(partial(total, kernels), (x,), (direction,))[1]
        for kernels in (eq.gram, lambda net, x: literal_gram(net, x, x))
    )
    assert "optimization_barrier" in str(jax.make_jaxpr(partial(total, eq.gram))(x))
    slope = np.vdot(jax.grad(partial(total, eq.gram))(x), direction)
    scale = abs(float(literal))
    assert abs(fast - literal) < tolerance(np.float64, 1e3) * scale
    assert abs(slope - literal) < tolerance(np.float64, 1e3) * scale

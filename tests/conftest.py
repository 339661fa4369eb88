"""Strict modes for all tests, and the two precisions."""

import gc
import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import pytest

# Tracing makes many small objects; JAX does work of its own at each collection.
gc.set_threshold(50_000)


@pytest.fixture(params=[False, True], ids=["float32", "float64"])
def dtype(request):
    """The test runs once with 64-bit types off and once with them on; the value is the default floating dtype."""
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", request.param)
    yield jax.numpy.dtype("float64" if request.param else "float32")
    jax.config.update("jax_enable_x64", before)


@pytest.fixture
def x64():
    """The test runs with 64-bit types."""
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


@pytest.fixture
def quick_to_compile():
    """Programs are not optimised: nearly all time of a tiny run is compilation."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


@pytest.fixture(autouse=True, scope="module")
def _drop_compiled_programs():
    """Hundreds of small networks are compiled; without this their programs add up to gigabytes."""
    yield
    jax.clear_caches()

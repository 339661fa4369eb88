"""Strict modes for all tests, the two precisions, and which tests run unless all are asked for."""

import gc
import os
from collections import defaultdict
from zlib import crc32

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import pytest

# Tracing makes many small objects; JAX does work of its own at each collection.
gc.set_threshold(50_000)


def pytest_addoption(parser):
    parser.addoption("--all", action="store_true", help="also the slow tests, and all cases of each test")


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: runs only with --all, or when it is asked for by name")
    config.addinivalue_line("markers", "every(k): without --all, one of k cases runs, those of the smallest checksums")


def pytest_collection_modifyitems(config, items):
    """Leaves out what is `slow`, and most cases of a test that has `every(k)`, unless all or single tests are meant."""
    if config.getoption("--all") or any("::" in argument for argument in config.args):
        return
    left_out = {item for item in items if item.get_closest_marker("slow")}
    cases = defaultdict(list)
    for item in items:
        if item.get_closest_marker("every"):
            cases[item.nodeid.partition("[")[0]].append(item)
    for those in cases.values():
        # By a checksum of the name: each k-th of a grid of arguments would have the same value of one of them.
        those.sort(key=lambda item: crc32(item.name.encode()))
        (k,) = those[0].get_closest_marker("every").args
        left_out.update(those[-(-len(those) // k) :])
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]


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


@pytest.fixture(scope="module")
def equal_programs_once(tmp_path_factory):
    """A program is compiled once for a file of tests, also where new functions make JAX take it for another one.

    Processes that tests start have no part in it: JAX does not write this cache atomically.
    """
    settings = {
        "jax_compilation_cache_dir": str(tmp_path_factory.mktemp("programs")),
        "jax_persistent_cache_min_compile_time_secs": 0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    before = {name: getattr(jax.config, name) for name in settings}
    for name, value in settings.items():
        jax.config.update(name, value)
    yield
    for name, value in before.items():
        jax.config.update(name, value)


@pytest.fixture(autouse=True, scope="module")
def _drop_compiled_programs():
    """Hundreds of small networks are compiled; without this their programs add up to gigabytes."""
    yield
    jax.clear_caches()


@pytest.fixture
def accelerator(monkeypatch):
    """The package takes the CPU for a GPU: other sizes of arrays, one worker, barriers, less that goes by the host."""
    from eqbook.ensembles import epoch
    from eqbook.grams import workers
    from eqbook.grams.gram import _plan
    from eqbook.grams.methods import images

    functions = (workers.cores, workers._pool, workers.compiler_options, workers.jitted, _plan, epoch._initializer)
    functions += (images._on, images._kept_work)

    def forget():
        jax.clear_caches()
        for function in functions:
            function.cache_clear()

    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    forget()
    yield
    forget()

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
from eqbook.grams import tiles, workers
from eqbook.grams.methods import images, pixels
from eqbook.testing import relative_error, tolerance


def test_the_package_takes_it_for_one(accelerator):
    assert workers.cores() == 1 and workers.entries(1, 2) == 2 and workers.compiler_options() != workers.OPTIONS["cpu"]


@pytest.mark.every(7)
@pytest.mark.parametrize("case", ONE_EACH.values(), ids=list(ONE_EACH))
def test_equals_the_literal_recursion(case, accelerator, x64):
    x = inputs(case.shape, dtype="float64")
    if case.shape == SPHERES["sphere-linear"].shape:
        x = x[:3]  # equal signals have a rule of their own
    assert_same(eq.gram(case.net, x), literal_gram(case.net, x, x))


def assert_same(found, expected, bound=1e-12):
    for kind in ("nngp", "ntk"):
        assert getattr(found, kind).shape == getattr(expected, kind).shape
        assert relative_error(getattr(found, kind), getattr(expected, kind)) < bound


@pytest.mark.every(6)
@pytest.mark.parametrize("name", ["relu-bias", "one-row", "flat-head"])
@pytest.mark.parametrize("n2", [None, 4])
def test_tiles_are_put_together_on_the_device(name, n2, accelerator, x64, monkeypatch):
    case = ONE_EACH[name]
    x1 = inputs(case.shape, 7, "float64")
    x2 = None if n2 is None else inputs(case.shape, n2, "float64", seed=1)
    monkeypatch.setattr(tiles, "aligned", lambda *_: pytest.fail("memory of the host"))
    found = eq.gram(case.net, x1, x2, tile=3)
    assert_same(found, literal_gram(case.net, x1, x1 if x2 is None else x2))
    if x2 is None:
        np.testing.assert_array_equal(found.ntk, found.ntk.T)
    np.testing.assert_array_equal(eq.gram(case.net, x1, x2, ("ntk",), tile=3).ntk, found.ntk)


def test_tiles_of_a_store_are_those_of_the_device(accelerator, tmp_path):
    case = ONE_EACH["one-row"]
    x = inputs(case.shape, 5)
    kept, again = (eq.gram(case.net, x, tile=2, store=tmp_path) for _ in range(2))
    plain = eq.gram(case.net, x, tile=2)
    for kind in ("nngp", "ntk"):
        np.testing.assert_array_equal(getattr(kept, kind), getattr(plain, kind))
        np.testing.assert_array_equal(getattr(kept, kind), getattr(again, kind))


def test_an_infinite_entry_of_a_late_tile_is_found(accelerator):
    case = ONE_EACH["one-row"]
    x = np.array(inputs(case.shape, 7))
    x[6] *= 1e30
    with pytest.raises(ValueError, match="got an infinite entry of the NNGP"):
        eq.gram(case.net, x, tile=2)


@pytest.mark.every(2)
@pytest.mark.parametrize("n2", [None, 3])
def test_blocks_of_pixels_cover_all_pairs(n2, accelerator, x64, monkeypatch):
    """Three by three blocks of which the last overlap those before."""
    case = ONE_EACH["flat-head"]
    x1 = inputs(case.shape, 8, "float64")
    x2 = None if n2 is None else inputs(case.shape, n2, "float64", seed=1)
    monkeypatch.setattr(pixels, "field_size", lambda: 9 * case.shape[0] * case.shape[1])
    assert_same(eq.gram(case.net, x1, x2), literal_gram(case.net, x1, x1 if x2 is None else x2))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_inputs_on_the_device_are_looked_at_there(bad, accelerator):
    x = inputs((5,), 6).at[4, 2].set(bad)
    with pytest.raises(ValueError, match=r"`x1`: expected finite numbers, got .* at index \(4, 2\)"):
        eq.gram(eq.Sequential(eq.Dense(1), eq.Relu()), x)
    with pytest.raises(ValueError, match="real numbers"):
        eq.gram(eq.Sequential(eq.Dense(1), eq.Relu()), x.astype("complex64"))
    net, good = eq.Sequential(eq.Dense(1), eq.Relu()), inputs((5,), 3, seed=1)
    for call in (
        lambda: eq.gram(net, good, x),
        lambda: eq.gram(net, good, x, tile=2),
        lambda: eq.gram(net, good, x, mesh=jax.make_mesh((1,), ("devices",))),
        lambda: jax.jit(lambda z: eq.gram(net, z, x))(good),
    ):
        with pytest.raises(ValueError, match=r"`x2`: expected finite numbers, got .* at index \(4, 2\)"):
            call()


def test_a_mesh_that_a_context_sets_ties_no_later_call_to_it(accelerator):
    """Explicit axes show in the sharding of all that is made under them."""
    net, x = eq.Sequential(eq.Conv(2, (3, 3)), eq.Relu(), eq.Flatten(), eq.Dense(1)), np.asarray(inputs((4, 4, 1), 3))
    plain = eq.gram(net, x)
    jax.clear_caches()
    images._kept_work.cache_clear()
    with jax.set_mesh(jax.make_mesh((1,), ("a",), axis_types=(jax.sharding.AxisType.Explicit,))):
        eq.gram(net, x)
    after = eq.gram(net, x)
    assert after.ntk.sharding == plain.ntk.sharding
    np.testing.assert_array_equal(after.ntk, plain.ntk)


def test_an_input_that_no_layer_sees_is_looked_at(accelerator):
    """Rows and columns between the corners of 4 x 4 pixels, seen by 1 x 1 filters 3 apart; and weights of size 0."""
    x = inputs((4, 4, 1), 2)
    for net in (
        eq.Sequential(eq.Conv(1, (1, 1), strides=(3, 3), padding="VALID"), eq.Flatten(), eq.Dense(1)),
        eq.Sequential(eq.Flatten(), eq.Dense(1, W_std=0.0, b_std=1.0)),
    ):
        assert np.isfinite(eq.gram(net, x).ntk).all()
        with pytest.raises(ValueError, match=r"`x1`: expected finite numbers, got nan at index \(1, 2, 1, 0\)"):
            eq.gram(net, x.at[1, 2, 1, 0].set(np.nan))


@pytest.mark.slow
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


@pytest.mark.every(2)
@pytest.mark.parametrize("name", ["relu-bias", "flat-head"])
def test_known_inputs_meet_abstract_ones(name, accelerator, x64):
    """Arrays of JAX inside of the user's jit: what is done with the known ones alone is traced as well."""
    case = ONE_EACH[name]
    x, known = inputs(case.shape, 3, "float64"), inputs(case.shape, 2, "float64", seed=1)
    assert_same(jax.jit(lambda x: eq.gram(case.net, x, known))(x), eq.gram(case.net, x, known))
    assert_same(jax.jit(lambda x: eq.gram(case.net, known, x))(x), eq.gram(case.net, known, x))


def test_equal_signals_in_any_number(accelerator, x64):
    case = SPHERES["sphere-linear"]
    x = inputs(case.shape, 4, "float64")
    for others in (x[1:4], x[:1], x[2:] + 1):
        found = eq.gram(case.net, x, others)
        whole = eq.gram(case.net, np.concatenate([x, others]))
        np.testing.assert_allclose(found.ntk, whole.ntk[:4, 4:], 1e-12)

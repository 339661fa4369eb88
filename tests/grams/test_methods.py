"""The fast methods against the literal recursion, in both precisions, and what every method must keep."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from grams.cases import CASES, DISPLACEMENTS, ONE_EACH, REGISTRY, SPHERES, Case, conv, dense, inputs, method_of
from literal import literal_gram
from numbers_drawn import normal

import eqbook as eq
from eqbook.grams import workers
from eqbook.grams.methods import images
from eqbook.grams.methods.images import _rows
from eqbook.grams.plan import choose
from eqbook.testing import relative_error, tolerance

KINDS = ("nngp", "ntk")
# Angles between parallel inputs are known to the root of a rounding; eight roundings count as none.
PARALLEL = np.sqrt(8 * np.finfo(float).eps)


def parametrise(cases):
    return pytest.mark.parametrize("case", cases.values(), ids=list(cases))


def errors(actual, expected, own=None):
    """Largest entry of |actual - expected| / sqrt(K_ii K_jj); infinite where an entry is wrong and that scale is 0.

    `own` holds the K_ii of both batches if the matrix is not that of one.
    """
    actual, expected = np.asarray(actual, np.float64), np.asarray(expected, np.float64)
    own = (np.diag(expected),) * 2 if own is None else own
    scale, gap = np.sqrt(np.outer(*own)), np.abs(actual - expected)
    return np.max(np.where(gap > 0, gap / np.where(scale > 0, scale, np.finfo(float).tiny), 0))


@parametrise(CASES | SPHERES)
def test_chosen_method(case):
    assert method_of(case.net, case.shape) == case.method


FAST = {name: case for name, case in CASES.items() if case.method != "Literal"}
ROUNDED = ("same-larger", "circular-larger", "pooled-branches", "D4-circular-valid", "one-coordinate")


@pytest.mark.every(4)
@parametrise(FAST)
def test_equals_the_literal_recursion(case, x64):
    """To 1e-12 of the scale of each entry; symmetric, semidefinite, of the dtype of the inputs."""
    x = inputs(case.shape, dtype="float64")
    fast, literal = eq.gram(case.net, x), literal_gram(case.net, x, x)
    for kind in KINDS:
        matrix = np.asarray(getattr(fast, kind))
        assert matrix.dtype == jnp.float64
        assert errors(matrix, getattr(literal, kind)) < 1e-12
        np.testing.assert_array_equal(matrix, matrix.T)
        assert np.linalg.eigvalsh(matrix)[0] >= -tolerance(matrix.dtype, len(matrix)) * np.trace(matrix)


@pytest.mark.every(7)
@parametrise({name: case for name, case in FAST.items() if name in (*REGISTRY, *ROUNDED)})
def test_float32_is_within_1e_5_of_float64(case, x64):
    """Relative to the scale of each entry, which on the diagonal is the entry; symmetric, semidefinite."""
    x = inputs(case.shape)
    low, literal = eq.gram(case.net, x), literal_gram(case.net, *(x.astype("float64"),) * 2)
    for kind in KINDS:
        matrix = np.asarray(getattr(low, kind))
        assert matrix.dtype == jnp.float32
        assert errors(matrix, getattr(literal, kind)) < 1e-5
        np.testing.assert_array_equal(matrix, matrix.T)
        wide = matrix.astype(np.float64)
        assert np.linalg.eigvalsh(wide)[0] >= -tolerance(matrix.dtype, len(matrix)) * np.trace(wide)


@pytest.mark.every(6)
@parametrise({name: case for name, case in ONE_EACH.items() if case.method != "Sphere"})
def test_rectangle_equals_the_literal_recursion(case, x64):
    """Two batches of different sizes; the second holds a copy of an input of the first."""
    x = inputs(case.shape, dtype="float64")
    fast, literal = eq.gram(case.net, x[:3], x[3:]), literal_gram(case.net, x, x)
    for kind in KINDS:
        expected = np.asarray(getattr(literal, kind))
        assert errors(getattr(fast, kind), expected[:3, 3:], own=(np.diag(expected)[:3], np.diag(expected)[3:])) < 1e-12


@pytest.mark.every(2)
@parametrise({name: case for name, case in SPHERES.items() if name != "sphere-linear"})
def test_sphere_equals_the_literal_recursion(case, x64):
    """Inputs without copies among them: an input with itself is integrated by a rule of its own, finer there."""
    x = inputs(case.shape, dtype="float64")[jnp.array([0, 1, 2, 3, 5, 7])]
    fast, low, literal = eq.gram(case.net, x), eq.gram(case.net, x.astype("float32")), literal_gram(case.net, x, x)
    itself = jax.jit(lambda z: eq.kernels.pair_kernel(case.net, z, z))  # the same object: a rule of its own
    own = [itself(z) for z in x]
    for kind in KINDS:
        matrix, diagonal = np.asarray(getattr(fast, kind)), np.asarray([getattr(k, kind) for k in own])
        expected = np.where(np.eye(len(x), dtype=bool), diagonal, getattr(literal, kind))
        assert errors(matrix, expected) < 1e-12
        assert errors(getattr(low, kind), matrix) < 1e-5
        np.testing.assert_array_equal(matrix, matrix.T)


@pytest.mark.every(2)
@parametrise({name: ONE_EACH[name] for name in ("relu-bias", "one-row", "D2-long-filters")})
def test_parallel_inputs(case, x64):
    """Multiples of an input: exact for the NNGP; a relu network's NTK feels the rounding of their angle, 0 or pi."""
    x = inputs(case.shape, 2, "float64")
    x = jnp.concatenate([x, -x, 3 * x, -0.7 * x])
    fast, literal = eq.gram(case.net, x), literal_gram(case.net, x, x)
    assert errors(fast.nngp, literal.nngp) < 1e-12
    assert errors(fast.ntk, literal.ntk) < PARALLEL


def near_copies(x, seed):
    """Inputs at relative distances 0, 1e-5, 1e-3 and 1e-1 of those in `x`, `[4 n, d]`, in the dtype of `x`."""
    noise = normal(seed, x.shape, x.dtype)
    noise *= jnp.linalg.norm(x, axis=-1, keepdims=True) / jnp.linalg.norm(noise, axis=-1, keepdims=True)
    return jnp.concatenate([x + jnp.asarray(step, x.dtype) * noise for step in (0, 1e-5, 1e-3, 1e-1)])


RELU_ONLY = {name: CASES[name] for name in ("relu", "relu-bias")} | {
    "deep": Case(eq.Sequential(*(dense(), eq.Relu()) * 3, eq.Dense(1)), (), ""),
    "branch": Case(
        eq.Sequential(dense(0.2), eq.Residual(eq.Relu(), dense(0.3)), eq.LayerNorm(), eq.Relu(), dense()), (), ""
    ),
}


@pytest.mark.every(6)
@parametrise(RELU_ONLY)
@pytest.mark.parametrize("factor", [1.0, 1.37, -1.0], ids=["copy", "multiple", "opposite"])
def test_float32_ntk_of_nearly_parallel_vectors(case, factor, x64):
    """Their angle, on which relu's derivative kernel depends, is far below the root of a float32 rounding."""
    x1 = normal(4, (5, 50), "float32")
    x2 = jnp.float32(factor) * (x1 if factor < 0 else near_copies(x1, 5))
    low = eq.gram(case.net, x1, x2)
    both = jnp.concatenate([x1, x2]).astype("float64")
    high = eq.gram(case.net, both)
    for kind in KINDS:
        own = np.diag(getattr(high, kind))
        assert errors(getattr(low, kind), getattr(high, kind)[:5, 5:], own=(own[:5], own[5:])) < 1e-5


@pytest.mark.slow
def test_float32_of_large_flat_images(x64):
    """Thousands of equal terms: added up one after the other in float32, their sum would drift."""
    case = DISPLACEMENTS["circular-larger"]
    x = jnp.ones((2, 32, 32, 1), "float32") * jnp.asarray([1.0, 0.7], "float32")[:, None, None, None]
    low, high = eq.gram(case.net, x), eq.gram(case.net, x.astype("float64"))
    for kind in KINDS:
        assert errors(getattr(low, kind), getattr(high, kind)) < 1e-5


@pytest.mark.every(7)
@parametrise(ONE_EACH)
def test_one_kind_alone_and_under_jit(case):
    x = inputs(case.shape, 3)
    both = eq.gram(case.net, x)
    nngp, ntk = eq.gram(case.net, x, kinds=("nngp",)), eq.gram(case.net, x, kinds=("ntk",))
    assert nngp.ntk is None and ntk.nngp is None
    jitted = jax.jit(lambda x: eq.gram(case.net, x))(x)
    for kind, alone in zip(KINDS, (nngp.nngp, ntk.ntk), strict=True):
        for other in (alone, getattr(jitted, kind)):
            assert relative_error(other, getattr(both, kind)) < tolerance(jnp.float32, 30)


# Smooth but for relu's kink, which the finite differences must not cross: inputs at angles of order one.


@pytest.mark.every(7)
@parametrise(ONE_EACH)
def test_gradients(case, x64):
    """Finite at coincident and at zero inputs, in both arguments; those of generic inputs as finite differences say."""
    x, y, way = (normal(seed, (2, *case.shape), "float64") for seed in (6, 7, 8))

    def total(x, y):
        k = eq.gram(case.net, x, y)
        return jnp.sum(k.nngp) + jnp.sum(jnp.sin(jnp.arange(4.0)).reshape(2, 2) * k.ntk)

    value_and_grad = jax.jit(jax.value_and_grad(total, (0, 1)))
    _, slopes = value_and_grad(x, y)
    step = np.finfo(float).eps ** (1 / 3)
    for place, slope in enumerate(slopes):
        ends = [[x, y] for _ in range(2)]
        for end, sign in zip(ends, (1, -1), strict=True):
            end[place] = end[place] + sign * step * way
        high, low = (value_and_grad(*end)[0] for end in ends)
        # Central differences err by step^2 times the third derivative, and by a rounding over the step.
        assert float(jnp.vdot(slope, way)) == pytest.approx(float(high - low) / (2 * step), rel=1e-7, abs=1e-7)
    for hard in (x, jnp.zeros_like(x), x.at[0].set(0)):
        assert all(np.isfinite(slope).all() for slope in value_and_grad(x, hard)[1])
        assert all(np.isfinite(slope).all() for slope in value_and_grad(hard, hard)[1])


@pytest.mark.every(2)
@parametrise({name: ONE_EACH[name] for name in ("relu-bias", "flat-head")})
def test_gradient_of_the_symmetric_matrix(case, x64):
    """d/dx of sum_ij w_ij K(x_i, x_j) is the sum of the derivatives in both arguments, also on the diagonal."""
    x = inputs(case.shape, 3, "float64")
    weights = jnp.cos(jnp.arange(9.0)).reshape(3, 3)
    one = jax.grad(lambda x: jnp.sum(weights * eq.gram(case.net, x).nngp))(x)
    left, right = jax.grad(lambda x, y: jnp.sum(weights * eq.gram(case.net, x, y).nngp), (0, 1))(x, x)
    assert np.isfinite(one).all()
    assert relative_error(one, left + right) < 1e-7


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("method", ["auto", "literal"])
def test_half_precision_is_the_rounded_result_of_float32(method, dtype):
    """The same method computes it, for the same inputs."""
    net = eq.Sequential(conv((3, 3), b_std=0.3), eq.Erf(), eq.GlobalAvgPool(), dense())
    x = inputs((3, 3, 2), 3).astype(dtype)
    low, high = (eq.gram(net, x, method=method) for x in (x, x.astype("float32")))
    for kind in KINDS:
        assert getattr(low, kind).dtype == dtype
        np.testing.assert_array_equal(getattr(low, kind), getattr(high, kind).astype(dtype))


@pytest.mark.every(2)
@pytest.mark.parametrize("name, times", [("one-row", 1), ("D3-matrices", 1), ("sphere-linear", 2)])
def test_literal_method_computes_inputs_with_themselves_apart_on_the_sphere_only(name, times, monkeypatch):
    """There they have a quadrature rule of their own; elsewhere they are among the pairs."""
    case, runs = (CASES | SPHERES)[name], []
    original = images._run
    monkeypatch.setattr(images, "_run", lambda *args: runs.append(args) or original(*args))
    eq.gram(case.net, inputs(case.shape, 2), method="literal")
    assert len(runs) == times


@pytest.mark.every(3)
@parametrise({name: ONE_EACH[name] for name in ("relu-bias", "one-row", "D2-long-filters")})
def test_literal_float32_ntk_of_an_input_with_itself(case, x64):
    """Rounding makes no angle between an input and itself, of which the NTK would feel the root."""
    x = inputs(case.shape, 5)
    low, high = (eq.gram(case.net, x, method="literal") for x in (x, x.astype("float64")))
    np.testing.assert_allclose(np.diag(low.ntk), np.diag(high.ntk), rtol=1e-5)


def test_literal_is_the_recursion_for_each_pair(x64):
    """`method="literal"` is `pair_kernel`, whatever the network, here for one that the fast methods cover."""
    case = ONE_EACH["one-row"]
    x = inputs(case.shape, 5, "float64")
    k, literal = eq.gram(case.net, x, x[2:], method="literal"), literal_gram(case.net, x, x[2:])
    for kind in KINDS:
        assert relative_error(getattr(k, kind), getattr(literal, kind)) < 1e-13


@pytest.mark.parametrize("end", [eq.Flatten, eq.GlobalAvgPool])
def test_another_head_needs_no_other_program(end):
    """Up to the pool two networks are the same: what is compiled for one serves the other."""
    example = jax.ShapeDtypeStruct((4, 4, 1), "float32")
    activations = [eq.Relu(), eq.Erf(), eq.Activation(jnp.tanh, 8)]

    def core(*head):
        body = [layer for activation in activations for layer in (eq.Conv(1, (3, 3)), activation)]
        return choose(eq.Sequential(*body, end(), *head), example, "auto").core

    assert core(eq.Dense(1)) == core(eq.Dense(1), eq.Relu(), eq.Dense(1))


def test_cores_share_one_program(monkeypatch):
    """Three items, of six inputs and a block each, on two cores: a share of one item is filled up, and not compiled."""
    net = eq.Sequential(eq.Conv(1, (3, 3), W_std=1.1), eq.Relu(), eq.Flatten(), eq.Dense(1))
    x = jax.random.normal(jax.random.key(5), (21, 4, 4, 1))
    assert len(_rows(17, 4, False, 16, 1).i) == len(_rows(17, 4, False, 16, 2).i) == 3
    compiled, found = workers.jitted(images._items, (0, 1, 2), False)._cache_size, {}
    for cores in (1, 2):
        monkeypatch.setattr(workers, "cores", lambda cores=cores: cores)
        before = compiled()
        found[cores] = eq.gram(net, x[:17], x[17:])
        assert compiled() == before + 1
    for kind in ("nngp", "ntk"):
        assert relative_error(*(getattr(gram, kind) for gram in found.values())) < tolerance(jnp.float32, 9)


@pytest.mark.parametrize("count", [1, 2, 16])
@pytest.mark.parametrize("n1, n2", [(1, 1), (3, 17), (10, 10), (50, 33), (200, 200)])
def test_inputs_that_meet_blocks_make_all_pairs(n1, n2, count):
    """Blocks and the inputs that meet them overlap at the ends, and leave no entry out."""
    for symmetric in (False, True) if n1 == n2 else (False,):
        work = _rows(n1, n2, symmetric, 40, count)
        found = np.zeros((n1, n2), int)
        np.add.at(found, (work.i, work.j), 1)
        wanted = np.triu(np.ones((n1, n2), bool)) if symmetric else np.ones((n1, n2), bool)
        assert (found[wanted] > 0).all()
        assert len(work.i) >= min(count, n1)
        steps = np.diff(work.i[:, :, 0]), np.diff(work.j[:, 0])
        assert all((step == 1).all() for step in steps)  # of a block only the first index is read


def test_flattened_images_beyond_one_block(x64):
    """More inputs than one block holds, and a number of them that fills neither blocks nor groups of rows."""
    net = eq.Sequential(eq.Conv(1, (3, 3), b_std=0.2), eq.Relu(), eq.Flatten(), eq.Dense(1))
    x = normal(3, (21, 20, 20, 1), "float64")
    choice = choose(net, jax.ShapeDtypeStruct(x.shape[1:], x.dtype), "auto")
    assert choice.core.lanes(x.shape[1:]) < 96
    one, two = jnp.concatenate([x] * 5)[:103], x
    literal = eq.gram(net, x, method="literal")
    for kind in KINDS:
        k, expected = getattr(literal, kind), partial(np.testing.assert_allclose, rtol=1e-12)
        expected(getattr(eq.gram(net, one, two), kind), jnp.concatenate([k] * 5)[:103])
        expected(getattr(eq.gram(net, one), kind), jnp.tile(k, (5, 5))[:103, :103])

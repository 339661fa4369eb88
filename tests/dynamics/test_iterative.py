"""Regression and training without a factorisation, against the factorisation."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import eqbook as eq
from eqbook.dynamics import RowMatrix, learned_targets, solve
from eqbook.testing import relative_error

NET = eq.Sequential(eq.Dense(1), eq.Relu(), eq.Dense(1, b_std=0.1), eq.Relu(), eq.Dense(1))
CLOTHES = eq.data.load_sample("fashion_mnist")


def problem(n=160, outputs=3, dtype="float64"):
    x = eq.data.to_unit(CLOTHES.train_images[:n]).reshape(n, -1)
    with jax.enable_x64(True):
        ntk = np.asarray(eq.gram(NET, jnp.asarray(x, jnp.float64), kinds=("ntk",)).ntk)
    y = np.eye(outputs)[CLOTHES.train_labels[:n] % outputs] - 1 / outputs
    return ntk.astype(dtype), y.astype(dtype)


@pytest.fixture
def x64():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("diag_reg", [0.0, 1e-4, 0.3])
@pytest.mark.parametrize("rank", [0, 30])
def test_weights_are_those_of_the_factorisation(x64, diag_reg, rank):
    ntk, y = problem()
    ridge = diag_reg * np.diag(ntk).mean()
    dense = np.linalg.solve(ntk + ridge * np.eye(len(ntk)), y)
    found = solve(RowMatrix(ntk), y, diag_reg=diag_reg, rank=rank, tolerance=1e-11)
    assert found.residual <= 1e-11
    # A residual r moves the weights by at most r |y| / lambda_min.
    smallest = np.linalg.eigvalsh(ntk)[0] + ridge
    assert np.linalg.norm(found.weights - dense, axis=0).max() < 2e-11 * np.linalg.norm(y, axis=0).max() / smallest


def test_float32_reaches_its_tolerance():
    ntk, y = problem(dtype="float32")
    found = solve(RowMatrix(ntk), y, diag_reg=1e-3)
    rest = (ntk + 1e-3 * np.diag(ntk).mean() * np.eye(len(ntk))).astype(float) @ found.weights - y
    assert np.linalg.norm(rest, axis=0).max() / np.linalg.norm(y, axis=0).min() < 1.5e-5


def test_the_preconditioner_saves_steps(x64):
    ntk, y = problem()
    for rank, enough in ((0, False), (100, True)):
        try:
            solve(RowMatrix(ntk), y, rank=rank, steps=8, tolerance=1e-6)
        except ArithmeticError as error:
            assert not enough and "`rank`" in str(error)
        else:
            assert enough


def well_conditioned(n, dtype="float32"):
    factor = np.random.default_rng(n).normal(size=(n, n))
    return (factor @ factor.T / n + 2 * np.eye(n)).astype(dtype)


@pytest.mark.every(8)
@pytest.mark.parametrize("dtype, tolerance", [("float32", 1e-6), ("float64", 1e-12)])
@pytest.mark.parametrize("n", [1, 3, 60, 100])
def test_a_preconditioner_of_full_rank_is_no_harm(n, dtype, tolerance):
    """Where it holds all of the matrix, nothing but rounding is left of the diagonal."""
    with jax.enable_x64(dtype == "float64"):
        y = np.ones((n, 1), dtype)
        half = np.diag((np.arange(n) % 2).astype(dtype))  # of lower rank, with a solution
        for matrix, wanted in ((np.eye(n, dtype=dtype), y), (well_conditioned(n, dtype), y), (half, half @ y)):
            for steps in (10, 1000):  # few are enough, and many do not spoil it
                found = solve(RowMatrix(matrix), wanted, steps=steps, tolerance=tolerance)
                assert found.residual <= tolerance
                rest = np.linalg.norm(matrix.astype(float) @ found.weights - wanted)
                assert rest <= 2 * tolerance * np.linalg.norm(wanted)


def test_the_advice_names_rank_only_where_more_of_it_helps():
    opposed = np.array([[1.0], [-1.0], [0.0]], np.float32)
    twice = np.array([[1, 1, 0], [1, 1, 0], [0, 0, 1]], np.float32)
    for rank in (1, 3, 100):
        with pytest.raises(ArithmeticError, match="duplicate inputs .*`diag_reg` > 0") as error:
            solve(RowMatrix(twice), opposed, rank=rank)
        assert "`rank`" not in str(error.value) or rank < 3
    with pytest.raises(ArithmeticError, match="`rank`"):
        solve(RowMatrix(well_conditioned(60)), np.ones((60, 1)), rank=1, steps=1, tolerance=1e-6)
    with pytest.raises(ArithmeticError, match="too large for float32"):
        solve(RowMatrix(twice), opposed, diag_reg=1e300)


@pytest.mark.every(2)
@pytest.mark.parametrize("size", [2.0**-120, 1e-30, 1e-20, 1e20, 1e37])
def test_results_are_linear_in_the_targets(size):
    matrix, y = RowMatrix(well_conditioned(30)), np.random.default_rng(0).normal(size=(30, 1)).astype(np.float32)
    together = np.concatenate([y, np.float32(size) * y], axis=1)
    for call in (lambda y: solve(matrix, y).weights, lambda y: learned_targets(matrix, y, 1.0)):
        found, alone = call(together), call(y)
        assert found.dtype == np.float32
        # Each column ends at a residual of 1e-5 by itself, and eigenvalues are 2 to 6.
        assert relative_error(found[:, 1].astype(float) / size, alone[:, 0]) < 3e-5
        assert relative_error(found[:, 0], alone[:, 0]) < 3e-5
        if np.log2(size) % 1 == 0:
            np.testing.assert_array_equal(call(np.float32(size) * y), np.float32(size) * alone)


def test_weights_that_leave_the_dtype_are_an_error():
    small, large = (RowMatrix(np.diag(np.float32([1, 2, 3]) * scale)) for scale in (1e-3, 1e3))
    cases = ((small, 1e38, 1e3, "large"), (small, 1e300, 1e3, "large"), (large, 1e-48, 1e-3, "small"))
    for matrix, size, t, word in cases:
        for call in (solve, partial(learned_targets, t=t)):
            with pytest.raises(ArithmeticError, match=f"`y`: .*too {word}"):
                call(matrix, np.full((3, 1), size))
    with pytest.raises(ArithmeticError, match="scale the matrix"):
        learned_targets(RowMatrix(np.full((3, 3), 3e38, np.float32)), np.ones((3, 1)), 1.0)


def test_rows_that_a_function_may_return():
    for rows in (NTK.astype(np.float16), jnp.asarray(NTK, jnp.bfloat16), NTK.astype(int), NTK.astype(float)):
        assert RowMatrix(lambda which, rows=rows: rows[which], n=4).array.dtype == np.float32
    with jax.enable_x64(True):
        assert RowMatrix(lambda which: NTK[which], n=4, dtype="float64").array.dtype == np.float64


def test_size_and_dtype_of_a_whole_matrix_are_its_own():
    assert RowMatrix(NTK, 4, dtype="float32").n == RowMatrix(NTK, dtype=np.float32).n == 4
    with jax.enable_x64(True):
        wide = NTK.astype(float)
        for dtype in ("float32", "float64", np.float64):  # float32 is what stands there if none is given
            assert RowMatrix(wide, dtype=dtype).array.dtype == np.float64
        with pytest.raises(ValueError, match="`dtype`: expected float32 as the array has it, got 'float64'"):
            RowMatrix(NTK, dtype="float64")


def test_rows_from_a_function_equal_those_of_the_matrix():
    ntk, y = problem(50, dtype="float32")
    calls = []

    def rows(which):
        calls.append(which)
        return ntk[which]

    matrix = RowMatrix(rows, n=50)
    assert calls == [slice(0, 50)]
    np.testing.assert_array_equal(matrix.array, ntk)
    np.testing.assert_array_equal(
        solve(matrix, y, diag_reg=0.1).weights, solve(RowMatrix(ntk), y, diag_reg=0.1).weights
    )


@pytest.mark.every(2)
@pytest.mark.parametrize("t", [0.0, 1.0, 30.0])
@pytest.mark.parametrize("schedule", ["flow", "steps"])
def test_a_finite_time_is_that_of_the_diagonalisation(x64, t, schedule):
    ntk, y = problem()
    rate = 1.5 / np.linalg.eigvalsh(ntk)[-1]
    schedule = eq.GradientFlow(rate) if schedule == "flow" else eq.GradientDescent(rate)
    law = eq.EnsembleLaw(ntk, y=jnp.asarray(y))
    found = learned_targets(RowMatrix(ntk), y, t, schedule, steps=60, tolerance=1e-9)
    expected = law.mean(jnp.eye(len(ntk)), t, schedule)
    assert relative_error(found, expected) < 1e-9 or t == 0 and not np.any(found)


@pytest.mark.every(2)
@pytest.mark.parametrize("t, bound", [(1.0, 1e-4), (10.0, 1e-3), (100.0, 5e-3)])
def test_a_dominant_eigenvalue_in_single_precision(t, bound):
    """What a step leaves of a vector may be small beside the largest eigenvalue, and yet no rounding."""
    n, rng = 1000, np.random.default_rng(0)
    x = (1 + 0.1 * rng.normal(size=(n, 20))).astype(np.float32)
    layers = (eq.Dense(1, b_std=1.0), eq.Relu()) * 2
    ntk = np.asarray(eq.gram(eq.Sequential(*layers, eq.Dense(1)), x).ntk)
    y = np.tanh(3 * (x[:, :1] - 1))
    values, vectors = np.linalg.eigh(ntk.astype(float))
    assert values[-1] > 1e3 * values[-2], "the others are dwarfed"
    expected = vectors @ ((-np.expm1(-values * t) / values)[:, None] * (vectors.T @ y))
    assert relative_error(learned_targets(RowMatrix(ntk), y, t), expected) < bound


def test_a_small_invariant_space_in_single_precision():
    """Three eigenvectors of a matrix whose other eigenvalues, far smaller and many, must not be taken up as noise."""
    n, rng = 400, np.random.default_rng(0)
    basis = np.linalg.qr(rng.normal(size=(n, n)))[0]
    values = np.geomspace(1e2, 1e-4, n)
    matrix = ((basis * values) @ basis.T).astype(np.float32)
    chosen = [0, 60, 120]
    y = basis[:, chosen].sum(1, keepdims=True)
    for t in (100.0, 1e4):
        found = learned_targets(RowMatrix(matrix), y, t)
        expected = basis[:, chosen] @ (-np.expm1(-values[chosen] * t) / values[chosen])[:, None]
        assert relative_error(found, expected) < 1e-3


def test_eigenvectors_end_the_krylov_space_early(x64):
    ntk, _ = problem(20)
    values, vectors = np.linalg.eigh(ntk)
    y = np.stack([vectors[:, -1], np.zeros(20)], 1)
    found = learned_targets(RowMatrix(ntk), y, 2.0, steps=10)
    learned = (1 - np.exp(-2 * values[-1])) / values[-1]
    np.testing.assert_allclose(found, learned * y, atol=1e-12)


def test_too_few_steps_are_noticed(x64):
    ntk, y = problem()
    with pytest.raises(ArithmeticError, match="`steps`"):
        learned_targets(RowMatrix(ntk), y, 1e3, steps=10)


def spectrum(values, seed=0):
    """A matrix with these eigenvalues, its eigenvectors, and targets that meet all of them."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(len(values), len(values))))[0]
    return (basis * values) @ basis.T, basis, rng.normal(size=(len(values), 1))


@pytest.mark.every(6)
@pytest.mark.parametrize("small, t", [((1e-8, 3e-8), 1e7), ((1e-7, 2e-7, 3e-7), 1e6)])
@pytest.mark.parametrize("schedule", ["flow", "steps", "large steps"])
def test_a_plateau_before_small_eigenvalues_is_not_taken_for_the_end(x64, small, t, schedule):
    """Far below the others, they are found late: between, the weights stand still while they are off by a per cent."""
    values = np.concatenate([small, np.linspace(0.02, 1, 400 - len(small))])
    matrix, basis, y = spectrum(values)
    chosen = {"flow": eq.GradientFlow(), "steps": eq.GradientDescent(1.0), "large steps": eq.GradientDescent(1.9)}
    schedule = chosen[schedule]
    expected = basis @ (np.asarray(schedule.learned(jnp.asarray(values), t))[:, None] * (basis.T @ y))
    refused = []
    for steps in (40, 60, 100, 180):
        for tolerance in (1e-2, 1e-4, 1e-6):
            try:
                found = learned_targets(RowMatrix(matrix), y, t, schedule, steps=steps, tolerance=tolerance)
            except ArithmeticError:
                refused.append(steps)
            else:
                assert relative_error(found, expected) < tolerance
    assert 60 in refused and 180 not in refused, "on the plateau, and where all has been found"


def test_the_bound_of_lanczos_holds(x64):
    """It is an inequality for gradient flow and for steps below the inverse of the largest eigenvalue."""
    rng = np.random.default_rng(1)
    allowed = 0
    for case in range(40):
        n, steps = 50, (10, 25)[case // 2 % 2]
        values = 10.0 ** rng.uniform(rng.choice([-6, -3, -1]), 0, n)
        matrix, basis, y = spectrum(values, case)
        t = float(np.round(10 ** rng.uniform(1, 3)))
        schedule = eq.GradientFlow() if case % 2 else eq.GradientDescent(1.0 / values.max())
        with pytest.raises(ArithmeticError, match="estimate of") as error:
            learned_targets(RowMatrix(matrix), y, t, schedule, steps=steps, tolerance=0.0)
        estimate = float(str(error.value).split("estimate of ")[1].split(";")[0])
        above = 1.06 * estimate  # it is printed with two digits
        found = learned_targets(RowMatrix(matrix), y, t, schedule, steps=steps, tolerance=above)
        expected = basis @ (np.asarray(schedule.learned(jnp.asarray(values), t))[:, None] * (basis.T @ y))
        # The bound is in units of the result that is found; rounding comes on top.
        assert np.linalg.norm(found - expected) < (above + 1e-12) * np.linalg.norm(found)
        allowed += 1e-10 < estimate < 1e-2
    assert allowed > 10, "cases in which the bound says something"


@pytest.mark.parametrize("scale", [1e-30, 1e-19, 1e19, 1e30])
def test_tiny_and_huge_kernels_are_learned_alike(scale):
    """phi_t(c A) = phi_(ct)(A) / c; squares of such numbers leave float32."""
    matrix, y = np.array([[2, 1, 0.5], [1, 2, 1], [0.5, 1, 2]], np.float32), np.array([[1.0], [2], [-1]])
    found = learned_targets(RowMatrix(matrix * np.float32(scale)), y, 1 / scale).astype(float) * scale
    np.testing.assert_allclose(found, learned_targets(RowMatrix(matrix), y, 1.0), rtol=2e-6)


def test_too_few_steps_are_noticed_at_any_scale():
    matrix, _, y = spectrum(np.geomspace(1e-3, 1, 60))
    for scale in (1.0, 1e30, 1e37):
        with pytest.raises(ArithmeticError, match=r"estimate of 1\.\de\+00"):
            learned_targets(RowMatrix((matrix * scale).astype(np.float32)), y, 50 / scale, steps=5)
    with pytest.raises(ArithmeticError, match="loses; scale the matrix"):
        learned_targets(RowMatrix((matrix * 1e-34).astype(np.float32)), y, 50 / 1e-34)


def test_duplicated_inputs_need_a_ridge(x64):
    ntk, y = problem(40)
    twice = np.concatenate([np.arange(40), [0]])
    ntk, y = ntk[np.ix_(twice, twice)], np.concatenate([y, 1 - y[:1]])  # one input with two targets: no solution
    with pytest.raises(ArithmeticError, match="`diag_reg`"):
        solve(RowMatrix(ntk), y, steps=100)
    assert solve(RowMatrix(ntk), y, diag_reg=1e-2).residual <= 1e-5


def test_advice_tells_rounding_from_too_few_steps():
    matrix, _, y = spectrum(np.geomspace(1e-4, 1, 300))
    with pytest.raises(ArithmeticError, match="rounding of float32.*Use float64 with .*x64.*, allow") as error:
        solve(RowMatrix(matrix.astype(np.float32)), y)
    reached = float(str(error.value).split("reached ")[1].split(",")[0])
    # Twice, because the residual at which it ends is rounding, and so another one at another step.
    assert solve(RowMatrix(matrix.astype(np.float32)), y, tolerance=2 * reached).residual <= 2 * reached
    with pytest.raises(ArithmeticError, match="Raise `diag_reg`, `steps` or `rank`, use float64"):
        solve(RowMatrix(matrix.astype(np.float32)), y, steps=2, rank=10)
    with jax.enable_x64(True):
        assert solve(RowMatrix(matrix), y, tolerance=1e-9).residual <= 1e-9


def test_what_is_returned_solves_an_indefinite_system_too(x64):
    ntk, y = problem(40)
    shifted = ntk - np.diag(ntk).mean() * np.eye(40)
    assert np.linalg.eigvalsh(shifted)[0] < 0
    try:  # conjugate gradients may fail here, but not in silence: the residual is computed anew
        found = solve(RowMatrix(shifted), y, rank=0, tolerance=1e-8)
    except ArithmeticError:
        return
    assert np.linalg.norm(shifted @ found.weights - y) < 1e-7 * np.linalg.norm(y)


NTK, Y = np.eye(4, dtype=np.float32), np.ones((4, 1), np.float32)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: RowMatrix(np.zeros((3, 4), np.float32)), "matrix"),
        (lambda: RowMatrix(np.eye(3, dtype=int)), "matrix"),
        (lambda: RowMatrix(np.array([[1.0, 2.0], [0.0, 1.0]])), "matrix"),
        (lambda: RowMatrix(np.full((2, 2), np.nan)), "matrix"),
        (lambda: RowMatrix(lambda which: NTK[which, :3], n=4), "matrix"),
        (lambda: RowMatrix(lambda which: np.nan * NTK[which], n=4), "matrix"),
        (lambda: RowMatrix(lambda which: (1 + 1j) * NTK[which], n=4), "matrix"),
        (lambda: RowMatrix(lambda which: 1e300 * NTK[which].astype(float), n=4), "matrix"),
        (lambda: RowMatrix(lambda which: NTK[which].astype(str), n=4), "matrix"),
        (lambda: RowMatrix(lambda which: NTK[which].astype(object), n=4), "matrix"),
        (lambda: RowMatrix(lambda which: None, n=4), "matrix"),
        (lambda: RowMatrix(lambda which: [[1.0], [1.0, 2.0]], n=4), "matrix"),
        (lambda: RowMatrix(1e300 * NTK.astype(float)), "matrix"),
        (lambda: RowMatrix(NTK.astype(np.float16)), "matrix"),
        (lambda: RowMatrix(NTK.astype(object)), "matrix"),
        (lambda: jax.jit(lambda matrix: RowMatrix(matrix).array)(NTK), "matrix"),
        (lambda: jax.jit(lambda y: solve(RowMatrix(NTK), y).weights)(Y), "y"),
        (lambda: jax.jit(lambda y: learned_targets(RowMatrix(NTK), y, 1.0))(Y), "y"),
        (lambda: RowMatrix(lambda which: NTK[which], n=4, dtype="float64"), "dtype"),
        (lambda: RowMatrix(lambda which: NTK[which], n=4, dtype="float16"), "dtype"),
        (lambda: RowMatrix(lambda which: NTK[which], n=4, dtype="bfloat16"), "dtype"),
        (lambda: RowMatrix(lambda which: NTK[which], n=4, dtype="text"), "dtype"),
        (lambda: RowMatrix(lambda which: NTK[which]), "n"),
        (lambda: RowMatrix(NTK, n=7), "n"),
        (lambda: RowMatrix(NTK, n="4"), "n"),
        (lambda: RowMatrix(NTK, dtype="text"), "dtype"),
        (lambda: RowMatrix(NTK, dtype="float64"), "dtype"),
        (lambda: solve(RowMatrix(NTK), np.ones((4, 0))), "y"),
        (lambda: learned_targets(RowMatrix(NTK), np.ones((4, 0)), 1.0), "y"),
        (lambda: solve(RowMatrix(NTK), np.ones(4)), "y"),
        (lambda: solve(RowMatrix(NTK), np.ones((3, 1))), "y"),
        (lambda: solve(RowMatrix(NTK), np.nan * Y), "y"),
        (lambda: solve(RowMatrix(NTK), Y, diag_reg=-1.0), "diag_reg"),
        (lambda: solve(RowMatrix(NTK), Y, rank=-1), "rank"),
        (lambda: solve(RowMatrix(NTK), Y, steps=0), "steps"),
        (lambda: solve(RowMatrix(NTK), Y, tolerance=float("nan")), "tolerance"),
        (lambda: learned_targets(RowMatrix(NTK), np.ones(4), 1.0), "y"),
        (lambda: learned_targets(RowMatrix(NTK), Y, float("inf")), "t"),
        (lambda: learned_targets(RowMatrix(NTK), Y, -1.0), "t"),
        (lambda: learned_targets(RowMatrix(NTK), Y, 1.5, eq.GradientDescent(0.1)), "t"),
        (lambda: learned_targets(RowMatrix(NTK), Y, 1.0, steps=1), "steps"),
    ],
)
def test_bad_input(call, name):
    with pytest.raises(ValueError, match=f"`{name}`"):
        call()

"""Regression and training without a factorisation, against the factorisation."""

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


def test_duplicated_inputs_need_a_ridge(x64):
    ntk, y = problem(40)
    twice = np.concatenate([np.arange(40), [0]])
    ntk, y = ntk[np.ix_(twice, twice)], np.concatenate([y, 1 - y[:1]])  # one input with two targets: no solution
    with pytest.raises(ArithmeticError, match="`diag_reg`"):
        solve(RowMatrix(ntk), y, steps=100)
    assert solve(RowMatrix(ntk), y, diag_reg=1e-2).residual <= 1e-5


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
        (lambda: RowMatrix(lambda which: NTK[which]), "n"),
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

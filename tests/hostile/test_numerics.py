"""Hard numbers: singular and indefinite matrices, eigenvalues below rounding, training that diverges.

Each is either right or refused, with what to do; NaN and infinity are never returned.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import eqbook as eq
from eqbook import ensembles
from eqbook.dynamics import RowMatrix, learned_targets, solve
from eqbook.dynamics.rounding import rounding_floor

NET = eq.Sequential(eq.Dense(8), eq.Relu(), eq.Dense(1))
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(6, 4)), RNG.normal(size=(6, 1))
TWICE = np.concatenate([X, X[:2]])
ALIKE, OPPOSED = np.concatenate([Y, Y[:2]]), np.concatenate([Y, -Y[:2]])
SMOOTH = eq.Sequential(eq.Dense(8, b_std=0.5), eq.Erf(), eq.Dense(1))


def gram(x, dtype, net=NET):
    return eq.gram(net, jnp.asarray(x, dtype))


@pytest.mark.every(2)
@pytest.mark.parametrize("time", [1e2, 1e4, 1e6, 1e9, 1e12, 1e300])
@pytest.mark.parametrize("labels", ["alike", "opposed"])
def test_duplicate_inputs_are_right_or_refused(time, labels, dtype):
    """Two targets for one input: the mean tends to their mean. Rounding would let it run away with t."""
    y = ALIKE if labels == "alike" else OPPOSED
    k = gram(TWICE, dtype)
    law = eq.EnsembleLaw(k.ntk, k.nngp, jnp.asarray(y, dtype))
    try:
        mean, covariance = law.train_mean(time), law.covariance(k.nngp, k, time)
    except ValueError as error:
        assert "rounding would decide" in str(error) and "`diag_reg`" in str(error)
        floor = rounding_floor(law.eigenvalues)
        assert time * floor > 1e-3  # refused only where the floor is learned
        assert labels == "opposed" or time >= 1e12
        return
    # What is left of the error is bounded by the refusal: floor |H_t Y| <= |Y|, in units of one of n targets.
    np.testing.assert_allclose(mean[:2], (y[:2] + y[-2:]) / 2, atol=np.linalg.norm(y) / np.sqrt(len(y)))
    assert np.isfinite(mean).all() and np.isfinite(covariance).all()
    assert np.diag(covariance).min() > -np.diag(k.nngp).max() / len(y)


def test_opposed_targets_are_refused_before_they_are_wrong():
    """From small times on, each result in float32 is that of float64, until it is refused."""
    with jax.enable_x64(True):
        ntk64 = gram(TWICE, "float64").ntk
        ntk = np.asarray(ntk64, np.float32)
        law64 = eq.EnsembleLaw(ntk64, y=jnp.asarray(OPPOSED), diag_reg=0.0)
        expected = {t: np.asarray(law64.train_mean(t)) for t in 10.0 ** np.arange(0, 9)}
    law, refused = eq.EnsembleLaw(ntk, y=OPPOSED.astype(np.float32)), []
    for t, right in expected.items():
        try:
            error = np.abs(law.train_mean(t) - right).max()
        except ValueError:
            refused.append(t)
            continue
        assert not refused, "refused at a time, and not at a later one"
        # |dTheta| |H_t Y| <= (floor / n) |H_t Y| <= |Y| / n for an error of one rounding in each entry; eight of them.
        assert error <= 8 * np.linalg.norm(OPPOSED) / np.sqrt(len(OPPOSED))
    assert refused and refused[0] <= 10 / rounding_floor(law.eigenvalues)
    with pytest.raises(ValueError, match="`ntk`: expected an invertible Gram matrix .* remove duplicate inputs"):
        law.train_mean(np.inf)
    regular = eq.EnsembleLaw(ntk, y=OPPOSED.astype(np.float32), diag_reg=1e-3)
    np.testing.assert_allclose(regular.train_mean(np.inf)[:2], 0, atol=1e-2)


def test_not_positive_definite_in_float32():
    """A smooth kernel on 300 inputs of one dimension: most computed eigenvalues are rounding, many below 0."""
    x = np.linspace(-1, 1, 300)[:, None]
    y = np.sign(x + 0.01).astype(np.float32)
    k = gram(x, "float32", SMOOTH)
    law = eq.EnsembleLaw(k.ntk, k.nngp, y)
    assert law.eigenvalues[0] < 0
    with pytest.raises(ValueError, match="use float64 with .*x64.*, take a finite `t`, or `diag_reg`"):
        law.train_mean(np.inf)
    with pytest.raises(ValueError, match="rounding would decide the result.*float64"):
        law.train_mean(1e12)
    early = law.train_mean(1.0)
    with jax.enable_x64(True):
        k64 = gram(x, "float64", SMOOTH)
        right = eq.EnsembleLaw(k64.ntk, y=jnp.asarray(y, float)).train_mean(1.0)
    # Time 1, |dTheta| <= floor: the mean moves by at most 2 t |dTheta| |Y|.
    assert np.linalg.norm(np.asarray(early, float) - np.asarray(right)) <= 2 * rounding_floor(
        law.eigenvalues
    ) * np.linalg.norm(y)


def test_a_matrix_that_is_no_gram_matrix():
    """The size of a negative eigenvalue says how far all may be off: from float32, or from a mistake."""
    indefinite = np.diag([-0.5, 1.0, 2.0])
    law = eq.EnsembleLaw(indefinite, y=np.ones((3, 1)))
    assert rounding_floor(law.eigenvalues) == pytest.approx(0.5)
    law.train_mean(0.1)
    for t in (10.0, np.inf):
        with pytest.raises(ValueError, match="`(t|ntk)`: expected"):
            law.train_mean(t)
    assert solve(RowMatrix(indefinite.astype(np.float32)), np.ones((3, 1)), rank=0).residual <= 1e-5


def test_zero_matrix():
    """No mode is learned, at any time."""
    law = eq.EnsembleLaw(np.zeros((3, 3)), np.zeros((3, 3)), np.ones((3, 1)))
    for schedule in (eq.GradientFlow(), eq.GradientDescent(10.0)):
        np.testing.assert_array_equal(law.train_mean(100, schedule), 0)
    with pytest.raises(ArithmeticError, match="`diag_reg`"):
        solve(RowMatrix(np.zeros((3, 3), np.float32)), np.ones((3, 1)))
    np.testing.assert_allclose(learned_targets(RowMatrix(np.zeros((3, 3), np.float32)), np.ones((3, 1)), 2.0), 2)


@pytest.mark.every(2)
@pytest.mark.parametrize("t", [10, 100, 1000, 10**6, 10**9])
@pytest.mark.parametrize("factor", [2.1, 3.0, 100.0, 1e20, 1e300])
def test_steps_that_diverge(factor, t, dtype):
    """The closed form where it has digits, else the reason: never infinity."""
    k = gram(X, dtype)
    y = jnp.asarray(Y, dtype)
    law = eq.EnsembleLaw(k.ntk, k.nngp, y)
    schedule = eq.GradientDescent(factor / float(law.eigenvalues[-1]))
    message = "`learning_rate`: expected < 2 / lambda_max = .* use a smaller one, or a smaller `t`"
    for call in (
        lambda: law.train_mean(t, schedule),
        lambda: law.covariance(k.nngp, k, t, schedule),
        lambda: learned_targets(RowMatrix(np.asarray(k.ntk)), y, t, schedule),
    ):
        if t * np.log(factor - 1) > -np.log(float(jnp.finfo(dtype).eps)):
            with pytest.raises(ValueError, match=message):
                call()
        else:
            assert np.isfinite(call()).all()


def test_a_rate_that_diverges_late_keeps_its_value(x64):
    """Just past stability the first steps are as the iteration has them."""
    ntk = np.asarray(gram(X, "float64").ntk)
    law = eq.EnsembleLaw(ntk, y=jnp.asarray(Y))
    rate, f = 2.1 / float(law.eigenvalues[-1]), np.zeros_like(Y)
    for _ in range(20):
        f = f - rate * ntk @ (f - Y)
    np.testing.assert_allclose(law.train_mean(20, eq.GradientDescent(rate)), f, rtol=1e-9, atol=1e-9)


def test_time_beyond_all_numbers(dtype):
    """eta t overflows the dtype: the end of training for a regular matrix, refused for a singular one."""
    k = gram(X, dtype)
    law = eq.EnsembleLaw(k.ntk, y=jnp.asarray(Y, dtype))
    np.testing.assert_allclose(law.train_mean(1e300), Y, atol=1e-3)
    singular = eq.EnsembleLaw(np.diag([0.0, 1.0]), y=np.ones((2, 1)))
    with pytest.raises(ValueError, match="rounding would decide"):
        singular.train_mean(1e300)


@pytest.mark.parametrize("labels", ["alike", "opposed"])
def test_iterative_methods_on_duplicates(labels):
    """Weights with a residual that was computed, or the reason why there are none."""
    matrix = RowMatrix(np.asarray(gram(TWICE, "float32").ntk))
    y = (ALIKE if labels == "alike" else OPPOSED).astype(np.float32)
    try:
        assert solve(matrix, y, tolerance=1e-4).residual <= 1e-4 and labels == "alike"
    except ArithmeticError as error:
        assert "duplicate inputs" in str(error) and "`diag_reg`" in str(error)
    assert solve(matrix, y, diag_reg=1e-2).residual <= 1e-5
    for t in (1.0, 1e12):
        try:
            assert np.isfinite(learned_targets(matrix, y, t)).all() and (t == 1 or labels == "alike")
        except (ValueError, ArithmeticError) as error:
            assert t > 1 and ("rounding would decide" in str(error) or "`steps`" in str(error))


def test_a_tolerance_below_rounding_is_not_reached():
    said = "expected a relative residual of 1.0e-12, reached .*, which is rounding.*Use float64"
    with pytest.raises(ArithmeticError, match=said):
        solve(RowMatrix(np.asarray(gram(X, "float32").ntk)), Y, tolerance=1e-12)


@pytest.mark.parametrize("value", [1e25, 1e38])
def test_kernels_of_inputs_that_overflow(value):
    """Squares of the inputs leave float32."""
    with pytest.raises(ValueError, match=r"`x1`: expected inputs whose kernels are finite .* float32.* scale"):
        eq.gram(NET, np.full((2, 3), value, np.float32))


TRAIN = {"members": 2, "epochs": 1, "progress": False, "at_once": 1}
SMALL = np.asarray(X, np.float32), np.asarray(Y, np.float32)


def test_the_last_step_diverges():
    """The loss of the only step is finite; what the step makes of the parameters is not."""
    x, y = SMALL[0], 1e4 * SMALL[1]
    for watch in (None, {"train": x}):
        with pytest.raises(FloatingPointError, match=r"a parameter of member . is not finite in epoch 1 .*lower"):
            eq.train_ensemble(NET, jax.random.key(0), x, y, optimizer=optax.sgd(1e38), watch=watch, **TRAIN)


def test_outputs_overflow_though_parameters_do_not():
    """Parameters of 1e25 are numbers, their products are none."""
    options = TRAIN | {"optimizer": optax.sgd(1e25)}
    with pytest.raises(FloatingPointError, match=r"`watch\['train'\]`: an output of member . is not finite"):
        eq.train_ensemble(NET, jax.random.key(0), *SMALL, watch={"train": SMALL[0]}, **options)
    run = eq.train_ensemble(NET, jax.random.key(0), *SMALL, **options)
    for call in (run.predict, run.predict_mean):
        with pytest.raises(FloatingPointError, match="`x`: an output of member . is not finite"):
            call(SMALL[0])


@pytest.mark.parametrize("rate", [1e2, 1e10])
@pytest.mark.parametrize("loss", ["squared_error", "cross_entropy"])
def test_training_that_diverges(rate, loss):
    net = eq.Sequential(eq.Dense(8), eq.Relu(), eq.Dense(3))
    x = 100 * SMALL[0]
    y = np.zeros((6, 3), np.float32) if loss == "squared_error" else np.zeros(6, np.int32)
    try:
        options = TRAIN | {"epochs": 30, "optimizer": optax.sgd(rate)}
        run = eq.train_ensemble(net, jax.random.key(0), x, y, loss=loss, watch={"x": x}, **options)
    except FloatingPointError as error:
        assert "member" in str(error) and "lower the learning rate" in str(error)
    else:  # cross entropy has bounded gradients, and may end with large but finite numbers
        assert loss == "cross_entropy"
        assert np.isfinite(run.losses[1:]).all() and np.isfinite(run.outputs["x"]).all()


def test_learning_rate_of_inputs_that_overflow():
    """The kernel of such inputs is infinite, at finite width as at infinite width."""
    for at in (jax.random.key(0), "infinite"):
        with pytest.raises(ValueError, match="`x1?`: expected inputs"):
            ensembles.ntk_learning_rate(NET, at, np.full((2, 3), 1e25, np.float32))


def test_lanczos_on_an_indefinite_matrix():
    """As for the closed form: fine while the negative eigenvalue is not learned, refused after."""
    matrix = RowMatrix(np.diag([-0.5, 1.0, 2.0]).astype(np.float32))
    assert np.isfinite(learned_targets(matrix, np.ones((3, 1)), 0.1)).all()
    with pytest.raises(ValueError, match="rounding would decide the result"):
        learned_targets(matrix, np.ones((3, 1)), 10.0)


def test_inside_jit_nothing_is_looked_at():
    """The law's own eigenvalues are known there, results are not."""
    law = eq.EnsembleLaw(np.diag([1.0, 2.0]), y=np.ones((2, 1)))
    for schedule in (eq.GradientFlow(), eq.GradientDescent(0.1)):
        mean = jax.jit(lambda rows, schedule=schedule: law.mean(rows, 3, schedule))(jnp.eye(2))
        np.testing.assert_allclose(mean, law.mean(jnp.eye(2), 3, schedule), rtol=1e-6)
    with pytest.raises(ValueError, match="`learning_rate`"):
        jax.jit(lambda rows: law.mean(rows, 10**4, eq.GradientDescent(3.0)))(jnp.eye(2))

"""The closed form against explicit iteration of the linearised dynamics, and everything it must refuse."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import eqbook as eq

NET = eq.Sequential(eq.Dense(8, W_std=1.4, b_std=0.3), eq.Erf(), eq.Dense(1))
RNG = np.random.default_rng(0)
TRAIN, TEST = RNG.normal(size=(7, 3)), RNG.normal(size=(4, 3))
Y = RNG.normal(size=(7, 2))


@pytest.fixture
def grams(x64):
    return eq.gram(NET, TRAIN), eq.gram(NET, TEST, TRAIN), eq.gram(NET, TEST)


@pytest.fixture
def law(grams):
    return eq.EnsembleLaw(ntk=grams[0].ntk, nngp=grams[0].nngp, y=Y)


def linear_map(schedule, t, theta, rows):
    """f_t(x) = f_0(x) - A_t (f_0(X) - Y) by iterating d f(x) = -eta Theta(x, X) (f(X) - Y), not by diagonalising."""
    n, m = len(theta), len(rows)
    if isinstance(schedule, eq.GradientDescent):
        steps, eta = int(t), schedule.learning_rate
        a, residual = np.zeros((m, n)), np.eye(n)
        for _ in range(steps):
            a, residual = a + eta * rows @ residual, residual - eta * theta @ residual
        return a
    # Gradient flow: 4th-order Runge-Kutta on the residual propagator and its integral.
    steps = 4000
    h, eta = t / steps, schedule.learning_rate
    propagator, integral = np.eye(n), np.zeros((n, n))
    slope = lambda p: -eta * theta @ p  # noqa: E731
    for _ in range(steps):
        k1 = slope(propagator)
        k2 = slope(propagator + h / 2 * k1)
        k3 = slope(propagator + h / 2 * k2)
        k4 = slope(propagator + h * k3)
        integral += h * (propagator + h / 6 * (k1 + k2 + k3))
        propagator = propagator + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return eta * rows @ integral


CASES = [(eq.GradientDescent(0.05), t) for t in (0, 1, 2, 57)] + [(eq.GradientFlow(0.7), t) for t in (0.0, 0.3, 4.0)]


@pytest.mark.every(2)
@pytest.mark.parametrize("schedule, t", CASES)
def test_mean_and_covariance_equal_the_iterated_dynamics(grams, law, schedule, t):
    train, rows, test = grams
    a = linear_map(schedule, t, np.asarray(train.ntk), np.asarray(rows.ntk))
    np.testing.assert_allclose(law.mean(rows.ntk, t, schedule), a @ Y, atol=1e-11)
    # f_t(x) = f_0(x) - A f_0(X) + A Y with Gaussian f_0: the covariance is a congruence of the joint prior.
    prior = np.block(
        [[np.asarray(test.nngp), np.asarray(rows.nngp)], [np.asarray(rows.nngp).T, np.asarray(train.nngp)]]
    )
    m = np.hstack([np.eye(len(a)), -a])
    np.testing.assert_allclose(law.covariance(test.nngp, rows, t, schedule), m @ prior @ m.T, atol=1e-11)


@pytest.mark.parametrize("schedule", [eq.GradientFlow(), eq.GradientDescent(0.01)])
def test_end_of_training(grams, law, schedule):
    """On the training set the mean is Y and the covariance 0; elsewhere the mean is kernel regression."""
    train, rows, _ = grams
    condition = float(law.eigenvalues[-1] / law.eigenvalues[0])
    bound = 100 * np.finfo(float).eps * condition
    np.testing.assert_allclose(law.train_mean(np.inf, schedule), Y, atol=bound)
    np.testing.assert_allclose(law.covariance(train.nngp, train, np.inf, schedule), 0, atol=bound)
    np.testing.assert_allclose(
        law.mean(rows.ntk, np.inf, schedule), rows.ntk @ np.linalg.solve(train.ntk, Y), atol=bound
    )


def test_large_learning_rate_oscillates_as_the_iteration_does(grams, law):
    train, rows, _ = grams
    eta = 3 / float(law.eigenvalues[-1])  # beyond 2 / lambda_max: finite times still have a value
    for t in (1, 2, 5, 8):
        schedule = eq.GradientDescent(eta)
        expected = linear_map(schedule, t, np.asarray(train.ntk), np.asarray(rows.ntk)) @ Y
        np.testing.assert_allclose(law.mean(rows.ntk, t, schedule), expected, rtol=1e-10)
    with pytest.raises(ValueError, match=r"`learning_rate`: expected < 2 / lambda_max"):
        law.mean(rows.ntk, np.inf, schedule)


def test_learning_rate_that_kills_a_mode_in_one_step(grams, law):
    """eta = 1 / lambda_max makes 1 - eta lambda exactly 0 for the largest mode."""
    schedule = eq.GradientDescent(float(1 / law.eigenvalues[-1]))
    for t in (0, 1, 2):
        expected = linear_map(schedule, t, np.asarray(grams[0].ntk), np.asarray(grams[0].ntk)) @ Y
        np.testing.assert_allclose(law.train_mean(t, schedule), expected, atol=1e-12)


def test_singular_gram_matrix(x64):
    twice = np.concatenate([TRAIN, TRAIN[:1]])
    k = eq.gram(NET, twice)
    law = eq.EnsembleLaw(ntk=k.ntk, nngp=k.nngp, y=np.concatenate([Y, Y[:1]]))
    assert np.isfinite(law.train_mean(10.0)).all()  # a finite time needs no inverse
    with pytest.raises(ValueError, match=r"`ntk`: expected an invertible Gram matrix .* remove duplicate inputs"):
        law.train_mean(np.inf)
    regular = eq.EnsembleLaw(ntk=k.ntk, y=np.concatenate([Y, Y[:1]]), diag_reg=1e-6)
    np.testing.assert_allclose(regular.train_mean(np.inf)[1:-1], Y[1:], atol=1e-3)


def test_diag_reg_is_ridge_regression(grams):
    train, rows, _ = grams
    law = eq.EnsembleLaw(ntk=train.ntk, y=Y, diag_reg=0.1)
    ridge = 0.1 * np.mean(np.diag(train.ntk)) * np.eye(len(Y))
    np.testing.assert_allclose(law.mean(rows.ntk, np.inf), rows.ntk @ np.linalg.solve(train.ntk + ridge, Y), rtol=1e-9)


def test_float32(dtype):
    k = eq.gram(NET, jnp.asarray(TRAIN, dtype))
    law = eq.EnsembleLaw(ntk=k.ntk, nngp=k.nngp, y=jnp.asarray(Y, dtype))
    for t in (0.0, 1.0, np.inf):
        mean = law.train_mean(t)
        assert mean.dtype == dtype and np.isfinite(mean).all()


def test_lists_and_integers():
    law = eq.EnsembleLaw(ntk=[[2, 1], [1, 2]], nngp=[[1, 0], [0, 1]], y=[[1], [3]])
    np.testing.assert_allclose(law.mean([[2, 1]], np.inf), [[1]], rtol=1e-5)
    rows = eq.grams.Gram(nngp=[[1, 0]], ntk=[[2, 1]])
    np.testing.assert_allclose(law.covariance([[1]], rows, np.inf), [[0]], atol=1e-5)


@pytest.mark.every(2)
@pytest.mark.parametrize("schedule", [eq.GradientFlow(0.7), eq.GradientDescent(0.01)])
@pytest.mark.parametrize("t", [3, np.inf])
def test_inside_transformations(grams, law, schedule, t):
    train, rows, test = grams
    expected = law.mean(rows.ntk, t, schedule), law.covariance(test.nngp, rows, t, schedule)

    def results(ntk, nngp, y, diag_reg=0.0):
        made = eq.EnsembleLaw(ntk, nngp, y, diag_reg)
        return made.mean(rows.ntk, t, schedule), made.covariance(test.nngp, rows, t, schedule)

    known = np.asarray(train.ntk), np.asarray(train.nngp)
    for found in (
        jax.jit(results)(train.ntk, train.nngp, Y),
        jax.jit(lambda y: results(*known, y))(Y),
        jax.jit(lambda y: results(train.ntk, train.nngp, y))(Y),
        jax.jit(lambda ntk: results(ntk, train.nngp, Y))(train.ntk),
        [one[0] for one in jax.vmap(results)(train.ntk[None], train.nngp[None], Y[None])],
    ):
        for one, other in zip(found, expected):
            np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-9)


def test_known_matrices_are_looked_at_inside_jit():
    skew, one = np.triu(np.ones((3, 3))), np.ones((3, 1))
    for known in (skew, jnp.asarray(skew)):
        with pytest.raises(ValueError, match="`ntk`: expected a symmetric"):
            jax.jit(lambda y, known=known: eq.EnsembleLaw(known, y=y).train_mean(1.0))(one)
    with pytest.raises(ValueError, match="`ntk`: expected numbers that stay finite in float32"):
        jax.jit(lambda y: eq.EnsembleLaw(1e300 * np.eye(3), y=y).train_mean(1.0))(one)
    regular, singular = (eq.EnsembleLaw(ntk, y=one) for ntk in (np.eye(3), np.zeros((3, 3))))
    np.testing.assert_allclose(jax.jit(lambda rows: regular.mean(rows, np.inf))(np.eye(3)), 1)
    with pytest.raises(ValueError, match="`ntk`: expected an invertible Gram matrix"):
        jax.jit(lambda rows: singular.mean(rows, np.inf))(np.eye(3))


@pytest.mark.parametrize("schedule", [eq.GradientFlow(1e-3), eq.GradientDescent(1e-3)])
def test_slow_modes_keep_their_digits(schedule, dtype):
    """phi_t(0) = eta t, and nearly so for modes of which next to nothing is learned, in float32 and float64."""
    small = np.array([0.0, 1e-12, 1e-9, 1e-6])
    learned = schedule.learned(small.astype(dtype), 20.0)
    assert learned.dtype == dtype
    # phi_t = eta t (1 - eta lambda t / 2 + ...): the last of these modes is off by 1e-8.
    np.testing.assert_allclose(learned, 0.02, rtol=2e-8 if dtype == np.float64 else 1e-6)


def test_rounding_below_zero_does_not_grow():
    """Tripled inputs: computed eigenvalues lie on both sides of 0, and exp(|lambda| t) would swamp everything."""
    k = eq.gram(NET, np.concatenate([TRAIN] * 3).astype(np.float32))
    law = eq.EnsembleLaw(ntk=k.ntk, y=np.concatenate([Y] * 3))
    assert law.eigenvalues[0] < 0
    for schedule in (eq.GradientFlow(), eq.GradientDescent(0.05)):
        np.testing.assert_allclose(law.train_mean(10**9, schedule)[: len(Y)], Y, atol=1e-2)


def test_eigenvalue_below_the_rounding_floor_is_singular(x64):
    law = eq.EnsembleLaw(ntk=np.diag([1e-18, 1.0]), y=np.ones((2, 1)))
    with pytest.raises(ValueError, match="expected an invertible Gram matrix"):
        law.train_mean(np.inf)
    for schedule in (eq.GradientFlow(), eq.GradientDescent(0.1)):
        with pytest.raises(ValueError, match="expected an invertible Gram matrix"):
            eq.EnsembleLaw(ntk=np.zeros((2, 2)), y=np.ones((2, 1))).train_mean(np.inf, schedule)


def test_few_inputs_are_refused_before_rounding_decides(dtype):
    """One input twice, with targets 1 and 3: the mean is 2, until rounding of the matrix is learned too."""
    ntk = np.array([[1, 1, 0.5], [1, 1, 0.5], [0.5, 0.5, 1]], dtype)
    law, scale, seen = eq.EnsembleLaw(ntk=ntk, y=np.array([[1], [3], [2]], dtype)), 1 / np.finfo(dtype).eps, []
    for t in scale * np.geomspace(1e-4, 10, 26):
        try:
            seen.append(np.abs(law.train_mean(t) - 2).max())
        except ValueError as error:
            assert "rounding would decide" in str(error)
    assert 10 < len(seen) < 26 and max(seen) < 0.1


def test_learning_rate_at_the_edge_does_not_converge():
    law = eq.EnsembleLaw(ntk=np.diag([1.0, 4.0]), y=np.ones((2, 1)))
    with pytest.raises(ValueError, match=r"expected < 2 / lambda_max = 0.5 .* got 0.5"):
        law.train_mean(np.inf, eq.GradientDescent(0.5))
    np.testing.assert_allclose(law.train_mean(np.inf, eq.GradientDescent(0.499)), 1, rtol=1e-6)


EYE = np.eye(3)
BAD = {
    "not square": (
        lambda: eq.EnsembleLaw(ntk=np.ones((2, 3)), y=np.ones((2, 1))),
        r"`ntk`: expected a square Gram matrix",
    ),
    "empty": (lambda: eq.EnsembleLaw(ntk=np.ones((0, 0)), y=np.ones((0, 1))), r"`ntk`: expected a square Gram matrix"),
    "not symmetric": (
        lambda: eq.EnsembleLaw(ntk=np.triu(np.ones((3, 3))), y=np.ones((3, 1))),
        "`ntk`: expected a symmetric",
    ),
    "half precision": (
        lambda: eq.EnsembleLaw(ntk=np.eye(3, dtype=np.float16), y=np.ones((3, 1))),
        "`ntk`: expected float32 or float64, got float16; compute",
    ),
    "bfloat16": (
        lambda: eq.EnsembleLaw(ntk=jnp.eye(3, dtype=jnp.bfloat16), y=np.ones((3, 1))),
        "`ntk`: expected float32 or float64, got bfloat16; compute",
    ),
    "slightly skew": (
        lambda: eq.EnsembleLaw(ntk=EYE + 3e-3 * np.triu(np.ones((3, 3))), y=np.ones((3, 1))),
        "`ntk`: expected a symmetric",
    ),
    "complex": (lambda: eq.EnsembleLaw(ntk=EYE * 1j, y=np.ones((3, 1))), "`ntk`: expected an array of real numbers"),
    "a Gram": (
        lambda: eq.EnsembleLaw(eq.grams.Gram(EYE, EYE), y=np.ones((3, 1))),
        "`ntk`: expected one matrix, got the Gram with both kernels; give its `.ntk`",
    ),
    "a Gram for the other": (
        lambda: eq.EnsembleLaw(EYE, eq.grams.Gram(EYE, EYE), np.ones((3, 1))),
        "`nngp`: expected one matrix, got .* give its `.nngp`",
    ),
    "no kernel": (lambda: eq.EnsembleLaw(None, y=np.ones((3, 1))), r"`ntk`: .* \[n, n\], got None; .* `kinds`"),
    "an object": (lambda: eq.EnsembleLaw(object(), y=np.ones((3, 1))), "`ntk`: expected an array .*, got <object"),
    "rate too large": (lambda: eq.GradientFlow(10**400), "GradientFlow: `learning_rate`: expected a finite number"),
    "rate traced": (
        lambda: jax.grad(lambda rate: eq.GradientDescent(rate).learning_rate)(0.1),
        "GradientDescent: `learning_rate`: expected a number, got an abstract value.* schedules cannot be traced",
    ),
    "infinite ridge": (
        lambda: eq.EnsembleLaw(ntk=EYE, y=np.ones((3, 1)), diag_reg=np.inf),
        "`diag_reg`: expected a number >= 0",
    ),
    "rate text": (lambda: eq.GradientFlow("1"), "GradientFlow: `learning_rate`: expected a finite number > 0"),
    "rates": (lambda: eq.GradientDescent(np.ones(2)), "GradientDescent: `learning_rate`"),
    "nan": (lambda: eq.EnsembleLaw(ntk=EYE * np.nan, y=np.ones((3, 1))), "`ntk`: expected finite numbers"),
    "no y": (lambda: eq.EnsembleLaw(ntk=EYE), r"`y`: expected targets \[n, k\] with n = 3"),
    "y vector": (lambda: eq.EnsembleLaw(ntk=EYE, y=np.ones(3)), r"`y`: expected targets \[n, k\] .* got shape \(3,\)"),
    "y nan": (lambda: eq.EnsembleLaw(ntk=EYE, y=np.full((3, 1), np.nan)), "`y`: expected finite numbers"),
    "nngp size": (
        lambda: eq.EnsembleLaw(ntk=EYE, nngp=np.eye(2), y=np.ones((3, 1))),
        r"`nngp`: expected shape \(3, 3\)",
    ),
    "negative ridge": (
        lambda: eq.EnsembleLaw(ntk=EYE, y=np.ones((3, 1)), diag_reg=-1),
        "`diag_reg`: expected a number >= 0",
    ),
    "rate": (lambda: eq.GradientFlow(0.0), "GradientFlow: `learning_rate`: expected a finite number > 0"),
    "rate nan": (lambda: eq.GradientDescent(float("nan")), "GradientDescent: `learning_rate`"),
}


@pytest.mark.parametrize("make, message", BAD.values(), ids=list(BAD))
def test_bad_construction(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_rows_that_leave_single_precision_are_named():
    law, far = eq.EnsembleLaw(ntk=EYE, nngp=EYE, y=np.ones((3, 1))), np.full((1, 3), 1e300)
    ones = np.ones((1, 3))
    for name, call in {
        "ntk_test_train": lambda: law.mean(far, 1.0),
        "nngp_test_test": lambda: law.covariance(far[:, :1], eq.grams.Gram(ones, ones), 1.0),
        "test_train.nngp": lambda: law.covariance(ones[:, :1], eq.grams.Gram(nngp=far, ntk=ones), 1.0),
        "test_train.ntk": lambda: law.covariance(ones[:, :1], eq.grams.Gram(nngp=ones, ntk=far), 1.0),
    }.items():
        for use in (call, jax.jit(call)):  # known arrays are looked at inside `jit` as well
            with pytest.raises(ValueError, match=f"`{name}`: expected numbers that stay finite in float32"):
                use()


def test_bad_use():
    law = eq.EnsembleLaw(ntk=EYE, y=np.ones((3, 1)))
    for t in (-1.0, float("nan")):
        with pytest.raises(ValueError, match="`t`: expected a training time >= 0"):
            law.train_mean(t)
    with pytest.raises(ValueError, match="`t`: expected a whole number of steps"):
        law.train_mean(1.5, eq.GradientDescent(0.1))
    with pytest.raises(ValueError, match=r"`ntk_test_train`: expected \[m, n\] with n = 3"):
        law.mean(np.ones((2, 4)), 1.0)
    with pytest.raises(ValueError, match="`nngp`: expected the training Gram matrix"):
        law.covariance(EYE, eq.grams.Gram(EYE, EYE), 1.0)
    full = eq.EnsembleLaw(ntk=EYE, nngp=EYE, y=np.ones((3, 1)))
    with pytest.raises(ValueError, match=r"`test_train.nngp`: expected \[m, n\]"):
        full.covariance(EYE, eq.grams.Gram(ntk=EYE), 1.0)
    with pytest.raises(ValueError, match=r"`nngp_test_test`: expected \[m, m\] with m = 3"):
        full.covariance(np.eye(2), eq.grams.Gram(EYE, EYE), 1.0)
    with pytest.raises(ValueError, match=r"`test_train.nngp`: expected shape \(3, 3\) as its `ntk`, got \(1, 3\)"):
        full.covariance(EYE, eq.grams.Gram(nngp=EYE[:1], ntk=EYE), 1.0)
    with pytest.raises(ValueError, match="`nngp_test_test`: expected finite numbers"):
        full.covariance(EYE * np.nan, eq.grams.Gram(EYE, EYE), 1.0)
    for t in (np.ones(2), "1", 10**400):
        with pytest.raises(ValueError, match="`t`: expected one number"):
            law.train_mean(t)
    untraced = "`t`: expected one number, got an abstract value, float32.*`t` cannot be traced.* `grad` or `vmap`"
    for transformed in (jax.grad(lambda t: law.train_mean(t).sum()), jax.jit(law.train_mean)):
        with pytest.raises(ValueError, match=untraced):
            transformed(1.0)
    with pytest.raises(ValueError, match=untraced):
        jax.vmap(law.train_mean)(jnp.ones(2))
    for call in (
        lambda k: law.mean(k, 1.0),
        lambda k: full.covariance(k, k, 1.0),
        lambda k: eq.dynamics.RowMatrix(k),
        lambda k: eq.dynamics.solve(k, np.ones((3, 1))),
    ):
        with pytest.raises(ValueError, match="Gram.*(give its `.n|RowMatrix.matrix.ntk)"):
            call(eq.grams.Gram(EYE, EYE))
    for schedule in (eq.GradientFlow, 0.1):
        with pytest.raises(ValueError, match="`schedule`: expected GradientFlow"):
            law.train_mean(1.0, schedule)


def test_rates_of_jax_become_python_numbers(x64):
    """Theirs would be another dtype."""
    for rate in (jnp.float32(0.25), np.float64(0.25), np.float32(0.25)):
        schedule = eq.GradientDescent(rate)
        assert type(schedule.learning_rate) is float and schedule == eq.GradientDescent(0.25)


def test_what_a_law_shows():
    """Shapes, and not all numbers."""
    law = eq.EnsembleLaw(ntk=np.eye(30), y=np.ones((30, 2)), diag_reg=1e-3)
    assert repr(law) == "EnsembleLaw(ntk=float32[30, 30], nngp=None, y=float32[30, 2], diag_reg=0.001)"
    matrix = eq.dynamics.RowMatrix(np.eye(30, dtype=np.float32))
    assert repr(matrix) == "RowMatrix(n=30, dtype=float32, devices=1)"
    solution = eq.dynamics.solve(matrix, np.ones((30, 1), np.float32))
    assert repr(solution).startswith("Solution(weights=float32[30, 1], residual=")

"""The rate from the largest eigenvalue: against dense kernels, and at the edge of divergence."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from numbers_drawn import normal

import eqbook as eq
from eqbook.ensembles import ntk_learning_rate
from eqbook.ensembles.learning_rate import largest_eigenvalue

NET = eq.Sequential(eq.Dense(32, b_std=0.3), eq.Relu(), eq.Dense(2))
X = normal(1, (10, 4))


def dense_kernel(params, x):
    """J J^T over examples and outputs."""
    jacobian = jax.tree.leaves(jax.jacrev(lambda p: NET.apply(p, x).reshape(-1))(params))
    flat = jnp.concatenate([leaf.reshape(len(leaf), -1) for leaf in jacobian], axis=1)
    return np.asarray(flat @ flat.T)


def test_against_the_dense_kernel(x64):
    x = jnp.asarray(X, jnp.float64)
    params = NET.init(jax.random.key(0), x.shape)
    expected = 2 / np.linalg.eigvalsh(dense_kernel(params, x))[-1]
    for tolerance in (1e-2, 1e-6):
        rate = ntk_learning_rate(NET, params, x, tolerance=tolerance)
        assert (1 - 2 * tolerance) * expected < rate <= expected * (1 + 1e-12), "on the small side"
    assert ntk_learning_rate(NET, params, x, fraction=0.25) == pytest.approx(expected / 4, rel=2e-3)


def test_a_key_draws_the_parameters():
    params = NET.init(jax.random.key(3), X.shape)
    assert ntk_learning_rate(NET, jax.random.key(3), X) == pytest.approx(ntk_learning_rate(NET, params, X), rel=1e-5)
    assert ntk_learning_rate(NET, jax.random.PRNGKey(3), X) == ntk_learning_rate(NET, jax.random.key(3), X)
    assert ntk_learning_rate(NET, jax.random.key(4), X) != pytest.approx(ntk_learning_rate(NET, params, X), rel=1e-5)


def test_infinite_width():
    expected = 2 / np.linalg.eigvalsh(np.asarray(eq.gram(NET, X).ntk))[-1]
    assert ntk_learning_rate(NET, "infinite", X) == pytest.approx(expected, rel=1e-5)


@pytest.mark.every(2)
@pytest.mark.parametrize(("fraction", "diverges"), [(0.95, False), (1.05, True)])
def test_it_is_the_edge_for_a_linear_network(fraction, diverges, x64):
    """The largest eigenvector's error shrinks by 0.9 in each step below, and grows by 1.1 above."""
    net, x = eq.Sequential(eq.Dense(1)), jnp.asarray(X, jnp.float64)
    rate = ntk_learning_rate(net, jax.random.key(0), x, fraction=fraction, tolerance=1e-9)
    y = x @ jnp.ones((4, 1))
    run = eq.train_ensemble(
        net, jax.random.key(0), x, y, members=1, epochs=200, record=[1, 200], optimizer=optax.sgd(rate)
    )
    start = eq.train_ensemble(
        net, jax.random.key(0), x, y, members=1, epochs=0, optimizer=optax.sgd(rate), watch={"x": x}
    )
    before = 0.5 * np.sum((start.outputs["x"][0, 0] - y) ** 2)
    after = 0.5 * np.sum((run.predict(x)[0] - y) ** 2)
    assert (after > 100 * before) if diverges else (after < 0.5 * before)


def test_lanczos_on_known_spectra():
    values = np.concatenate([np.linspace(0, 1, 60), [1.5]])
    rotation = np.linalg.qr(np.random.default_rng(1).normal(size=(61, 61)))[0]
    matrix = rotation @ np.diag(values) @ rotation.T
    assert 1.5 <= largest_eigenvalue(lambda v: matrix @ v, 61, 1e-8) * (1 + 1e-12) < 1.5 * (1 + 1e-7)
    assert largest_eigenvalue(lambda v: 3 * v, 5) == pytest.approx(3)
    assert largest_eigenvalue(lambda v: 2 * v, 1) == pytest.approx(2)
    with pytest.raises(RuntimeError, match="raise `max_steps`"):
        largest_eigenvalue(lambda v: matrix @ v, 61, 1e-12, max_steps=3)


@pytest.mark.parametrize(
    ("changes", "argument"),
    [
        ({"x": X[0]}, "x"),
        ({"x": X * np.nan}, "x"),
        ({"fraction": 0}, "fraction"),
        ({"fraction": np.nan}, "fraction"),
        ({"tolerance": -1.0}, "tolerance"),
        ({"max_steps": 0}, "max_steps"),
        ({"at": jnp.ones(3)}, "at"),
        ({"at": "finite"}, "at"),
        ({"at": jax.tree.map(lambda leaf: leaf * np.nan, NET.init(jax.random.key(0), X.shape))}, "at"),
        ({"x": X * 0, "net": eq.Sequential(eq.Dense(1))}, "x"),
    ],
)
def test_bad_input(changes, argument):
    with pytest.raises(ValueError, match=f"`{argument}`"):
        ntk_learning_rate(**{"net": NET, "at": jax.random.key(0), "x": X, **changes})

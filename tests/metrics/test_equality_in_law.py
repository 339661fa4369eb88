"""The exact test of equivariance in law: against its definition, its level, its power, and bad input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from registry import planar_matrices

import eqbook as eq
from eqbook.metrics import equality_in_law, equivariance_p_value

D3, MATRICES = eq.dihedral(3), planar_matrices(3, True)
ON_PLANE = eq.groups.MatrixAction(D3, MATRICES)


def draw(*shape, seed=0):
    return np.random.default_rng(seed).gamma(0.5, size=shape)  # nothing symmetric about it


class Without(eq.groups.Action):
    """No group."""


class Widening(eq.groups.Action):
    """Outputs of another shape."""

    group = D3

    def __call__(self, g, x):
        return jnp.stack([x, x])


def by_definition(u, group, draws, seed):
    """p from T as it is written; u `[members, order, n, ...]`."""
    drawn = np.random.default_rng(seed).integers(0, group.order, (1 + draws, len(u)), dtype=np.uint8)
    drawn[0] = group.identity
    u = u - u.mean(1, keepdims=True)
    T = []
    for g in drawn:
        moved = [np.stack([one[group.table[a, h]] for h in group.elements]) for a, one in zip(g, u)]
        T.append(np.sum(np.mean(moved, 0) ** 2))
    T = np.array(T)
    return np.mean(T >= T[0] * (1 - 1e-12))


@pytest.mark.parametrize("draws", [3, 150])  # sums over members, sums over pairs
@pytest.mark.parametrize("seed", range(4))
def test_is_its_definition(draws, seed):
    u = draw(7, 6, 5, 2, seed=seed)
    assert equivariance_p_value(u, D3, draws=draws, seed=seed) == by_definition(u, D3, draws, seed)
    f = np.einsum("gij,mgnj->mgni", MATRICES, u)
    assert equivariance_p_value(f, D3, ON_PLANE, draws, seed) == by_definition(u, D3, draws, seed)


def test_both_ways_and_parts_agree(monkeypatch):
    monkeypatch.setattr(equality_in_law, "AT_ONCE", 2**9)  # some inputs at a time
    y = draw(12, 6, 40)
    y -= y.mean(1, keepdims=True)  # more members than are taken at once
    drawn = np.random.default_rng(1).integers(0, 6, (30, 12))
    pairs, sums = (way(y, D3, drawn) for way in (equality_in_law._by_pairs, equality_in_law._by_sums))
    np.testing.assert_allclose(pairs, sums, rtol=1e-12)
    u = draw(12, 6, 40, seed=3)
    for draws in (5, 60):
        assert equivariance_p_value(u, D3, draws=draws, seed=2) == by_definition(u, D3, draws, 2)


def test_has_its_level():
    """Functions of the plane, each seen from a random side: shares of p below a are binomial, and at most a."""
    rng, x = np.random.default_rng(5), draw(4, 2, seed=9) - 0.5
    A, b = rng.normal(size=(2, 8)), rng.normal(size=8)
    V = rng.normal(size=(8, 2))
    orbit = np.einsum("gij,nj->gni", MATRICES, x)

    def function(g):
        """f(x) = M_g^-1 F(M_g x), for a function F without a symmetry."""
        return np.tanh(orbit @ MATRICES[g].T @ A + b) @ V @ MATRICES[g]

    of_element = np.stack([function(g) for g in D3.elements])
    p = np.array(
        [
            equivariance_p_value(of_element[rng.integers(0, 6, 5)], D3, ON_PLANE, draws=19, seed=seed)
            for seed in range(600)
        ]
    )
    for a in (0.05, 0.1, 0.25, 0.5):  # within four standard deviations
        assert np.mean(p <= a) < a + 4 * np.sqrt(a * (1 - a) / len(p))
    assert np.mean(p <= 0.5) > 0.3  # and not far below it
    # All from one side: none averages another's error out.
    assert equivariance_p_value(of_element[[2] * 12], D3, ON_PLANE) == 1 / 1000


def test_notices_a_preferred_orientation():
    rng = np.random.default_rng(0)
    shared = 0.3 * rng.standard_normal((1, 4, 50, 2))
    members = rng.standard_normal((40, 4, 50, 2))
    C4 = eq.cyclic(4)
    assert equivariance_p_value(members, C4) > 0.01
    assert equivariance_p_value(members + shared, C4) == 1 / 1000
    assert equivariance_p_value(members + shared, C4, draws=9) == 1 / 10
    # The subgroup C_2 of the first, with two cosets as inputs: turns by 180 degrees leave this part alone.
    half = np.concatenate([shared[:, :2]] * 2, 1)
    as_inputs = (members + half).reshape(40, 2, -1, 2)
    assert equivariance_p_value(as_inputs, eq.cyclic(2)) > 0.01
    assert equivariance_p_value(members + half, C4) == 1 / 1000


def test_augmented_networks_have_it_and_others_do_not():
    """Members trained on all rotations of three points, and on these points alone."""
    C4 = eq.cyclic(4)
    action = eq.groups.MatrixAction(C4, planar_matrices(4, False))
    x = jnp.asarray([[1.0, 0.2], [0.1, 0.8], [-0.5, 0.9]])
    y = jnp.asarray([[1.0], [-1.0], [0.5]])
    net = eq.Sequential(eq.Dense(16, W_std=1.5, b_std=0.5), eq.Erf(), eq.Dense(1))

    def member(key, x, y):
        def loss(params):
            return jnp.sum((net.apply(params, x) - y) ** 2)

        params = net.init(key, x.shape)
        step = lambda _, p: jax.tree.map(lambda a, b: a - 0.02 * b, p, jax.grad(loss)(p))  # noqa: E731
        return jax.lax.fori_loop(0, 100, step, params)

    watched = jax.random.normal(jax.random.key(3), (20, 2))
    orbit = jnp.stack([action(g, watched) for g in C4.elements])
    p = []
    for data in (eq.groups.augment(action, x, eq.groups.TrivialAction(C4), y), (x, y)):
        params = jax.vmap(member, (0, None, None))(jax.random.split(jax.random.key(0), 60), *data)
        outputs = jax.vmap(lambda one: net.apply(one, orbit.reshape(-1, 2)))(params).reshape(60, 4, 20, 1)
        p.append(equivariance_p_value(outputs, C4))
    assert p[0] > 0.001 and p[1] == 0.001


def test_equivariant_members_and_large_numbers():
    C4 = eq.cyclic(4)
    same = np.repeat(draw(3, 1, 6), 4, 1)
    assert equivariance_p_value(same, C4) == 1
    assert equivariance_p_value(same + 1e8, C4) == 1
    turned = np.einsum("gij,mnj->mgni", planar_matrices(4, False), draw(3, 6, 2))
    assert equivariance_p_value(np.round(2**20 * turned), C4) < 1
    action = eq.groups.MatrixAction(C4, planar_matrices(4, False).round())
    u = np.einsum("gij,mnj->mgni", planar_matrices(4, False).round(), draw(3, 6, 2))
    assert equivariance_p_value(u, C4, action) == 1
    u = draw(6, 4, 8)
    p = equivariance_p_value(u, C4, draws=99)
    for factor in (1e-310, 1e-200, 1e200, -3.0):
        assert equivariance_p_value(factor * u, C4, draws=99) == p
    constant = np.full((6, 4, 1), 1e170)
    assert equivariance_p_value(np.concatenate([u, constant], 2), C4, draws=99) == p
    on_pairs = eq.groups.MatrixAction(C4, planar_matrices(4, False))
    pairs = u.reshape(6, 4, 4, 2)
    p_of_pairs = equivariance_p_value(pairs, C4, on_pairs, draws=99)
    for factor in (1e-310, 1e307):
        assert equivariance_p_value(factor * pairs, C4, on_pairs, draws=99) == p_of_pairs
    assert equivariance_p_value(u.astype(np.float32), C4, draws=99) == p
    assert equivariance_p_value(u.tolist(), C4, draws=np.int8(99)) == p
    assert equivariance_p_value(np.zeros((2, 4, 1)), C4) == 1
    assert 0 < equivariance_p_value(jnp.asarray(u, jnp.bfloat16), C4) <= 1
    assert 0 < equivariance_p_value(np.arange(48).reshape(3, 4, 4) % 7, C4) <= 1


def test_an_identity_that_is_not_the_first_element():
    order = np.array([2, 0, 1])
    group = eq.groups.FiniteGroup(order[eq.cyclic(3).table[np.argsort(order)][:, np.argsort(order)]])
    assert group.identity == 2
    u = draw(5, 3, 4)
    assert equivariance_p_value(u[:, np.argsort(order)], group, draws=50) == by_definition(
        u[:, np.argsort(order)], group, 50, 0
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"outputs": np.ones((1, 6, 3))}, r"`outputs`: expected .* at least 2 members and order = 6, got shape"),
        ({"outputs": np.ones((3, 4, 3))}, r"`outputs`: expected .* order = 6, got shape \(3, 4, 3\)"),
        ({"outputs": np.ones((3, 6))}, r"`outputs`: expected \[members, order, n"),
        ({"outputs": np.ones((3, 6, 0))}, r"`outputs`: expected"),
        ({"outputs": np.full((3, 6, 2), np.nan)}, r"`outputs`: expected finite numbers"),
        ({"outputs": np.ones((3, 6, 2), complex)}, r"`outputs`: expected an array of real numbers"),
        ({"outputs": [[1.0], [1.0, 2.0]]}, r"`outputs`"),
        ({"outputs": None}, r"`outputs`: expected an array of numbers, got None"),
        ({"outputs": "abc"}, r"`outputs`: expected an array of numbers, got 'abc'"),
        ({"outputs": 1.0}, r"`outputs`: expected \[members.*got 1.0; stack"),
        ({"outputs": np.full((3, 6, 2), np.longdouble("1e4000"))}, r"`outputs`: expected numbers that stay finite"),
        ({"outputs": np.ones((3, 6, 2, 3)), "action_out": ON_PLANE}, r"`action_out`: .* outputs of shape \(3,\), got"),
        ({"outputs": np.ones((6, 6, 4, 2)), "action_out": eq.groups.RegularAction(D3, -3)}, r"`action_out`: expected"),
        ({"action_out": Widening()}, r"`action_out`: expected an action that keeps real outputs of shape \(\)"),
        ({"action_out": Without()}, r"`action_out`: expected an action of `group`, .*, got one of None"),
        ({"group": 6}, r"`group`: expected a group"),
        ({"action_out": MATRICES}, r"`action_out`: expected an action"),
        ({"action_out": eq.groups.TrivialAction(eq.cyclic(6))}, r"`action_out`: expected an action of `group`"),
        ({"draws": 0}, r"`draws`: expected"),
        ({"draws": 9.5}, r"`draws`: expected"),
        ({"seed": -1}, r"`seed`: expected"),
    ],
)
def test_refuses(change, message):
    with pytest.raises(ValueError, match=message):
        equivariance_p_value(**{"outputs": np.ones((3, 6, 2)), "group": D3, **change})


def test_refuses_what_it_cannot_look_at():
    with pytest.raises(ValueError, match="`outputs`"):
        jax.jit(lambda u: equivariance_p_value(u, D3))(np.ones((3, 6, 2)))

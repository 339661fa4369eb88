"""Metrics: their definitions on cases that can be counted by hand, their invariances, and bad input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numbers_drawn import normal
from registry import planar_matrices
from scipy import special
from scipy.spatial.transform import Rotation

import eqbook as eq
from eqbook.metrics import (
    orbit_kl,
    orbit_mse,
    orbit_same_predictions,
    random_rotation_fraction,
    relative_orbit_std,
    same_class_fraction,
)
from eqbook.testing import tolerance

C4, TRIVIAL_D4 = eq.cyclic(4), eq.groups.TrivialAction(eq.dihedral(4))


def test_orbit_same_predictions_by_hand():
    scores = np.zeros((4, 2, 3))
    scores[:, 0, 1] = 1  # class 1 everywhere
    scores[[0, 2], 1, 0] = 1  # class 0 at two elements, class 2 at one, class 1 at the last
    scores[1, 1, 2] = scores[3, 1, 1] = 1
    np.testing.assert_array_equal(orbit_same_predictions(scores), [4, 2])


def test_orbit_same_predictions_counts_the_identity_and_at_most_the_order():
    scores = normal(0, (5, 50, 4))
    osp = orbit_same_predictions(scores)
    assert osp.min() >= 1 and osp.max() <= 5
    np.testing.assert_array_equal(osp, orbit_same_predictions(3 * scores + 1))


def test_relative_orbit_std_by_hand_and_scale_free():
    values = np.array([[1.0, 2.0, -4.0], [3.0, 2.0, -4.0]])
    np.testing.assert_allclose(relative_orbit_std(values), [0.5, 0, 0])
    np.testing.assert_allclose(relative_orbit_std(-7 * values), [0.5, 0, 0], rtol=1e-6)
    for scale in (1e-37, 1e-30, 1e30, 3e37):  # whose squares are no numbers of 32 bits
        np.testing.assert_allclose(relative_orbit_std(np.float32(scale * values)), [0.5, 0, 0], rtol=1e-6)
    np.testing.assert_array_equal(relative_orbit_std(np.array([[1.0], [-1.0]])), [np.inf])


def test_relative_orbit_std_is_exactly_zero_for_equal_outputs():
    """0.1 + 0.1 + 0.1 rounds: a mean of three equal numbers is not the number."""
    for value in (0.1, 1.3e-3, 7e5, 0.0):
        np.testing.assert_array_equal(relative_orbit_std(np.full((3, 2), value, np.float32)), 0)


def test_lists():
    np.testing.assert_array_equal(orbit_same_predictions([[[1.0, 0.0]], [[0.0, 1.0]]]), [1])
    np.testing.assert_allclose(relative_orbit_std([[1.0], [3.0]]), [0.5])
    np.testing.assert_allclose(relative_orbit_std(np.array([[3], [1]], np.uint8)), [0.5])  # 1 - 3 is not 254


def test_orbit_mse_by_hand():
    """Outputs in the plane under quarter turns: f(x) = (1, 0), and 3 more than its rotations at one element."""
    rotations = eq.groups.MatrixAction(C4, planar_matrices(4, False))
    outputs = np.array([[[1.0, 0.0]], [[0.0, 1.0]], [[-1.0, 0.0]], [[3.0, -1.0]]])
    np.testing.assert_allclose(orbit_mse(outputs, rotations), [9 / (4 * 2)])
    np.testing.assert_allclose(orbit_mse(outputs, planar_matrices(4, False)), [9 / (4 * 2)], rtol=1e-6)


def test_orbit_mse_is_zero_for_equivariant_images_and_only_for_them():
    action = eq.groups.ImageAction(eq.dihedral(4))
    x = normal(0, (3, 5, 5, 2))
    equivariant = eq.groups.orbit(action, x) ** 2
    np.testing.assert_array_equal(orbit_mse(equivariant, action), 0)
    np.testing.assert_array_equal(
        orbit_mse(eq.groups.orbit(action, x[:, :, :, :1]).mean((2, 3)), TRIVIAL_D4) < 1e-12, True
    )
    broken = equivariant.at[3, 1, 0, 0, 0].add(0.1)
    np.testing.assert_array_equal(orbit_mse(broken, action) > 0, [False, True, False])
    assert (orbit_mse(equivariant, TRIVIAL_D4) > 0.1).all()  # the wrong action


def test_orbit_mse_over_the_orbit_is_twice_the_variance(x64):
    """Mean over h of the metric at rho(h) x, for outputs that are not equivariant; D_3 is not abelian."""
    group = eq.dihedral(3)
    action = eq.groups.MatrixAction(group, planar_matrices(3, True))
    outputs = normal(0, (6, 4, 2))  # f(rho(g) x)
    moved = [outputs[group.table[:, h]] for h in group.elements]  # f(rho(g) rho(h) x)
    metric = np.mean([orbit_mse(values, action) for values in moved], axis=0)
    back = np.stack([action(group.inverse[g], outputs[g]) for g in group.elements])
    np.testing.assert_allclose(metric, 2 * back.var(0).mean(-1), rtol=tolerance(np.float64, 72))


def test_orbit_mse_of_cross_products_under_random_rotations(x64):
    """a x b is equivariant under SO(3), and not under reflections."""
    matrices = np.concatenate([np.eye(3)[None], Rotation.random(20, random_state=0).as_matrix()])
    a, b = np.random.default_rng(0).normal(size=(2, 7, 3))
    outputs = np.cross(np.einsum("gij,nj->gni", matrices, a), np.einsum("gij,nj->gni", matrices, b))
    scale = np.mean(outputs**2)
    assert (orbit_mse(outputs, matrices) < tolerance(np.float64, 9) ** 2 * scale * 20).all()
    assert (orbit_mse(outputs, np.concatenate([np.eye(3)[None], -matrices[1:]])) > 0.01).all()


def test_orbit_kl_against_its_definition(x64):
    scores = np.random.default_rng(0).normal(size=(5, 6, 4))
    p = special.softmax(scores, axis=-1)
    expected = np.mean(special.rel_entr(p, p[0]) + special.rel_entr(p[0], p), axis=0).sum(-1)
    np.testing.assert_allclose(orbit_kl(scores), expected, rtol=tolerance(np.float64, 20) * 100)
    # Scores shifted by a number per image are the same probabilities.
    shifted = scores + np.random.default_rng(1).normal(size=(5, 6, 1))
    np.testing.assert_allclose(orbit_kl(shifted), expected, rtol=tolerance(np.float64, 20) * 100)
    order = [0, 3, 1, 4, 2]
    np.testing.assert_allclose(orbit_kl(scores[order]), expected, rtol=tolerance(np.float64, 20) * 100)


def test_orbit_kl_of_two_classes_by_hand():
    """p_e = 1/2 and p_g = 3/4: (1/4) log 3 for the larger class, as much for the other, half of it on average."""
    scores = np.array([[[0.0, 0.0]], [[np.log(3.0), 0.0]]])
    np.testing.assert_allclose(orbit_kl(scores), [(0.25 * np.log(1.5) - 0.25 * np.log(0.5)) / 2], rtol=1e-6)


def test_orbit_kl_of_extreme_scores_is_finite_and_of_equal_ones_zero():
    scores = np.zeros((2, 2, 2), np.float32)
    scores[1, 0] = [1e4, -1e4]
    scores[:, 1] = [3e4, -7.0]
    kl = np.asarray(orbit_kl(scores))
    np.testing.assert_allclose(kl[0], (0.5 * np.log(2) + 0.5 * (2e4 - np.log(2))) / 2, rtol=1e-4)
    assert kl[1] == 0


def test_same_class_fraction_by_hand():
    upright = np.array([[1.0, 0.0], [0.0, 1.0]])
    rotated = np.array([[[2.0, 0.0], [1.0, 0.0]], [[1.0, 3.0], [0.0, 1.0]], [[1.0, 0.0], [5.0, 6.0]]])
    np.testing.assert_allclose(same_class_fraction(upright, rotated), [2 / 3, 2 / 3])
    # With the identity in front, the fraction is orbit_same_predictions over the number of elements.
    both = np.concatenate([upright[None], rotated])
    np.testing.assert_allclose(same_class_fraction(upright, both) * 4, orbit_same_predictions(both), rtol=1e-6)


WIDE = {
    "1e300": ([1e300, 2e300], [2e300, 1e300]),
    "the eleventh digit": ([1, 1 + 1e-10], [1 + 1e-10, 1]),
    "int64": ([2**32, 2**32 + 1], [5, 1]),
    "uint64": (np.array([2**63, 1], np.uint64), np.array([1, 5], np.uint64)),
}


@pytest.mark.parametrize("first, second", WIDE.values(), ids=list(WIDE))
def test_classes_of_scores_that_jax_would_narrow(first, second, dtype):
    """Of NumPy's numbers of 64 bits none is rounded or wraps around."""
    scores = np.array([[first], [second], [first]])
    np.testing.assert_array_equal(orbit_same_predictions(scores), [2])
    np.testing.assert_array_equal(orbit_same_predictions(scores[:, :, ::-1]), [2])
    np.testing.assert_allclose(same_class_fraction(scores[0], scores[1:]), [0.5])
    same = jnp.argmax(jnp.asarray([[0, 1]]), -1) == np.argmax(scores[0], -1)
    assert same_class_fraction(jnp.array([[0.0, 1.0]]), scores[:1]) == same  # one of each kind
    predict = lambda x: np.repeat(scores[1], len(x), 0)  # noqa: E731
    np.testing.assert_array_equal(
        random_rotation_fraction(jax.random.key(0), predict, turn, np.ones((3, 2), np.float32), 2), 1
    )


def test_rotations_of_a_predictor_in_double_precision():
    """Scores of NumPy whose difference single precision does not see: angles decide the class."""

    def predict(x):
        up = np.asarray(x)[:, 1] > 0.5
        return 1 + 1e-10 * np.stack([up, ~up], -1)

    fraction = random_rotation_fraction(jax.random.key(0), predict, turn, np.array([[0.0, 1.0]]), 100)
    assert abs(fraction[0] - 1 / 3) < 4 * np.sqrt(2 / 9 / 100)


def test_relative_orbit_std_of_numbers_that_jax_would_narrow(dtype):
    for scale in (1e-300, 1e-40, 1e40, 5e307, 2**61):
        for outputs in (np.array([[scale], [2 * scale]]), [[scale], [2 * scale]]):
            found = relative_orbit_std(outputs)
            assert found.dtype == dtype
            np.testing.assert_allclose(found, [1 / 3], rtol=1e-6)
    np.testing.assert_allclose(relative_orbit_std(np.array([[1e308], [-1e308]])), [np.inf])
    np.testing.assert_allclose(relative_orbit_std(np.array([[1.0], [1 + 2e-10]])), [1e-10], rtol=1e-5)
    np.testing.assert_array_equal(relative_orbit_std(np.full((3, 1), 1e300)), [0])


def test_inside_jit():
    outputs, matrices = normal(0, (4, 5, 2)), planar_matrices(4, False).astype(np.float32)
    known = orbit_mse(outputs, matrices)
    of_device = jnp.asarray(matrices)
    for call in (
        jax.jit(orbit_mse),
        lambda o, _: jax.jit(lambda o: orbit_mse(o, matrices))(o),
        lambda o, _: jax.jit(lambda o: orbit_mse(o, of_device))(o),
        lambda o, m: jax.vmap(orbit_mse)(o[None], m[None])[0],
    ):
        np.testing.assert_allclose(call(outputs, matrices), known, rtol=1e-6)
    with pytest.raises(ValueError, match="`action_out`: expected the identity matrix first"):
        jax.jit(lambda o: orbit_mse(o, -matrices))(outputs)
    for metric in (orbit_same_predictions, orbit_kl, lambda o: relative_orbit_std(o[..., 0])):
        np.testing.assert_allclose(jax.jit(metric)(outputs), metric(outputs), rtol=1e-5)
    of_known = jax.jit(lambda zero: relative_orbit_std(np.array([[1e300], [2e300]])) + zero)
    np.testing.assert_allclose(of_known(0.0), [1 / 3], rtol=1e-6)


def turn(x, angle):
    """Points in the plane rotated by an angle in degrees."""
    c, s = jnp.cos(jnp.deg2rad(angle)), jnp.sin(jnp.deg2rad(angle))
    return x @ jnp.array([[c, s], [-s, c]])


def sector(x, width=1.3):
    """One class for angles 0 to `width`, another for the rest."""
    inside = jnp.mod(jnp.arctan2(x[:, 1], x[:, 0]), 2 * np.pi) < width
    return jnp.stack([inside, ~inside], -1).astype(x.dtype)


def test_random_rotations_of_a_sector():
    """A point of the sector stays in it with probability width / 2 pi: within 4 standard errors."""
    x = jnp.array([[1.0, 0.5], [-1.0, 0.2], [0.3, -2.0]])
    count = 4000
    fraction = random_rotation_fraction(jax.random.key(0), sector, turn, x, count)
    p = 1.3 / (2 * np.pi)
    expected = np.array([p, 1 - p, 1 - p])
    assert (np.abs(fraction - expected) < 4 * np.sqrt(p * (1 - p) / count)).all()


def test_random_rotations_of_an_invariant_predictor():
    x = normal(1, (6, 2))
    radius = lambda x: jnp.stack([jnp.sum(x**2, -1), jnp.ones(len(x))], -1)  # noqa: E731
    np.testing.assert_array_equal(random_rotation_fraction(jax.random.key(0), radius, turn, x, 9), 1)
    one, other = (random_rotation_fraction(jax.random.key(k), sector, turn, x, 9) for k in (0, 1))
    assert (one != other).any()  # other angles for another key


def test_random_rotations_that_cut_the_corners_off():
    """A mean over the pixels keeps its class, although every rotation, that by 0 included, loses the corners."""
    x = jnp.full((2, 8, 8, 1), 0.6)
    mean = lambda x: jnp.stack([jnp.mean(x, (1, 2, 3)), jnp.full(len(x), 0.5)], -1)  # noqa: E731
    key, rotate = jax.random.key(0), eq.groups.rotate_images
    np.testing.assert_array_equal(random_rotation_fraction(key, mean, rotate, x, 5), 1)
    of_numpy = lambda x: np.asarray(mean(x))  # noqa: E731 - as an ensemble's own predictor
    np.testing.assert_array_equal(random_rotation_fraction(key, of_numpy, rotate, x, 5), 1)


BAD = {
    "osp shape": (lambda: orbit_same_predictions(np.ones((4, 3))), r"`outputs`: expected 3 axes \[order, n, classes\]"),
    "osp nan": (lambda: orbit_same_predictions(np.full((4, 3, 2), np.nan)), "`outputs`: expected finite numbers"),
    "std shape": (lambda: relative_orbit_std(np.ones(3)), r"`outputs`: expected 2 axes \[order, n\]"),
    "osp no element": (lambda: orbit_same_predictions(np.ones((0, 3, 2))), "expected at least one element and one"),
    "osp no class": (lambda: orbit_same_predictions(np.ones((4, 3, 0))), "expected at least one element and one"),
    "std no element": (lambda: relative_orbit_std(np.ones((0, 3))), "`outputs`: expected at least one element"),
    "std complex": (lambda: relative_orbit_std(np.ones((2, 2)) * 1j), "`outputs`: expected an array of real"),
    "std inf": (lambda: relative_orbit_std(np.full((2, 2), np.inf)), "`outputs`: expected finite numbers"),
    "mse shape": (lambda: orbit_mse(np.ones((8, 3)), TRIVIAL_D4), r"`outputs`: expected \[order, n, ...features\]"),
    "mse order": (lambda: orbit_mse(np.ones((4, 3, 2)), TRIVIAL_D4), "`action_out`: expected an action of a group"),
    "mse matrices": (lambda: orbit_mse(np.ones((4, 3, 2)), np.ones((4, 3, 3))), "`action_out`: expected an action, or"),
    "mse identity": (
        lambda: orbit_mse(np.ones((4, 3, 2)), -planar_matrices(4, False)),
        "`action_out`: expected the identity matrix first",
    ),
    "kl shape": (lambda: orbit_kl(np.ones((4, 3))), "`outputs`: expected 3 axes"),
    "kl inf": (lambda: orbit_kl(np.full((2, 1, 2), -np.inf)), "`outputs`: expected finite"),
    "fraction shape": (lambda: same_class_fraction(np.ones((3, 2)), np.ones((4, 2, 2))), "`outputs`: expected .n, cla"),
    "fraction axes": (lambda: same_class_fraction(np.ones(2), np.ones((4, 2))), "`rotated`: expected 3 axes"),
    "no rotations": (
        lambda: random_rotation_fraction(jax.random.key(0), sector, turn, np.ones((3, 2)), 0),
        "`rotations`: expected an integer",
    ),
    "no key": (lambda: random_rotation_fraction(0, sector, turn, np.ones((3, 2))), "`key`: expected one random key"),
    "no batch": (
        lambda: random_rotation_fraction(jax.random.key(0), sector, turn, np.ones(2)),
        "`x`: expected a batch",
    ),
    "wide integers": (
        lambda: random_rotation_fraction(jax.random.key(0), sector, turn, np.full((3, 2), 2**40)),
        "`x`: expected integers between",
    ),
    "rotate": (
        lambda: random_rotation_fraction(jax.random.key(0), sector, lambda x, a: x[:1], np.ones((3, 2))),
        "`rotate`: expected a batch of shape",
    ),
    "predict": (
        lambda: random_rotation_fraction(jax.random.key(0), lambda x: x[0], turn, np.ones((3, 2))),
        "`predict`: expected scores",
    ),
}


@pytest.mark.parametrize("make, message", BAD.values(), ids=list(BAD))
def test_bad_input(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_spreads_that_jax_would_narrow():
    """Outputs of NumPy whose differences single precision does not see; orbits of pictures, and by matrices."""
    outputs = 1e9 + np.random.default_rng(0).normal(size=(4, 5, 3))
    expected = ((outputs - outputs[0]) ** 2).mean((0, 2))
    np.testing.assert_allclose(orbit_mse(outputs, eq.groups.TrivialAction(eq.cyclic(4))), expected, rtol=1e-6)
    np.testing.assert_allclose(orbit_mse(outputs, np.tile(np.eye(3), (4, 1, 1))), expected, rtol=1e-6)
    pictures = 1e9 + np.random.default_rng(1).normal(size=(4, 2, 5, 5, 1))
    turned = np.stack([np.rot90(pictures[0], g, axes=(1, 2)) for g in range(4)])
    expected = ((pictures - turned) ** 2).mean((0, 2, 3, 4))
    np.testing.assert_allclose(orbit_mse(pictures, eq.groups.ImageAction(eq.cyclic(4))), expected, rtol=1e-6)
    np.testing.assert_allclose(orbit_kl(outputs), orbit_kl(outputs - 1e9), rtol=1e-5)
    with pytest.raises(ValueError, match="stay finite in float32"):
        orbit_mse(1e30 * (outputs - 1e9), eq.groups.TrivialAction(eq.cyclic(4)))


FAR = np.array([[[1e10]], [[1e10 + 1]]])
TRIVIAL_C2 = eq.groups.TrivialAction(eq.cyclic(2))
SCORES = np.array([[[1e9, 1e9]], [[1e9 + 1, 1e9]]])


@pytest.mark.parametrize("kind", [">f8", "longdouble"])
def test_other_floats_of_numpy_keep_their_digits(kind, dtype):
    for metric, outputs, expected in (
        (lambda o: orbit_mse(o, TRIVIAL_C2), FAR, [0.5]),
        (relative_orbit_std, FAR[..., 0], [5e-11]),
        (orbit_kl, SCORES, [np.tanh(0.5) / 4]),  # two classes with probabilities (1 +- tanh) / 2
    ):
        found = metric(outputs.astype(kind))
        assert found.dtype == dtype
        np.testing.assert_allclose(found, metric(outputs), rtol=1e-6)
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_known_numbers_inside_transformations():
    """A constant of NumPy has the digits there that it has outside, and is looked at."""
    for metric, outputs in (
        (lambda o: orbit_mse(o, TRIVIAL_C2), FAR),
        (lambda o: orbit_mse(o, np.ones((2, 1, 1))), FAR),
        (orbit_kl, SCORES),
    ):
        times = lambda a: a * metric(outputs)[0]  # noqa: B023, E731
        expected = float(metric(outputs)[0])
        assert expected > 0.1
        for one in (jax.jit(times), jax.grad(times)):
            np.testing.assert_allclose(one(1.0), expected, rtol=1e-6)
        for many in (jax.vmap(times), lambda a: jax.lax.map(times, a)):  # noqa: B023
            np.testing.assert_allclose(many(jnp.ones(2)), expected, rtol=1e-6)
    with pytest.raises(ValueError, match="`outputs`: expected numbers that stay finite in float32"):
        jax.jit(lambda a: a * orbit_mse(1e30 * FAR, TRIVIAL_C2))(1.0)
    # Beside an abstract array these are numbers of 32 bits, as all others.
    found = jax.jit(lambda m: orbit_mse(np.array([[[1.0]], [[2.0]]]), m))(jnp.ones((2, 1, 1)))
    np.testing.assert_allclose(found, [0.5])


def test_lists_of_abstract_numbers():
    matrices = [[[1.0]], [[1.0]]]
    for metric in (
        lambda a: orbit_mse([[[a]], [[1.0]]], TRIVIAL_C2),
        lambda a: orbit_mse([[[a]], [[1.0]]], [[[1.0]], [[a * 10]]]),
        lambda a: orbit_mse(jnp.array([[[a]], [[1.0]]]), matrices),
        lambda a: orbit_kl([[[a, 0.0]], [[1.0, 2.0]]]),
        lambda a: relative_orbit_std([[a], [1.0]]),
        lambda a: orbit_same_predictions([[[a, 0.0]], [[1.0, 2.0]]]),
        lambda a: same_class_fraction([[a, 0.0]], [[[1.0, a]], [[1.0, 2.0]]]),
    ):
        np.testing.assert_allclose(jax.jit(metric)(0.1), metric(0.1), rtol=1e-5)


def double(scores):
    """The divergence by its definition, of scores of any precision in double."""
    log_p = special.log_softmax(np.asarray(scores, np.float64), axis=-1)
    change = log_p - log_p[0]
    return np.mean(np.sum(np.exp(log_p[0]) * np.expm1(change) * change, -1), 0)


@pytest.mark.parametrize("shift", [0.0, 100.0])
@pytest.mark.parametrize("size", [1e-7, 1e-6, 1e-4, 1e-2, 1.0])
def test_orbit_kl_of_small_changes_keeps_its_digits(size, shift):
    """Of differences of log-probabilities in single precision a change of 1e-7 would keep no digit."""
    by_hand = np.array([[[0, 0.5, -1]], [[size, 0.5, -1 - size]]])
    many = np.random.default_rng(0).normal(size=(4, 1, 10)) * np.array([0, size, size, 1]).reshape(4, 1, 1)
    for scores in (by_hand, np.random.default_rng(1).normal(size=(1, 1, 10)) + many):
        scores = (scores + shift * np.arange(len(scores))[:, None, None]).astype(np.float32)
        expected = double(scores)
        if expected == 0:  # the shift has rounded the change away
            continue
        for found in (orbit_kl(scores), jax.jit(orbit_kl)(scores)):
            np.testing.assert_allclose(found, expected, rtol=100 * tolerance(np.float32) / 8)


def test_orbit_kl_whose_shift_leaves_the_dtype():
    scores = np.array([[[3e38, 3e38]], [[-3e38, -3e38]]], np.float32)
    np.testing.assert_array_equal(orbit_kl(scores), [0])


def test_derivatives_of_orbit_kl(x64, quick_to_compile):
    """Where all elements agree the first vanishes, and the second is the Fisher information."""
    scores = jnp.asarray(np.random.default_rng(0).normal(size=4))
    p = jax.nn.softmax(scores)
    divergence = lambda change: orbit_kl(jnp.stack([scores, scores + change])[:, None])[0]  # noqa: E731
    np.testing.assert_allclose(jax.jit(jax.grad(divergence))(jnp.zeros(4)), 0, atol=1e-15)
    fisher = jnp.diag(p) - jnp.outer(p, p)
    np.testing.assert_allclose(
        jax.jit(jax.hessian(divergence))(jnp.zeros(4)), fisher, atol=1e-14
    )  # twice, over two elements


def by_float(x):
    return x * float(x[0, 0] > -9)


def by_branch(x):
    return x if x[0, 0] > -9 else -x


def by_index(x):
    return x + len(range(x[0, 0].astype(int) - x[0, 0].astype(int)))


def by_mask(x):
    return x * len(x[x[:, 0] > -9]) / len(x)


@pytest.mark.parametrize("look", [by_float, by_branch, by_index, by_mask])
def test_predictors_that_look_at_values(look):
    x = normal(3, (6, 2))
    found = random_rotation_fraction(jax.random.key(0), lambda x: sector(look(x)), turn, x, np.int8(7))
    np.testing.assert_array_equal(found, random_rotation_fraction(jax.random.key(0), sector, turn, x, 7))


@pytest.mark.parametrize(
    ("predict", "message"),
    [
        (lambda x: x * jnp.nan, "`predict`: expected finite numbers"),
        (lambda x: jnp.where(x == jnp.ones(2), x, jnp.nan), "`predict`: expected finite numbers"),  # once it is turned
        (lambda x: x > 0, "`predict`: expected an array of real numbers, got dtype bool"),
        (lambda x: 1j * x, "`predict`: expected an array of real numbers, got dtype complex64"),
        (lambda x: x[:, :0], r"`predict`: expected scores \[n, classes\]"),
        (lambda x: [[1.0], [1.0, 2.0], [1.0]], "`predict`: expected an array, got lists that differ in length"),
    ],
)
def test_predictors_that_make_no_scores(predict, message):
    with pytest.raises(ValueError, match=message):
        random_rotation_fraction(jax.random.key(0), predict, turn, np.ones((3, 2), np.float32), 3)

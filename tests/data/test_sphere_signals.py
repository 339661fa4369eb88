"""Signals of molecules against the formula written out, their symmetries, and kernels of molecules."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import eqbook as eq
from eqbook.data import load_sample, sphere_signals, sum_over_atoms
from eqbook.data.sphere_signals import BETA, grid_directions


def literal(charges, positions, directions):
    """The formula, loop by loop, at any directions [..., 3]."""
    atoms = len(charges)
    F = np.zeros((atoms, *directions.shape[:-1], 10))
    for i in range(atoms):
        for j in range(atoms):
            if i == j or charges[i] == 0 or charges[j] == 0:
                continue
            r = positions[j] - positions[i]
            length = np.sqrt(r @ r)
            for a, z in enumerate((1, 6, 7, 8, 9)):
                for b, p in enumerate((2, 6)):
                    if charges[j] == z:
                        strength = charges[i] * charges[j] / length**p
                        F[i, ..., 2 * a + b] += strength * np.exp(-((directions @ r / length - 1) ** 2) / BETA)
    return F


@pytest.fixture
def molecule():
    """A molecule with four elements, in double precision."""
    molecules = load_sample("qm9")
    k = next(k for k in range(2000) if {1, 6, 7, 8} <= set(molecules.charges[k].tolist()))
    return molecules.charges[k], molecules.positions[k].astype(np.float64)


def rotation(a, b, c):
    def about(axis, angle):
        R = np.eye(3)
        i, j = [(1, 2), (2, 0), (0, 1)][axis]
        R[[i, j], [i, j]] = np.cos(angle)
        R[i, j], R[j, i] = -np.sin(angle), np.sin(angle)
        return R

    return about(2, a) @ about(1, b) @ about(2, c)


def test_constants_and_grid():
    assert round(BETA, 6) == 0.028636
    assert np.exp(-((np.cos(np.pi / 4) - 1) ** 2) / BETA) == pytest.approx(0.05)
    x = grid_directions(6)
    assert x.shape == (12, 11, 3)
    np.testing.assert_allclose(np.linalg.norm(x, axis=-1), 1, rtol=1e-15)
    colatitude, longitude = (angle.reshape(12, 11) for angle in eq.kernels.so3.sphere_grid(6))
    np.testing.assert_allclose(x[..., 2], np.cos(colatitude), atol=1e-15)
    np.testing.assert_allclose(x[..., 0] + 1j * x[..., 1], np.sin(colatitude) * np.exp(1j * longitude), atol=1e-15)


def test_signals_are_the_formula(x64, molecule):
    charges, positions = molecule
    F = jax.jit(sphere_signals)(charges, positions)
    assert F.shape == (29, 12, 11, 10) and F.dtype == jnp.float64
    expected = literal(charges, positions, grid_directions(6))
    assert eq.testing.relative_error(F, expected) < eq.testing.tolerance(float, 29)
    assert not np.any(F[charges == 0])
    assert all(np.any(F[..., 2 * a]) == (z in charges) for a, z in enumerate((1, 6, 7, 8, 9)))


def test_turning_about_the_axis_moves_longitudes(x64, molecule):
    charges, positions = molecule
    for step in (1, 4):
        R = rotation(2 * np.pi * step / 11, 0, 0)
        moved = sphere_signals(charges, positions @ R.T)
        expected = jnp.roll(sphere_signals(charges, positions), step, axis=2)
        assert eq.testing.relative_error(moved, expected) < eq.testing.tolerance(float, 100)


def test_any_rotation_moves_the_signal(x64, molecule):
    """(rho(R) F)(x) = F(R^-1 x), with F evaluated off the grid by the formula."""
    charges, positions = molecule
    R = rotation(0.3, 1.2, -2.0)
    moved = sphere_signals(charges, positions @ R.T, bandwidth=4)
    expected = literal(charges, positions, grid_directions(4) @ R)  # rows R^-1 x
    assert eq.testing.relative_error(moved, expected) < eq.testing.tolerance(float, 100)
    assert eq.testing.relative_error(moved, literal(charges, positions, grid_directions(4) @ R.T)) > 0.1


def test_translations_and_permutations(x64, molecule):
    charges, positions = molecule
    F = sphere_signals(charges, positions)
    moved = sphere_signals(charges, positions + np.array([1.0, -2.0, 3.0]))
    assert eq.testing.relative_error(moved, F) < 1e3 * eq.testing.tolerance(float, 29)  # digits lost in differences
    order = np.random.default_rng(0).permutation(29)
    permuted = sphere_signals(charges[order], positions[order])
    assert eq.testing.relative_error(permuted, F[order]) < eq.testing.tolerance(float, 29)


def test_batches_and_float32():
    molecules = load_sample("qm9")[:5]
    F = sphere_signals(molecules.charges, molecules.positions, bandwidth=3, chunk=2)
    assert F.shape == (5, 29, 6, 5, 10) and F.dtype == jnp.float32
    for k in range(5):
        one = sphere_signals(molecules.charges[k], molecules.positions[k], bandwidth=3)
        assert eq.testing.relative_error(F[k], one) < eq.testing.tolerance(jnp.float32, 29)
        expected = literal(molecules.charges[k], molecules.positions[k].astype(float), grid_directions(3))
        # the exponent multiplies rounding errors by up to 4 / beta = 140
        assert eq.testing.relative_error(F[k], expected) < 140 * eq.testing.tolerance(jnp.float32, 29)
    shaped = sphere_signals(molecules.charges[:4].reshape(2, 2, 29), molecules.positions[:4].reshape(2, 2, 29, 3), 2)
    assert shaped.shape == (2, 2, 29, 4, 3, 10)


def test_no_product_may_be_rounded_to_fewer_digits():
    """Graphics processors compute products of matrices with 10 bits unless they are told otherwise."""
    program = str(jax.make_jaxpr(lambda r: sphere_signals(np.ones(3, np.int32), r, 2))(jnp.ones((3, 3))))
    assert program.count("dot_general[") == program.count("precision=(Precision.HIGHEST, Precision.HIGHEST)") > 0


def test_other_powers_and_angles(x64, molecule):
    """Channels by power, and a neighbour's weight of 5 per cent at the angle."""
    charges, positions = molecule
    published = sphere_signals(charges, positions, 3)
    F = sphere_signals(charges, positions, 3, powers=(0, 2, 6.0))
    assert F.shape[-1] == 15
    np.testing.assert_allclose(F.reshape(*F.shape[:-1], 5, 3)[..., 1:].reshape(published.shape), published, rtol=1e-12)
    pair, apart = np.array([6, 8]), np.array([[0, 0, 0], [0, 0, 1.5]])
    for angle in (30, 45, 120.0):
        first = sphere_signals(pair, apart, 90, powers=(2,), angle=angle)[0, :, 0, 3]  # by colatitude
        colatitude = np.degrees((2 * np.arange(180) + 1) * np.pi / 360)
        assert np.interp(angle, colatitude, np.log(first)) == pytest.approx(np.log(0.05 * 48 / 1.5**2), abs=0.01)
    assert F[0, 0, 0, 0] == pytest.approx(sphere_signals(charges, 2 * positions, 3, powers=(0,))[0, 0, 0, 0])


@pytest.mark.parametrize(
    "options, words",
    [
        ({"powers": ()}, "`powers`: expected a tuple of numbers"),
        ({"powers": 2}, "`powers`: expected a tuple of numbers"),
        ({"powers": (2, "6")}, "`powers`: expected a number"),
        ({"powers": (np.nan,)}, "`powers`: expected a number"),
        ({"angle": 0}, "`angle`: expected a positive number"),
        ({"angle": 181}, "`angle`: expected degrees"),
    ],
)
def test_no_such_signals(options, words):
    with pytest.raises(ValueError, match=words):
        sphere_signals(np.array([6, 8]), np.eye(3)[:2], 2, **options)


def test_gradient_is_finite_in_spite_of_empty_slots(x64, molecule):
    charges, positions = molecule
    gradient = jax.grad(lambda r: jnp.sum(sphere_signals(charges, r, 2) ** 2))(positions)
    assert np.all(np.isfinite(gradient)) and np.any(gradient[charges > 0]) and not np.any(gradient[charges == 0])


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int64, np.float32])
def test_products_of_charges_do_not_wrap_around(dtype):
    charges, positions = np.array([17, 8, 9], dtype), np.array([[0, 0, 0], [1.5, 0, 0], [0, 1.2, 0.3]])
    F = sphere_signals(charges, positions, 2)
    expected = literal(charges.astype(float), positions, grid_directions(2))
    # the exponent multiplies rounding errors by up to 4 / beta = 140
    assert eq.testing.relative_error(F, expected) < 140 * eq.testing.tolerance(jnp.float32, 3)


def test_charges_beyond_their_integers_are_refused():
    with pytest.raises(ValueError, match="`charges`: expected integers between"):
        sphere_signals(np.array([2**32 + 1, 1]), np.eye(3)[:2], 2)


@pytest.mark.every(2)
@pytest.mark.parametrize("apart", [0, 1e-30, 1e-8])
def test_atoms_on_each_other_are_refused(apart):
    positions = np.zeros((2, 4, 3))
    positions[:, 1, 0], positions[:, 2, 1] = 1, -1
    charges = np.array([[6, 1, 1, 0], [6, 1, 1, 0]])
    positions[:, 3] = positions[:, 0]  # an empty slot may lie anywhere
    for given in (positions, jnp.asarray(positions)):
        assert np.isfinite(sphere_signals(charges, given, 2)).all()
    positions[1, 2] = positions[1, 0] + np.array([apart, 0, 0])
    for Z in (charges, 17 * charges):  # signals of elements that are not seen, too
        for given in (positions, jnp.asarray(positions), positions.tolist()):
            with pytest.raises(
                ValueError, match=r"`positions`: .* are atoms 0 and 2 of molecule \(1,\), .* angstrom apart"
            ):
                sphere_signals(Z, given, 2)
        with pytest.raises(ValueError, match="`positions`: .* are atoms 0 and 2, "):
            sphere_signals(Z[1], positions[1], 2)
    inside = jax.jit(lambda r: sphere_signals(charges, r, 2))(positions)  # there nothing is looked at
    assert np.isfinite(inside[0]).all() and not np.isfinite(inside[1]).all()


def test_close_atoms_are_right_where_they_are_numbers(x64):
    charges, positions = np.array([6, 1]), np.array([[0, 0, 0], [1e-8, 0, 0]])
    F = sphere_signals(charges, positions, 2)
    assert eq.testing.relative_error(F, literal(charges, positions, grid_directions(2))) < eq.testing.tolerance(
        float, 9
    )
    with pytest.raises(ValueError, match="`positions`: expected atoms whose signals are finite in float64"):
        sphere_signals(charges, 1e-100 * positions, 2)


def test_positions_beyond_their_dtype_are_refused():
    with pytest.raises(ValueError, match="`positions`: expected numbers that stay finite in float32"):
        sphere_signals(np.array([6, 1]), 1e300 * np.eye(3)[:2], 2)


@pytest.mark.parametrize(("dtype", "apart"), [(np.float16, 300), (np.float32, 3e19)])
def test_atoms_whose_squared_distance_leaves_the_dtype_are_refused(dtype, apart):
    charges, positions = np.array([6, 1, 0]), np.array([[0, 0, 0], [apart, 0, 0], [0, 0, 0]], dtype)
    with pytest.raises(ValueError, match="`positions`: .* are atoms 0 and 1, 3.+ angstrom apart"):
        sphere_signals(charges, positions, 2, powers=(0, 1))
    positions[1:] = [[apart / 10, 0, 0], [apart, 0, 0]]  # an empty slot may lie anywhere
    near = sphere_signals(charges, np.array([[0, 0, 0], [1, 0, 0], [0, 0, 0]], dtype), 2, powers=(0,))
    np.testing.assert_array_equal(sphere_signals(charges, positions, 2, powers=(0,)), near)


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="`charges`: expected at least one slot for an atom"):
        sphere_signals(np.ones((2, 0), int), np.ones((2, 0, 3)))
    with pytest.raises(ValueError, match="`positions`: expected .*atoms, 3"):
        sphere_signals(np.ones((2, 4), int), np.ones((2, 5, 3)))
    with pytest.raises(ValueError, match="`positions`: expected floats"):
        sphere_signals(np.ones(4, int), np.ones((4, 3), int))
    with pytest.raises(ValueError, match="`bandwidth`"):
        sphere_signals(np.ones(4, int), np.ones((4, 3)), bandwidth=0)
    with pytest.raises(ValueError, match="`pairs`"):
        sum_over_atoms(np.ones((4, 4)), np.ones((1, 4)), np.ones((1, 4)), "some")
    with pytest.raises(ValueError, match="`kernel`: expected .2 . 4, 1 . 4."):
        sum_over_atoms(np.ones((4, 4)), np.ones((2, 4)), np.ones((1, 4)))


@pytest.mark.parametrize("wrong", [None, "a", [[1], [1, 2]], np.nan])
def test_wrong_types_are_named(wrong):
    charges, positions = np.ones((1, 4), int), np.ones((1, 4, 3))
    with pytest.raises(ValueError, match="`charges`: expected"):
        sphere_signals(wrong, positions)
    with pytest.raises(ValueError, match="`positions`: expected"):
        sphere_signals(charges, wrong)
    with pytest.raises(ValueError, match="`charges1`: expected"):
        sum_over_atoms(np.ones((4, 4)), wrong, charges)
    with pytest.raises(ValueError, match="`charges2`: expected"):
        sum_over_atoms(np.ones((4, 4)), charges, wrong)
    with pytest.raises(ValueError, match="`kernel`: expected"):
        sum_over_atoms(wrong, charges, charges)


def test_sum_over_atoms_by_hand():
    rng = np.random.default_rng(0)
    charges1, charges2 = np.array([[6, 1, 0], [8, 0, 0]]), np.array([[7, 1, 1]])
    k = rng.normal(size=(6, 3))
    by_pairs = [[k[:2].sum()], [k[3].sum()]]
    by_slots = [[k[0, 0] + k[1, 1]], [k[3, 0]]]
    np.testing.assert_allclose(sum_over_atoms(k, charges1, charges2), by_pairs, rtol=1e-5)
    np.testing.assert_allclose(sum_over_atoms(k, charges1, charges2, "slots"), by_slots, rtol=1e-5)


def test_integers_in_a_kernel_do_not_wrap_around():
    charges = np.ones((1, 4), int)
    for pairs, expected in (("all", 1600), ("slots", 400)):
        assert sum_over_atoms(np.full((4, 4), 100, np.int8), charges, charges, pairs) == expected
    with pytest.raises(ValueError, match="`kernel`: expected an array of numbers"):
        sum_over_atoms(np.full((4, 4), "a"), charges, charges)


def test_only_the_sum_over_all_pairs_ignores_the_order_of_atoms(x64):
    """A network with a bias, so that empty slots would count if they were not left out."""
    molecules = load_sample("qm9")[:3]
    net = eq.Sequential(eq.Flatten(), eq.Dense(8, b_std=0.5), eq.Relu(), eq.Dense(1))
    orders = np.array([np.random.default_rng(k).permutation(29) for k in range(3)])
    shuffled = [np.take_along_axis(molecules.charges, orders, 1)]
    shuffled += [np.take_along_axis(molecules.positions, orders[..., None], 1)]

    def kernels(charges, positions):
        signals = sphere_signals(charges, positions.astype(np.float64), 2)
        ntk = eq.gram(net, signals.reshape(-1, *signals.shape[2:])).ntk
        return [np.asarray(sum_over_atoms(ntk, charges, charges, pairs)) for pairs in ("all", "slots")]

    before, after = kernels(molecules.charges, molecules.positions), kernels(*shuffled)
    # NTK entries are sums over 120 inputs, the kernel one over 29 x 29 pairs
    assert eq.testing.relative_error(after[0], before[0]) < eq.testing.tolerance(float, 120 * 29 * 29)
    assert eq.testing.relative_error(after[1], before[1]) > 1e-2
    assert np.linalg.eigvalsh(before[0]).min() > 0

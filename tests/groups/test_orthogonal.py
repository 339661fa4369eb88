"""Random orthogonal transformations of images: what they keep, their law, and that keys fix them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eqbook.groups import (
    IMAGE_SYMMETRIES,
    ColourRotation,
    EntryPermutation,
    EntryRotation,
    haar_orthogonal,
    rand_image_symmetry,
)
from eqbook.testing import monte_carlo_z, relative_error, tolerance

SHAPE = (3, 4, 3)
SIZE = 36
KEY = jax.random.key(5)


@pytest.fixture(params=IMAGE_SYMMETRIES)
def name(request):
    return request.param


def images(n=5, dtype=None):
    return jnp.asarray(np.random.default_rng(0).normal(size=(n, *SHAPE)), dtype)


def as_matrix(move):
    """The transformation as a matrix on flattened images."""
    return np.asarray(move(jnp.eye(SIZE).reshape(SIZE, *SHAPE))).reshape(SIZE, SIZE).T


def test_orthogonal(name, x64):
    """All inner products of images are kept, and the inverse undoes the move."""
    move, x = rand_image_symmetry(name, KEY, SHAPE), images()
    flat, moved = x.reshape(5, -1), move(x).reshape(5, -1)
    assert relative_error(moved @ moved.T, flat @ flat.T) < tolerance(jnp.float64, SIZE)
    assert relative_error(move.inverse()(move(x)), x) < tolerance(jnp.float64, SIZE)
    matrix = as_matrix(move)
    assert relative_error(matrix.T @ matrix, np.eye(SIZE)) < tolerance(jnp.float64, SIZE)
    assert relative_error(matrix, np.eye(SIZE)) > 0.5 or name == "identity"


# What a group keeps besides the inner products of whole images, as a function of a batch.
KEPT = {
    "identity": lambda x: x,
    "O(3) x I": lambda x: jnp.einsum("nhwc,mijc->nmhwij", x, x),
    "O(3)^d": lambda x: jnp.einsum("nhwc,mhwc->nmhw", x, x),
    "P(3d)": lambda x: jnp.sort(x.reshape(len(x), -1)),
    "O(3d)": lambda x: jnp.einsum("nhwc,mhwc->nm", x, x),
}
INSIDE = {  # groups whose elements keep it too
    "identity": {"identity"},
    "O(3) x I": {"identity", "O(3) x I"},
    "O(3)^d": {"identity", "O(3) x I", "O(3)^d"},
    "P(3d)": {"identity", "P(3d)"},
    "O(3d)": set(IMAGE_SYMMETRIES),
}


@pytest.mark.parametrize("kept", IMAGE_SYMMETRIES)
def test_which_products_each_group_keeps(name, kept, x64):
    """Colours at any two pixels, at one pixel, all values, whole images: kept by these groups and by no other."""
    x = images()
    error = relative_error(KEPT[kept](rand_image_symmetry(name, KEY, SHAPE)(x)), KEPT[kept](x))
    if name in INSIDE[kept]:
        assert error < tolerance(jnp.float64, SIZE)
    else:
        assert error > 0.1


def test_dtype_and_batches(name, dtype):
    """Any batch axes, one image too; the dtype of the images; the same element in both precisions and under jit."""
    move, x = rand_image_symmetry(name, KEY, SHAPE), images(6, dtype)
    moved = move(x)
    assert moved.dtype == dtype and moved.shape == x.shape
    bound = tolerance(dtype, SIZE)
    assert relative_error(move(x.reshape(2, 3, *SHAPE)).reshape(x.shape), moved) < bound
    assert relative_error(move(x[0]), moved[0]) < bound
    assert relative_error(jax.jit(move)(x), moved) < bound
    if name != "P(3d)":  # a permutation keeps integers what they are
        assert jnp.issubdtype(move(np.ones(SHAPE, np.int32)).dtype, jnp.floating)


def test_elements_are_the_same_in_both_precisions(name):
    low = rand_image_symmetry(name, KEY, SHAPE)(images(dtype=jnp.float32))
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    high = rand_image_symmetry(name, KEY, SHAPE)(images(dtype=jnp.float32).astype(jnp.float64))
    jax.config.update("jax_enable_x64", before)
    assert relative_error(low, high) < tolerance(jnp.float32, SIZE)


def test_keys_fix_elements(name):
    x = images()
    same, again, other = (
        rand_image_symmetry(name, key, SHAPE)(x) for key in (KEY, jax.random.key(5), jax.random.key(6))
    )
    np.testing.assert_array_equal(same, again)
    assert name == "identity" or relative_error(other, same) > 0.5
    raw = rand_image_symmetry(name, jax.random.key_data(KEY), SHAPE)(x)
    np.testing.assert_array_equal(raw, same)


def test_identity_is_exact():
    x = images()
    np.testing.assert_array_equal(rand_image_symmetry("identity", KEY, SHAPE)(x), x)


def test_permutation_by_hand():
    """(tau x)_i = x_pi(i), on integers too."""
    move = EntryPermutation(np.array([2, 0, 1, 3]))
    x = np.arange(4, dtype=np.uint8).reshape(1, 2, 2)
    np.testing.assert_array_equal(np.ravel(move(x)), [2, 0, 1, 3])
    assert move(x).dtype == np.uint8


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_haar_measure(size):
    """Moments of Haar matrices, to 5 standard errors: of entries up to the fourth, the trace, and the determinant.

    E Q_ij = 0, E Q_ij^2 = 1/n, E Q_ij^4 = 3 / n(n+2), E (tr Q)^2 = 1, and det Q = -1 for one half. Multiplying by a
    fixed matrix does not change the law: without the sign correction the diagonal has a sign of its own.
    """
    q = haar_orthogonal(jax.random.key(size), size, (4000,))
    det = np.linalg.det(q)
    np.testing.assert_allclose(np.abs(det), 1, rtol=1e-12)
    np.testing.assert_allclose(q @ q.swapaxes(1, 2), np.broadcast_to(np.eye(size), q.shape), atol=1e-13)
    assert abs(monte_carlo_z(det, 0)) < 5
    fixed = haar_orthogonal(jax.random.key(99), size)
    for law in (q, fixed @ q, q @ fixed, q.swapaxes(1, 2)):
        assert np.abs(monte_carlo_z(law, np.zeros((size, size)))).max() < 5
        trace = np.trace(law, axis1=1, axis2=2)
        if size > 1:  # for n = 1 these squares are constant
            assert np.abs(monte_carlo_z(law**2, np.full((size, size), 1 / size))).max() < 5
            assert np.abs(monte_carlo_z(law**4, np.full((size, size), 3 / (size * (size + 2))))).max() < 5
            assert abs(monte_carlo_z(trace**2, 1)) < 5


def test_pixels_are_turned_independently():
    """Determinants of both signs among the pixels, and no two matrices alike."""
    matrices = rand_image_symmetry("O(3)^d", KEY, (16, 16, 3)).matrices.reshape(-1, 3, 3)
    signs = np.linalg.det(matrices)
    assert abs(monte_carlo_z(signs, 0)) < 5
    products = np.einsum("aij,bij->ab", matrices, matrices)
    assert (products[~np.eye(256, dtype=bool)] < 3 - 1e-3).all()


def test_what_is_not_orthogonal_is_refused():
    """A single wrong entry too, of one pixel or of one row; matrices computed in float32 are good enough."""
    colours, entries = haar_orthogonal(KEY, 3, (2, 4)), haar_orthogonal(KEY, 300)
    for good in (colours, colours.astype(np.float32), colours[0, 0].tolist(), np.eye(3, dtype=int)[[2, 0, 1]]):
        ColourRotation(good)
    for good in (entries, entries.astype(np.float32), entries.tolist(), np.eye(300, dtype=np.uint8)):
        EntryRotation(good)
    slightly = np.zeros_like(entries)
    slightly[200, 100] = 1e-3
    one_pixel = np.array(colours)
    one_pixel[1, 2] *= 1.001
    for make, wrong, name in (
        (ColourRotation, np.diag([1.0, 1.0, 2.0]), "matrices"),
        (ColourRotation, np.ones((3, 3)), "matrices"),
        (ColourRotation, one_pixel, "matrices"),
        (EntryRotation, np.diag([1.0, 1.0, 2.0]), "matrix"),
        (EntryRotation, entries + slightly, "matrix"),
        (EntryRotation, np.zeros((3, 3)), "matrix"),
    ):
        with pytest.raises(ValueError, match=f"`{name}`: expected orthogonal matrices"):
            make(wrong)


@pytest.mark.parametrize("kind", [np.int8, np.float32, jnp.bfloat16, np.longdouble])
def test_matrices_are_kept_in_double_precision(kind):
    turn = np.eye(3)[[2, 0, 1]].astype(kind)
    assert ColourRotation(turn).matrices.dtype == EntryRotation(turn).matrix.dtype == np.float64
    double = turn.astype(np.float64)
    assert EntryRotation(double).matrix is double  # it may be large


def test_images_of_another_shape_are_refused(name):
    """With as many numbers, or with as many channels; the inverse knows the shape, too."""
    move = rand_image_symmetry(name, KEY, (2, 3, 1))
    for moved in (move, move.inverse(), move.inverse().inverse()):
        assert moved(np.ones((5, 2, 3, 1))).shape == (5, 2, 3, 1)
        for shape in ((3, 2, 1), (5, 3, 2, 1), (1, 2, 3), (2, 4, 1), (3, 1)):
            with pytest.raises(ValueError, match=r"`x`: expected images .* of shape \(2, 3, 1\), got shape \("):
                moved(np.ones(shape))


def test_maps_made_by_hand_know_their_matrices_only():
    for move in (EntryRotation(np.eye(6)), EntryPermutation(np.arange(6)), ColourRotation(np.eye(1))):
        for shape in ((2, 3, 1), (3, 2, 1)):
            x = np.arange(6.0).reshape(shape)
            np.testing.assert_array_equal(move.inverse()(move(x)), x)


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.uint16, np.int64, ">i2"])
def test_permutations_in_all_integer_types(kind):
    """128 numbers have an index of 127, which 8 bits hold, and a size, which they do not."""
    order = np.random.default_rng(0).permutation(128)
    x = np.random.default_rng(1).normal(size=(1, 128, 1)).astype(np.float32)
    move = EntryPermutation(order.astype(kind))
    np.testing.assert_array_equal(np.ravel(move(x)), np.ravel(x)[order])
    np.testing.assert_array_equal(move.inverse()(move(x)), x)


def test_changing_the_callers_array_does_not_change_the_map():
    x = images()
    for make, given in ((ColourRotation, haar_orthogonal(KEY, 3)), (EntryPermutation, np.arange(SIZE)[::-1].copy())):
        move = make(given)
        before = move(x)
        given[:] = 0
        np.testing.assert_array_equal(move(x), before)


def test_a_permutation_refuses_integers_that_jax_would_wrap_around():
    with pytest.raises(ValueError, match="`x`: expected integers between"):
        EntryPermutation(np.arange(4))(np.full((1, 2, 2), 2**40))


def test_bad_input():
    for message, call in {
        r"`name`: expected one of \('identity', .* got 'O\(3\)'": lambda: rand_image_symmetry("O(3)", KEY, SHAPE),
        r"`shape`: expected \(height, width, channels\), got \(3, 4\)": lambda: rand_image_symmetry(
            "P(3d)", KEY, (3, 4)
        ),
        "`shape`: expected an integer of at least 1, got 0": lambda: rand_image_symmetry("P(3d)", KEY, (3, 0, 3)),
        "`size`: expected an integer of at least 1": lambda: haar_orthogonal(KEY, 0),
    }.items():
        with pytest.raises(ValueError, match=message):
            call()
    wrong = {"O(3) x I": (3, 4, 2), "O(3)^d": (4, 3, 3), "P(3d)": (3, 4, 2), "O(3d)": (6, 5, 3)}
    for name, shape in wrong.items():
        with pytest.raises(ValueError, match="`x`: expected images"):
            rand_image_symmetry(name, KEY, SHAPE)(np.ones((2, *shape), np.float32))

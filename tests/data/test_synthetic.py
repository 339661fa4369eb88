"""Random fields have the covariance that they promise; the cross product is equivariant."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import j0

import eqbook as eq
from eqbook.data import cross_product, cross_product_matrices, rose, smooth_random_fields

SHIFTS = [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (3, 2), (4, 4), (5, 0), (0, 8), (8, 8)]


@pytest.mark.parametrize(("length", "wavelength"), [(3.0, None), (1.5, None), (4.0, 8.0), (3.0, 5.0), (5.0, 3.0)])
def test_covariance_of_fields(length, wavelength):
    n, size = 600, 32
    field = np.asarray(smooth_random_fields(jax.random.key(0), n, (size, size, 1), length, wavelength))[..., 0]
    assert field.dtype == np.float32
    q = 0 if wavelength is None else 2 * np.pi / wavelength
    for shift in SHIFTS:
        products = (field * np.roll(field, shift, (1, 2))).mean((1, 2))  # one number for each field
        # the torus adds up the covariances of all images of the point
        images = np.add.outer(shift[0] + size * np.arange(-2, 3), 1j * (shift[1] + size * np.arange(-2, 3)))
        expected = (j0(q * abs(images)) * np.exp(-(abs(images) ** 2) / (2 * length**2))).sum()
        # What frequencies beyond those of the grid would add; a field of length 1.5 has exp(-(1.5 pi)^2 / 2) there.
        cut = np.exp(-((length * (np.pi - q)) ** 2) / 2)
        z = eq.testing.monte_carlo_z(products, expected)
        assert abs(products.mean() - expected) < 5 * abs((products.mean() - expected) / z) + cut, (shift, z)


def test_channels_are_independent_and_normal():
    field = np.asarray(smooth_random_fields(jax.random.key(1), 400, (16, 16, 3), 2.0))
    means = [(field[..., a] * field[..., b]).mean((1, 2)) for a, b in ((0, 1), (0, 2), (1, 2))]
    assert all(abs(eq.testing.monte_carlo_z(products, 0.0)) < 4.5 for products in means)
    fourth = (field**4).mean((1, 2, 3))
    assert abs(eq.testing.monte_carlo_z(fourth, 3.0)) < 4.5
    assert abs(eq.testing.monte_carlo_z(field.mean((1, 2, 3)), 0.0)) < 4.5


def test_other_shapes_and_saturated_colours():
    field = smooth_random_fields(jax.random.key(2), 5, (12, 20, 3), 2.0, 6.0)
    colours = smooth_random_fields(jax.random.key(2), 5, (12, 20, 3), 2.0, 6.0, saturated=True)
    assert field.shape == (5, 12, 20, 3)
    np.testing.assert_array_equal(colours, np.asarray(field) > 0)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((0, (8, 8, 1), 1.0), "`n`"),
        ((1, (8, 0, 1), 1.0), "`shape`"),
        ((1, (8, 8, 1), 0.0), "`correlation_length`"),
        ((1, (8, 8, 1), np.inf), "`correlation_length`"),
        ((1, (8, 8, 1), 1e200), "`correlation_length`: expected a number of pixels up to 1e100, got 1e.200"),
        ((1, (8, 8, 1), 1.0, 1.0), "`wavelength`: expected a number of pixels, at least 2"),
        ((1, (8, 8), 1.0), "`shape`: expected .height, width, channels., got .8, 8."),
        ((1, (4, 4, 1), 1000.0, 3.0), "no frequency of the grid lies in the band"),
    ],
)
def test_bad_arguments_are_named(arguments, said):
    with pytest.raises(ValueError, match=said):
        smooth_random_fields(jax.random.key(0), *arguments)


def rotations(n):
    """Rotations about the diagonal (1, 1, 1), by multiples of 2 pi / n."""
    axis = np.ones(3) / np.sqrt(3)
    cross = np.cross(np.eye(3), -axis)
    angles = 2 * np.pi * np.arange(n)[:, None, None] / n
    return np.cos(angles) * np.eye(3) + np.sin(angles) * cross + (1 - np.cos(angles)) * np.outer(axis, axis)


@pytest.mark.every(2)
def test_cross_product_is_equivariant(dtype):
    x, y = cross_product(jax.random.key(0), 50, scale=2.0)
    assert x.shape == (50, 6) and y.shape == (50, 3) and x.dtype == y.dtype == jnp.float32
    group, matrices = eq.cyclic(3), rotations(3)
    on_inputs = eq.groups.MatrixAction(group, cross_product_matrices(matrices))
    on_targets = eq.groups.MatrixAction(group, matrices)
    x = x.astype(dtype)
    eq.testing.assert_equivariant(lambda z: jnp.cross(z[:, :3], z[:, 3:]), x, on_inputs, on_targets)
    np.testing.assert_allclose(jnp.cross(x[:, :3], x[:, 3:]), y, rtol=1e-4, atol=1e-5)
    # |a x b|^2 = |a|^2 |b|^2 - (a b)^2
    a, b = np.asarray(x[:, :3], float), np.asarray(x[:, 3:], float)
    gram = (a**2).sum(1) * (b**2).sum(1) - (a * b).sum(1) ** 2
    np.testing.assert_allclose((np.asarray(y, float) ** 2).sum(1), gram, rtol=1e-4)


def test_cross_product_has_the_scale():
    x, _ = cross_product(jax.random.key(1), 5000, scale=0.5)
    assert abs(eq.testing.monte_carlo_z(np.asarray(x, float) ** 2, 0.25)).max() < 4.5
    with jax.enable_x64(True):
        assert cross_product(jax.random.key(1), 2, scale=np.float64(0.5))[0].dtype == jnp.float32
    for arguments, said in (((0,), "`n`"), ((1, -1.0), "`scale`")):
        with pytest.raises(ValueError, match=said):
            cross_product(jax.random.key(0), *arguments)
    with pytest.raises(ValueError, match="`rotations`"):
        cross_product_matrices(np.eye(3))


def test_data_beyond_float32_are_refused():
    key = jax.random.key(0)
    for draw, scale in ((cross_product, 1e30), (cross_product, 1e300), (partial(rose, leaves=3), 1e300)):
        with pytest.raises(ValueError, match="`scale`: expected one whose data float32 can hold, got 1e.30"):
            draw(key, 4, scale=scale)
    assert np.isfinite(cross_product(key, 4, 1e15)[1]).all() and np.isfinite(rose(key, 4, 3, 1e30)[1]).all()
    assert not np.isfinite(jax.jit(lambda key: cross_product(key, 4, 1e30))(key)[1]).all()  # nothing is looked at there


def test_matrices_are_not_made_inside_jit():
    with pytest.raises(ValueError, match="`rotations`: expected numbers, got an abstract value"):
        jax.jit(cross_product_matrices)(np.eye(3)[None])


@pytest.mark.parametrize("key", [0, None, np.zeros(2)])
def test_what_is_no_key_is_named(key):
    with pytest.raises(ValueError, match="`key`: expected one random key"):
        cross_product(key, 1)
    with pytest.raises(ValueError, match="`key`: expected one random key"):
        smooth_random_fields(key, 1, (4, 4, 1), 1.0)


@pytest.mark.parametrize("leaves", [1, 3, 8])
def test_rose_is_invariant_under_its_dihedral_group(leaves):
    x, y = rose(jax.random.key(0), 40, leaves, scale=2.0)
    assert x.shape == (40, 2) and y.shape == (40, 1) and x.dtype == y.dtype == jnp.float32
    z = np.asarray(x, float) @ np.array([1, 1j])

    def target(z):  # |z| cos(k arg z) is the real part of z^k / |z|^(k - 1)
        return (z**leaves / abs(z) ** (leaves - 1)).real

    bound = 4 * leaves * eq.testing.tolerance(np.float32) * abs(z).max()
    np.testing.assert_allclose(y[:, 0], target(z), rtol=0, atol=bound)
    turn = np.exp(2j * np.pi / leaves)
    for moved in (turn * z, z.conj()):
        np.testing.assert_allclose(target(moved), target(z), atol=1e-12)
    np.testing.assert_allclose(target(np.exp(1j * np.pi / leaves) * z), -target(z), atol=1e-12)
    with pytest.raises(ValueError, match="`leaves`"):
        rose(jax.random.key(0), 3, 0)

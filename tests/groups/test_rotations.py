"""Rotations of images: exact at multiples of 90 degrees, of the promised order elsewhere, how far from an action."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numbers_drawn import normal
from scipy import ndimage

import eqbook as eq
from eqbook.groups import (
    ImageAction,
    RotationAction,
    TrivialAction,
    augment,
    augmented_permutation,
    disc_mask,
    group_law_error,
    orbit,
    rotate_images,
)

ORDERS = (1, 3)


def blobs(size, turn=0.0):
    """A smooth picture that vanishes towards the border, turned counter-clockwise by the formula, [size, size, 1]."""
    right = (np.arange(size) - (size - 1) / 2) * 2 / size
    up = -right[:, None]
    angle = np.deg2rad(turn)
    x, y = np.cos(angle) * right + np.sin(angle) * up, -np.sin(angle) * right + np.cos(angle) * up
    picture = np.exp(-((x - 0.2) ** 2) / 0.05 - (y - 0.1) ** 2 / 0.02)
    return (picture + 0.5 * np.exp(-((x + 0.2) ** 2 + y**2) / 0.03))[..., None]


@pytest.fixture
def noise(dtype):
    return normal(0, (2, 9, 9, 3), dtype)


@pytest.mark.every(3)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("size", [8, 9])
def test_multiples_of_90_degrees_permute_pixels(noise, order, size):
    """Bit by bit, also for an angle that is traced."""
    images = noise[:, :size, :size]
    turn = jax.jit(lambda x, a: rotate_images(x, a, order, mask=False))
    for angle in (0, 90, 180, 270, -90, 450, -720.0):
        expected = jnp.rot90(images, round(angle / 90), axes=(1, 2))
        np.testing.assert_array_equal(rotate_images(images, angle, order, mask=False), expected)
        np.testing.assert_array_equal(turn(images, float(angle)), expected)
        masked = jnp.where(disc_mask(size)[..., None], expected, 0)
        np.testing.assert_array_equal(rotate_images(images, angle, order), masked)
        assert masked.dtype == images.dtype


def test_agrees_with_the_action_on_images(noise):
    exact, mine = ImageAction(eq.cyclic(4)), RotationAction(eq.cyclic(4), order=3, mask=False)
    for g in range(4):
        np.testing.assert_array_equal(mine(g, noise), exact(g, noise))
    finer = RotationAction(eq.cyclic(12), mask=False)
    np.testing.assert_array_equal(finer(3, noise), exact(1, noise))


@pytest.mark.parametrize("angle", [22.5, 45.0, 100.0, -30.0])
@pytest.mark.parametrize("order", ORDERS)
def test_agrees_with_scipy(x64, order, angle):
    """Inside of the disc, where nothing depends on what lies outside of the image."""
    images = np.random.default_rng(0).normal(size=(3, 17, 17, 2))
    expected = ndimage.rotate(images, angle, axes=(2, 1), reshape=False, order=order, mode="mirror")
    ours = np.asarray(rotate_images(images, angle, order, mask=False))
    inside = disc_mask(17)
    error = eq.testing.relative_error(ours[:, inside], expected[:, inside])
    assert error < eq.testing.tolerance(float, 17**2)  # the spline's coefficients are sums over the image


@pytest.mark.parametrize(("order", "power"), [(1, 2), (3, 4)])
def test_error_falls_with_the_pixel_size_as_promised(x64, order, power):
    """Against the picture turned by its formula; also the direction and the centre are tested so."""
    errors = []
    for size in (32, 64, 128):
        difference = (np.asarray(rotate_images(blobs(size), 22.5, order)) - blobs(size, 22.5)) * disc_mask(size)[
            ..., None
        ]
        errors.append(np.linalg.norm(difference) / np.linalg.norm(blobs(size)))
    rates = np.log2(np.array(errors[:-1]) / errors[1:])
    # Corrections of relative order h^2 fade: the last rate is closer to the limit than the first.
    assert abs(rates[1] - power) < 0.15 and abs(rates[1] - power) <= abs(rates[0] - power) + 0.05
    assert errors[-1] < {1: 3e-3, 3: 1e-5}[order]


@pytest.mark.parametrize("order", ORDERS)
def test_linear_and_constant_on_constants(x64, order):
    x, y = np.random.default_rng(1).normal(size=(2, 11, 11, 2))
    turned = rotate_images(np.stack([x, y, 2 * x - 3 * y]), 33.0, order)
    assert eq.testing.relative_error(turned[2], 2 * turned[0] - 3 * turned[1]) < eq.testing.tolerance(float, 121)
    ones = rotate_images(np.ones((11, 11, 1)), 33.0, order, mask=False)[..., 0]
    inside = np.abs(np.asarray(ones)[disc_mask(11)] - 1).max()
    assert inside < eq.testing.tolerance(float, 121)


@pytest.mark.every(2)
@pytest.mark.parametrize("order", ORDERS)
def test_gradient_in_the_angle_and_in_the_image(x64, order):
    images = jnp.asarray(blobs(24))

    def f(angle, x=images):
        return jnp.sum(rotate_images(x, angle, order) ** 3)

    for angle in (20.0, 70.0):  # on both sides of 45 degrees, where another quarter turn is nearest
        step = 1e-3
        numeric = (f(angle + step) - f(angle - step)) / (2 * step)
        # central differences: an error of step^2 times the third derivative, here of the order of the function
        assert float(jax.grad(f)(angle)) == pytest.approx(float(numeric), rel=1e-4)
    for angle in (0.0, 90.0, -180.0) if order == 3 else ():  # where no pixel is interpolated; bilinear has a kink there
        numeric = (f(angle + step) - f(angle - step)) / (2 * step)
        assert float(jax.grad(f)(angle)) == pytest.approx(float(numeric), rel=1e-4, abs=1e-6)
    direction = normal(0, images.shape)
    slope = jnp.vdot(jax.grad(f, 1)(20.0, images), direction)
    numeric = (f(20.0, images + 1e-5 * direction) - f(20.0, images - 1e-5 * direction)) / 2e-5
    assert float(slope) == pytest.approx(float(numeric), rel=1e-6)


@pytest.mark.parametrize("order", ORDERS)
def test_one_angle_for_each_image(noise, order):
    angles = jnp.array([10.0, 250.0], noise.dtype)
    turned = jax.jit(jax.vmap(lambda x, a: rotate_images(x, a, order)))(noise, angles)
    for k in range(2):
        one = rotate_images(noise[k], float(angles[k]), order)
        # angles of some hundred degrees have eight digits less the hundred, places some ten pixels
        assert eq.testing.relative_error(turned[k], one) < 100 * eq.testing.tolerance(noise.dtype, 81)


def test_mask_is_the_disc_inside_of_the_image():
    assert disc_mask(3).tolist() == [[False, True, False], [True] * 3, [False, True, False]]
    assert disc_mask(2).sum() == 0 and disc_mask(1).all()  # at 2 pixels, the disc touches no centre
    for size in (np.int8(100), np.uint8(255), np.int16(99)):  # half of one is a float of 16 bits
        np.testing.assert_array_equal(disc_mask(size), disc_mask(int(size)))
    mask = disc_mask(28)
    for g in range(8):
        np.testing.assert_array_equal(mask, ImageAction(eq.dihedral(4))(g, mask[..., None])[..., 0])
    assert mask.sum() / 28**2 == pytest.approx(np.pi / 4 * (27 / 28) ** 2, rel=0.03)


def test_outside_of_the_image_is_0_without_a_mask():
    turned = np.asarray(rotate_images(np.ones((9, 9, 1)), 45.0, 3, mask=False))[..., 0]
    assert turned[0, 0] == turned[8, 8] == 0 and turned[4, 4] == pytest.approx(1)
    masked = np.asarray(rotate_images(np.ones((9, 9, 1)), 45.0, mask=True))[..., 0]
    assert not masked[~disc_mask(9)].any()


def test_masked_rotation_depends_on_the_masked_image_alone(x64):
    x = np.random.default_rng(2).normal(size=(12, 12, 1))
    other = np.where(disc_mask(12)[..., None], x, 7.0)
    for order in ORDERS:
        np.testing.assert_array_equal(rotate_images(x, 20.0, order), rotate_images(other, 20.0, order))


@pytest.mark.parametrize("n", [1, 2, 4])
@pytest.mark.parametrize("order", ORDERS)
def test_group_law_is_exact_on_the_grid(n, order):
    action = RotationAction(eq.cyclic(n), order)
    assert not group_law_error(action, normal(0, (7, 7, 1))).any()


@pytest.mark.every(2)
@pytest.mark.parametrize("n", [3, 8])
def test_group_law_error_falls_with_order_and_resolution(x64, n):
    worst = {
        (order, size): group_law_error(RotationAction(eq.cyclic(n), order), blobs(size)).max()
        for order in ORDERS
        for size in (16, 32)
    }
    assert worst[1, 16] > worst[1, 32] > 3 * worst[3, 32] > 0 and worst[1, 16] > worst[3, 16]
    assert worst[1, 16] / worst[1, 32] > 2**1.5 and worst[3, 16] / worst[3, 32] > 2**3.5
    errors = group_law_error(RotationAction(eq.cyclic(n), 3), blobs(16))
    assert not errors[0].any() and not errors[:, 0].any() and (errors[1:, 1:] > 0).any()


def test_group_law_error_by_hand():
    action = RotationAction(eq.cyclic(8))
    x = blobs(12)
    errors = group_law_error(action, x)
    assert errors.shape == (8, 8)
    expected = np.linalg.norm(action(3, action(7, x)) - action(2, x)) / np.linalg.norm(action(2, x))
    assert errors[3, 7] == pytest.approx(expected)
    # Turning by 90 degrees afterwards costs nothing but rounding, which is multiplied by the weights of 16 pixels.
    assert errors[[2, 4, 6]].max() < eq.testing.tolerance(jnp.float32, 16)
    with pytest.raises(ValueError, match="`x`: expected an array that the action does not map to 0"):
        group_law_error(action, np.zeros((4, 4, 1)))


@pytest.mark.parametrize("unit", [1e-300, 1e-165, 1e-30, 1e30, 1e160, 1e300])
def test_group_law_error_has_no_unit(unit, dtype):
    """Squares of the numbers, and in single precision they themselves, would leave the range of the dtype."""
    x = np.arange(25.0).reshape(5, 5, 1)
    action = RotationAction(eq.cyclic(3))
    np.testing.assert_allclose(
        group_law_error(action, unit * x), group_law_error(action, x), rtol=eq.testing.tolerance(dtype, 16)
    )
    assert not group_law_error(ImageAction(eq.cyclic(4)), np.full((3, 3, 1), unit)).any()


def test_group_law_error_of_what_is_left_by_the_mask(x64):
    """The corners, which are masked, are 10^200 times as large as the rest."""
    x = np.random.default_rng(0).normal(size=(9, 9, 1))
    corners = np.where(disc_mask(9)[..., None], x, 1e200)
    action = RotationAction(eq.cyclic(5))
    np.testing.assert_allclose(group_law_error(action, corners), group_law_error(action, x), rtol=1e-12)


def test_orbits_and_augmentation():
    action = RotationAction(eq.cyclic(8), order=3)
    images, labels = np.stack([blobs(16), 2 * blobs(16, 50.0)]), np.array([0, 1])
    assert orbit(action, images).shape == (8, 2, 16, 16, 1)
    x, y = augment(action, images, TrivialAction(action.group), labels)
    assert x.shape == (16, 16, 16, 1) and y.tolist() == [0, 1] * 8
    # A multiple of 90 degrees permutes the augmented set, up to rounding; others up to the error of the group law.
    quarter, eighth = (augmented_permutation(action.group, 2, g) for g in (2, 1))
    assert eq.testing.relative_error(action(2, x), x[quarter]) < eq.testing.tolerance(jnp.float32, 16)
    error = eq.testing.relative_error(action(1, x), x[eighth])
    assert 0 < error < 2 * group_law_error(action, images).max()


def test_equality_is_by_value():
    action = RotationAction(eq.cyclic(8), 3)
    assert action == RotationAction(eq.cyclic(8), 3) and hash(action) == hash(RotationAction(eq.cyclic(8), 3))
    others = (
        RotationAction(eq.cyclic(8)),
        RotationAction(eq.cyclic(4), 3),
        RotationAction(eq.cyclic(8), 3, mask=False),
    )
    assert all(action != other for other in others)


def test_integers_become_floats():
    turned = rotate_images(np.full((5, 5, 1), 200, np.uint8), 30.0)
    assert turned.dtype == jnp.float32 and turned[2, 2, 0] == pytest.approx(200)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: rotate_images(np.ones((4, 5, 1)), 10.0), r"`images`: expected square images .*\(4, 5, 1\)"),
        (lambda: rotate_images(np.ones((4, 4)), 10.0), "`images`"),
        (lambda: rotate_images(np.ones((4, 4, 1)), np.nan), "`angle`: expected a finite number of degrees, got nan"),
        (lambda: rotate_images(np.ones((4, 4, 1)), np.ones(2)), "`angle`.*vmap"),
        (
            lambda: rotate_images(np.ones((4, 4, 1)), 10.0, 2),
            "`order`: expected 1 .bilinear. or 3 .cubic spline., got 2",
        ),
        (
            lambda: rotate_images(np.ones((0, 0, 1)), 30.0),
            r"`images`: expected at least one pixel, got shape \(0, 0, 1",
        ),
        (lambda: rotate_images(np.ones((0, 0, 1)), 30.0, 3, False), "`images`: expected at least one pixel"),
        (
            lambda: rotate_images(np.ones((4, 4, 1)), 10.0, mask=np.array([True, False])),
            "`mask`: expected True or False",
        ),
        (lambda: rotate_images(np.ones((4, 4, 1)), 10.0, mask="no"), "`mask`: expected True or False, got 'no'"),
        (lambda: RotationAction(eq.cyclic(4), mask=None), "`mask`: expected True or False, got None"),
        (lambda: jax.jit(lambda k: rotate_images(np.ones((4, 4, 1)), 10.0, k))(3), "`order`: expected 1 .bilinear"),
        (lambda: rotate_images(np.ones((4, 4, 1)), 10.0, [[1], [2, 3]]), "`order`: expected 1 .bilinear"),
        (lambda: jax.jit(lambda m: rotate_images(np.ones((4, 4, 1)), 10.0, mask=m))(True), "`mask`: expected True or"),
        (lambda: RotationAction(eq.cyclic(8))(1, np.ones((4, 5, 1))), "`x`: expected square images"),
        (lambda: RotationAction(eq.dihedral(4)), "`group`: expected cyclic"),
        (lambda: RotationAction(eq.cyclic(4), order=0), "`order`"),
        (lambda: RotationAction(eq.cyclic(8))(8, np.ones((4, 4, 1))), "`g`"),
        (lambda: disc_mask(0), "`size`"),
        (lambda: ImageAction(eq.cyclic(8)), r"take `RotationAction\(cyclic\(n\)\)` for them"),
    ],
)
def test_bad_arguments_are_named(call, said):
    with pytest.raises(ValueError, match=said):
        call()

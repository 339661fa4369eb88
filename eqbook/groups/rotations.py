r"""Rotations of images by any angle, by interpolation: an action up to an error, which `group_law_error` measures.

Multiples of 90 degrees permute pixels and are exact. For the others a function is laid through the pixels and sampled
at the rotated places: piecewise bilinear (order 1), whose error falls as $h^2$ with the pixel size $h$ where the image
is smooth, or the cubic spline (order 3), whose error falls as $h^4$. The spline was preferred to the other usual
schemes of higher order: Catmull-Rom's kernel needs no prefilter, but its error falls as $h^3$ only; three shears by
Fourier transform are exact on band-limited periodic images, and let edges ring across the whole picture.
"""

import functools
from collections.abc import Hashable
from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Float64, Real

from eqbook._checks import check_finite, check_int, check_known, check_square_images, native
from eqbook._shown import shown
from eqbook.groups.actions import Action, check_action
from eqbook.groups.angles import without_turns
from eqbook.groups.arguments import as_array, as_floats, check_flag
from eqbook.groups.finite import FiniteGroup, check_group
from eqbook.groups.planar import cyclic

_SLACK = 1e-3  # pixels by which rounding may push a place out of the image


def rotate_images(
    images: Real[Array, "*batch size size channels"],
    angle: float | Float[Array, ""],
    order: int = 1,
    mask: bool = True,
) -> Float[Array, "*batch size size channels"]:
    r"""$(\rho(g) f)(x) = f(g^{-1} x)$ for a rotation $g$ about the centre, counter-clockwise by `angle` degrees.

    The angle is split into the nearest multiple of 90 degrees, which permutes pixels exactly, and a rest, for which
    pixels are interpolated; if the rest is 0, nothing is. Places outside the image count as 0. For one angle per image,
    use `jax.vmap(rotate_images, (0, 0))`. The result is linear in the images and differentiable in both arguments,
    apart from angles where bilinear interpolation has a kink.

    Args:
        images: $f$, square; integers become floats.
        angle: in degrees, since then multiples of 90 are exact; a number of any size, or a traced scalar.
        order: 1 for bilinear interpolation, 3 for the cubic spline.
        mask: put 0 outside of the disc that fits into the image, for every angle, so that no corner leaves the picture
            and none tells the angle.

    Raises:
        ValueError: if the images are not square, have no pixels, or do not fit into the floats of JAX, the angle is not
            a finite scalar, `order` is not 1 or 3, or `mask` is no truth value.

    References:
        Unser, Thevenaz, Yaroslavsky, "Convolution-based interpolation for fast, high-quality rotation of images", IEEE
        Transactions on Image Processing 4, 1995, https://doi.org/10.1109/83.465102
    """
    _check_order(order)
    mask = check_flag("mask", mask)
    images = as_floats("images", images)
    check_square_images("images", images)
    if images.shape[-2] == 0:
        raise ValueError(f"`images`: expected at least one pixel, got shape {images.shape}.")
    angle = without_turns(angle)
    if mask:
        # Before and after: a place in the disc is interpolated from pixels that may lie just outside of it, and the
        # result shall depend on the masked image alone.
        images = jnp.where(disc_mask(images.shape[-2])[..., None], images, 0)
    rotate = _rotate_traced if isinstance(angle, jax.core.Tracer) else _rotate
    rotated = rotate(images, angle, order)
    return jnp.where(disc_mask(images.shape[-2])[..., None], rotated, 0) if mask else rotated


def disc_mask(size: int) -> Bool[np.ndarray, "size size"]:
    """Pixels whose centres lie in the disc of diameter `size - 1` about the centre of the image.

    A rotation maps this disc to places between pixels of the image, so that nothing has to be invented.

    Args:
        size: pixels on a side.

    Raises:
        ValueError: if `size` is not a positive integer.
    """
    size = check_int("size", size, 1)  # small integers of NumPy make small floats
    x = np.arange(size) - (size - 1) / 2
    return x**2 + x[:, None] ** 2 <= ((size - 1) / 2) ** 2


class RotationAction(Action):
    r"""Rotations by multiples of $360/n$ degrees of square images `[..., size, size, channels]`, by interpolation.

    For n in 1, 2, 4 it is exact. For other n $\rho(g)\rho(h) = \rho(gh)$ holds only up to interpolation errors, which
    `group_law_error` measures; theorems that need an action hold up to errors of this size. With a mask, the identity
    sets the corners to 0 as every element does: what is acted on are masked images.

    Args:
        group: `cyclic(n)`; element k turns the picture by $360 k / n$ degrees, counter-clockwise.
        order: 1 for bilinear interpolation, 3 for the cubic spline.
        mask: put 0 outside of the disc that fits into the image.

    Raises:
        ValueError: if the group is not cyclic, `order` is not 1 or 3, or `mask` is no truth value.
    """

    def __init__(self, group: FiniteGroup, order: int = 1, mask: bool = True) -> None:
        check_group("group", group)
        if group != cyclic(group.order):
            raise ValueError(f"`group`: expected cyclic(n), whose elements are rotations, got {group!r}.")
        _check_order(order)
        self.group, self.order, self.mask = group, order, check_flag("mask", mask)

    def __call__(
        self, g: int, x: Real[Array, "*batch size size channels"]
    ) -> Float[Array, "*batch size size channels"]:
        x = as_floats("x", x)
        check_square_images("x", x)  # `rotate_images` would call them `images`
        return rotate_images(x, 360 * self.group.check_element(g) / self.group.order, self.order, self.mask)

    def _key(self) -> Hashable:
        return self.group, self.order, self.mask


def group_law_error(action: Action, x: Real[Array, "..."]) -> Float64[np.ndarray, "order order"]:
    r"""$\| \rho(g) \rho(h) x - \rho(gh) x \| / \| \rho(gh) x \|$ for all $g, h$: how far a map is from an action.

    For linear maps the unit of `x` does not matter, however large or small its numbers are.

    Args:
        action: what is measured.
        x: arrays that it moves; one norm is taken over all of them.

    Returns:
        Errors in the Frobenius norm, g in rows; 0 for an exact action.

    Raises:
        ValueError: if `action` is none, `x` is not finite, or abstract (inside `jit`), or some $\rho(gh) x$ vanishes.
    """
    check_action("action", action)
    check_known("x", x)
    check_finite("x", x)
    x = _in_range(x)
    moved = [as_array("x", action(g, x)) for g in action.group.elements]
    check_known("x", moved)  # inside `jit` JAX computes with known numbers, too, as with abstract ones
    if any(not jnp.any(y) for y in moved):
        raise ValueError("`x`: expected an array that the action does not map to 0, got one; take another example.")

    def error(g: int, h: int) -> float:
        expected = np.asarray(moved[action.group.table[g, h]], np.float64)
        difference = np.asarray(action(g, moved[h]), np.float64) - expected
        unit = -np.frexp(np.abs(expected).max())[1]  # no square leaves the range, and a power of 2 rounds nothing
        return float(np.linalg.norm(np.ldexp(difference, unit)) / np.linalg.norm(np.ldexp(expected, unit)))

    return np.array([[error(g, h) for h in action.group.elements] for g in action.group.elements])


def _in_range(x: Real[Array, "..."]) -> Real[Array, "..."]:
    """`x`, divided by a power of 2 if its numbers are near the ends of the range of float32, or beyond."""
    x = np.asarray(x)
    if jnp.issubdtype(x.dtype, jnp.floating):
        _, exponent = np.frexp(np.max(np.abs(x), initial=0))
        x = np.ldexp(x, -exponent) if abs(exponent) > 64 else x
    return native(x)


def _check_order(order: int) -> None:
    if isinstance(order, bool | list | tuple | jax.core.Tracer) or np.ndim(order) or order not in (1, 3):
        raise ValueError(f"`order`: expected 1 (bilinear) or 3 (cubic spline), got {shown(order)}.")


def _rotate(images: Array, angle: float, order: int) -> Array:
    """Rotate by an angle that is known: no interpolation where none is needed."""
    quarters = round(angle / 90)
    turned = jnp.rot90(images, quarters % 4, axes=(-3, -2))
    rest = angle - 90 * quarters
    return turned if rest == 0 else _interpolate(turned, rest, order)


def _rotate_traced(images: Array, angle: Array, order: int) -> Array:
    """Rotate by an angle that is not known yet."""
    angle = angle.astype(jnp.promote_types(angle.dtype, images.dtype))  # places as precise as the images
    branches = [functools.partial(jnp.rot90, k=k, axes=(-3, -2)) for k in range(4)]
    turned = jax.lax.switch(jnp.round(angle / 90).astype(int) % 4, branches, images)
    rest = angle - 90 * jnp.round(angle / 90)
    interpolated = _interpolate(turned, rest, order)
    # Where the rest is 0: the value of the permutation to the last bit, and the derivatives of the interpolation.
    exact = jax.lax.stop_gradient(turned) + (interpolated - jax.lax.stop_gradient(interpolated))
    return jnp.where(rest == 0, exact, interpolated)


def _interpolate(images: Array, angle: float | Array, order: int) -> Array:
    """Rotate by an angle in degrees through a function that takes the values of the pixels.

    Where the angle is a number, places and weights are computed by NumPy in double precision, and are constants.
    """
    xp = jnp if isinstance(angle, jax.core.Tracer) else np
    size = images.shape[-2]
    centre = (size - 1) / 2
    right = xp.arange(size) - centre
    up = -right[:, None]
    cos, sin = xp.cos(angle * (np.pi / 180)), xp.sin(angle * (np.pi / 180))
    # g^-1 x, then from the plane (x right, y up) to rows (down) and columns
    places = centre + sin * right - cos * up, centre + cos * right + sin * up
    outside = (abs(places[0] - centre) > centre + _SLACK) | (abs(places[1] - centre) > centre + _SLACK)
    taps = [_taps(xp.clip(place, 0, size - 1), size - 1, order, xp) for place in places]
    coefficients = images if order == 1 else _spline_coefficients(images)
    total = jnp.zeros_like(images)
    for i, v in zip(*taps[0], strict=True):
        for j, w in zip(*taps[1], strict=True):
            weight = xp.where(outside, 0, v * w)[..., None]
            total = total + jnp.asarray(weight, images.dtype) * coefficients[..., i, j, :]
    return total


def _taps(places: ArrayLike, last: int, order: int, xp: ModuleType) -> tuple[list[ArrayLike], list[ArrayLike]]:
    """Indices of the neighbours of each place, and the values of their B-splines there.

    The image is continued by its mirror image.
    """
    # At the last pixel the cell before it is used.
    cell = xp.clip(xp.floor(places), 0, max(last - 1, 0))
    t = places - cell
    first = cell.astype(int)
    if order == 1:
        indices, weights = [first, first + 1], [1 - t, t]
    else:
        indices = [first - 1, first, first + 1, first + 2]
        u = 1 - t
        weights = [u**3 / 6, 2 / 3 - t**2 + t**3 / 2, 2 / 3 - u**2 + u**3 / 2, t**3 / 6]
    return [abs(last - abs(last - abs(index))) for index in indices], weights


def _spline_coefficients(images: Float[Array, "*batch size size channels"]) -> Array:
    """Coefficients of the cubic spline that takes the values of the pixels."""
    inverse = jnp.asarray(_inverse_of_samples(images.shape[-2]), images.dtype)
    return jnp.einsum("ik,jl,...klc->...ijc", inverse, inverse, images, precision="highest")


@functools.cache
def _inverse_of_samples(size: int) -> Float64[np.ndarray, "size size"]:
    """Inverse of the matrix that takes B-spline coefficients to values at the pixels, 1/6, 2/3, 1/6 with a mirror."""
    if size == 1:
        return np.ones((1, 1))
    matrix = (4 * np.eye(size) + np.eye(size, k=1) + np.eye(size, k=-1)) / 6
    matrix[0, 1] = matrix[-1, -2] = 1 / 3
    return np.linalg.inv(matrix)

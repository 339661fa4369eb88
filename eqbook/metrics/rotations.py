"""How often a random rotation changes the predicted class."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from eqbook._checks import (
    check_batch,
    check_finite,
    check_function,
    check_int,
    check_integers,
    check_key,
    check_rectangular,
)
from eqbook.metrics.orbits import same_class_fraction

Rotate = Callable[[Array, Array], Array]

# What functions raise that look at values, as those of NumPy do, when JAX traces them.
LOOKS = (
    jax.errors.ConcretizationTypeError,
    jax.errors.NonConcreteBooleanIndexError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)


def random_rotation_fraction(
    key: jax.Array,
    predict: Callable[[Array], Array],
    rotate: Rotate,
    x: Float[Array, "n ..."],
    rotations: int = 64,
) -> Float[Array, " n"]:
    r"""Fraction of random rotations of the plane that leave each input's predicted class unchanged.

    `same_class_fraction` at angles drawn independently and uniformly from a full turn, the same for all inputs. What is
    rotated is compared with the input rotated by 0, since a rotation may set the corners of an image to 0 at any angle.
    Rotations are evaluated one after the other, so that memory is that of one batch.

    Args:
        key: random key of the angles.
        predict: class scores `[n, classes]` of a batch; of an ensemble, those of its mean.
        rotate: `rotate(x, angle)`, a batch rotated by an angle in degrees that may be traced, such as
            `eq.groups.rotate_images`.
        x: inputs, `[n, ...]`.
        rotations: number $R$ of angles.

    Returns:
        Fractions, `[n]`, each with standard error $\sqrt{p (1 - p) / R}$. Errors of different inputs are not
        independent, since they share the angles.

    Raises:
        ValueError: if `x` is no batch, its integers do not fit into those of JAX, or `rotate` or `predict` is no
            function or returns arrays of another shape, or scores that are no finite real numbers.

    References:
        Gerken, Kessel, "Emergent Equivariance in Deep Ensembles", ICML 2024, https://arxiv.org/abs/2403.03103
        (figure 3; the number of angles and the interpolation are not stated there).
    """
    check_batch("x", x)
    rotations = check_int("rotations", rotations, 1)
    check_function("predict", predict, "lambda x: net.apply(params, x)")
    check_function("rotate", rotate, "eq.groups.rotate_images")
    check_integers("x", x)
    x = jnp.asarray(x)
    check_key("key", key)
    angles = jax.random.uniform(key, (rotations,), maxval=360)

    def scores(angle: Array) -> Array:
        turned = rotate(x, angle)
        if np.shape(turned) != x.shape:
            raise ValueError(f"`rotate`: expected a batch of shape {x.shape} like `x`, got {np.shape(turned)}.")
        return predict(turned)

    upright = scores(jnp.zeros_like(angles[0]))
    check_rectangular("predict", upright)
    if np.ndim(upright) != 2 or len(upright) != len(x) or np.shape(upright)[1] == 0:
        raise ValueError(f"`predict`: expected scores [n, classes] with n = {len(x)}, got shape {np.shape(upright)}.")
    check_finite("predict", upright)
    try:
        turned = jax.lax.map(scores, angles) if isinstance(upright, jax.Array) else None
    except LOOKS:
        turned = None
    if turned is None:  # such as an ensemble's `predict_mean`
        turned = np.stack([np.asarray(scores(angle)) for angle in angles])  # in the dtype that the function returns
    check_finite("predict", turned)
    return same_class_fraction(upright, turned)

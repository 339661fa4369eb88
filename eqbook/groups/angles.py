"""Angles of any size. Whole turns are taken away before anything is rounded: a large float tells no degrees apart."""

import math
import numbers
from decimal import Decimal
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from eqbook._shown import shown


def without_turns(angle: float | Float[Array, ""]) -> float | Float[Array, ""]:
    r"""The same angle, between -360 and 360 degrees; exact, but for the rounding of a fraction such as 1/3.

    Args:
        angle: in degrees, a number of any kind and size, or a traced scalar.

    Returns:
        A float if the angle is known; a traced one has 32 bits or more.

    Raises:
        ValueError: if it is not one finite real number.
    """
    found = _traced(angle) if isinstance(angle, jax.core.Tracer) else _known(angle)
    if found is None:
        raise ValueError(
            f"`angle`: expected a finite number of degrees, got {shown(angle)}; map over several with vmap."
        )
    return found


def _known(angle: object) -> float | None:
    try:
        if np.ndim(angle) > 0:
            return None
        if isinstance(angle, np.ndarray | np.generic | jax.Array):
            angle = np.asarray(angle).item()  # small integers of NumPy cannot be compared with 360
        if isinstance(angle, Decimal | np.longdouble) and math.isfinite(float(angle)):  # floats have fewer digits
            angle = Fraction(*angle.as_integer_ratio())
        turned = float(angle % 360) if isinstance(angle, numbers.Rational) else math.fmod(angle, 360)
    except (TypeError, ValueError, OverflowError):  # None, text, complex numbers, lists that differ in length, infinity
        return None
    return None if math.isnan(turned) else turned


def _traced(angle: Array) -> Float[Array, ""] | None:
    real = any(jnp.issubdtype(angle.dtype, kind) for kind in (jnp.floating, jnp.integer, jnp.bool_))
    if angle.ndim > 0 or not real:
        return None
    if jnp.issubdtype(angle.dtype, jnp.floating):
        # Places computed from it in 16 bits would be off by hundredths of a pixel, or by tenths.
        return jnp.fmod(angle.astype(jnp.promote_types(angle.dtype, jnp.float32)), 360)
    whole = angle if angle.dtype.itemsize > 1 else angle.astype(jnp.int16)  # 360 has more than 8 bits
    return (whole % 360).astype(jnp.result_type(float))

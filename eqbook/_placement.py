"""Where arrays that a user gives lie: what is split into tiles is wanted whole, and in one place."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Shaped


def is_elsewhere(x: Any) -> bool:
    """Whether a part of an array lies on devices of another process."""
    return isinstance(x, jax.Array) and not isinstance(x, jax.core.Tracer) and not x.is_fully_addressable


def gathered(
    x: Shaped[Array, "..."], mesh: Mesh | None, beside: Shaped[Array, "..."] | None = None
) -> Shaped[Array, "..."]:
    """An array on one device: that of `beside` if given, or its own, or the default one if it has several.

    Abstract values (inside `jit`) pass.

    Args:
        x: array of this process, on any devices.
        mesh: devices that will share it; JAX then moves it there if it is tied to none.
        beside: array on one device.
    """
    if isinstance(x, jax.core.Tracer) or isinstance(beside, jax.core.Tracer):
        return x
    if mesh is not None or len(x.devices()) > 1:
        return jnp.asarray(np.asarray(x))
    if beside is not None and x.devices() != beside.devices():
        x = jax.device_put(x, *beside.devices())
    return x

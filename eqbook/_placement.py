"""Where arrays that a user gives lie: what is split into tiles is wanted whole, and in one place."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Shaped


def is_elsewhere(x: Any) -> bool:
    """Whether a part of an array lies only on devices of other processes."""
    if not isinstance(x, jax.Array) or isinstance(x, jax.core.Tracer):
        return False
    return not (x.is_fully_addressable or x.is_fully_replicated)


def gathered(arrays: Sequence[Shaped[Array, "..."]], mesh: Mesh | None) -> list[Shaped[Array, "..."]]:
    """Arrays on one device: that of the first one that was put somewhere, else the default one.

    Abstract values (inside `jit`) pass.

    Args:
        arrays: of this process, each on any devices.
        mesh: devices that will share them; JAX then moves what is tied to no device.
    """
    if any(isinstance(x, jax.core.Tracer) for x in arrays):
        return list(arrays)
    whole = [jnp.asarray(np.asarray(x)) if mesh is not None or len(x.devices()) > 1 else x for x in arrays]
    put = [x.devices() for x in whole if x.committed]
    return [jax.device_put(x, *put[0]) if put and x.devices() != put[0] else x for x in whole]

"""Random numbers that cost no compilation.

XLA takes a second or more to compile JAX's default generator, anew for each shape: data come from NumPy, and where a
test uses `init` and does not ask for its law, the key is of the generator that XLA has built in.
"""

import jax
import jax.numpy as jnp
import numpy as np


def normal(seed, shape, dtype=None):
    """Standard normal numbers, by default of JAX's default floating dtype."""
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), dtype)


def quick_key(seed):
    """A key of JAX whose numbers are quick to compile; they are other ones under `vmap`."""
    return jax.random.key(seed, impl="rbg")

"""What errors advise where a result needs more digits than it has."""

import jax

SWITCH = '`jax.config.update("jax_enable_x64", True)`'  # before anything is computed


def use_float64() -> str:
    """Advice to compute in 64 bits, with the switch if JAX computes in 32: there float64 itself becomes float32."""
    return "use float64" if jax.config.jax_enable_x64 else f"use float64 with {SWITCH}"

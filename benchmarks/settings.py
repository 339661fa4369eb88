"""Settings of a run: the same for the measuring process and for those that it starts."""

import os

import jax


def configure() -> None:
    """Float32 means float32 on every device; nothing is taken from an earlier run; no memory is reserved."""
    os.environ.pop("EQBOOK_STORE_DIR", None)  # nothing that an earlier run has computed is read
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    jax.config.update("jax_default_matmul_precision", "highest")
    jax.config.update("jax_enable_compilation_cache", False)

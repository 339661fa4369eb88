"""The oracle loads on the JAX at hand, without TensorFlow, and says how to install it where it is missing."""

import importlib.util
import subprocess
import sys

import pytest

from eqbook import neural_tangents


def test_loads_without_tensorflow():
    code = """
import sys
from eqbook import neural_tangents
nt = neural_tangents.load()
assert nt is neural_tangents.load() and nt.stax.Dense
print([name for name in sys.modules if name.split(".")[0] in ("tensorflow", "tf2jax")])
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"


def test_tensorflow_is_not_installed_with_the_book():
    assert importlib.util.find_spec("tensorflow") is None


def test_missing_oracle_is_explained(monkeypatch):
    neural_tangents.load.cache_clear()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="pip install --no-deps neural-tangents==0.6.5"):
        neural_tangents.load()
    neural_tangents.load.cache_clear()

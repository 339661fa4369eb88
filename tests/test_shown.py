"""How values look in errors and notebooks: never all the numbers of an array."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import eqbook as eq
from eqbook._shown import brief, shown, summary

MANY = np.zeros((60, 3, 3))


@pytest.mark.parametrize(
    "value, expected",
    [
        (3, "3"),
        ("ntk", "'ntk'"),
        (np.ones(2), "array([1., 1.])"),
        (MANY, "an array of shape (60, 3, 3), dtype float64"),
        (jnp.zeros((20, 2), jnp.int32), "an array of shape (20, 2), dtype int32"),
        ([MANY] * 2, "a list of 2 entries"),
        (tuple(range(1000)), "a tuple of 1000 entries"),
        ({"images": MANY}, "a dict of 1 entries"),
    ],
)
def test_what_was_given(value, expected):
    assert shown(value) == expected


def test_long_text_is_cut():
    assert len(shown("a" * 10_000)) < 320 and "\n" not in shown("a\n" * 10_000)


def test_abstract_values():
    seen = []
    jax.jit(lambda x: seen.extend([shown(x), brief(x)]))(jnp.ones((2, 3)))
    jax.grad(lambda x: seen.append(shown(x)) or x)(1.0)
    assert seen[0] == "an abstract value, float32[2, 3], traced by `jit`, `grad` or `vmap`"
    assert seen[1] == "float32[2, 3]" and seen[2].startswith("an abstract value, float32[],")


@pytest.mark.parametrize(
    "value, expected",
    [
        (np.float32(0.5), "0.5"),
        (jnp.float32(0.5), "0.5"),
        (np.arange(3), "[0, 1, 2]"),
        (np.arange(9), "int64[9]"),
        (jnp.ones((2, 2)), "float32[2, 2]"),
        ({"new": np.ones((2, 3), np.float32)}, "{'new': float32[2, 3]}"),
        (tuple(range(100)), "(0, 1, ..., 99)"),
        (None, "None"),
    ],
)
def test_one_field(value, expected):
    assert brief(value) == expected


def test_arrays_without_numbers():
    """Keys, and an array whose memory was given away."""
    gone = jnp.ones(3)
    gone.delete()
    assert brief(gone) == "float32[3]" and brief(jax.random.key(0)).startswith("key<")


SHORT = {
    "Gram": lambda: eq.gram(eq.Sequential(eq.Dense(1)), np.ones((20, 3), np.float32), kinds="ntk"),
    "Irrep": lambda: eq.groups.irreps(eq.dihedral(40))[-1],
    "ColourRotation": lambda: eq.groups.ColourRotation(np.broadcast_to(np.eye(3), (8, 8, 3, 3))),
    "EntryPermutation": lambda: eq.groups.EntryPermutation(np.arange(1000)),
    "EntryRotation": lambda: eq.groups.EntryRotation(np.eye(30)),
    "ImageSet": lambda: eq.data.load_sample("cifar10"),
    "BootstrapDraws": lambda: eq.metrics.BootstrapDraws(np.ones(300), np.ones(300)),
}


@pytest.mark.parametrize("name", SHORT)
def test_dataclasses_show_shapes(name):
    value = SHORT[name]()
    assert repr(value) == summary(value) and repr(value).startswith(f"{name}(") and len(repr(value)) < 300
    assert "array(" not in repr(value)


def test_a_gram_shows_what_it_has():
    assert repr(SHORT["Gram"]()) == "Gram(nngp=None, ntk=float32[20, 20])"


WRONG = {
    "irreps of matrices": lambda: eq.groups.irreps(eq.groups.icosahedron_rotations()[0]),
    "irreps of both": lambda: eq.groups.irreps(eq.groups.icosahedron_rotations()),
    "action": lambda: eq.groups.orbit(MANY, MANY),
    "network": lambda: eq.gram(MANY, MANY),
    "layer": lambda: eq.Sequential(MANY),
    "key": lambda: eq.Sequential(eq.Dense(1)).init(MANY, (1, 2)),
    "number": lambda: eq.EnsembleLaw(np.eye(2), y=np.ones((2, 1)), diag_reg=MANY),
    "time": lambda: eq.EnsembleLaw(np.eye(2), y=np.ones((2, 1))).train_mean(MANY),
    "rate": lambda: eq.GradientFlow(MANY),
    "deviation": lambda: eq.Dense(1, W_std=MANY),
    "group": lambda: eq.Lift(MANY, 1),
    "epsilon": lambda: eq.metrics.members_needed(np.full(500, 2.0), 1.0, 1.0),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_print_no_arrays(name):
    with pytest.raises(ValueError) as error:
        WRONG[name]()
    assert len(str(error.value)) < 400 and "\n" not in str(error.value)


def test_large_groups_show_some_names():
    assert repr(eq.cyclic(3)) == "FiniteGroup(order=3, names=('e', 'r1', 'r2'))"
    assert repr(eq.cyclic(1000)).endswith("'r15', ...))") and "order=1000" in repr(eq.cyclic(1000))


def test_modules_of_nnx_are_named():
    """They look like modules of Flax, and print all their parameters."""

    class Model(nnx.Module):
        def __init__(self):
            self.layer = nnx.Linear(50, 50, rngs=nnx.Rngs(0))

    expected = "`net`: expected a Sequential or a module of flax.linen, got Model, a module of flax.nnx"
    with pytest.raises(ValueError, match=expected) as error:
        eq.empirical_kernels(Model(), {}, np.ones((2, 50), np.float32))
    assert len(str(error.value)) < 300
    with pytest.raises(ValueError, match="`net`: expected a Sequential or a module of flax.linen, got 3"):
        eq.empirical_kernels(3, {}, np.ones((2, 50), np.float32))
    with pytest.raises(ValueError, match="got the class Dense; call it"):
        eq.empirical_kernels(nn.Dense, {}, np.ones((2, 50), np.float32))

"""Shapes that are kept between calls: they are those of the call at hand."""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.experimental import io_callback

import eqbook as eq
from eqbook.ensembles.epoch import side_by_side
from eqbook.ensembles.remembered import remembered

X = np.sin(np.arange(24.0, dtype=np.float32)).reshape(8, 3)
Y = np.cos(np.arange(8.0, dtype=np.float32)).reshape(8, 1)
OPTIMIZER = optax.adam(0.01)


def train(net, x=X, members=2, at_once=2, key=None, epochs=1):
    key = jax.random.key(0) if key is None else key
    return eq.train_ensemble(
        net, key, x, Y, members=members, epochs=epochs, optimizer=OPTIMIZER, at_once=at_once, watch={"x": x}
    )


def test_called_once_for_equal_arguments_and_settings():
    calls = []
    twice = remembered(lambda x: calls.append(x) or 2 * x)
    assert [twice(3), twice(3)] == [6, 6] and calls == [3]
    with jax.numpy_dtype_promotion("strict"):
        twice(3)
    assert calls == [3, 3]
    assert [twice([3]), twice([3])] == [[3, 3], [3, 3]] and len(calls) == 4  # a list has no hash


def test_an_error_is_not_kept():
    calls = []

    @remembered
    def fails(x):
        calls.append(x)
        raise ValueError("no")

    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            fails(1)
    assert len(calls) == 2


@pytest.mark.parametrize("meshes", ["dn", "de", "nd"], ids=["then none", "then another", "after none"])
def test_the_mesh_of_an_earlier_call_does_not_matter(meshes):
    net = eq.Sequential(eq.Dense(3), eq.Relu(), eq.Dense(1))
    expected = train(net).outputs["x"]
    for name in meshes:
        if name == "n":
            found = train(net)
        else:
            with jax.set_mesh(jax.make_mesh((1,), (name,))):
                found = train(net)
        np.testing.assert_array_equal(found.outputs["x"], expected)


class Choice:
    """Equal to itself only, also when it has changed."""

    def __init__(self, dtype):
        self.dtype = dtype


class Chosen(nn.Module):
    choice: Choice

    @nn.compact
    def __call__(self, x):
        return nn.Dense(1, param_dtype=self.choice.dtype)(x)


def test_a_dtype_that_has_changed_counts():
    net = Chosen(Choice(jnp.float32))
    for dtype in (jnp.float32, jnp.bfloat16, np.float32, np.dtype(np.float16)):
        net.choice.dtype = dtype
        assert {leaf.dtype for leaf in jax.tree.leaves(train(net).params)} == {jnp.dtype(dtype)}


class Scaled(nn.Module):
    scale: Any

    @nn.compact
    def __call__(self, x):
        x = x * self.scale
        return (x @ self.param("w", nn.initializers.ones, (3, 1), x.dtype)).astype(jnp.float32)


def test_equal_numbers_of_other_types_count():
    whole = np.arange(24).reshape(8, 3).astype(np.int32)
    train(Scaled(1.0), whole)
    with pytest.raises(ValueError, match="floating dtype, got one of int32"):
        train(Scaled(1), whole)
    half = X.astype(np.float16)
    dtypes = [jax.tree.leaves(train(Scaled(one), half).params)[0].dtype for one in (1.0, np.float32(1))]
    assert dtypes == [np.float16, np.float32]


def test_weakly_typed_inputs():
    class Shifted(nn.Module):
        @nn.compact
        def __call__(self, x):
            return nn.Dense(1)(x - self.param("m", lambda key: x[0] * jnp.ones(3, jnp.bfloat16)))

    weak, strong = jnp.full((8, 3), 0.3), np.full((8, 3), 0.3, np.float32)
    assert weak.weak_type
    np.testing.assert_array_equal(*(train(Shifted(), x).outputs["x"] for x in (weak, strong)))


def by_rbg(key, shape, dtype=jnp.float32):
    return jax.random.normal(jax.random.key(jax.random.bits(key), impl="rbg"), shape, dtype)


def on_the_host(key, shape, dtype=jnp.float32):
    made = jax.ShapeDtypeStruct(shape, dtype)
    return io_callback(lambda word: np.full(shape, word % 7, dtype), made, jax.random.bits(key))


@pytest.mark.parametrize(
    "law",
    [nn.initializers.lecun_normal(), nn.initializers.orthogonal(), by_rbg, on_the_host],
    ids=["normal", "orthogonal", "another generator", "host"],
)
@pytest.mark.usefixtures("accelerator")
def test_members_that_are_drawn_side_by_side_are_those_of_their_keys(law):
    net, key = nn.Dense(1, kernel_init=law), jax.random.key(3)
    found = train(net, members=3, at_once=3, key=key, epochs=0).params["params"]["kernel"]
    for m in range(3):
        own, _ = jax.random.split(jax.random.fold_in(key, m))
        np.testing.assert_array_equal(found[m], net.init(own, X[:1])["params"]["kernel"])
    alone = law in (by_rbg, on_the_host) or "orthogonal" in law.__qualname__
    traced = jax.make_jaxpr(lambda key: net.init(key, X[:1]))(key).jaxpr
    assert side_by_side(traced) == (not alone)

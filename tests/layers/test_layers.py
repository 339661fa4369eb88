"""Layers say what they are, compare by value, and refuse what makes no sense."""

import pickle
from dataclasses import FrozenInstanceError
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import eqbook as eq


@jax.custom_vjp
def reverse_only(u):
    return u**3


reverse_only.defvjp(lambda u: (u**3, u), lambda u, change: (3 * u**2 * change,))

BAD = {
    "features 0": (lambda: eq.Dense(0), "Dense: features`: expected an integer of at least 1, got 0"),
    "features float": (lambda: eq.Dense(2.5), "expected an integer of at least 1, got 2.5"),
    "features bool": (lambda: eq.Dense(True), "expected an integer of at least 1, got True"),
    "negative W_std": (lambda: eq.Dense(2, W_std=-1.0), "Dense: `W_std`: expected a finite number >= 0, got -1.0"),
    "nan b_std": (lambda: eq.Dense(2, b_std=float("nan")), "Dense: `b_std`: expected a finite number >= 0, got nan"),
    "W_std bool": (lambda: eq.Dense(2, W_std=True), "Dense: `W_std`: expected a finite number >= 0, got True"),
    "filter": (lambda: eq.Conv(2, 3), "Conv: `filter_shape`: expected two sizes .height, width., got 3"),
    "filter 0": (lambda: eq.Conv(2, (3, 0)), "Conv: filter_shape`: expected an integer of at least 1, got 0"),
    "strides": (lambda: eq.Conv(2, (3, 3), strides=(1,)), "Conv: `strides`: expected two sizes"),
    "padding": (lambda: eq.Conv(2, (3, 3), padding="same"), "Conv: `padding`: expected one of SAME, VALID, CIRCULAR"),
    "conv W_std": (lambda: eq.Conv(2, (3, 3), W_std=-1), "Conv: `W_std`: expected a finite number >= 0"),
    "local channels": (lambda: eq.LocallyConnected(0, (3, 3)), "LocallyConnected: channels`: expected an integer of"),
    "local filter": (lambda: eq.LocallyConnected(2, 3), "LocallyConnected: `filter_shape`: expected two sizes"),
    "local strides": (
        lambda: eq.LocallyConnected(2, (3, 3), (0, 1)),
        "LocallyConnected: strides`: expected an",
    ),
    "local padding": (
        lambda: eq.LocallyConnected(2, (3, 3), padding=1),
        "LocallyConnected: `padding`: expected one",
    ),
    "local b_std": (lambda: eq.LocallyConnected(2, (3, 3), b_std=-1), "LocallyConnected: `b_std`: expected a finite"),
    "window": (lambda: eq.AvgPool(2), "AvgPool: `window`: expected two sizes"),
    "activation": (lambda: eq.Activation("tanh"), "Activation: `function`: expected a function such as jnp.tanh"),
    "activation class": (lambda: eq.Activation(eq.Relu), "Activation: `function`: expected a function"),
    "nodes": (lambda: eq.Activation(abs, nodes=0), "Activation: nodes`: expected an integer of at least 1"),
    "too many nodes": (lambda: eq.Activation(abs, nodes=400), "Activation: `nodes`: expected at most 256, got 400"),
    "a NumPy function": (lambda: eq.Activation(np.tanh), "expected an elementwise function of JAX arrays"),
    "a reordering": (lambda: eq.Activation(jax.numpy.flip), "whose value at one entry depends on the others"),
    "a normalisation": (lambda: eq.Activation(jax.nn.softmax), "whose value at one entry depends on the others"),
    "not elementwise": (lambda: eq.Activation(jax.numpy.sum), r"with real values, .* which makes float32\(\) of"),
    "no layers": (lambda: eq.Sequential(), "Sequential: expected at least one layer"),
    "no branch": (lambda: eq.Residual(), r"Residual: expected at least one layer, .* for example Residual\(Dense"),
    "class in a branch": (lambda: eq.Residual(eq.Sequential), "Residual: layer 0: expected .* got .*Sequential'>"),
    "a norm of all but the batch": (
        lambda: eq.Activation(lambda u: u / (u**2).mean(tuple(range(1, u.ndim)), keepdims=True)),
        "depends on the others",
    ),
    "a sort": (lambda: eq.Activation(lambda u: jax.numpy.sort(u.ravel()).reshape(u.shape)), "depends on the others"),
    "logarithm": (lambda: eq.Activation(jax.numpy.log), "no finite value at -0.25"),
    "only batches": (lambda: eq.Activation(jax.vmap(jax.numpy.tanh)), "fails on a single number: ValueError: vmap was"),
    "no forward derivative": (lambda: eq.Activation(reverse_only), "fails on one: TypeError: can't apply"),
    "function of an axis": (lambda: eq.Sequential(eq.Dense(1), jax.nn.softmax), "layer 1: Activation: `function`"),
    "class for layer": (lambda: eq.Sequential(eq.Dense(1), eq.Relu), "layer 1: expected a layer such as"),
    "a list": (lambda: eq.Sequential([eq.Dense(1)]), "layer 0: expected a layer such as"),
}


@pytest.mark.parametrize("make, message", BAD.values(), ids=list(BAD))
def test_bad_input(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_numpy_scalars_become_python_numbers():
    layer = eq.Dense(np.int64(3), W_std=np.float64(1.5), b_std=np.float32(0.5))
    assert repr(layer) == "Dense(features=3, W_std=1.5, b_std=0.5)" and layer == eq.Dense(3, 1.5, 0.5)
    assert hash(layer) == hash(eq.Dense(3, 1.5, 0.5)) and type(layer.W_std) is float


@pytest.mark.parametrize(
    "make",
    [
        partial(eq.Dense, 3),
        partial(eq.Conv, 3, (3, 3)),
        partial(eq.LocallyConnected, 3, (3, 3)),
        partial(eq.Lift, eq.cyclic(4), 3, (3, 3)),
        partial(eq.GroupConv, eq.cyclic(4), 3, (3, 3)),
        partial(eq.LiftS2, 3),
        partial(eq.SO3Conv, 3),
    ],
    ids=lambda make: make.func.__name__,
)
def test_standard_deviations_have_no_dtype(make):
    """That of a scalar of NumPy or JAX would win over the dtype of the inputs."""
    layer = make(W_std=np.sqrt(2), b_std=np.float32(0.5))
    assert type(layer.W_std) is type(layer.b_std) is float and layer == make(W_std=2**0.5, b_std=0.5)
    same = make(W_std=jnp.float32(1.5), b_std=jnp.int32(2))
    assert type(same.W_std) is type(same.b_std) is float and same == make(W_std=1.5, b_std=2)
    with pytest.raises(ValueError, match="`b_std`: expected a known number, got an abstract value.*cannot be traced"):
        jax.grad(lambda std: make(b_std=std).b_std)(0.5)


def test_whole_numbers_of_jax_become_python_numbers():
    two = jnp.int32(2)
    assert eq.Dense(two) == eq.Dense(2) and type(eq.Dense(two).features) is int
    assert eq.Conv(two, (two, 1)) == eq.Conv(2, (2, 1)) and eq.AvgPool((two, two)) == eq.AvgPool((2, 2))
    assert eq.LiftS2(1, bandwidth=two, quadrature=two) == eq.LiftS2(1, bandwidth=2, quadrature=2)
    assert eq.GroupConv(eq.cyclic(4), two, support=(two,)) == eq.GroupConv(eq.cyclic(4), 2, support=(2,))
    with pytest.raises(ValueError, match="Dense: `features`: expected a known number, got an abstract value"):
        jax.jit(lambda n: eq.Dense(n).features)(2)
    for value in (jnp.array(True), jnp.ones(2)):
        with pytest.raises(ValueError, match="`W_std`: expected a finite number >= 0, got"):
            eq.Dense(1, W_std=value)


def test_networks_survive_pickling():
    net = eq.Sequential(eq.Dense(4, b_std=0.1), eq.Erf(), eq.Dense(1))
    copy = pickle.loads(pickle.dumps(net))
    assert copy == net and hash(copy) == hash(net)


def test_networks_compare_by_value():
    make = lambda width: eq.Sequential(eq.Dense(width), eq.Relu(), eq.Dense(1))  # noqa: E731
    assert make(4) == make(4) and hash(make(4)) == hash(make(4)) and make(4) != make(5)
    assert (
        repr(make(4))
        == "Sequential(Dense(features=4, W_std=1.0, b_std=0.0), Relu(), Dense(features=1, W_std=1.0, b_std=0.0))"
    )


@pytest.mark.parametrize("net, name", [(eq.Sequential(eq.Dense(1)), "layers"), (eq.Residual(eq.Dense(1)), "branch")])
def test_networks_cannot_be_changed(net, name):
    """They are keys of caches."""
    with pytest.raises(FrozenInstanceError):
        setattr(net, name, ())


def test_a_residual_block_is_not_its_branch():
    one, other = eq.Residual(eq.Dense(1)), eq.Residual(eq.Dense(2))
    assert one == eq.Residual(eq.Dense(1)) and hash(one) == hash(eq.Residual(eq.Dense(1)))
    assert one != other and one != eq.Sequential(eq.Dense(1)) and pickle.loads(pickle.dumps(one)) == one


def test_a_function_stands_for_an_activation():
    given = eq.Sequential(eq.Dense(4), jax.numpy.tanh, eq.Residual(eq.Dense(4), jax.nn.gelu, eq.Dense(4)))
    spelled = eq.Sequential(
        eq.Dense(4),
        eq.Activation(jax.numpy.tanh),
        eq.Residual(eq.Dense(4), eq.Activation(jax.nn.gelu), eq.Dense(4)),
    )
    assert given == spelled and hash(given) == hash(spelled)


def test_a_branch_keeps_the_channels_of_a_locally_connected_layer():
    net = eq.Sequential(eq.LocallyConnected(4, (1, 1)), eq.Residual(eq.Relu(), eq.LocallyConnected(8, (1, 1))))
    with pytest.raises(ValueError, match="layer 1: Residual.*expected a branch with 4 channels like its input, got 8"):
        eq.gram(eq.Sequential(net, eq.Flatten()), np.ones((1, 3, 3, 2), np.float32))


@pytest.mark.parametrize("layers", [(), (eq.Flatten(),), (eq.Sequential(eq.Flatten(), eq.Flatten()),)])
def test_a_branch_keeps_the_channels_of_vectors_that_are_flattened(layers):
    def net(width):
        return eq.Sequential(eq.Dense(4), *layers, eq.Residual(eq.Relu(), eq.Dense(width)), eq.Dense(1))

    assert eq.gram(net(4), np.ones((2, 3), np.float32)).ntk.shape == (2, 2)
    with pytest.raises(ValueError, match="Residual.*expected a branch with 4 channels like its input, got 8"):
        eq.gram(net(8), np.ones((2, 3), np.float32))


def test_channels_of_flattened_images_are_not_compared():
    """There are as many as pixels times channels, and the width at infinity is any."""
    layers = (eq.Conv(4, (1, 1)), eq.Flatten(), eq.Residual(eq.Dense(9), eq.Relu(), eq.Dense(36)), eq.Dense(1))
    assert eq.gram(eq.Sequential(*layers), np.ones((2, 3, 3, 2), np.float32)).ntk.shape == (2, 2)


def test_a_network_made_after_a_change_of_a_global_has_the_new_value():
    """As in a notebook, whose variables are those of no package."""
    notebook = {"jnp": jnp, "slope": 0.1}
    exec("def bent(u):\n    return jnp.where(u > 0, u, slope * u)", notebook)
    x = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)

    def of_new_network():
        net = eq.Sequential(eq.Dense(4), notebook["bent"], eq.Dense(1))
        return net, eq.gram(net, x).ntk

    first, before = of_new_network()
    again, same = of_new_network()
    assert first == again and hash(first) == hash(again) and (before == same).all()
    notebook["slope"] = 0.9
    changed, after = of_new_network()
    assert changed != first

    def fresh(u):
        return jnp.where(u > 0, u, 0.9 * u)

    expected = eq.gram(eq.Sequential(eq.Dense(4), fresh, eq.Dense(1)), x).ntk
    np.testing.assert_allclose(after, expected, rtol=1e-6)
    assert abs(after / before - 1).max() > 0.1

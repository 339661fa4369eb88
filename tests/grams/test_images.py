"""Kernels of networks on images: against neural-tangents, against quadrature, their symmetries, and bad input."""

import warnings
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numbers_drawn import normal
from registry import IMAGE_NETWORKS, NETWORKS

import eqbook as eq
from eqbook.testing import relative_error, tolerance

SHAPE = (5, 6, 2)


def images(n=3, dtype="float64", seed=0):
    return normal(seed, (n, *SHAPE), dtype)


@pytest.fixture(params=IMAGE_NETWORKS, ids=list(IMAGE_NETWORKS))
def net(request):
    return IMAGE_NETWORKS[request.param]


def stax_network(net):
    """The same network in neural-tangents."""
    stax = eq.neural_tangents.load().stax
    plain = {eq.Relu: stax.Relu, eq.Erf: stax.Erf, eq.Flatten: stax.Flatten, eq.LayerNorm: stax.LayerNorm}
    plain[eq.GlobalAvgPool] = stax.GlobalAvgPool

    def convert(layer):
        if isinstance(layer, eq.Residual):
            return stax.serial(stax.FanOut(2), stax.parallel(convert(layer.branch), stax.Identity()), stax.FanInSum())
        if isinstance(layer, eq.Sequential):
            return stax.serial(*map(convert, layer.layers))
        if isinstance(layer, eq.Dense):
            return stax.Dense(layer.features, layer.W_std, layer.b_std or None)
        if isinstance(layer, eq.Conv | eq.LocallyConnected):
            shape = (layer.channels, layer.filter_shape, layer.strides, layer.padding)
            make = stax.Conv if isinstance(layer, eq.Conv) else stax.ConvLocal
            return make(*shape, layer.W_std, layer.b_std or None)
        if isinstance(layer, eq.AvgPool):
            return stax.AvgPool(layer.window, layer.strides, "VALID")
        return plain[type(layer)]()

    return convert(net)[2]


@pytest.mark.every(8)
def test_equals_neural_tangents(net, x64):
    """Two batches without common images: on the diagonal the other side loses half of the digits."""
    x1, x2 = images(), images(2, seed=1)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="`FanIn` layers assume independent inputs")
        theirs = jax.jit(partial(stax_network(net), get=("nngp", "ntk")))(x1, x2)
    ours = eq.gram(net, x1, x2)
    # Their LayerNorm adds 1e-12 to the variance.
    bound = 1e-11 if "LayerNorm" in repr(net) else 1e-12  # also in a branch
    assert relative_error(ours.nngp, theirs.nngp) < bound
    assert relative_error(ours.ntk, theirs.ntk) < bound


@pytest.mark.parametrize("name", ["flatten-CIRCULAR", "pooled-CIRCULAR"])
def test_circular_networks_do_not_feel_a_common_shift(name, x64):
    """Shifting both images by a multiple of the stride permutes pixels of both alike."""
    net, (x1, x2) = IMAGE_NETWORKS[name], (images(), images(2, seed=1))
    moved = [jnp.roll(jnp.concatenate([x, x], 1), (2, 3), (1, 2)) for x in (x1, x2)]
    plain = [jnp.concatenate([x, x], 1) for x in (x1, x2)]  # an even number of rows, as the stride wants
    assert relative_error(eq.gram(net, *moved).ntk, eq.gram(net, *plain).ntk) < tolerance(jnp.float64, 60)


def test_pooled_circular_network_does_not_feel_a_shift_of_one_image(x64):
    net = eq.Sequential(eq.Conv(4, (3, 3), padding="CIRCULAR"), eq.Relu(), eq.GlobalAvgPool(), eq.Dense(1))
    x1, x2 = images(), images(2, seed=1)
    shifted = eq.gram(net, x1, jnp.roll(x2, (1, 2), (1, 2))).ntk
    assert relative_error(shifted, eq.gram(net, x1, x2).ntk) < tolerance(jnp.float64, 30)
    flat = eq.Sequential(*net.layers[:2], eq.Flatten(), eq.Dense(1))
    assert relative_error(eq.gram(flat, x1, jnp.roll(x2, (1, 2), (1, 2))).ntk, eq.gram(flat, x1, x2).ntk) > 1e-3


def shared(layer):
    """The layer with a convolution in place of each locally connected one, also inside."""
    if isinstance(layer, eq.Residual):
        return eq.Residual(*map(shared, layer.branch.layers))
    if isinstance(layer, eq.Sequential):
        return eq.Sequential(*map(shared, layer.layers))
    return layer.shared if isinstance(layer, eq.LocallyConnected) else layer


@pytest.mark.every(2)
@pytest.mark.parametrize("name", [name for name in IMAGE_NETWORKS if name.startswith("local-") and "pool" not in name])
def test_locally_connected_and_flattened_is_convolutional(name, x64):
    """Bit for bit by the fast method, which computes the convolution; to rounding by the literal recursion."""
    net, x = IMAGE_NETWORKS[name], images()
    for kind in ("nngp", "ntk"):
        convolutional = getattr(eq.gram(shared(net), x), kind)
        np.testing.assert_array_equal(getattr(eq.gram(net, x), kind), convolutional)
        literal = getattr(eq.gram(net, x, method="literal"), kind)
        assert relative_error(literal, convolutional) < tolerance(jnp.float64, 60)


def test_locally_connected_and_pooled_is_not_convolutional(x64):
    """Without hidden layers the pooled kernel is the mean over equal places only: that of `Flatten` over their number.

    Behind a relu the outputs at different places have means, and only their NTK vanishes.
    """
    x, local, pool, flatten = images(), eq.LocallyConnected(4, (3, 3), b_std=0.3), eq.GlobalAvgPool(), eq.Flatten()
    places = x.shape[1] * x.shape[2]
    for body, kinds in (((local,), ("nngp", "ntk")), ((local, eq.Relu()), ("ntk",))):
        pooled, flat = (eq.gram(eq.Sequential(*body, end), x) for end in (pool, flatten))
        for kind in kinds:
            expected = getattr(flat, kind) / places
            assert relative_error(getattr(pooled, kind), expected) < tolerance(jnp.float64, places)
    net = eq.Sequential(*body, pool)
    assert relative_error(eq.gram(net, x).ntk, eq.gram(shared(net), x).ntk) > 0.1


def test_one_pixel_images_are_vectors(x64):
    """On 1 by 1 pixels a convolution with one filter position is a dense layer."""
    x = images()[:, :1, :1]
    conv = eq.Sequential(eq.Conv(8, (1, 1), W_std=1.4, b_std=0.3), eq.Relu(), eq.Flatten(), eq.Dense(1, 0.9, 0.2))
    for kind in ("nngp", "ntk"):
        ours, theirs = getattr(eq.gram(conv, x), kind), getattr(eq.gram(NETWORKS["relu-bias"], x[:, 0, 0]), kind)
        assert relative_error(ours, theirs) < tolerance(jnp.float64, 4)


X = np.ones((2, 4, 4, 1), np.float32)
END = (eq.Flatten(), eq.Dense(1))
BAD = {
    "vectors into Conv": (eq.Sequential(eq.Conv(2, (3, 3)), *END), X[:, 0, 0], "layer 0: Conv.* needs images"),
    "Conv after pooling": (eq.Sequential(eq.GlobalAvgPool(), eq.Conv(2, (3, 3))), X, "layer 1: Conv.* needs images"),
    "pool twice": (eq.Sequential(eq.GlobalAvgPool(), eq.AvgPool((2, 2))), X, "layer 1: AvgPool.* needs images"),
    "filter too large": (
        eq.Sequential(eq.Conv(2, (5, 5), padding="VALID"), *END),
        X,
        r"layer 0: Conv.*: expected images of at least \(5, 5\) pixels for this window, got \(4, 4\)",
    ),
    "window too large": (
        eq.Sequential(eq.AvgPool((5, 5)), *END),
        X,
        r"layer 0: AvgPool.*: expected images of at least \(5, 5\)",
    ),
    "circular too wide": (
        eq.Sequential(eq.Conv(2, (11, 11), padding="CIRCULAR"), *END),
        X,
        "layer 0: Conv.*: expected a circular border no wider than the image",
    ),
    "pixels left": (eq.Sequential(eq.Conv(2, (3, 3))), X, "output still has pixels; end it with Flatten"),
    "branch on the input": (
        eq.Sequential(eq.Residual(eq.Conv(1, (1, 1))), *END),
        X,
        r"layer 0: Residual.*: expected a layer with weights before it, got the network's input",
    ),
    "branch on means of the input": (
        eq.Sequential(eq.GlobalAvgPool(), eq.Residual(eq.Dense(1)), eq.Dense(1)),
        X,
        r"layer 1: Residual.*: expected a layer with weights before it",
    ),
    "branch without weights": (
        eq.Sequential(eq.Conv(2, (1, 1)), eq.Residual(eq.Relu()), *END),
        X,
        "last layer has weights",
    ),
    "branch with a sum at its end": (
        eq.Sequential(eq.Conv(2, (1, 1)), eq.Residual(eq.Residual(eq.Conv(2, (1, 1)))), *END),
        X,
        "last layer has weights",
    ),
    "branch that normalises": (
        eq.Sequential(eq.Conv(2, (1, 1)), eq.Residual(eq.LayerNorm()), *END),
        X,
        "last layer has weights",
    ),
    "branch that averages": (
        eq.Sequential(eq.Conv(2, (1, 1)), eq.Residual(eq.AvgPool((1, 1))), *END),
        X,
        "last layer has weights",
    ),
    "nonlinearity behind Flatten": (
        eq.Sequential(eq.Conv(2, (3, 3)), eq.Flatten(), eq.LayerNorm(), eq.Relu(), eq.Dense(1)),
        X,
        r"layer 3: Relu\(\) needs features of one law, .* put it in front of Flatten",
    ),
    "branch behind Flatten": (
        eq.Sequential(eq.Conv(2, (3, 3)), eq.Flatten(), eq.Residual(eq.Dense(32)), eq.Erf(), eq.Dense(1)),
        X,
        r"layer 3: Erf\(\) needs features of one law",
    ),
    "branch that shrinks": (
        eq.Sequential(eq.Conv(2, (1, 1)), eq.Residual(eq.Conv(2, (2, 2), padding="VALID")), *END),
        X,
        "expected a branch that keeps the image's shape",
    ),
    "norm of the input": (eq.Sequential(eq.LayerNorm(), *END), X, "layer 0: LayerNorm.. needs a Gaussian input"),
    "three axes": (eq.Sequential(*END), X[0], r"`x1`: expected vectors \[n, d\] or images \[n, h, w, channels\]"),
}


@pytest.mark.parametrize("net, x, message", BAD.values(), ids=list(BAD))
def test_bad_input(net, x, message):
    with pytest.raises(ValueError, match=message):
        eq.gram(net, x)


def test_channels_must_agree():
    with pytest.raises(ValueError, match=r"`x2`: expected examples of shape \(4, 4, 1\) as in `x1`, got \(4, 4, 3\)"):
        eq.gram(IMAGE_NETWORKS["flatten-SAME"], X, np.ones((2, 4, 4, 3)))

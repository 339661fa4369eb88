"""Where a Gram matrix could go wrong without a word: large variances, mixed dtypes, equal inputs, odd networks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numbers_drawn import normal

import eqbook as eq
from eqbook.testing import relative_error

RNG = np.random.default_rng(0)
IMAGES = RNG.normal(size=(3, 4, 4, 1))
VECTORS = RNG.normal(size=(4, 6))
ERF_CONV = eq.Sequential(eq.Conv(8, (3, 3)), eq.Erf(), eq.Conv(8, (3, 3)), eq.Erf(), eq.GlobalAvgPool(), eq.Dense(1))
ERF_DENSE = eq.Sequential(eq.Dense(8), eq.Erf(), eq.Dense(8), eq.Erf(), eq.Dense(1))


@pytest.mark.every(2)
@pytest.mark.parametrize("net, x", [(ERF_CONV, IMAGES), (ERF_DENSE, VECTORS)], ids=["pooled", "vectors"])
def test_erf_keeps_its_digits_at_large_variances(net, x, x64):
    """(1 + 2a)(1 + 2b) - 4c^2 cancels: raw pixels up to 255 have variances of 10^4."""
    for scale in (1e2, 1e4):
        single = eq.gram(net, (scale * x).astype(np.float32))
        double = eq.gram(net, (scale * x).astype(np.float32).astype(float))
        for kind in ("nngp", "ntk"):
            a, b = np.asarray(getattr(single, kind)), np.asarray(getattr(double, kind))
            assert relative_error(a, b) < 1e-5
            assert np.abs(np.diag(a / b) - 1).max() < 1e-5


def test_erf_at_variances_whose_product_overflows():
    """Saturated, erf is the sign: E[sigma sigma] = 2/pi arcsin of the correlation, here 0.9."""
    net = eq.Sequential(eq.Dense(1), eq.Erf(), eq.Dense(1))
    x = 1e10 * np.array([[1, 0], [0.9, 0.19**0.5], [-1, 0]], np.float32)
    for method in ("auto", "literal"):
        nngp = eq.gram(net, x, method=method).nngp
        np.testing.assert_allclose(nngp[0], [1, 2 / np.pi * np.arcsin(0.9), -1], rtol=1e-6)


@pytest.mark.parametrize("end", [eq.Flatten(), eq.GlobalAvgPool()], ids=["flatten", "pool"])
def test_erf_at_the_end_of_the_range_is_right_or_refused(end):
    """Variances of 2.5e37 to 1.4e38 in float32: saturated, the kernel of equal inputs is 1, not 0 without a word."""
    net = eq.Sequential(eq.Conv(1, (1, 1)), eq.Erf(), end, eq.Dense(1))
    for scale in (5e18, 8e18, 1.2e19):
        x = np.full((2, 2, 2, 1), scale, np.float32)
        for method in ("auto", "literal"):
            try:
                nngp = eq.gram(net, x, kinds="nngp", method=method).nngp
            except ValueError as error:
                assert "expected inputs whose kernels are finite" in str(error) and scale > 5e18
            else:
                np.testing.assert_allclose(nngp, np.ones((2, 2)), rtol=1e-6)


def test_a_layer_in_front_of_a_lift(x64):
    """The orbit average is that of the inputs; a convolution in front does not commute with rotations of its filter."""
    group = eq.cyclic(4)
    net = eq.Sequential(
        eq.Conv(8, (3, 3)), eq.Relu(), eq.Lift(group, 8, (3, 3)), eq.Relu(), eq.GroupPool(), eq.Dense(1)
    )
    auto, literal = eq.gram(net, IMAGES), eq.gram(net, IMAGES, method="literal")
    assert relative_error(auto.ntk, literal.ntk) < 1e-12


def test_the_wider_dtype_of_two_batches(x64):
    x = IMAGES.astype(np.float32)
    assert eq.gram(ERF_CONV, x, IMAGES).ntk.dtype == np.float64
    assert eq.gram(ERF_CONV, x, x.astype(np.float16)).ntk.dtype == np.float32


def test_a_network_without_weights_has_no_tangents():
    for tile in (None, 1):
        assert not np.asarray(eq.gram(eq.Sequential(eq.Flatten()), IMAGES, tile=tile).ntk).any()


def test_gradient_at_a_vector_of_zeros(x64):
    """K(x, 1) = <x, 1> / 3, also where the variance of x is 0."""
    net = eq.Sequential(eq.Dense(1))
    gradient = jax.grad(lambda x: eq.gram(net, x, jnp.ones((1, 3))).nngp.sum())(jnp.zeros((1, 3)))
    np.testing.assert_allclose(gradient, 1 / 3, rtol=1e-12)


def test_gradient_at_coinciding_inputs_in_two_batches(x64):
    """The NTK has a kink there, and its slope is 0 by convention, in every method."""
    net = eq.Sequential(eq.Dense(4, b_std=0.5), eq.Relu(), eq.Dense(4, b_std=0.5), eq.Relu(), eq.Dense(1))
    x = jnp.asarray(VECTORS[:1])
    slopes = [
        jax.grad(lambda a, method=method: eq.gram(net, a, x, method=method).ntk.sum())(x)
        for method in ("auto", "literal")
    ]
    np.testing.assert_allclose(*slopes, rtol=1e-10)


def test_a_branch_keeps_the_number_of_channels():
    with pytest.raises(ValueError, match=r"layer 1: Residual.*expected a branch with 4 channels like its input, got 8"):
        eq.gram(eq.Sequential(eq.Dense(4), eq.Residual(eq.Relu(), eq.Dense(8)), eq.Dense(1)), VECTORS)


@pytest.mark.every(2)
@pytest.mark.parametrize("activation, bound", [(eq.Relu(), 1e-5), (eq.Erf(), 1e-5)], ids=["relu", "erf"])
def test_quadrature_on_rotations_has_converged(activation, bound, x64):
    """The default rule against one with twice the nodes, on noise of bandwidth 4 and one channel: each entry."""
    noise = eq.kernels.so3.sphere_signal(RNG.normal(size=(3, 16, 1)) / 4)
    rest = (activation, eq.SO3Conv(1), activation, eq.SO3Pool(), eq.Dense(1))
    default = eq.gram(eq.Sequential(eq.LiftS2(1), *rest), noise).ntk
    fine = eq.gram(eq.Sequential(eq.LiftS2(1, quadrature=22), *rest), noise).ntk
    scale = np.sqrt(np.outer(np.diag(fine), np.diag(fine)))
    assert (np.abs(default - fine) / scale).max() < bound
    assert relative_error(default, fine) < bound


def test_an_input_in_both_batches_is_one_input(x64):
    """On rotations an input with itself has a rule of its own, whether it comes in one batch or in two."""
    net = eq.Sequential(eq.LiftS2(1), eq.Relu(), eq.SO3Conv(1), eq.Relu(), eq.SO3Pool(), eq.Dense(1))
    x = RNG.normal(size=(2, 4, 3, 1))
    x = np.concatenate([x, x[:1]])
    once, twice = eq.gram(net, x).ntk, eq.gram(net, x, x.copy()).ntk
    np.testing.assert_allclose(once, twice, rtol=1e-12)
    assert once[0, 2] == once[0, 0]


@pytest.mark.parametrize("dtype", [">f4", ">f8", ">i2", np.longdouble, "<f4"])
def test_any_order_of_bytes(dtype):
    """As files of other machines have them; JAX knows its own only."""
    x = (8 * VECTORS).astype(dtype)
    usual = x.astype(np.float32)
    np.testing.assert_array_equal(eq.gram(ERF_DENSE, x).ntk, eq.gram(ERF_DENSE, usual).ntk)
    params = ERF_DENSE.init(jax.random.key(0), usual.shape)
    np.testing.assert_array_equal(ERF_DENSE.apply(params, x), ERF_DENSE.apply(params, usual))
    found, expected = (eq.empirical_kernels(ERF_DENSE, params, one).ntk for one in (x, usual))
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_minus_zero_is_zero():
    """Equal inputs are recognised, and get the rule around the identity: 1e-3 away from the other one at this size."""
    net = eq.Sequential(eq.LiftS2(3, quadrature=4), eq.Relu(), eq.SO3Conv(3), eq.Relu(), eq.SO3Pool())
    x = RNG.normal(size=(2, 8, 7, 1)).astype(np.float32)
    x[:, 0] = 0.0
    y = x.copy()
    y[:, 0] = -0.0
    np.testing.assert_allclose(eq.gram(net, x, y).ntk, eq.gram(net, x, x).ntk, rtol=1e-6)
    np.testing.assert_allclose(eq.gram(net, x, x).ntk, eq.gram(net, x).ntk, rtol=1e-6)


def leaky_relu(u):
    return jnp.where(u > 0, u, 0.1 * u)


@pytest.mark.every(3)
@pytest.mark.parametrize("act", [eq.Relu(), eq.Erf(), eq.Activation(leaky_relu)], ids=["relu", "erf", "leaky"])
@pytest.mark.parametrize("method", ["auto", "literal"])
def test_inputs_of_unlike_sizes_in_single_precision(act, method, x64):
    """What one variance loses to rounding is large beside the other, but the correlation has all of its digits."""
    net = eq.Sequential(eq.Dense(1), act, eq.Dense(1))
    other = np.abs(RNG.normal(size=(20, 6))).astype(np.float32)
    for size in (0.4, 3.0, 255.0, 1e6):
        x = (size * np.abs(RNG.normal(size=(20, 6)))).astype(np.float32)
        x[:3] = np.float32(size) * other[:3]  # of one direction
        single, double = (eq.gram(net, x.astype(t), other.astype(t), method=method) for t in (np.float32, np.float64))
        for kind in ("nngp", "ntk"):
            low, high = getattr(single, kind), getattr(double, kind)
            np.testing.assert_allclose(low, high, rtol=2e-6, err_msg=f"{size} {kind}")


@pytest.mark.every(12)
@pytest.mark.parametrize("act", [eq.Relu(), eq.Erf(), eq.Activation(leaky_relu)], ids=["relu", "erf", "leaky"])
@pytest.mark.parametrize("method", ["auto", "literal"])
@pytest.mark.parametrize("factor", [-1.0, -0.3, -10.0, -100.0])
def test_inputs_of_opposite_directions_in_single_precision(factor, act, method, x64):
    """There the derivative of a kinked function knows the angle, a root of what rounding leaves of a gap."""
    net = eq.Sequential(eq.Dense(1), act, eq.Dense(1), act, eq.Dense(1))
    x = RNG.normal(size=(6, 7)).astype(np.float32)
    x = np.concatenate([x, np.float32(factor) * x])
    single, double = (eq.gram(net, x.astype(t), method=method) for t in (np.float32, np.float64))
    for kind in ("nngp", "ntk"):
        low, high = (np.asarray(getattr(one, kind), float) for one in (single, double))
        assert np.max(np.abs(low - high) / np.sqrt(np.outer(np.diag(high), np.diag(high)))) < 2e-6


SUMS = {
    "pooling": eq.Sequential(eq.Conv(1, (1, 1)), eq.AvgPool((16, 16)), eq.Flatten(), eq.Dense(1)),
    "filter": eq.Sequential(eq.Conv(1, (16, 16), padding="VALID"), eq.Relu(), eq.Flatten(), eq.Dense(1)),
    "features": eq.Sequential(eq.Flatten(), eq.Dense(1), eq.Relu(), eq.Dense(1)),
}


@pytest.mark.every(2)
@pytest.mark.parametrize("method", ["auto", "literal"])
@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize("short", [jnp.bfloat16, jnp.float16])
def test_sums_of_thousands_in_16_bits(short, name, method):
    """A kernel is that of 32 bits, rounded: in bfloat16 a sum of ones stands still at 256, and 65,536 is no float16."""
    x = jnp.concatenate([jnp.ones((1, 16, 16, 1)), normal(0, (2, 16, 16, 1), jnp.float32)]).astype(short)
    found, wide = (eq.gram(SUMS[name], z, method=method) for z in (x, x.astype(jnp.float32)))
    for kind in ("nngp", "ntk"):
        ours = getattr(found, kind)
        assert ours.dtype == short
        np.testing.assert_array_equal(ours, getattr(wide, kind).astype(short))
    if name == "pooling":
        assert found.ntk[0, 0] == 2


def test_a_kernel_beyond_16_bits():
    with pytest.raises(ValueError, match="finite numbers of float16, got an infinite entry of the NNGP"):
        eq.gram(eq.Sequential(eq.Dense(1)), jnp.full((2, 3), 1e3, jnp.float16))


@pytest.mark.parametrize("short", [jnp.bfloat16, jnp.float16])
def test_finite_pooling_in_16_bits(short):
    net = eq.Sequential(eq.AvgPool((32, 32)), eq.Flatten())
    assert (net.apply({}, jnp.ones((2, 32, 32, 1), short)) == 1).all()
    assert net.apply({}, jnp.ones((2, 32, 32, 1), short)).dtype == short


@pytest.mark.every(2)
@pytest.mark.parametrize("method", ["auto", "literal"])
@pytest.mark.parametrize("noise", [1e20, 0.0], ids=["signs", "constant"])
def test_a_normalisation_does_not_hide_an_overflow(method, noise):
    """Behind it all is of order 1 or 0, also what was infinite or NaN in front of it."""
    x = (noise * normal(0, (3, 4, 4, 2)) + (0 if noise else 1e25)).astype(np.float32)
    ends = {
        "pooled": (eq.Conv(3, (3, 3)), eq.GlobalAvgPool(), eq.LayerNorm(), eq.Dense(1)),
        "flat": (eq.Conv(3, (3, 3)), eq.AvgPool((2, 2)), eq.LayerNorm(), eq.Relu(), eq.Flatten(), eq.Dense(1, b_std=1)),
        "group": (eq.Lift(eq.cyclic(4), 3, (3, 3)), eq.GroupPool(), eq.LayerNorm(), eq.Dense(1)),
    }
    for layers in ends.values():
        with pytest.raises(ValueError, match="infinite entry"):
            eq.gram(eq.Sequential(*layers), x, method=method)


@pytest.mark.every(2)
@pytest.mark.parametrize("activation", [eq.Erf(), eq.Relu()], ids=["erf", "relu"])
def test_images_that_are_flattened_first_are_vectors(activation):
    """The same blocks, and as exact: raw pixels, one picture brighter and one with a little noise."""
    layers = eq.Dense(3), activation, eq.Dense(3, W_std=2.0, b_std=0.3), eq.Erf(), eq.Dense(1)
    x = 255 * RNG.random((2, 4, 5, 2)).astype(np.float32)
    x = np.concatenate([x, 2 * x, x + RNG.random(x.shape).astype(np.float32)])
    found, vectors = eq.gram(eq.Sequential(eq.Flatten(), *layers), x), eq.gram(eq.Sequential(*layers), x.reshape(6, -1))
    with jax.enable_x64(True):
        double = eq.gram(eq.Sequential(eq.Flatten(), *layers), x.astype(float), method="literal")
    for kind in ("nngp", "ntk"):
        a, b, exact = (np.asarray(getattr(k, kind)) for k in (found, vectors, double))
        np.testing.assert_array_equal(a, b)
        assert np.abs(a / exact - 1).max() < 1e-5

"""`correlate` against the convolution of JAX: values, derivatives of any order, batches of images and of filters."""

import subprocess
import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P
from numbers_drawn import normal

from eqbook.networks import convolution
from eqbook.networks.convolution import correlate
from eqbook.testing import relative_error, tolerance

BORDERS = {"same": ((1, 1), (2, 2)), "none": ((0, 0), (0, 0)), "uneven": ((2, 0), (0, 1))}


def by_jax(x, W, border):
    axes = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(x, W, (1, 1), border, dimension_numbers=axes, precision="highest")


def data(dtype, c, f):
    return normal(0, (4, 6, 7, c), dtype), normal(1, (3, 5, c, f), dtype)


@pytest.mark.parametrize("border", BORDERS.values(), ids=BORDERS)
@pytest.mark.parametrize(("c", "f"), [(1, 3), (4, 2)])
def test_values_and_derivatives(border, c, f, dtype):
    x, W = data(dtype, c, f)
    tangents = jnp.cos(x), jnp.sin(W)
    ct = normal(2, jax.eval_shape(partial(by_jax, border=border), x, W).shape, dtype)

    def everything(f):  # in one program; the last is forward over reverse
        f = partial(f, border=border)
        gradient = jax.grad(lambda x, W: jnp.sum(f(x, W) ** 3), argnums=(0, 1))
        value, slope = jax.jvp(f, (x, W), tangents)
        return (value, slope, *jax.vjp(f, x, W)[1](ct)), jax.jvp(gradient, (x, W), tangents)[1]

    bound = tolerance(dtype, 15 * 4 * 42)
    (first, second), (expected, curvature) = (jax.jit(partial(everything, f))() for f in (correlate, by_jax))
    for mine, other in zip(first, expected, strict=True):
        assert relative_error(mine, other) < bound
    for mine, other in zip(second, curvature, strict=True):
        assert relative_error(mine, other) < 10 * bound


@pytest.mark.every(2)
@pytest.mark.parametrize("axes", [(0, None), (None, 0), (0, 0), (2, 4)])
def test_many_networks(axes, x64):
    x, W = data(jnp.float64, 2, 3)
    border = BORDERS["same"]
    moved = [z if a is None else jnp.stack([z, 2 * z, z**2], a) for z, a in zip((x, W), axes)]

    def gradients(f):
        return jax.grad(lambda x, W: jnp.sum(jnp.sin(f(x, W, border))), argnums=(0, 1))

    values = partial(correlate, border=border), partial(by_jax, border=border)
    for ours, theirs in (values, tuple(map(gradients, (correlate, by_jax)))):
        found, expected = (jax.jit(jax.vmap(f, axes))(*moved) for f in (ours, theirs))
        for mine, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            assert relative_error(mine, other) < tolerance(np.float64, 15 * 4 * 42)
    if axes[1] is not None:  # the other order: the gradient of a sum over networks
        sums = [lambda W, f=f: jnp.sum(jax.vmap(f, axes)(moved[0], W) ** 2) for f in values]
        ours, theirs = (jax.jit(jax.grad(total))(moved[1]) for total in sums)
        assert relative_error(ours, theirs) < tolerance(np.float64, 15 * 4 * 42)


@pytest.mark.parametrize(("side", "c", "f"), [(4, 32, 64), (5, 32, 64), (4, 1, 8)], ids=["squares", "odd", "one"])
def test_many_networks_on_an_accelerator(accelerator, side, c, f):
    x, W = normal(0, (3, 2, side, side, c), jnp.float32), normal(1, (3, 3, 3, c, f), jnp.float32)
    ct = normal(2, (3, 2, side, side, f), jnp.float32)

    def everything(f):
        def one(x, W, ct):
            total = lambda x, W: jnp.sum(jnp.sin(f(x, W, ((1, 1), (1, 1)))) * ct)  # noqa: E731
            gradient = jax.grad(total, argnums=(0, 1))
            return total(x, W), gradient(x, W), jax.jvp(gradient, (x, W), (jnp.cos(x), jnp.sin(W)))[1]

        return jax.vmap(one)

    made = str(jax.make_jaxpr(everything(correlate))(x, W, ct))
    assert ("winograd_filters_transposed" in made) == ("winograd_filters" in made) == (side == 4 and c == 32)
    found, expected = (jax.jit(everything(f))(x, W, ct) for f in (correlate, by_jax))
    for mine, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert relative_error(mine, other) < tolerance(np.float32, 9 * f * 2 * side**2)


def test_derivatives_where_the_image_is_smaller_than_half_a_filter(x64):
    x, W = jnp.full((2, 1, 2, 3), 0.3), jnp.sin(jnp.arange(150.0)).reshape(5, 5, 3, 2)
    border = ((2, 2), (2, 2))

    def curvature(f):  # reverse over reverse
        total = lambda x, W: jnp.sum(f(x, W, border) ** 3)  # noqa: E731
        return jax.jit(jax.jacrev(jax.grad(total, argnums=(0, 1)), argnums=(0, 1)))(x, W)

    for mine, other in zip(*(jax.tree.leaves(curvature(f)) for f in (correlate, by_jax)), strict=True):
        assert relative_error(mine, other) < tolerance(np.float64, 15 * 4 * 42)


@pytest.mark.parametrize("shape", [(4, 6, 7), (4, 4, 4), (7, 3, 9)], ids=str)
def test_a_filter_larger_than_the_image(shape):
    """XLA's own code for this case is another one, many times as slow: the image is given with its border."""
    n, h, w = shape
    x, W = normal(0, (n, h, w, 5), jnp.float32), normal(1, (5, 5, 5, 7), jnp.float32)
    border = ((2, 2), (2, 2))

    def everything(f):
        total = lambda x, W: jnp.sum(jnp.sin(f(x, W, border)))  # noqa: E731
        return f(x, W, border), *jax.grad(total, argnums=(0, 1))(x, W)

    found, expected = (jax.jit(partial(everything, f))() for f in (correlate, by_jax))
    for mine, other in zip(found, expected, strict=True):
        assert relative_error(mine, other) < tolerance(jnp.float32, 25 * n * h * w)
    text = jax.jit(partial(correlate, border=border)).lower(x, W).as_text()
    assert ("optimization_barrier" in text) == (min(h, w) < 5)


@pytest.mark.parametrize(("c", "f", "narrow"), [(1, 16, True), (4, 16, True), (5, 16, False), (3, 17, False)])
def test_few_channels_are_products_of_matrices(c, f, narrow):
    """So are derivatives in few channels; that in the filter, whose sums are long, stays XLA's convolution."""
    x, W = normal(0, (3, 8, 9, c), jnp.float32), normal(1, (3, 3, c, f), jnp.float32)
    border, ct = ((1, 1), (1, 1)), normal(2, (3, 8, 9, f), jnp.float32)

    def derivatives(f):
        return jax.jit(lambda: jax.vjp(partial(f, border=border), x, W)[1](ct))()

    found = correlate(x, W, border), *derivatives(correlate)
    expected = by_jax(x, W, border), *derivatives(by_jax)
    for mine, other in zip(found, expected, strict=True):
        assert relative_error(mine, other) < tolerance(jnp.float32, 9 * 16 * 72)
    in_filter = jax.jit(lambda W: jax.vjp(partial(correlate, x, border=border), W)[1](ct)).lower(W).as_text()
    assert "stablehlo.convolution" in in_filter
    in_images = jax.linear_transpose(partial(correlate, W=W, border=border), x)
    assert "stablehlo.convolution" not in jax.jit(in_images).lower(ct).as_text()
    forward = jax.jit(partial(correlate, border=border)).lower(x, W).as_text()
    assert ("stablehlo.convolution" in forward) != narrow
    many = jax.ShapeDtypeStruct((2**14, *x.shape[1:]), x.dtype)
    assert "stablehlo.convolution" in jax.jit(partial(correlate, border=border)).lower(many, W).as_text()


def test_dtypes_are_promoted(x64):
    x, W = data(jnp.float64, 2, 3)
    mixed = correlate(x, W.astype(jnp.float32), BORDERS["same"])
    assert mixed.dtype == jnp.float64
    assert relative_error(mixed, correlate(x, W, BORDERS["same"])) < tolerance(jnp.float32)


@pytest.mark.parametrize("shape", [(3, 3), (3, 5)])
def test_channels_that_differ_and_none_at_all(shape):
    x = jnp.ones((2, 6, 8, 4))
    with pytest.raises(ValueError, match=r"`W`: expected filters for 4 channels, those of the images, got 2"):
        correlate(x, jnp.ones((*shape, 2, 5)), BORDERS["none"])
    empty = correlate(x[..., :0], jnp.ones((*shape, 0, 5)), BORDERS["none"])
    np.testing.assert_array_equal(empty, jnp.zeros((2, 7 - shape[0], 9 - shape[1], 5)))


@pytest.mark.every(2)
@pytest.mark.parametrize("shape", [(3, 3, 8, 16), (3, 5, 8, 16)], ids=["products", "sums"])
def test_a_direction_that_differs_by_device_is_refused(shape):
    """Of a function that does not: no rule adds its derivatives up. Once the filters differ too, there is one."""
    x, W, V = normal(0, (2, 6, 8, 8)), normal(1, shape), normal(2, (1, *shape))

    def slope(W, v):
        return jax.jvp(lambda W: jnp.sum(correlate(x, W, BORDERS["none"]) ** 2), (W,), (v[0],))[1][None]

    def varying(W, v):
        return slope(jax.lax.pcast(W, "d", to="varying"), v)

    mesh, specs = jax.make_mesh((1,), ("d",), (jax.sharding.AxisType.Auto,)), (P(), P("d"))
    with pytest.raises(ValueError, match="a direction that differs by device"):
        jax.shard_map(slope, mesh=mesh, in_specs=specs, out_specs=P("d"))(W, V)
    found = jax.shard_map(varying, mesh=mesh, in_specs=specs, out_specs=P("d"))(W, V)
    assert relative_error(found, slope(W, V)) < tolerance(np.float32, 9 * 8 * 16 * 48)


def test_in_a_loop_it_is_the_same():
    x, W = data(jnp.float32, 3, 4)
    step = jax.grad(lambda W: jnp.sum(correlate(x, W, BORDERS["same"]) ** 2))
    once = jax.jit(step)(W)
    in_loop = jax.jit(lambda W: jax.lax.scan(lambda W, _: (W, step(W)), W, length=2)[1])(W)
    assert relative_error(in_loop[1], once) < tolerance(jnp.float32, 15 * 4 * 42)


MANY_DEVICES = """
import os
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
import jax, jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
import eqbook as eq

net = eq.Sequential(eq.Conv(3, (3, 3)), eq.Relu(), eq.Conv(2, (3, 3)), eq.Relu(), eq.GlobalAvgPool(), eq.Dense(1))
x = jnp.sin(jnp.arange(4 * 6 * 6 * 2.0)).reshape(4, 6, 6, 2)
params = net.init(jax.random.key(0), x.shape)

def loss(params, x):
    return jnp.sum(net.apply(params, x) ** 2)

expected = jax.tree.leaves(jax.jit(jax.grad(loss))(params, x))
mesh = Mesh(np.array(jax.devices()), ("d",))

@jax.jit
@jax.grad
def manual(params):
    whole = lambda params, x: jax.lax.psum(loss(params, x), "d")
    return jax.shard_map(whole, mesh=mesh, in_specs=(P(), P("d")), out_specs=P())(params, x)

explicit = jax.make_mesh((2,), ("d",))
with jax.set_mesh(explicit):
    spread = jax.device_put(x, NamedSharding(explicit, P("d")))
    by_types = jax.jit(jax.grad(loss))(jax.device_put(params, NamedSharding(explicit, P())), spread)
for found in (manual(params), by_types):
    for one, other in zip(jax.tree.leaves(found), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5 * np.abs(other).max())
"""


@pytest.mark.slow
def test_gradients_of_filters_that_all_devices_share():
    """Those of all devices are added up, whether a mesh is manual or in the types of the arrays."""
    done = subprocess.run([sys.executable, "-c", MANY_DEVICES], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("few", [8, 4096], ids=["at once", "image by image"])
@pytest.mark.parametrize(("side", "c", "f"), [(4, 32, 16), (5, 2, 3)], ids=["squares", "odd"])
def test_third_derivatives_of_many_networks_on_an_accelerator(accelerator, monkeypatch, few, side, c, f):
    """Derivatives of the adjoint, and of the adjoint of these."""
    monkeypatch.setattr(convolution, "FEW", few)
    x, W = normal(0, (2, 2, side, side, c), jnp.float32), normal(1, (2, 3, 3, c, f), jnp.float32)

    def everything(function):
        def one(x, W):
            total = lambda x, W: jnp.sum(jnp.sin(function(x, W, ((1, 1), (0, 2)))))  # noqa: E731
            along = lambda g: lambda x, W: jax.jvp(g, (x, W), (jnp.cos(x), jnp.sin(W)))[1]  # noqa: E731
            square = lambda g: lambda x, W: sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(g(x, W)))  # noqa: E731
            gradient = jax.grad(total, (0, 1))
            return gradient(x, W), along(along(gradient))(x, W), jax.grad(square(gradient), (0, 1))(x, W)

        return jax.vmap(one)

    found, expected = (jax.jit(everything(function))(x, W) for function in (correlate, by_jax))
    for mine, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert relative_error(mine, other) < tolerance(np.float32, 81 * c * f * 2 * side**2)


def test_an_export_for_any_number_of_images_and_networks_from_an_accelerator(accelerator):
    n, m = jax.export.symbolic_shape("n, m")

    def exported(function, *shapes):
        shapes = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
        return jax.export.export(jax.jit(function), platforms=["cpu"])(*shapes)

    def slopes(x, W):
        return jax.vmap(jax.grad(lambda x, W: jnp.sum(correlate(x, W, ((1, 1), (1, 1))) ** 2), (0, 1)))(x, W)

    large = jax.vmap(partial(correlate, border=((2, 2), (2, 2))))
    x, W = normal(0, (3, 2, 4, 4, 2), jnp.float32), normal(1, (3, 5, 5, 2, 4), jnp.float32)
    found = exported(large, (3, n, 4, 4, 2), W.shape).call(x, W)
    assert relative_error(found, large(x, W)) < tolerance(np.float32, 50)
    x, W = normal(0, (3, 2, 4, 4, 32), jnp.float32), normal(1, (3, 3, 3, 32, 32), jnp.float32)
    found = exported(slopes, (m, *x.shape[1:]), (m, *W.shape[1:])).call(x, W)
    for mine, other in zip(found, slopes(x, W), strict=True):
        assert relative_error(mine, other) < tolerance(np.float32, 9 * 32 * 32)

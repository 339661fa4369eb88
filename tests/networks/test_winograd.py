"""The convolution with fewer multiplications against that of JAX: values, derivatives, transposes, rounding, choice."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numbers_drawn import normal

from eqbook.networks import winograd
from eqbook.networks.convolution import correlate
from eqbook.testing import relative_error, tolerance

BORDERS = {"same": ((1, 1), (1, 1)), "none": ((0, 0), (0, 0)), "uneven": ((2, 0), (0, 2))}
SHAPES = [(1, 4), (5, 3), (16, 16), (32, 40)]  # channels in and out


def by_jax(x, W, border):
    axes = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(x, W, (1, 1), border, dimension_numbers=axes, precision="highest")


def by_products(x, W, border):
    return winograd.correlate3(jnp.pad(x, ((0, 0), *border, (0, 0))), W)


def data(dtype, c, f):
    return normal(0, (3, 6, 8, c), dtype), normal(1, (3, 3, c, f), dtype)


@pytest.mark.every(3)
@pytest.mark.parametrize("border", BORDERS.values(), ids=BORDERS)
@pytest.mark.parametrize(("c", "f"), SHAPES)
def test_values_and_derivatives(border, c, f, x64):
    x, W = data(jnp.float64, c, f)
    tangents = jnp.cos(x), jnp.sin(W)

    def everything(f):  # the last is forward over reverse
        f = partial(f, border=border)
        gradient = jax.grad(lambda x, W: jnp.sum(f(x, W) ** 3), argnums=(0, 1))
        return *jax.jvp(f, (x, W), tangents), *jax.jvp(gradient, (x, W), tangents)

    found, expected = (jax.jit(partial(everything, f))() for f in (by_products, by_jax))
    for mine, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert relative_error(mine, other) < tolerance(np.float64, 9 * c * 48)


@pytest.mark.every(2)
@pytest.mark.parametrize("axes", [(0, None), (None, 0), (0, 0), (2, 4)])
def test_many_networks(axes, x64):
    x, W = data(jnp.float64, 2, 3)
    moved = [z if a is None else jnp.stack([z, 2 * z, z**2], a) for z, a in zip((x, W), axes)]
    values = [partial(f, border=BORDERS["same"]) for f in (by_products, by_jax)]
    gradients = [jax.grad(lambda x, W, f=f: jnp.sum(jnp.sin(f(x, W))), argnums=(0, 1)) for f in values]
    for pair in (values, gradients):
        found, expected = (jax.jit(jax.vmap(f, axes))(*moved) for f in pair)
        for mine, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            assert relative_error(mine, other) < tolerance(np.float64, 9 * 2 * 48)


@pytest.mark.parametrize(
    ("primitive", "shape"),
    [(winograd._tiles, (2, 6, 8, 3)), (winograd._squares, (4, 4, 2, 3, 5, 3)), (winograd._filters, (3, 3, 2, 5))],
    ids=["tiles", "squares", "filters"],
)
def test_transposes(primitive, shape, x64):
    """$\\langle A x, y \\rangle = \\langle x, A^\\top y \\rangle$, and the transpose of the transpose is the map."""
    x = normal(0, shape, jnp.float64)
    value, back = jax.vjp(primitive.bind, x)
    y = normal(1, value.shape, jnp.float64)
    (returned,) = back(y)
    (twice,) = jax.vjp(lambda y: back(y)[0], y)[1](x)
    assert returned.shape == shape
    assert jnp.sum(value * y) == pytest.approx(float(jnp.sum(x * returned)), rel=tolerance(np.float64, x.size))
    assert relative_error(twice, value) < tolerance(np.float64)


@pytest.mark.every(2)
@pytest.mark.parametrize(("c", "f"), [(8, 16), (32, 64)])
def test_rounding_is_that_of_the_plain_sum(c, f):
    x, W = data(jnp.float32, c, f)
    ct = normal(2, (3, 6, 8, f), jnp.float32)

    def everything(f, *arguments):
        value, back = jax.vjp(partial(f, border=BORDERS["same"]), *arguments[:2])
        return value, *back(arguments[2])

    with jax.enable_x64(True):
        exact = everything(by_jax, *(jnp.asarray(np.asarray(z), jnp.float64) for z in (x, W, ct)))
        exact = [np.asarray(z) for z in exact]
    found, plain = ([np.asarray(z, np.float64) for z in everything(f, x, W, ct)] for f in (correlate, by_jax))
    for one, other, truth in zip(found, plain, exact, strict=True):
        mine, theirs = (np.sqrt(np.mean((z - truth) ** 2)) for z in (one, other))
        assert 0 < mine < 3 * theirs


@pytest.mark.parametrize(("c", "f"), [(1, 8), (32, 64)])
def test_a_pixel_knows_the_nine_under_the_filter_only(c, f):
    """Elsewhere one large pixel leaves no noise: what was 0 is 0, what was small keeps its digits."""
    for at in np.ndindex(2, 2):
        x = normal(0, (1, 6, 8, c), jnp.float32).at[:, :, :4].set(0)
        large = x.at[(0, 2 + at[0], 2 + at[1])].set(1e6)
        W = normal(1, (3, 3, c, f), jnp.float32)
        before, after = (np.asarray(correlate(z, W, BORDERS["same"])) for z in (x, large))
        assert products(x, W)
        assert not before[:, :, :3].any()
        seen = np.any(after != before, (0, 3))
        assert seen.sum() == 9
        assert seen[1 + at[0] : 4 + at[0], 1 + at[1] : 4 + at[1]].all()


def products(x, W, border=BORDERS["same"]):
    """Whether `correlate` goes this way."""
    return "eqbook_winograd" in str(jax.make_jaxpr(partial(correlate, border=border))(x, W))


def test_any_number_of_images():
    """A program for a number of images or channels that is not known yet, and an empty batch of networks."""
    (n,), (x, W) = jax.export.symbolic_shape("n"), data(jnp.float32, 8, 16)
    program = jax.jit(partial(correlate, W=W, border=BORDERS["same"]))
    exported = jax.export.export(program)(jax.ShapeDtypeStruct((n, *x.shape[1:]), x.dtype))
    assert relative_error(exported.call(x), program(x)) < tolerance(jnp.float32, 9 * 8)
    (c,) = jax.export.symbolic_shape("c")
    shapes = [jax.ShapeDtypeStruct((*z.shape[:k], c, *z.shape[k + 1 :]), z.dtype) for z, k in ((x, 3), (W, 2))]
    exported = jax.export.export(jax.jit(partial(correlate, border=BORDERS["same"])))(*shapes)
    assert relative_error(exported.call(x, W), program(x)) < tolerance(jnp.float32, 9 * 8)
    none = jax.vmap(partial(correlate, border=BORDERS["same"]))(x[None][:0], W[None][:0])
    assert none.shape == (0, 3, 6, 8, 16)


def test_choice(monkeypatch):
    x, W = data(jnp.float32, 8, 16)
    assert products(x, W)
    text = jax.jit(partial(correlate, border=BORDERS["same"])).lower(x, W).as_text()
    assert "convolution" not in text
    assert "tensor<16x36x16xf32>" in text, "16 products: 3 images of 3 by 4 squares times 8 by 16 channels"

    assert not products(x, W, ((1, 1), (1, 0))), "an odd side"
    assert not products(x, W[:, :2]), "another filter"
    assert not products(*data(jnp.float32, 3, 16)), "colours"
    assert not products(*data(jnp.float32, 16, 32)), "additions outweigh"
    assert products(*data(jnp.float32, 32, 64))
    assert not products(x[:0], W), "no images"
    assert not products(x[:, :2], W, BORDERS["none"]), "no output"
    assert not products(x[..., :0], W[:, :, :0]), "no channels"
    with jax.enable_x64(True):
        assert not products(*data(jnp.float64, 8, 16)), "in other dtypes all is made of products already"
    monkeypatch.setattr(winograd, "LARGEST", 4 * 3 * 48 * 24 * 4)
    assert products(x, W)
    monkeypatch.setattr(winograd, "LARGEST", 4 * 3 * 48 * 24 * 4 - 1)
    assert not products(x, W), "more than a cache holds"
    monkeypatch.undo()
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert not products(x, W), "an accelerator has its own"

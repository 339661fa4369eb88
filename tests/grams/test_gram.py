"""Properties of Gram matrices, over all networks of the registry."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numbers_drawn import normal
from registry import NETWORKS

import eqbook as eq
from eqbook.kernels import pair_kernel
from eqbook.testing import relative_error, tolerance

D = 6


def inputs(n=9, dtype="float64", seed=0):
    return normal(seed, (n, D), dtype)


@pytest.fixture(params=NETWORKS, ids=list(NETWORKS))
def net(request):
    return NETWORKS[request.param]


def stax_network(net):
    """The same network in neural-tangents."""
    stax = eq.neural_tangents.load().stax

    def convert(layer):
        if isinstance(layer, eq.Sequential):
            return stax.serial(*map(convert, layer.layers))
        if isinstance(layer, eq.Dense):
            return stax.Dense(layer.features, layer.W_std, layer.b_std if layer.b_std else None)
        return {eq.Relu: stax.Relu, eq.Erf: stax.Erf}[type(layer)]()

    return convert(net)[2]


@pytest.mark.every(3)
def test_equals_neural_tangents(net, x64):
    x1, x2 = inputs(), inputs(5, seed=1)
    for pair in ((x1, None), (x1, x2)):
        ours, theirs = eq.gram(net, *pair), stax_network(net)(*pair, ("nngp", "ntk"))
        # Both round their own way through the layers; near the diagonal the other side loses half of the digits.
        bound = np.sqrt(np.finfo(float).eps) if pair[1] is None else 1e-12
        assert relative_error(ours.nngp, theirs.nngp) < bound
        assert relative_error(ours.ntk, theirs.ntk) < bound


@pytest.mark.every(2)
def test_symmetric_and_positive_semidefinite(net, dtype):
    k = eq.gram(net, inputs(dtype=dtype))
    for matrix in (k.nngp, k.ntk):
        assert matrix.dtype == dtype
        np.testing.assert_array_equal(matrix, matrix.T)
        eigenvalues = np.linalg.eigvalsh(np.asarray(matrix, np.float64))
        assert eigenvalues[0] > -tolerance(dtype, len(matrix)) * eigenvalues[-1]


@pytest.mark.every(2)
def test_one_batch_equals_two(net, x64):
    x = inputs()
    np.testing.assert_allclose(eq.gram(net, x).ntk, eq.gram(net, x, x).ntk, rtol=1e-6)


@pytest.mark.every(2)
def test_float32_is_within_1e_5_of_float64(net, x64):
    """For random inputs, on the diagonal and off it; `test_methods` has the hard ones."""
    x = inputs(40)
    low, high = eq.gram(net, x.astype("float32")), eq.gram(net, x.astype("float32").astype("float64"))
    assert low.ntk.dtype == jnp.float32
    for kind in ("nngp", "ntk"):
        a, b = np.asarray(getattr(low, kind), np.float64), np.asarray(getattr(high, kind))
        scale = np.sqrt(np.outer(np.diag(b), np.diag(b)))
        assert np.max(np.abs(a - b) / scale) < 1e-5
        np.testing.assert_allclose(np.diag(a), np.diag(b), rtol=1e-5)


def test_kinds(net):
    k = eq.gram(net, inputs(dtype="float32"), kinds=("ntk",))
    assert k.nngp is None and k.ntk.shape == (9, 9)


@pytest.mark.parametrize("kinds", ["ntk", ["ntk"], {"ntk"}, iter(["ntk"])], ids=["name", "list", "set", "iterator"])
def test_kinds_may_be_a_name_or_any_collection(kinds):
    k = eq.gram(NETWORKS["relu"], X, kinds=kinds)
    assert k.nngp is None and k.ntk.shape == (3, 3)


def test_integer_inputs_become_floating():
    assert eq.gram(NETWORKS["relu"], jnp.arange(6).reshape(3, 2)).ntk.dtype == jnp.float32


def test_dtype_is_that_of_the_inputs(x64):
    """Also for standard deviations from NumPy, whose scalars have a dtype of their own."""
    net = eq.Sequential(eq.Dense(8, W_std=np.sqrt(2)), eq.Relu(), eq.Dense(1, b_std=np.float32(0.1)))
    for name in ("bfloat16", "float16", "float32", "float64"):
        assert eq.gram(net, jnp.asarray(X, name)).ntk.dtype == name


def test_lists_and_numpy_float64_are_taken_silently():
    """Without 64-bit types, as a user has it who follows NumPy's defaults; warnings are errors here."""
    x = np.random.default_rng(0).normal(size=(3, 2))
    expected = eq.gram(NETWORKS["relu"], x.astype("float32"))
    np.testing.assert_array_equal(eq.gram(NETWORKS["relu"], x.tolist()).ntk, expected.ntk)
    assert float(pair_kernel(NETWORKS["relu"], x[0], x[1]).ntk) == pytest.approx(float(expected.ntk[0, 1]), rel=1e-6)


X = np.ones((3, 2), np.float32)
BAD = {
    "no batch axis": (
        (X[0],),
        {},
        r"`x1`: expected vectors \[n, d\] or images .*, got shape \(2,\); write `x1\[None\]`",
    ),
    "images": ((X[:, :, None],), {}, r"`x1`: expected vectors .*`x1\[..., None\]` for images of one channel"),
    "empty": ((X[:0],), {}, r"`x1`: expected at least one example"),
    "nan": ((np.where(X > 0, np.nan, X),), {}, r"`x1`: expected finite numbers, got nan at index \(0, 0\)"),
    "inf in x2": ((X, X * np.inf), {}, "`x2`: expected finite numbers, got inf"),
    "features": ((X, np.ones((3, 5))), {}, r"`x2`: expected examples of shape \(2,\) as in `x1`, got \(5,\)"),
    "kinds": ((X,), {"kinds": ("ntk", "nkt")}, "`kinds`: expected some of"),
    "kind as a string": ((X,), {"kinds": "nkt"}, r"`kinds`: expected some of .*, got \('nkt',\)"),
    "no kinds": ((X,), {"kinds": ()}, "`kinds`: expected some of"),
    "kinds a number": ((X,), {"kinds": 3}, "`kinds`: expected some of"),
    "kinds nested": ((X,), {"kinds": [["ntk"]]}, "`kinds`: expected some of"),
    "words": ((np.array([["a", "b"]]),), {}, "`x1`: expected an array of real numbers"),
    "complex": ((X * 1j,), {}, "`x1`: expected an array of real numbers, got dtype complex"),
}


@pytest.mark.parametrize("args, kwargs, message", BAD.values(), ids=list(BAD))
def test_bad_input(args, kwargs, message):
    with pytest.raises(ValueError, match=message):
        eq.gram(NETWORKS["relu"], *args, **kwargs)


def test_bad_network():
    with pytest.raises(ValueError, match="`net`: expected a Sequential, got Dense"):
        eq.gram(eq.Dense(1), X)
    with pytest.raises(ValueError, match="layer 0: Relu.. needs a Gaussian input"):
        eq.gram(eq.Sequential(eq.Relu(), eq.Dense(1)), X)
    with pytest.raises(ValueError, match="layer 1: layer 1: Erf.. needs a Gaussian input"):
        eq.gram(eq.Sequential(eq.Dense(1), eq.Sequential(eq.Relu(), eq.Erf())), X)


def test_layer_without_a_limit_is_named():
    from eqbook.layers import Layer

    class Unknown(Layer):
        pass

    with pytest.raises(ValueError, match="layer 0: no infinite-width limit is known for Unknown"):
        eq.gram(eq.Sequential(Unknown()), X)
    with pytest.raises(ValueError, match="no finite network is known for Unknown"):
        eq.Sequential(Unknown()).init(jax.random.key(0), (1, 2))

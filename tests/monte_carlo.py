"""Kernels of finite networks, averaged over draws, against the infinite-width kernel."""

import jax
import numpy as np

import eqbook as eq


def widen(layer, width):
    """The same network with all hidden layers `width` wide."""
    if isinstance(layer, eq.Sequential):
        return eq.Sequential(*(widen(inner, width) for inner in layer.layers))
    if isinstance(layer, eq.Residual):
        return eq.Residual(*widen(layer.branch, width).layers)
    if isinstance(layer, eq.Dense) and layer.features > 1:
        return eq.Dense(width, layer.W_std, layer.b_std)
    if isinstance(layer, eq.Conv):
        return eq.Conv(width, layer.filter_shape, layer.strides, layer.padding, layer.W_std, layer.b_std)
    return layer


def draws(net, x, count, batch):
    """Empirical NNGP and NTK of `count` random networks, each `[count, n, n]`."""

    def one(key):
        k = eq.empirical_kernels(net, net.init(key, x.shape), x)
        return k.nngp, k.ntk

    keys = jax.random.split(jax.random.key(3), count)
    return [np.asarray(k) for k in jax.jit(lambda keys: jax.lax.map(one, keys, batch_size=batch))(keys)]


def assert_agrees(net, x, count, widths=(24, 48), batch=64):
    """The mean over draws of a finite network is the kernel up to the standard error and a bias of order 1/width.

    The bias is removed to first order by Richardson extrapolation from two widths, one twice the other; what is left is
    compared with 5 standard errors (some ten entries and twenty networks: a chance failure below 1e-3 for all tests
    together, and the seed is fixed) plus the next order, 1/width^2, with the size of the kernel as its scale.
    """
    n1, n2 = widths
    assert n2 == 2 * n1
    gram = eq.gram(net, x)
    narrow, wide = (draws(widen(net, n), x, count, batch) for n in widths)
    for limit, low, high in zip((gram.nngp, gram.ntk), narrow, wide, strict=True):
        limit = np.asarray(limit)
        errors = [s.std(0, ddof=1) / np.sqrt(count) for s in (low, high)]
        standard_error = np.sqrt(4 * errors[1] ** 2 + errors[0] ** 2)
        second_order = 4 * np.abs(limit).max() / n1**2
        extrapolated = 2 * high.mean(0) - low.mean(0)
        assert (np.abs(extrapolated - limit) < 5 * standard_error + second_order).all()
        # The check can see a factor or a missing term: it resolves a sixth of the kernel.
        assert standard_error.max() < np.abs(limit).max() / 6

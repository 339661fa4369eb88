"""Kernels of finite networks, averaged over draws, against the infinite-width kernel."""

import dataclasses

import jax
import numpy as np

import eqbook as eq
from eqbook.testing import normal_parameters

OUTPUTS = 64  # for the NNGP: products of independent outputs are averaged, and cost a forward pass only


def widen(layer, width, outputs=1):
    """The same network with all hidden layers `width` wide and `outputs` outputs."""
    if isinstance(layer, eq.Sequential):
        return eq.Sequential(*(widen(inner, width, outputs) for inner in layer.layers))
    if isinstance(layer, eq.Residual):
        return eq.Residual(*widen(layer.branch, width, outputs).layers)
    if isinstance(layer, eq.Dense):
        return eq.Dense(width if layer.features > 1 else outputs, layer.W_std, layer.b_std)
    if isinstance(layer, eq.LocallyConnected | eq.Lift | eq.GroupConv | eq.LiftS2 | eq.SO3Conv):
        return dataclasses.replace(layer, channels=width)
    if isinstance(layer, eq.Conv):
        return eq.Conv(width, layer.filter_shape, layer.strides, layer.padding, layer.W_std, layer.b_std)
    return layer


def draws(net, x, width, count):
    """Empirical NNGP and NTK of `count` random networks of one width, each `[count, n, n]`."""
    one_output, many_outputs = widen(net, width), widen(net, width, OUTPUTS)

    def one(params):
        f = many_outputs.apply(params[1], x)
        return f @ f.T / OUTPUTS, eq.empirical_kernels(one_output, params[0], x).ntk

    nets = enumerate((one_output, many_outputs))
    params = [normal_parameters(net, x.shape, (width, i), (count,)) for i, net in nets]
    # One by one: batches of networks take longer to compile, and no less time.
    return [np.asarray(k) for k in jax.jit(lambda params: jax.lax.map(one, params))(params)]


def assert_agrees(net, x, count, widths=(24, 48), gram=None):
    """The mean over draws of a finite network is the kernel up to the standard error and a bias of order 1/width.

    The kernel is that of `eq.gram` unless another is given.
    The bias is removed to first order by Richardson extrapolation from two widths, one twice the other; what is left is
    compared with 5 standard errors (some ten entries and twenty networks: a chance failure below 1e-3 for all tests
    together, and the seed is fixed) plus the next order, 1/width^2, with the size of the kernel as its scale.
    """
    n1, n2 = widths
    assert n2 == 2 * n1
    gram = eq.gram(net, x) if gram is None else gram
    narrow, wide = (draws(net, x, n, count) for n in widths)
    for limit, low, high in zip((gram.nngp, gram.ntk), narrow, wide, strict=True):
        limit = np.asarray(limit)
        errors = [s.std(0, ddof=1) / np.sqrt(count) for s in (low, high)]
        standard_error = np.sqrt(4 * errors[1] ** 2 + errors[0] ** 2)
        second_order = 4 * np.abs(limit).max() / n1**2
        extrapolated = 2 * high.mean(0) - low.mean(0)
        assert (np.abs(extrapolated - limit) < 5 * standard_error + second_order).all()
        # The check can see a factor or a missing term: five standard errors are below a quarter of the kernel.
        assert 5 * standard_error.max() < np.abs(limit).max() / 4

"""Filters, outputs and errors of invariance beside those of escnn, recorded by `make_escnn_fixture`."""

import json
from pathlib import Path

import jax
import numpy as np
import pytest
from baselines.blobs import smooth_image

from eqbook.baselines import SteerableConv, SteerableLift, turned_basis
from eqbook.testing import relative_error, tolerance

ESCNN = json.loads((Path(__file__).parent / "escnn.json").read_text())
DIGITS = 2e-7 * 10  # filters are sums of some ten terms in float32, rounded to seven digits


def coefficients(filters, n, side):
    """Parameters whose filters of the first element are those given, `[..., k, k]`, and the relative misfit."""
    basis = turned_basis(n, side)[0]
    flat = np.asarray(filters).reshape(-1, side * side).T
    W = np.linalg.lstsq(basis.reshape(len(basis), -1).T, flat, rcond=None)[0]
    misfit = relative_error(basis.reshape(len(basis), -1).T @ W, flat)
    return W.reshape(-1, *np.shape(filters)[:-2]), misfit


@pytest.mark.parametrize("layer", ESCNN["layers"], ids=lambda l: f"C{l['n']}-{l['kernel_size']}-{l['kind']}")
def test_filters_are_those_of_escnn(layer):
    """The same number of parameters, the same span, and the same turned copies in the same order."""
    n, side, filters = layer["n"], layer["kernel_size"], np.array(layer["filters"])  # [n, q, k, k]
    W, misfit = coefficients(filters[0], n, side)  # [p, q]
    assert misfit < DIGITS
    assert layer["parameters"] == W.size
    q = filters.shape[1]
    relative = (np.arange(q) - np.arange(n)[:, None]) % q
    ours = np.einsum("rpij,prq->rqij", turned_basis(n, side), W[:, relative])
    assert relative_error(ours, filters) < 3 * DIGITS


def test_network_of_escnn(x64):
    """The same outputs at every angle with the same filters, hence the same error of invariance at every angle."""
    case = ESCNN["network"]
    n, side, size = case["n"], case["kernel_size"], case["size"]
    first, second = (np.array(filters) for filters in case["filters"])  # [f, 1, k, k], [f2, f * n, k, k]
    W1, misfit1 = coefficients(first, n, side)  # [p, f, 1]
    W2, misfit2 = coefficients(second.reshape(len(second), len(first), n, side, side), n, side)  # [p, f2, f, q]
    assert max(misfit1, misfit2) < DIGITS
    lift, conv = SteerableLift(n, len(first), side, use_bias=False), SteerableConv(n, len(second), side, use_bias=False)
    kernels = [
        {"params": {"kernel": W}} for W in (W1.transpose(0, 2, 1)[:, :, None].swapaxes(1, 2), W2.transpose(0, 3, 2, 1))
    ]

    def outputs(degrees):
        x = smooth_image(size, np.radians(degrees))[None, :, :, None]
        z = jax.nn.relu(conv.apply(kernels[1], jax.nn.relu(lift.apply(kernels[0], x))))
        return np.asarray(z.max(1).mean((1, 2))[0])

    theirs = np.array(case["outputs"])
    ours = np.array([outputs(degrees) for degrees in case["degrees"]])
    assert relative_error(ours, theirs) < 5 * DIGITS
    error = np.linalg.norm(ours - ours[0], axis=1) / np.linalg.norm(ours[0])
    exact = np.array(case["degrees"]) % 90 == 0
    assert (error[exact] < tolerance(float, 25 * 16 * 225)).all() and (error[~exact] > 1e-3).all()
    np.testing.assert_allclose(
        error[~exact], np.linalg.norm(theirs - theirs[0], axis=1)[~exact] / np.linalg.norm(theirs[0]), atol=10 * DIGITS
    )

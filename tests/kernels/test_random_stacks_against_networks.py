"""Random stacks of layers: the kernels of `eq.gram` against finite networks, averaged over draws.

`benchmarks.fuzz` compares kernels with the literal recursion, which shares dual activations and the meaning of a
layer's settings with them. A finite network shares neither: it is applied, and differentiated. Networks on SO(3) have
another limit than the kernel, see `SO3Conv`; `tests/networks/test_so3.py` has theirs.
"""

from dataclasses import replace
from functools import cache
from statistics import NormalDist
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import eqbook as eq
from benchmarks.draw import Seeded, rand_case
from benchmarks.stacks import LAYERS
from eqbook.testing import normal_parameters, tolerance

WIDTH, DRAWS = 16, 1024
INPUTS = 3
NODES = 96  # of a quadrature: with the generator's 12, its error would be seen
LEVEL = 1e-3  # chance that a right kernel fails, for all stacks together

OTHER = {"SAME": "CIRCULAR", "CIRCULAR": "SAME", "VALID": "VALID"}
SIMILAR = {eq.Erf(): jnp.tanh, eq.Relu(): jax.nn.gelu}
FAULTS = {
    "bias": lambda one: replace(one, b_std=2**0.5 * one.b_std) if hasattr(one, "b_std") else one,  # twice the variance
    "padding": lambda one: replace(one, padding=OTHER[one.padding]) if hasattr(one, "padding") else one,
    "sharing": lambda one: one.shared if isinstance(one, eq.LocallyConnected) else one,
    "dual": lambda one: eq.Activation(SIMILAR[one]) if one in SIMILAR else one,
}
# Seeds of the generator whose stacks have a kernel and a nonlinearity, and faults that must be found in them.
STACKS = {
    # On vectors ...
    2: ("bias",), 19: (), 104: ("dual",), 113: ("bias",),
    # ... images ...
    8: ("bias",), 26: ("sharing",), 28: (), 94: ("padding",), 146: (),
    # ... finite groups ...
    7: (), 71: (), 151: (), 159: (),
    # ... and groups on the plane.
    5: (), 13: (), 23: ("padding",),
}  # fmt: skip
BOUND = NormalDist().inv_cdf(1 - LEVEL / (2 * len(STACKS) * 2 * INPUTS * (INPUTS + 1) / 2))


# Each program runs once: most of the time would go into its optimisation.
pytestmark = pytest.mark.usefixtures("x64", "quick_to_compile")


def changed(layer, change):
    """A network with `change` applied to each of its layers."""
    if isinstance(layer, eq.Sequential):
        return eq.Sequential(*(changed(inner, change) for inner in layer.layers))
    if isinstance(layer, eq.Residual):
        return eq.Residual(*changed(layer.branch, change).layers)
    return change(layer)


def stack(seed):
    """Network and inputs of a seed. A finer quadrature takes the place of the generator's."""
    case = rand_case(Seeded(seed))
    net = changed(case.net(), lambda one: replace(one, nodes=NODES) if isinstance(one, eq.Activation) else one)
    return net, np.random.default_rng(seed).normal(size=(INPUTS, *case.shape))


def widened(net, width):
    """The same network with `width` channels behind every layer with weights, the last one included."""

    def widen(layer):
        names = [name for name in ("features", "channels") if hasattr(layer, name)]
        return replace(layer, **dict.fromkeys(names, width))

    return changed(net, widen)


class OneChannel:
    """A network without the outputs of all channels but the first; behind `Flatten` one is left for each pixel.

    Args:
        net: the network.
        channels: how many channels its outputs have.
    """

    def __init__(self, net, channels):
        self.net, self.channels, self.init = net, channels, net.init

    def apply(self, params, x):
        return self.net.apply(params, x).reshape(len(x), -1, self.channels)[..., 0]


def sampled(net, x, params, width):
    """Output products and NTK of each of many networks, `[2, draws, n, n]`."""

    def one(params):
        f = net.apply(params, x).reshape(len(x), -1)
        return f @ f.T / f.shape[1], eq.empirical_kernels(OneChannel(net, width), params, x).ntk

    kernels = jax.jit(lambda params: jax.lax.map(one, params))(params)
    return np.array(kernels, float)


def halves(wide, narrow):
    """Parameters of two narrow networks in those of each wide one: its first channels, and the others."""

    def cut(start):
        sides = zip(wide.shape[1:], narrow.shape, strict=True)
        return wide[:, *(slice(start * n, (start + 1) * n) if n < w else slice(None) for w, n in sides)]

    return np.concatenate([cut(0), cut(1)])


class Estimate(NamedTuple):
    """NNGP and NTK at infinite width, from finite networks.

    Attributes:
        mean: `[2, n, n]`.
        standard_error: `[2, n, n]`.
        bias: what the width may have left in `mean`, `[2, 1, 1]`.
    """

    mean: np.ndarray
    standard_error: np.ndarray
    bias: np.ndarray


@cache
def estimate(seed, width=WIDTH, count=DRAWS):
    r"""Richardson extrapolation from two widths, $2 \bar K_{2n} - \bar K_n$.

    The mean over networks of width n is $K + a/n + b/n^2 + \ldots$, so that this is $K - b / 2n^2$. The first order is
    measured, as $2 (\bar K_n - \bar K_{2n})$; relative to the kernel it is $\epsilon$. The second is taken to be
    $\epsilon^2$, which is its size where the factors $1 + a_l/n$ of several layers multiply. Narrow networks are parts
    of the wide ones, so that much of the noise drops out of the difference.
    """
    net, x = stack(seed)
    x = x.astype(np.float32)
    wide, narrow = widened(net, 2 * width), widened(net, width)
    params = jax.tree.map(np.float32, normal_parameters(wide, x.shape, seed, (count,)))
    shapes = jax.eval_shape(lambda key: narrow.init(key, x.shape), jax.random.key(0))
    high = sampled(wide, x, params, 2 * width)
    low = sampled(narrow, x, jax.tree.map(halves, params, shapes), width)
    low = low.reshape(2, 2, count, *low.shape[2:]).mean(1)
    limits = 2 * high - low
    mean = limits.mean(1)
    scale = np.abs(mean).max((1, 2), keepdims=True)
    first = (2 * np.abs(low.mean(1) - high.mean(1)) / scale).max()
    # Sums of float32 numbers are rounded, which matters where a kernel is the same for all networks.
    rounding = tolerance(np.float32, 1000)
    standard_error = limits.std(1, ddof=1) / np.sqrt(count) + rounding * scale
    return Estimate(mean, standard_error, scale * first**2 / 2)


def largest_z(found, net, x):
    """Largest distance of the kernels of a network from the estimate, beyond its bias, in standard errors."""
    k = eq.gram(net, x)
    distances = np.abs(found.mean - np.array([k.nngp, k.ntk])) - found.bias
    return (distances / found.standard_error).max()


@pytest.mark.every(8)
@pytest.mark.parametrize("seed", STACKS)
def test_finite_networks_have_the_kernel(seed):
    """And wrong kernels are found, where a layer has the setting that is wrong in them."""
    (net, x), found = stack(seed), estimate(seed)
    assert largest_z(found, net, x) < BOUND
    for fault in STACKS[seed]:
        wrong = changed(net, FAULTS[fault])
        assert wrong != net
        assert largest_z(found, wrong, x) > BOUND, fault


def test_all_layers_are_among_the_stacks():
    cases = [rand_case(Seeded(seed)) for seed in STACKS]
    assert set.union(*(case.names() for case in cases)) == set(LAYERS) - {"LiftS2", "SO3Conv", "SO3Pool"}
    assert {fault for faults in STACKS.values() for fault in faults} == set(FAULTS)

"""The kernel that keeps all layers in a GPU's registers, run by JAX: it computes what the other methods compute."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import eqbook as eq
from eqbook.grams import workers
from eqbook.grams.methods import registers
from eqbook.grams.methods.displacements import Displacements
from eqbook.grams.plan import choose
from eqbook.testing import relative_error


def conv(filter_shape=(3, 3), padding="SAME", **options):
    return eq.Conv(1, filter_shape, padding=padding, **options)


C4 = eq.cyclic(4)
NETWORKS = {
    "two sizes of sides": (
        (conv((3, 5), b_std=0.1), eq.Relu(), conv((1, 1), W_std=1.4), conv((2, 3)), eq.Relu(), eq.GlobalAvgPool()),
        (5, 6, 2),
    ),
    "equal layers": ((*(conv(b_std=0.1, W_std=1.4), eq.Relu()) * 4, eq.GlobalAvgPool(), eq.Dense(1)), (6, 6, 1)),
    "no border": ((conv(), eq.Relu(), conv(padding="VALID"), eq.Relu(), conv(), eq.GlobalAvgPool()), (6, 5, 3)),
    "torus": ((conv((3, 4), "CIRCULAR"), eq.Relu(), conv(padding="CIRCULAR"), eq.GlobalAvgPool()), (5, 4, 2)),
    "local pool": (
        (conv(), eq.Relu(), conv(b_std=0.3), eq.Relu(), eq.AvgPool((2, 3)), eq.Flatten(), eq.Dense(1)),
        (4, 6, 1),
    ),
    "group": (
        (eq.Lift(C4, 1, (3, 3)), eq.Relu(), eq.GroupConv(C4, 1, (3, 3)), eq.Relu(), eq.GroupPool()),
        (4, 4, 2),
    ),
    "head": ((conv(), eq.Relu(), eq.GlobalAvgPool(), eq.Dense(1), eq.Relu(), eq.Dense(1)), (4, 4, 1)),
}


@pytest.fixture
def as_on_a_gpu(accelerator, monkeypatch):
    """Known inputs are taken for those of a GPU."""
    taken = []

    def on(self, devices, x):
        if registers.units(self.program, x.shape[1:3]) is None:
            return self
        taken.append(self)
        return Displacements(self.program, self.local, in_registers=True)

    monkeypatch.setattr(Displacements, "on", on)
    return taken


@pytest.mark.every(5)
@pytest.mark.parametrize("kinds", [("nngp", "ntk"), ("nngp",)], ids="".join)
@pytest.mark.parametrize("name", NETWORKS)
def test_equals_the_literal_recursion(as_on_a_gpu, name, kinds):
    layers, shape = NETWORKS[name]
    net = eq.Sequential(*layers)
    x = jax.random.normal(jax.random.key(0), (3, *shape))
    x = x.at[2].set(0)  # deviations of 0
    found = eq.gram(net, x, kinds=kinds)
    assert as_on_a_gpu
    with jax.enable_x64(True):
        expected = eq.gram(net, np.asarray(x, np.float64), kinds=kinds, method="literal")
    for kind in kinds:
        assert relative_error(getattr(found, kind), getattr(expected, kind)) <= 1e-6
    assert kinds != ("nngp",) or found.ntk is None


def test_between_two_batches_and_on_a_mesh(as_on_a_gpu):
    layers, shape = NETWORKS["torus"]
    net, key = eq.Sequential(*layers), jax.random.key(1)
    x1, x2 = (jax.random.normal(k, (n, *shape)) for k, n in zip(jax.random.split(key), (3, 2)))
    found = eq.gram(net, x1, x2)
    assert as_on_a_gpu
    on_a_mesh = eq.gram(net, x1, x2, mesh=jax.make_mesh((1,), ("devices",)))
    assert relative_error(on_a_mesh.ntk, found.ntk) <= 1e-6
    with jax.enable_x64(True):
        expected = eq.gram(net, np.asarray(x1, np.float64), np.asarray(x2, np.float64), method="literal")
    assert relative_error(found.nngp, expected.nngp) <= 1e-6
    assert relative_error(found.ntk, expected.ntk) <= 1e-6


@pytest.mark.every(2)
@pytest.mark.parametrize("size", [1e-13, 4e18])
def test_the_ends_of_the_range(as_on_a_gpu, size):
    net = eq.Sequential(conv(), eq.Relu(), conv(), eq.Relu(), eq.GlobalAvgPool())
    x = jax.random.normal(jax.random.key(3), (1, 4, 4, 1))
    x = size * jnp.concatenate([x, -x, jnp.roll(x, 1, 1)])
    found = eq.gram(net, x)
    assert as_on_a_gpu
    with jax.enable_x64(True):
        expected = eq.gram(net, np.asarray(x, np.float64), method="literal")
        for kind in ("nngp", "ntk"):
            mine, other = (np.asarray(getattr(k, kind), np.float64) / size**2 for k in (found, expected))
            assert relative_error(mine, other) <= 1e-6


def test_a_mean_of_large_numbers_is_not_their_sum(as_on_a_gpu):
    net = eq.Sequential(conv((1, 1)), eq.Relu(), eq.GlobalAvgPool())
    x = jnp.full((1, 8, 8, 1), 4e17)
    assert eq.gram(net, x).nngp[0, 0] == pytest.approx(8e34, rel=1e-6)
    assert as_on_a_gpu


def test_abstract_inputs_are_differentiable(as_on_a_gpu):
    _, shape = NETWORKS["head"]
    net, x = eq.Sequential(conv(), eq.Relu(), eq.GlobalAvgPool()), jax.random.normal(jax.random.key(2), (2, *shape))
    slope = jax.grad(lambda x: eq.gram(net, x).ntk.sum())(x)
    assert not as_on_a_gpu
    assert jnp.isfinite(slope).all()


def test_where_an_array_is_computed_with():
    first, x = jax.devices()[0], jnp.ones(2)
    assert workers.devices(None, x) == workers.devices(jax.make_mesh((1,), ("devices",)), x) == [first]
    assert workers.devices(None, jax.device_put(x, first)) == [first]
    for default in ("cpu", first):
        with jax.default_device(default):
            assert workers.devices(None, x) == [first]


@pytest.mark.parametrize(
    ("layers", "sides"),
    [
        ((conv(), eq.Erf(), conv()), (6, 6)),
        ((eq.Residual(conv()), conv()), (6, 6)),
        ((conv((9, 9)), eq.Relu()), (12, 12)),
        ((conv(), eq.Relu()), (33, 8)),
        ((conv(), eq.Relu(), eq.Relu()), (6, 6)),
    ],
    ids=["erf", "residual", "far", "large", "two in a row"],
)
def test_other_networks_are_left_alone(layers, sides):
    net = eq.Sequential(*layers, eq.GlobalAvgPool())
    core = choose(net, jax.ShapeDtypeStruct((*sides, 1), jnp.float32), "auto").core
    assert registers.units(core.program, sides) is None


def test_triton_has_all_its_operations(dtype):
    layers, shape = NETWORKS["equal layers"]
    core = choose(eq.Sequential(*layers), jax.ShapeDtypeStruct(shape, jnp.float32), "auto").core
    units, layout = registers.units(core.program, shape[:2]), registers.arrange(shape[:2], shape[:2], (0, 0), 3)
    images, deviations = (jax.ShapeDtypeStruct((3, k, *shape[:2]), jnp.float32) for k in (1, 4))
    weights = [np.ones((side, side)) for side in shape[:2]]

    def run(x, s):
        return registers.kernels(units, layout, (x, s), (x, s), weights, True)

    # For a GPU that is not there: Pallas translates for Triton, and Triton is not asked.
    lowered = jax.jit(run).trace(images, deviations).lower(lowering_platforms=("cuda",))
    assert "triton" in str(lowered.as_text())


def test_without_triton_it_is_not_trusted():
    class Card:  # looks like a GPU
        platform = "gpu"

    assert not registers.trusted(8, 2, jax.devices()[0])
    assert not registers.trusted(8, 2, Card())


@pytest.mark.parametrize("pairs", [1, 100, 10**5])
@pytest.mark.parametrize("sides", [(32, 32), (28, 28), (8, 8), (5, 7), (1, 1), (32, 1), (16, 20)])
def test_each_displacement_has_a_thread(sides, pairs):
    layout = registers.arrange(sides, sides, (0, 0), pairs)
    assert sides[0] % layout.splits == 0
    assert layout.groups * sides[1] <= registers.THREADS
    assert layout.blocks * layout.groups * layout.warps >= sides[1]
    assert sides[0] <= layout.rows < 2 * sides[0]


@pytest.mark.parametrize("inputs", ["float64", "processor"])
def test_inputs_that_are_not_for_it(inputs, x64):
    layers, shape = NETWORKS["equal layers"]
    dtype = jnp.float64 if inputs == "float64" else jnp.float32
    x = jnp.zeros((2, *shape), dtype)
    core = choose(eq.Sequential(*layers), jax.ShapeDtypeStruct(shape, dtype), "auto").core
    assert core.on(jax.devices(), x) is core

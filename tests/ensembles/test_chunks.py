"""A member's numbers do not depend on the number of members; how wide a chunk is."""

import threading

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from numbers_drawn import normal

import eqbook as eq
from eqbook.ensembles import width
from eqbook.ensembles.programs import Programs
from eqbook.ensembles.training import train_chunks
from eqbook.networks import PatchConv, mean_pool
from eqbook.testing import relative_error, tolerance


class CNN(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = mean_pool(nn.relu(PatchConv(6)(x)))
        return nn.Dense(3)(x.reshape(len(x), -1))


DENSE = eq.Sequential(eq.Dense(33, b_std=0.1), eq.Relu(), eq.Dense(3))
IMAGES = normal(1, (14, 8, 8, 1))
VECTORS = normal(2, (14, 5))
LABELS = jnp.arange(14) % 3


def train(net, x, members, **changes):
    arguments = dict(epochs=3, optimizer=optax.adam(1e-2), loss="cross_entropy", watch={"x": x})
    return eq.train_ensemble(net, jax.random.key(0), x, LABELS, members=members, **{**arguments, **changes})


def assert_same_bits(few, many):
    m = few.members
    np.testing.assert_array_equal(few.outputs["x"], many.outputs["x"][:, :m])
    np.testing.assert_array_equal(few.losses, many.losses[:, :m])
    for a, b in zip(jax.tree.leaves(few.params), jax.tree.leaves(many.params)):
        np.testing.assert_array_equal(a, b[:m])


@pytest.mark.every(6)
@pytest.mark.parametrize(
    ("net", "x", "at_once", "batch_size"),
    [(DENSE, VECTORS, 1, 5), (DENSE, VECTORS, 4, None), (DENSE, VECTORS, None, 5)]
    + [(CNN(), IMAGES, 1, None), (CNN(), IMAGES, 4, 5), (CNN(), IMAGES, None, None)],
    ids="dense-1 dense-4 dense-auto conv-1 conv-4 conv-auto".split(),
)
def test_members_are_the_same_bit_for_bit_in_runs_of_any_size(net, x, at_once, batch_size):
    """With chunks of 4, 3 members leave one place of one chunk, 10 members two places of the third."""
    few, many = (train(net, x, members, at_once=at_once, batch_size=batch_size) for members in (3, 10))
    assert_same_bits(few, many)
    assert np.isfinite(many.losses[1:]).all()
    assert len(np.unique(many.losses[1])) == 10, "members differ from each other"


def test_members_of_ten_are_those_of_a_thousand():
    few, many = (train(DENSE, VECTORS, members, at_once=5, batch_size=7, epochs=2) for members in (10, 1000))
    assert_same_bits(few, many)
    assert len(np.unique(many.losses[1])) == 1000


def test_threads_change_nothing(monkeypatch):
    alone, together = [], []
    for found, cores in ((alone, 1), (together, 3)):
        monkeypatch.setattr("eqbook.grams.workers.cores", lambda cores=cores: cores)
        found.append(train(CNN(), IMAGES, 5, at_once=1, batch_size=4))
    assert_same_bits(alone[0], together[0])


def test_a_context_of_the_caller_reaches_the_threads():
    seen = []

    class Watcher(nn.Module):
        @nn.compact
        def __call__(self, x):
            seen.append(jax.config.jax_default_matmul_precision)
            return nn.Dense(3)(x)

    with jax.default_matmul_precision("highest"):
        train(Watcher(), VECTORS, 3, at_once=1)
    assert seen.count("highest") == len(seen)
    with jax.enable_x64(True):
        run = train(DENSE, jnp.asarray(VECTORS, jnp.float64), 3, at_once=1)
    assert run.outputs["x"].dtype == run.predict(VECTORS[:2]).dtype == np.float64
    assert jax.tree.leaves(run.params)[0].dtype == np.float64


def test_random_numbers_in_threads_are_those_of_the_caller(monkeypatch):
    """Other settings of the generator are other numbers; on one core there are no threads."""
    alone, together = [], []
    for found, cores in ((alone, 1), (together, 3)):
        monkeypatch.setattr("eqbook.grams.workers.cores", lambda cores=cores: cores)
        with jax.threefry_partitionable(False):
            found.append(train(DENSE, VECTORS, 3, at_once=1, batch_size=5))
    assert_same_bits(alone[0], together[0])
    assert (together[0].losses[1:] != train(DENSE, VECTORS, 3, at_once=1, batch_size=5).losses[1:]).all()


def diverging(member, members, **changes):
    """A loss that is not finite for one of some members, and trains none of the others."""
    start = train(DENSE, VECTORS, members, epochs=0, **changes)
    norm = np.linalg.norm(start.outputs["x"][0, member])

    def loss(outputs, targets):
        mine = jnp.abs(jnp.linalg.norm(outputs) - norm) < 1e-4 * norm
        return jnp.where(mine, jnp.nan, 0.0) + 0.0 * jnp.sum(outputs)

    return loss


def test_another_thread_stops_when_one_member_diverges(monkeypatch):
    """The thread of member 1 is in its first epoch until that of member 0 has failed; it begins no other."""
    loss = diverging(0, 6, at_once=1)
    held, begun, advance = [], [], Programs.advance
    other = threading.Event()  # the thread of member 1 is in its first epoch

    def watched(training, *arguments):
        held.append(training)
        train_chunks(training, *arguments)

    def waiting(self, chunk, *arguments):
        begun.append(chunk)
        if chunk == 1:
            other.set()
        assert (other if chunk == 0 else held[0].stopped).wait(60)
        return advance(self, chunk, *arguments)

    monkeypatch.setattr("eqbook.grams.workers.cores", lambda: 2)
    monkeypatch.setattr("eqbook.ensembles.train.train_chunks", watched)
    monkeypatch.setattr(Programs, "advance", waiting)
    with pytest.raises(FloatingPointError, match="member 0 is not finite in epoch 1"):
        train(DENSE, VECTORS, 6, loss=loss, at_once=1)
    assert sorted(begun) == [0, 1]


def test_a_member_that_nobody_asked_for_may_diverge():
    """Chunks of 2, one member asked for: what the other does is seen only when it is asked for."""
    loss = diverging(1, 2, at_once=2)
    train(DENSE, VECTORS, 1, loss=loss, at_once=2)
    with pytest.raises(FloatingPointError, match="member 1 is not finite"):
        train(DENSE, VECTORS, 2, loss=loss, at_once=2)


@pytest.mark.every(2)
@pytest.mark.parametrize("members", [1, 4])
def test_bytes_of_a_step_bound_what_the_compiler_reserves(members):
    """Several members write the patches of their convolutions, one alone does not."""
    params = CNN().init(jax.random.key(0), IMAGES[:1])
    chunk = jax.tree.map(lambda leaf: jnp.stack([leaf] * members), params)

    def step(params, x):
        return jax.grad(lambda p: jnp.sum(CNN().apply(p, x) ** 2))(params)

    side_by_side = jax.vmap(step, (0, None))
    one = jax.tree.map(lambda leaf: leaf[:1], chunk)
    bound = width.step_bytes(side_by_side, one, IMAGES)
    reserved = jax.jit(side_by_side).lower(chunk, IMAGES).compile().memory_analysis().temp_size_in_bytes
    assert reserved <= members * bound <= 50 * reserved
    assert 1.9 < width.step_bytes(side_by_side, one, jnp.tile(IMAGES, (2, 1, 1, 1))) / bound < 2.1


KEEPS_THE_FIRST = optax.GradientTransformation(
    lambda params: params, lambda updates, state, params=None: (updates, state)
)


@pytest.mark.every(2)
@pytest.mark.parametrize(
    "optimizer", [optax.adam(1e-2), optax.chain(KEEPS_THE_FIRST, optax.sgd(0.1))], ids=["adam", "first"]
)
def test_members_on_an_accelerator_are_those_on_a_cpu(optimizer, request):
    """They begin there, in one program, and lie there while they are trained."""
    arguments = dict(at_once=2, batch_size=7, record=[0, 3], optimizer=optimizer)
    expected = train(CNN(), IMAGES, 3, **arguments)
    request.getfixturevalue("accelerator")
    found = train(CNN(), IMAGES, 3, **arguments)
    start = found._programs.start(0)
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves((start.params, start.state)))
    np.testing.assert_allclose(found.losses, expected.losses, tolerance(np.float32))
    bound = 6 * tolerance(np.float32, 8 * 8 * 6)  # of 6 steps
    assert relative_error(found.outputs["x"], expected.outputs["x"]) < bound
    for a, b in zip(jax.tree.leaves(found.params), jax.tree.leaves(expected.params)):
        assert relative_error(a, b) < bound


def test_random_keys_of_optimisers_differ_between_members_on_an_accelerator(accelerator):
    run = train(DENSE, VECTORS, 3, at_once=2, optimizer=optax.chain(optax.add_noise(0.1, 0, 0), optax.sgd(0.1)))
    keys = [
        key
        for leaf in jax.tree.leaves(run._programs.start(1).state)
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        for key in jax.random.key_data(leaf)
    ]
    assert len({tuple(key.tolist()) for key in keys}) == 2


def test_the_width_counts_what_several_members_write(monkeypatch):
    """The patches of a convolution with 5 by 5 filters: more than the activations."""
    found = []
    monkeypatch.setattr("eqbook.ensembles.train.chunk_width", lambda size, **_: found.append(size) or 1)
    net = eq.Sequential(eq.Conv(16, (5, 5)), eq.Relu(), eq.Conv(16, (5, 5)), eq.GlobalAvgPool(), eq.Dense(3))
    train(net, IMAGES, 1, at_once=None, watch={}, epochs=1)
    (size,) = found
    activations = len(IMAGES) * 8 * 8 * 16 * 4
    assert size > 25 * activations


def test_a_chunk_gets_narrower_with_memory_and_with_the_work_of_a_step(monkeypatch):
    def step(x):
        return jnp.sin(x) * 2  # two arrays

    x = jnp.zeros(2**14)
    size = 2 * x.nbytes
    assert width.step_bytes(step, x) == size
    assert width.chunk_width(size) == width.ENOUGH_BYTES["cpu"] // size
    assert width.chunk_width(2**25) == 1
    assert width.chunk_width(8) == width.MOST
    monkeypatch.setattr(width, "free_memory", lambda: 20 * size)
    assert width.chunk_width(size) == 8, "a power of two below a half"
    assert width.chunk_width(size, at_once=2) == 4
    assert width.chunk_width(size, devices=3) == 24
    monkeypatch.setattr(width, "free_memory", lambda: 0)
    assert width.chunk_width(size) == 1


def test_chunks_that_fill_the_memory_are_trained_one_after_the_other(accelerator, monkeypatch):
    """A width that someone gave is not made narrower for a second chunk beside the first."""
    threads = []
    run = eq.ensembles.train.train_chunks
    monkeypatch.setattr("eqbook.ensembles.train.train_chunks", lambda t, c, n: threads.append(n) or run(t, c, n))
    size = []
    monkeypatch.setattr("eqbook.ensembles.train.chunk_width", lambda needed, **_: size.append(needed) or 1)
    train(DENSE, VECTORS, 1, at_once=None)
    for free in (8 * size[0], 8 * size[0] - 1):
        monkeypatch.setattr("eqbook.ensembles.train.free_memory", lambda free=free: free)
        train(DENSE, VECTORS, 8, at_once=4)
    assert threads == [1, 2, 1]


def test_free_memory_is_that_of_this_machine():
    assert 2**24 < width.free_memory() < 2**46

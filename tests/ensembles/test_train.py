"""Training many members: what a member is, the loops by hand, bad input."""

from contextlib import contextmanager

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from numbers_drawn import normal

import eqbook as eq
from eqbook._hosts import Hosts
from eqbook.testing import relative_error, tolerance

NET = eq.Sequential(eq.Dense(16, b_std=0.3), eq.Relu(), eq.Dense(2))
X = normal(10, (12, 3))
Y = normal(11, (12, 2))
LABELS = jnp.arange(12) % 2


class Flat(nn.Module):
    """A Flax network on images."""

    @nn.compact
    def __call__(self, x):
        return nn.Dense(2)(nn.relu(eq.networks.PatchConv(3)(x)).mean((1, 2)))


class Needy(nn.Module):
    """A network that wants more than parameters and inputs, or gives more than an array."""

    wants: str

    @nn.compact
    def __call__(self, x, *switch):
        if self.wants == "a switch":
            (train,) = switch
        z = nn.Dense(2)(x)
        if self.wants == "an integer":
            z = z * self.param("scale", lambda key: jnp.int32(2))
        if self.wants == "keys":
            z = nn.Dropout(0.5, deterministic=False)(z)
        return (z, z) if self.wants == "a pair" else z


def train(net=NET, x=X, y=Y, **changes):
    arguments = {"members": 3, "epochs": 2, "optimizer": optax.sgd(0.05), "key": jax.random.key(0), "at_once": 4}
    arguments |= changes
    return eq.train_ensemble(net, arguments.pop("key"), x, y, **arguments)


def member(tree, m):
    return jax.tree.map(lambda leaf: leaf[m], tree)


@pytest.mark.every(2)
@pytest.mark.parametrize("batch_size", [None, 5])
def test_member_does_not_depend_on_the_number_of_members(batch_size):
    few, many = (train(members=count, batch_size=batch_size, epochs=4, watch={"x": X}) for count in (3, 5))
    # The same operations; vmap may sum a product in another order for another number of members.
    bound = tolerance(jnp.float32, 16) * 4 * (1 if batch_size is None else 2)
    assert relative_error(many.outputs["x"][:, :3], few.outputs["x"]) < bound
    assert relative_error(many.losses[1:, :3], few.losses[1:]) < bound


@pytest.mark.parametrize("batch_size", [None, 5])
def test_members_one_after_the_other_are_the_same_bit_for_bit(batch_size):
    few, many = (train(members=m, batch_size=batch_size, at_once=1, watch={"x": X}) for m in (3, 5))
    np.testing.assert_array_equal(many.outputs["x"][:, :3], few.outputs["x"])
    for a, b in zip(jax.tree.leaves(many.params), jax.tree.leaves(few.params)):
        np.testing.assert_array_equal(a[:3], b)


@pytest.mark.every(4)
@pytest.mark.parametrize("at_once", [1, 2, 5, 9])
def test_members_at_once_change_nothing_but_rounding(at_once):
    images = normal(5, (8, 4, 4, 1))
    arguments = dict(
        net=Flat(), x=images, y=LABELS[:8], loss="cross_entropy", batch_size=4, members=5, watch={"x": images}
    )
    assert relative_error(
        train(at_once=at_once, **arguments).outputs["x"], train(**arguments).outputs["x"]
    ) < tolerance(jnp.float32, 16 * 4)


def test_initial_parameters_come_from_the_members_key():
    run = train(epochs=0)
    for m in range(3):
        key, _ = jax.random.split(jax.random.fold_in(jax.random.key(0), m))
        expected = NET.init(key, (1, 3))
        for a, b in zip(jax.tree.leaves(member(run.params, m)), jax.tree.leaves(expected)):
            assert relative_error(a, b) < tolerance(jnp.float32)
    assert not np.allclose(*[jax.tree.leaves(member(run.params, m))[0] for m in (0, 1)])


def test_full_batch_descent_equals_a_loop_by_hand(x64):
    x, y = jnp.asarray(X, jnp.float64), jnp.asarray(Y, jnp.float64)
    run = train(x=x, y=y, epochs=5, watch={"x": x})
    for m in range(3):
        params = member(train(x=x, y=y, epochs=0).params, m)
        losses = []
        for _ in range(5):
            value, gradient = jax.value_and_grad(lambda p: 0.5 * jnp.sum((NET.apply(p, x) - y) ** 2))(params)
            params = jax.tree.map(lambda p, g: p - 0.05 * g, params, gradient)
            losses.append(value)
        assert relative_error(run.outputs["x"][-1, m], NET.apply(params, x)) < 5 * tolerance(jnp.float64, 12 * 16)
        assert relative_error(run.losses[1:, m], np.array(losses)) < 5 * tolerance(jnp.float64, 12 * 16)


@pytest.mark.parametrize("optimizer", [optax.sgd(0.05, momentum=0.9), optax.adam(1e-3)], ids=["momentum", "adam"])
def test_minibatches_equal_a_loop_by_hand(x64, optimizer):
    x, run = jnp.asarray(X, jnp.float64), None
    arguments = dict(x=x, y=LABELS, loss="cross_entropy", batch_size=5, optimizer=optimizer, watch={"x": x})
    run = train(epochs=3, **arguments)
    for m in range(3):
        _, shuffle = jax.random.split(jax.random.fold_in(jax.random.key(0), m))
        params = member(train(**{**arguments, "epochs": 0}).params, m)
        state = optimizer.init(params)
        for epoch in range(3):
            order = jax.random.permutation(jax.random.fold_in(shuffle, epoch), 12)
            for rows in order[:10].reshape(2, 5):  # two examples are left out

                def loss(p):
                    scores = jax.nn.log_softmax(NET.apply(p, x[rows]))  # noqa: B023
                    return -jnp.mean(scores[jnp.arange(5), LABELS[rows]])  # noqa: B023

                updates, state = optimizer.update(jax.grad(loss)(params), state, params)
                params = optax.apply_updates(params, updates)
        assert relative_error(run.outputs["x"][-1, m], NET.apply(params, x)) < 6 * tolerance(jnp.float64, 5 * 16)


def test_epochs_are_shuffled_anew_and_members_differently():
    keys = [jax.random.split(jax.random.fold_in(jax.random.key(0), m))[1] for m in range(2)]
    orders = [tuple(jax.random.permutation(jax.random.fold_in(k, e), 12).tolist()) for k in keys for e in range(2)]
    assert len(set(orders)) == 4


@pytest.mark.slow
@pytest.mark.parametrize("impl", ["rbg", "unsafe_rbg"])
@pytest.mark.parametrize("random", [False, True], ids=["shuffles", "elements"])
def test_members_shuffle_alike_with_keys_of_any_generator(impl, random):
    """Under `vmap` these generators draw for all members from one key."""
    elements = eq.ensembles.random_elements(eq.groups.RegularAction(eq.cyclic(3))) if random else None
    arguments = dict(key=jax.random.key(0, impl=impl), batch_size=5, augment=elements, watch={"x": X})
    alone, together = (train(at_once=at_once, **arguments) for at_once in (1, 2))
    assert relative_error(together.outputs["x"], alone.outputs["x"]) < 4 * tolerance(jnp.float32, 16)
    assert not np.array_equal(*(train(at_once=1, **arguments | {"batch_size": size}).losses for size in (4, 5)))


def test_a_shuffle_by_another_generator_is_that_of_a_key_made_of_its_bits():
    run = train(key=jax.random.key(0, impl="rbg"), batch_size=5, epochs=1, members=2, at_once=2, watch={"x": X})
    for m in range(2):
        params = member(train(key=jax.random.key(0, impl="rbg"), epochs=0).params, m)
        _, shuffle = jax.random.split(jax.random.fold_in(jax.random.key(0, impl="rbg"), m))
        made = jax.random.key(0)
        for word in jax.random.key_data(shuffle):
            made = jax.random.fold_in(made, word)
        for rows in jax.random.permutation(jax.random.fold_in(made, 0), 12)[:10].reshape(2, 5):
            gradient = jax.grad(lambda p: 0.5 * jnp.sum((NET.apply(p, X[rows]) - Y[rows]) ** 2))(params)  # noqa: B023
            params = jax.tree.map(lambda p, g: p - 0.05 * g, params, gradient)
        assert relative_error(run.outputs["x"][-1, m], NET.apply(params, X)) < 4 * tolerance(jnp.float32, 16)


def test_recording_seldom_changes_nothing():
    often, seldom = train(epochs=4, watch={"x": X}), train(epochs=4, watch={"x": X}, record=[0, 3])
    assert seldom.epochs.tolist() == [0, 3]
    bound = tolerance(jnp.float32, 16) * 4
    assert relative_error(seldom.outputs["x"], often.outputs["x"][[0, 3]]) < bound
    assert relative_error(seldom.losses[1], often.losses[1:4].mean(0)) < bound
    assert relative_error(jax.tree.leaves(seldom.params)[0], jax.tree.leaves(often.params)[0]) < bound


@pytest.mark.parametrize("watch_batch", [1, 5, 12, 100])
def test_watched_batches_are_evaluated_piecewise(watch_batch):
    run = train(watch={"x": X}, watch_batch=watch_batch)
    assert run.outputs["x"].shape == (3, 3, 12, 2)
    for m in range(3):
        expected = NET.apply(member(run.params, m), X)
        assert relative_error(run.outputs["x"][-1, m], expected) < tolerance(jnp.float32, 16)
    assert relative_error(run.mean("x"), run.outputs["x"].mean(1, dtype=float)) < tolerance(jnp.float32, 1)


def test_mean_of_a_name_that_was_not_watched():
    with pytest.raises(ValueError, match="`name`: expected one of x"):
        train(watch={"x": X}).mean("z")


def test_float32_data_under_64_bit(x64):
    assert train(x=X, y=Y).losses.shape == (3, 3)


def test_own_loss_function():
    own = train(loss=lambda outputs, targets: 0.5 * jnp.sum((outputs - targets) ** 2), watch={"x": X})
    assert relative_error(own.outputs["x"], train(watch={"x": X}).outputs["x"]) < tolerance(jnp.float32, 16)


def test_divergence_names_member_and_epoch():
    x, y = X.at[0, 0].set(1e18), Y  # the first step overflows, the second is not finite
    with pytest.raises(
        FloatingPointError, match=r"member 0 is not finite in epoch [12] \(3 of 3 members.*learning rate"
    ):
        train(x=x, y=y, epochs=6, record=[6])


def test_divergence_of_one_member_only():
    start = train(epochs=0).params
    norms = [float(jnp.linalg.norm(NET.apply(member(start, m), X))) for m in range(3)]
    worst = int(np.argmax(norms))
    between = float(np.mean(sorted(norms)[-2:]))

    def loss(outputs, targets):  # fails for the member with the largest outputs
        return jnp.where(jnp.linalg.norm(outputs) > between, jnp.nan, 0.0) + 0.0 * jnp.sum(outputs)

    with pytest.raises(FloatingPointError, match=rf"member {worst} is not finite in epoch 1 \(1 of 3 members"):
        train(loss=loss)


def test_an_output_that_is_not_finite_names_member_and_epoch():
    """Numbers near the largest one: their products are none, whatever the parameters are."""
    large = jnp.full((2, 3), 3e38)
    for record in ([0], [2]):
        match = rf"`watch\['large'\]`: an output of member 0 is not finite at epoch {record[0]}:"
        with pytest.raises(FloatingPointError, match=match):
            train(watch={"large": large}, record=record)
    with pytest.raises(FloatingPointError, match="`x`: an output of member 1 is not finite at epoch 2:"):
        train().predict(large, members=[1])


class Watched(Hosts):
    """A process that keeps what it tells the others: errors, and digests of arguments."""

    def __init__(self):
        super().__init__()
        object.__setattr__(self, "errors", [])
        object.__setattr__(self, "digests", [])

    @contextmanager
    def together(self):
        try:
            yield
        except Exception as error:
            self.errors.append(error)
            raise

    def check_same(self, name, digest):
        self.digests.append(digest)


@pytest.fixture
def hosts(monkeypatch):
    found = Watched()
    monkeypatch.setattr("eqbook.ensembles.train.hosts_of", lambda mesh: found)
    return found


def test_other_processes_are_told_of_classes_and_widths_that_do_not_fit(hosts, monkeypatch):
    with pytest.raises(ValueError, match="`y`: expected classes") as error:
        train(y=LABELS - 1, loss="cross_entropy")
    assert hosts.errors == [error.value]
    monkeypatch.setattr("eqbook.ensembles.train.chunk_width", lambda *_, **__: 0)
    with pytest.raises(ValueError, match="`at_once`: expected") as error:
        train(at_once=None)
    assert hosts.errors[1:] == [error.value]


def test_processes_that_watch_other_inputs_are_told_apart(hosts, tmp_path):
    for name, inputs in enumerate((X, X, X + 1)):
        train(watch={"x": inputs}, store=tmp_path / str(name))
    one, same, other = hosts.digests
    assert one == same != other


def test_silent_off_a_terminal(capfd):
    train(progress=True)
    captured = capfd.readouterr()
    assert captured.out == "" and captured.err == ""


@pytest.mark.parametrize(
    ("changes", "argument"),
    [
        ({"x": X[:, 0]}, "x"),
        ({"x": X[:0], "y": Y[:0]}, "x"),
        ({"x": X.at[1, 2].set(jnp.nan)}, "x"),
        ({"y": Y[:5]}, "y"),
        ({"y": jnp.float32(1.0)}, "y"),
        ({"y": Y.at[0, 0].set(jnp.inf)}, "y"),
        ({"y": Y[:, :1]}, "y"),
        ({"y": Y, "loss": "cross_entropy"}, "y"),
        ({"y": LABELS - 1, "loss": "cross_entropy"}, "y"),
        ({"y": LABELS + 1, "loss": "cross_entropy"}, "y"),
        ({"y": LABELS - 1, "loss": eq.ensembles.cross_entropy}, "y"),
        ({"y": np.asarray(LABELS, np.int64) + 2**32, "loss": "cross_entropy"}, "y"),
        ({"net": nn.BatchNorm(use_running_average=True)}, "net"),
        ({"net": nn.Sequential([nn.relu])}, "net"),
        ({"net": eq.Sequential(eq.Relu())}, "net"),
        ({"net": eq.Dense(2)}, "net"),
        ({"net": None}, "net"),
        *(({"net": Needy(wants)}, "net") for wants in ("a switch", "an integer", "keys", "a pair")),
        ({"net": eq.baselines.PlainCNN(channels=[3])}, "net"),
        ({"optimizer": 0.1}, "optimizer"),
        ({"watch": [X]}, "watch"),
        ({"record": 2}, "record"),
        ({"members": 0}, "members"),
        ({"members": 2.5}, "members"),
        ({"epochs": -1}, "epochs"),
        ({"batch_size": 13}, "batch_size"),
        ({"batch_size": 0}, "batch_size"),
        ({"at_once": 0}, "at_once"),
        ({"watch_batch": 0}, "watch_batch"),
        ({"loss": "hinge"}, "loss"),
        ({"watch": {"z": X[:, :2]}}, r"watch\['z'\]"),
        ({"watch": {"z": X.at[0, 0].set(jnp.nan)}}, r"watch\['z'\]"),
        ({"watch": {"z": X[0]}}, r"watch\['z'\]"),
        ({"record": []}, "record"),
        ({"record": [2, 1]}, "record"),
        ({"record": [0, 3]}, "record"),
        ({"record": [0.5]}, "record"),
        ({"key": 0}, "key"),
        ({"key": jax.random.split(jax.random.key(0))}, "key"),
    ],
)
def test_bad_input(changes, argument):
    with pytest.raises(ValueError, match=f"`{argument}`"):
        train(**changes)


def test_inside_jit_is_refused():
    with pytest.raises(ValueError, match="`x`: .* outside of `jit`"):
        jax.jit(lambda x: train(x=x).losses)(X)


def test_mean_of_many_short_floats():
    """NumPy's own sum of bfloat16 ends at 256."""

    class Ones(nn.Module):
        @nn.compact
        def __call__(self, x):
            ones = nn.initializers.ones
            return nn.Dense(1, dtype=jnp.bfloat16, bias_init=ones, kernel_init=nn.initializers.zeros)(x)

    run = train(Ones(), y=Y[:, :1], members=600, epochs=0, watch={"z": X}, at_once=200)
    assert run.outputs["z"].dtype == jnp.bfloat16
    assert (run.mean("z") == 1).all() and (run.predict_mean(X) == 1).all()


@pytest.mark.parametrize("dtype", [">f4", ">f8", np.longdouble])
def test_any_order_of_bytes(dtype):
    x = np.asarray(X).astype(dtype)
    one, other = (train(x=inputs, watch={"z": inputs}) for inputs in (x, x.astype(np.float32)))
    np.testing.assert_array_equal(one.outputs["z"], other.outputs["z"])
    np.testing.assert_array_equal(one.predict(x), other.predict(np.asarray(X)))

"""Ensembles in a folder: resumed, extended, killed, damaged, refused."""

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from numbers_drawn import normal

import eqbook as eq
from eqbook._files import in_use, sealed
from eqbook.ensembles import store as store_module
from eqbook.ensembles.files import load_tree, save_tree
from eqbook.ensembles.programs import Programs
from eqbook.ensembles.progress import Progress
from eqbook.ensembles.store import read_metrics
from eqbook.ensembles.training import Training
from eqbook.testing import relative_error, tolerance

pytestmark = pytest.mark.usefixtures("equal_programs_once")

ROOT = Path(__file__).resolve().parents[2]
NET = eq.Sequential(eq.Dense(16, b_std=0.3), eq.Relu(), eq.Dense(2))
X = normal(10, (12, 3))
Y = normal(11, (12, 2))


def train(store=None, net=NET, x=X, y=Y, **changes):
    arguments = dict(members=5, epochs=6, optimizer=optax.adam(1e-2), batch_size=5, at_once=2, watch={"x": X})
    arguments = {**arguments, "key": jax.random.key(0), **changes}
    return eq.train_ensemble(net, arguments.pop("key"), x, y, store=store, **arguments)


def assert_same_bits(a, b):
    np.testing.assert_array_equal(a.epochs, b.epochs)
    np.testing.assert_array_equal(a.losses, b.losses)
    np.testing.assert_array_equal(a.outputs["x"], b.outputs["x"])
    for one, other in zip(jax.tree.leaves(a.params), jax.tree.leaves(b.params), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.fixture(scope="module")
def undisturbed():
    return train()


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A folder with a finished run, not to be changed."""
    folder = tmp_path_factory.mktemp("finished")
    train(folder)
    return folder


def test_a_store_changes_nothing(tmp_path, undisturbed):
    assert_same_bits(train(tmp_path), undisturbed)
    assert_same_bits(train(tmp_path / "often", checkpoint_every=1), undisturbed)


def test_a_finished_run_is_read_and_not_trained(finished, undisturbed, monkeypatch):
    monkeypatch.setattr("eqbook.ensembles.programs.Programs.advance", None)
    assert_same_bits(train(finished, at_once=None), undisturbed)  # the width is that of the store


def test_more_members_and_more_epochs(tmp_path, undisturbed):
    train(tmp_path, members=4, epochs=2)
    train(tmp_path, members=1, epochs=5)
    assert_same_bits(train(tmp_path), undisturbed)


def test_fewer_members_and_epochs_are_a_part(finished, undisturbed):
    part = train(finished, members=3, epochs=4)
    np.testing.assert_array_equal(part.outputs["x"], undisturbed.outputs["x"][:5, :3])
    np.testing.assert_array_equal(jax.tree.leaves(part.params)[0], jax.tree.leaves(train(epochs=4).params)[0][:3])


def test_records_can_be_fewer_or_others_later(tmp_path, undisturbed):
    train(tmp_path, record=[0, 2, 3], epochs=3)
    run = train(tmp_path, record=[3, 6])
    np.testing.assert_array_equal(run.outputs["x"], undisturbed.outputs["x"][[3, 6]])
    expected = np.stack([undisturbed.losses[1:4].mean(0), undisturbed.losses[4:].mean(0)])
    assert eq.testing.relative_error(run.losses, expected) < eq.testing.tolerance(np.float32, 3)
    # Between the epochs of one run lie records of another: the mean is put together from both.
    train(tmp_path / "first", record=[0, 2, 3], epochs=3)
    joined = train(tmp_path / "first", record=[0, 6])
    assert eq.testing.relative_error(joined.losses[1], undisturbed.losses[1:].mean(0)) < eq.testing.tolerance(
        np.float32
    )
    # Epoch 1 was not recorded: the members are trained once more, to the same end.
    assert_same_bits(train(tmp_path), undisturbed)


def test_records_of_many_runs_are_put_together(tmp_path):
    """From epoch 0 one record leads to 10 and no further, another by 4 and 6 to 12."""
    expected = train(epochs=12).losses[1:].mean(0)
    for record in ([0, 10], [0, 4, 6], [0, 12]):
        run = train(tmp_path, epochs=record[-1], record=record)
    assert relative_error(run.losses[1], expected) < tolerance(np.float32, 12)


def test_what_was_extended_once_can_be_extended_again(tmp_path, monkeypatch):
    """The second run ends a record that the first began; the third goes on from there."""
    for epochs in (3, 6):
        train(tmp_path, epochs=epochs, record=[0, epochs])
    started, advance = [], Programs.advance
    monkeypatch.setattr(Programs, "advance", lambda self, *a: started.append(a[2]) or advance(self, *a))
    train(tmp_path, epochs=8, record=[0, 8])
    assert set(started) == {6}


def test_other_records_leave_a_checkpoint_that_is_further(tmp_path, undisturbed, monkeypatch):
    """Epoch 2 was not recorded: the members begin anew; the first run can still go on from its end."""
    first = train(tmp_path, record=[0, 6])
    before = {path.name: path.read_bytes() for path in tmp_path.glob("state-*")}
    other = train(tmp_path, epochs=2, record=[0, 2], checkpoint_every=1)
    np.testing.assert_array_equal(other.outputs["x"], undisturbed.outputs["x"][[0, 2]])
    assert {path.name: path.read_bytes() for path in tmp_path.glob("state-*")} == before
    monkeypatch.setattr(Programs, "advance", None)
    assert_same_bits(train(tmp_path, record=[0, 6]), first)


def test_a_checkpoint_that_no_losses_lead_to_is_replaced(tmp_path, finished):
    """No call could go on from it."""
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    before = {path.name: path.read_bytes() for path in tmp_path.glob("state-*")}
    (tmp_path / "metrics.jsonl").unlink()
    train(tmp_path, epochs=2)
    after = {path.name: path.read_bytes() for path in tmp_path.glob("state-*")}
    assert before.keys() == after.keys() and all(after[name] != content for name, content in before.items())


def test_integers_of_numpy(tmp_path, monkeypatch):
    run = train(tmp_path, epochs=np.int64(2), record=[0], at_once=np.int64(2), batch_size=np.int64(5))
    assert run.kept == (0, 2)
    (tmp_path / "many").mkdir()
    monkeypatch.setenv("EQBOOK_STORE_DIR", str(tmp_path / "many"))
    train(epochs=2)
    train(epochs=np.int64(2), members=np.int32(5), at_once=np.int64(2), batch_size=np.int64(5))
    assert len(list((tmp_path / "many").glob("ensemble-*"))) == 1
    with pytest.raises(TypeError):
        sealed({"rate": np.float32(0.5)})  # no integer; it would be 0


def test_the_lines_of_losses_are_read_once(tmp_path, finished, monkeypatch):
    """However many chunks there are."""
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    calls = []
    monkeypatch.setattr(store_module, "read_metrics", lambda folder: calls.append(folder) or read_metrics(folder))
    train(tmp_path, at_once=2, members=7)
    assert len(calls) == 1


def test_a_bar_of_a_resumed_run_reaches_its_end(tmp_path, monkeypatch):
    """Three of six epochs since the last record were done before, as by a run that was killed."""
    added, add = {}, Progress.add

    def counted(self, chunk, epochs, *more):
        added[chunk] = added.get(chunk, 0) + epochs
        add(self, chunk, epochs, *more)

    monkeypatch.setattr(Progress, "add", counted)
    advance = Programs.advance

    def killed(self, chunk, member, since, epoch):
        if since == 3:
            raise KeyboardInterrupt
        return advance(self, chunk, member, since, epoch)

    monkeypatch.setattr(Programs, "advance", killed)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, record=[0, 6], checkpoint_every=1)
    monkeypatch.setattr(Programs, "advance", advance)
    added.clear()
    train(tmp_path, record=[0, 6], checkpoint_every=1)
    assert added == {0: 6, 1: 6, 2: 6}


def test_chunks_that_begin_do_not_let_the_bar_stand_still():
    """However many of them: the first call trains one epoch."""
    progress = Progress(16, 100, 1, show=False)
    progress._bar = SimpleNamespace(disable=False, update=lambda epochs: None)  # as on a terminal
    for chunk in range(16):
        progress.add(chunk, 0, None)
    assert progress.slice() == 1


def test_another_process_that_begins_at_the_same_moment_is_named(tmp_path, monkeypatch):
    """It writes its manifest after this one has looked for one."""
    found, read = [], store_module.read_manifest

    def late(folder):
        if not found and folder == tmp_path / "new":
            found.append(None)
            shutil.copytree(other, folder, dirs_exist_ok=True)
            found.append(in_use(folder))
            return None
        return read(folder)

    other = tmp_path / "other"
    train(other, epochs=1)
    (other / ".lock").unlink()
    monkeypatch.setattr(store_module, "read_manifest", late)
    with pytest.raises(ValueError, match="`store`: expected a folder that no other process writes to"):
        train(tmp_path / "new", epochs=1)
    found[1].close()


def test_arrays_are_read_while_other_threads_read(tmp_path, monkeypatch):
    """Some versions of CPython fail at the header of an array, once in a while; the file is not to blame."""
    tree = {"a": np.arange(6.0)}
    save_tree(tmp_path / "tree.npz", tree)
    failures, read = [SystemError("AST constructor recursion depth mismatch (before=30, after=28)")] * 2, np.load

    def failing(*arguments, **options):
        if failures:
            raise failures.pop()
        return read(*arguments, **options)

    monkeypatch.setattr(np, "load", failing)
    np.testing.assert_array_equal(load_tree(tmp_path / "tree.npz", tree)["a"], tree["a"])
    assert not failures


def test_a_file_that_is_damaged_meanwhile_is_named(tmp_path, finished, monkeypatch):
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    resumed = Training.resumed

    def damaging(self, chunk):
        found = resumed(self, chunk)
        (tmp_path / f"params-{chunk:05d}-0000003.npz").unlink()
        return found

    monkeypatch.setattr(Training, "resumed", damaging)
    with pytest.raises(ValueError, match=r"`store`: expected the file of chunk \d at epoch 3"):
        train(tmp_path)


def test_modules_are_known_by_more_than_their_place_in_memory(tmp_path):
    class Net(nn.Module):
        activation: object

        @nn.compact
        def __call__(self, x):
            return nn.Dense(2)(self.activation(nn.Dense(4)(x)))

    for _ in range(2):  # a function anew, as another process makes it

        def root(x, power):
            return jnp.abs(x) ** power

        train(tmp_path, net=Net(partial(root, power=0.5)), epochs=1)


def test_noise_of_an_optimiser_is_each_member_s_own(tmp_path):
    still = eq.Sequential(eq.Dense(2))
    noisy = dict(net=still, optimizer=optax.chain(optax.set_to_zero(), optax.add_noise(1.0, 0.5, 0)), epochs=2)
    start, end = (jax.tree.leaves(train(**(noisy | {"epochs": epochs})).params)[0] for epochs in (0, 2))
    moves = np.asarray(end - start)
    assert np.ptp(moves, axis=0).min() > 0.01
    few = train(tmp_path, members=1, **(noisy | {"epochs": 1}))
    assert few.members == 1
    assert_same_bits(train(tmp_path, **noisy), train(**noisy))


def test_members_that_are_gone_are_named(tmp_path):
    run = train(tmp_path, epochs=1)
    (tmp_path / "params-00001-0000001.npz").unlink()
    for ask in (lambda: run.predict(X), lambda: run.params):
        with pytest.raises(ValueError, match="`store`: expected chunk 1 .* at epoch 1 "):
            ask()


KILLED = """
    import os, sys, time
    sys.path[:0] = ["tests", "."]
    from ensembles import test_store
    from eqbook.ensembles.store import Store

    keep = Store.keep

    def slowly(self, *arguments):
        keep(self, *arguments)
        os.write(1, b"kept\\n")  # in one piece: two threads write
        time.sleep(0.3)

    Store.keep = slowly
    test_store.train(sys.argv[1], checkpoint_every=2, record=[0, 6])
"""


@pytest.mark.slow
def test_killed_runs_go_on_to_the_same_bits(tmp_path, monkeypatch):
    """SIGKILL at two places; afterwards no epoch before the last checkpoint is trained again."""
    command = [sys.executable, "-c", textwrap.dedent(KILLED), str(tmp_path)]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    for checkpoints in (1, 4):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT) as process:
            for _ in range(checkpoints):
                assert process.stdout.readline() == "kept\n"
            process.send_signal(signal.SIGKILL)
            assert process.wait() == -signal.SIGKILL
    (tmp_path / ".writing-half").write_bytes(b"half of a file")
    started, advance = {}, Programs.advance

    def watched(self, chunk, member, first, last):
        started.setdefault(chunk, first)
        return advance(self, chunk, member, first, last)

    monkeypatch.setattr(Programs, "advance", watched)
    run = train(tmp_path, checkpoint_every=2, record=[0, 6])
    assert_same_bits(run, train(record=[0, 6]))
    assert max(started.values()) >= 2, "something was kept"
    assert all(first % 2 == 0 for first in started.values())
    assert not list(tmp_path.glob(".writing*"))


def test_every_checkpoint_is_one_to_go_on_from(tmp_path, undisturbed, monkeypatch):
    """Stopped after each number of writes in turn."""
    save, left = store_module.save_tree, [0]

    def fails(*arguments):
        if left[0] == 0:
            raise KeyboardInterrupt
        left[0] -= 1
        save(*arguments)

    for writes in (0, 2, 7):
        left[0] = writes
        monkeypatch.setattr(store_module, "save_tree", fails)
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path)
        monkeypatch.setattr(store_module, "save_tree", save)
    assert_same_bits(train(tmp_path), undisturbed)


@pytest.mark.every(2)
@pytest.mark.parametrize("pattern", ["state-*.npz", "params-*-0000003.npz", "metrics.jsonl"])
@pytest.mark.parametrize("damage", ["cut", "flipped", "gone"])
def test_what_is_damaged_is_computed_again(tmp_path, finished, undisturbed, pattern, damage):
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    for path in tmp_path.glob(pattern):
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 16
        path.unlink()
        if damage != "gone":
            path.write_bytes(bytes(content[:-200]) if damage == "cut" else bytes(content))
    assert_same_bits(train(tmp_path), undisturbed)


def test_metrics_are_lines_that_survive(tmp_path):
    run = train(tmp_path, epochs=2)
    with open(tmp_path / "metrics.jsonl", "a") as file:
        file.write('{"chunk": 0, "since": 2, "epo')  # as a process that is killed leaves it
    lines = eq.ensembles.read_metrics(tmp_path)
    assert len(lines) == 3 * 2  # chunks, epochs
    for line in lines:
        first = 2 * line["chunk"]
        np.testing.assert_array_equal(line["loss"][: 5 - first], run.losses[line["epoch"], first : first + 2])
    train(tmp_path, epochs=3)
    assert len(eq.ensembles.read_metrics(tmp_path)) == 3 * 3


class Late:
    """A schedule that is an object: the rate is 0 for a while, from a step that nobody looks at."""

    def __init__(self, at):
        self.at = at

    def __call__(self, count):
        return jnp.where((count >= self.at) & (count < self.at + 6), 0.0, 1e-2)


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"x": X.at[0, 0].add(1e-6)}, "x"),
        ({"y": Y + 1}, "y"),
        ({"key": jax.random.key(1)}, "key"),
        ({"net": eq.Sequential(eq.Dense(16, b_std=0.2), eq.Relu(), eq.Dense(2))}, "net"),
        ({"batch_size": 4}, "batch_size"),
        ({"at_once": 3}, "at_once"),
        ({"optimizer": optax.adam(2e-2)}, "optimizer"),
        ({"optimizer": optax.sgd(1e-2, momentum=0.9)}, "optimizer"),
        ({"optimizer": optax.adam(optax.cosine_decay_schedule(1e-2, 500))}, "optimizer"),
        ({"loss": lambda f, y: jnp.mean((f - y) ** 2)}, "loss"),
        ({"optimizer": optax.adam(1.001e-2)}, "optimizer"),
        ({"optimizer": optax.adamw(1e-2, weight_decay=1e-7)}, "optimizer, its numbers"),
        ({"optimizer": optax.adam(optax.piecewise_constant_schedule(1e-2, {700: 0.1}))}, "optimizer, its numbers"),
        ({"optimizer": optax.chain(optax.clip(50.0), optax.adam(1e-2))}, "optimizer, its numbers"),
        ({"optimizer": optax.adam(Late(25))}, "optimizer, its numbers"),
        ({"augment": eq.ensembles.random_elements(eq.groups.TrivialAction(eq.cyclic(2)))}, "augment"),
    ],
)
def test_other_settings_are_refused(finished, changes, named):
    with pytest.raises(ValueError, match=rf"`store`: .* other settings: .*\b{named}\b") as error:
        train(finished, epochs=0, **changes)
    others = {"x", "y", "key", "batch_size", "at_once", "augment"} - {named}
    assert not others & set(str(error.value).split("settings: ")[1].split(";")[0].split(", "))


def weighted(*weights):
    return lambda f, y: jnp.mean(jnp.asarray(weights)[y] * optax.softmax_cross_entropy_with_integer_labels(f, y))


class Weighted:
    """The same, as an object."""

    def __init__(self, *weights):
        self.weights = jnp.asarray(weights)

    def __call__(self, f, y):
        return jnp.mean(self.weights[y] * optax.softmax_cross_entropy_with_integer_labels(f, y))


def decay_of(chosen, rate=1e-2):
    """Weight decay too small beside the gradient's steps, of the parameters that a function chooses."""
    return optax.adamw(rate, weight_decay=1e-4, mask=lambda params: jax.tree.map(chosen, params))


def Thresholded(threshold):
    """A module whose code finds a number by name, that the first examples do not show."""

    class Thresholded(nn.Module):
        @nn.compact
        def __call__(self, x):
            return nn.Dense(2)(jnp.where(jnp.abs(x) > 100 * threshold, 0.0, x))

    return Thresholded()


WARM = optax.linear_schedule(0.0, 1e-3, 10)


@pytest.mark.every(5)
@pytest.mark.parametrize(
    "one, other, named",
    [
        ({"loss": Weighted(1.0, 1.0)}, {"loss": Weighted(1.0, 50.0)}, "loss, its numbers"),
        ({"optimizer": optax.adam(Late(18))}, {"optimizer": optax.adam(Late(25))}, "optimizer, its numbers"),
        (
            {"optimizer": decay_of(lambda leaf: leaf.ndim > 1)},
            {"optimizer": decay_of(lambda leaf: leaf.ndim < 2)},
            "optimizer, without a gradient",
        ),
        (
            {"optimizer": decay_of(lambda leaf: leaf.ndim > 1, WARM)},
            {"optimizer": decay_of(lambda leaf: leaf.ndim < 2, WARM)},
            "optimizer, without a gradient",
        ),
        ({"net": Thresholded(0.5)}, {"net": Thresholded(0.7)}, "net, its numbers"),
    ],
    ids=["weights", "schedule", "mask", "mask behind a warm-up", "code of a module"],
)
def test_objects_and_masks_are_told_apart(tmp_path, one, other, named):
    common = {"y": jnp.zeros(12, int).at[-1].set(1), "loss": weighted(1.0, 1.0), "epochs": 1}
    train(tmp_path, **common | one)
    train(tmp_path, **common | one)
    with pytest.raises(ValueError, match=f"other settings: .*{named}"):
        train(tmp_path, **common | other)


class Blocked(nn.Module):
    """One function, with and without a gradient for its first layer."""

    blocked: bool

    @nn.compact
    def __call__(self, x):
        z = nn.relu(nn.Dense(8)(x))
        return nn.Dense(2)(jax.lax.stop_gradient(z) if self.blocked else z)

    def __repr__(self):
        return "Blocked"


def test_what_examples_and_values_do_not_show_is_refused(tmp_path):
    """Weights of a class that the first examples do not have; a gradient that is cut."""
    labels = jnp.zeros(12, int).at[-1].set(1)
    train(tmp_path / "loss", y=labels, loss=weighted(1.0, 1.0), epochs=1)
    train(tmp_path / "loss", y=labels, loss=weighted(1.0, 1.0), epochs=2)
    with pytest.raises(ValueError, match="other settings: .*loss, its numbers"):
        train(tmp_path / "loss", y=labels, loss=weighted(1.0, 5.0), epochs=2)
    train(tmp_path / "net", net=Blocked(False), epochs=1)
    with pytest.raises(ValueError, match="other settings: .*loss, its gradient"):
        train(tmp_path / "net", net=Blocked(True), epochs=1)


def frozen(name, rate=1e-2):
    """Adam for all layers but one."""

    def labels(params):
        return jax.tree_util.tree_map_with_path(lambda path, _: "still" if name in str(path) else "moves", params)

    return optax.multi_transform({"moves": optax.adam(rate), "still": optax.set_to_zero()}, labels)


def stopped(name):
    """Descent that stops after 200 steps in one layer, after 500 in all others."""
    at = {label: optax.sgd(optax.piecewise_constant_schedule(1e-2, {n: 0.0})) for label, n in (("a", 200), ("b", 500))}

    def labels(params):
        return jax.tree_util.tree_map_with_path(lambda path, _: "a" if name in str(path) else "b", params)

    return optax.multi_transform(at, labels)


def test_losses_that_agree_for_two_examples_and_layers_of_one_shape_are_told_apart(tmp_path):
    """Half of a sum is the mean of two, the median of two is that, too; two layers of one shape may change places."""
    net = eq.Sequential(eq.Dense(8), eq.Relu(), eq.Dense(8), eq.Relu(), eq.Dense(1))
    losses = {
        "mean": lambda f, y: jnp.mean((f - y) ** 2),
        "half the sum": lambda f, y: jnp.sum(optax.l2_loss(f, y)),
        "median": lambda f, y: jnp.median((f - y) ** 2),
    }
    x, y = normal(12, (12, 8)), normal(13, (12, 1))
    common = dict(net=net, x=x, y=y, epochs=1, members=1, at_once=1, watch={})
    train(tmp_path / "loss", loss=losses.pop("mean"), **common)
    for loss in losses.values():
        with pytest.raises(ValueError, match="other settings: loss(?!, its numbers)"):
            train(tmp_path / "loss", loss=loss, **common)
    train(tmp_path / "optimizer", optimizer=frozen("layers_0"), **common)
    train(tmp_path / "optimizer", optimizer=frozen("layers_0"), **common)
    with pytest.raises(ValueError, match="other settings: optimizer(?!, its numbers)"):
        train(tmp_path / "optimizer", optimizer=frozen("layers_2"), **common)
    # Schedules that part late, of two layers of one shape: at no count before do they differ.
    train(tmp_path / "schedules", optimizer=stopped("layers_0"), **common)
    with pytest.raises(ValueError, match="other settings: optimizer(?!, its numbers)"):
        train(tmp_path / "schedules", optimizer=stopped("layers_2"), **common)


def test_other_folders_are_refused(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(ValueError, match="`store`: expected an empty folder"):
        train(tmp_path)
    assert os.listdir(tmp_path) == ["thesis.txt"]
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="`store`: .* cannot be used"):
        train(tmp_path / "file")
    other = tmp_path / "other"
    other.mkdir()
    for content in ("{", json.dumps({"format": 99, "settings": {}}), "[]"):
        (other / "ensemble.json").write_text(content)
        with pytest.raises(ValueError, match="`store`: .* damaged or of another version"):
            train(other)


def test_divergence_leaves_the_members_before_it(tmp_path):
    with pytest.raises(FloatingPointError, match=r"member \d is not finite"):
        train(tmp_path, x=X.at[0, 0].set(1e18), optimizer=optax.sgd(0.1), loss="squared_error", batch_size=None)
    assert list(tmp_path.glob("state-*"))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "key"])
def test_trees_are_read_as_they_were_written(tmp_path, dtype):
    leaf = jax.random.split(jax.random.key(3)) if dtype == "key" else jnp.arange(3).astype(dtype)
    tree = {"a": leaf, "b": (jnp.float32(2.0),)}
    save_tree(tmp_path / "tree.npz", tree)
    found = load_tree(tmp_path / "tree.npz", tree)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(tree), strict=True):
        assert one.dtype == other.dtype
        one, other = (jax.random.key_data(z) if dtype == "key" and z.dtype == leaf.dtype else z for z in (one, other))
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
    assert load_tree(tmp_path / "tree.npz", {"a": leaf}) is None
    assert load_tree(tmp_path / "none.npz", tree) is None


def test_files_need_no_pickle(finished):
    for path in finished.glob("*.npz"):
        with np.load(path, allow_pickle=False) as file:
            assert all(file[name].dtype != object for name in file.files)


def test_two_processes_do_not_write_to_one_folder(tmp_path, undisturbed):
    train(tmp_path, epochs=3)
    other = in_use(tmp_path)  # as another process would
    with pytest.raises(ValueError, match="`store`: expected a folder that no other process writes to"):
        train(tmp_path)
    other.close()
    assert_same_bits(train(tmp_path), undisturbed)
    in_use(tmp_path).close()  # the run let go of it


class Roll(eq.groups.Action):
    """An action of a user, with a number that decides what it does."""

    def __init__(self, steps):
        self.group, self.steps = eq.cyclic(2), steps

    def __call__(self, g, x):
        return jnp.roll(x, g * self.steps, -2)


class Held:
    """A number without a name of its own."""

    def __init__(self, number):
        self.number = number


class HeldRoll(Roll):
    """An action whose number is another object's."""

    def __init__(self, steps):
        self.group, self._held = eq.cyclic(2), Held(steps)
        self.steps = 1

    def __call__(self, g, x):
        return jnp.roll(x, g * self._held.number, -2)


def edited(code):
    """An action of one name, before or after its code was changed."""

    class Edited(eq.groups.Action):
        def __init__(self):
            self.group = eq.cyclic(2)

    Edited.__call__ = code
    Edited.__abstractmethods__ = frozenset()
    return Edited()


ROTATION = partial(eq.groups.RotationAction, eq.cyclic(8))
ACTIONS = {
    "interpolation": (ROTATION(1), ROTATION(3)),
    "mask": (ROTATION(1), ROTATION(1, mask=False)),
    "an attribute of one's own": (Roll(1), Roll(2)),
    "an attribute of an object": (HeldRoll(1), HeldRoll(2)),
    "changed code": (
        edited(lambda self, g, x: x if g == 0 else x[..., ::-1, :]),
        edited(lambda self, g, x: x if g == 0 else x[..., ::-1, :, :]),
    ),
    "a size that has changed": (
        edited(lambda self, g, x: x if g == 0 else -x),
        edited(lambda self, g, x: x if g == 0 else -x - x),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("actions", ACTIONS.values(), ids=ACTIONS)
def test_augmentations_are_told_apart(tmp_path, monkeypatch, actions):
    one, other = (
        dict(x=normal(12, (4, 5, 5, 1)), y=normal(13, (4, 2)), net=IMAGE_NET, watch=None, members=1, epochs=1)
        | {"augment": eq.ensembles.full_orbits(action)}
        for action in actions
    )
    train(tmp_path / "one", **one)
    train(tmp_path / "one", **one)
    with pytest.raises(ValueError, match="other settings: .*augment"):
        train(tmp_path / "one", **other)
    monkeypatch.setenv("EQBOOK_STORE_DIR", str(tmp_path / "all"))
    (tmp_path / "all").mkdir()
    for arguments in (one, other, one):
        train(**arguments)
    assert len(list((tmp_path / "all").iterdir())) == 2


IMAGE_NET = eq.Sequential(eq.Conv(2, (3, 3)), eq.Relu(), eq.Flatten(), eq.Dense(2))


class Activated(nn.Module):
    act: object

    @nn.compact
    def __call__(self, x):
        return nn.Dense(2)(self.act(nn.Dense(4)(x)))


def test_functions_that_a_module_holds_are_told_apart(tmp_path):
    """They agree on the first examples, and have one name."""
    train(tmp_path, net=Activated(lambda z: z))
    train(tmp_path, net=Activated(lambda z: z))
    with pytest.raises(ValueError, match="other settings: net, its numbers"):
        train(tmp_path, net=Activated(lambda z: jnp.clip(z, -40.0, 40.0)))


def test_a_loss_may_want_the_whole_batch(tmp_path):
    weights = np.linspace(1, 2, len(X))[:, None]
    loss = lambda outputs, y: jnp.sum(weights * (outputs - y) ** 2)  # noqa: E731
    assert_same_bits(train(tmp_path, loss=loss, batch_size=None), train(loss=loss, batch_size=None))
    assert_same_bits(train(tmp_path, loss=loss, batch_size=None), train(loss=loss, batch_size=None))


class Keyed(Roll):
    """Holds what NumPy cannot read, and itself."""

    def __init__(self, steps, seed):
        super().__init__(steps)
        self.key, self.whole, self.names = jax.random.key(seed), self, {"a", "b", "c"}


@pytest.mark.slow
def test_random_keys_that_things_hold_are_told_apart(tmp_path):
    """By an action, by a function of a module, and by an optimiser."""
    images = dict(x=normal(12, (4, 5, 5, 1)), y=normal(13, (4, 2)), net=IMAGE_NET, watch=None, members=1, epochs=1)
    kinds = {
        "augment": lambda seed: images | {"augment": eq.ensembles.full_orbits(Keyed(1, seed))},
        "net": lambda seed: {"net": Activated(partial(shifted, jax.random.key(seed)))},
        "optimizer": lambda seed: {
            "optimizer": optax.chain(optax.add_noise(0.1, 0.5, jax.random.key(seed)), optax.sgd(0.1))
        },
    }
    for name, arguments in kinds.items():
        train(tmp_path / name, **arguments(0))
        train(tmp_path / name, **arguments(0))
        with pytest.raises(ValueError, match=f"other settings: .*{name}"):
            train(tmp_path / name, **arguments(1))


def shifted(key, z):
    return z + jax.random.normal(key, z.shape[-1:])


class Scale(nn.Module):
    """One parameter: a quartic loss diverges for a member that starts far from 0."""

    @nn.compact
    def __call__(self, x):
        return x * self.param("scale", nn.initializers.normal(1.0), (1,))


def test_a_member_beside_those_asked_for_diverged_later(tmp_path):
    """A shorter run with it is a run like any other; one as long is refused."""
    x, y = np.ones((1, 1), np.float32), np.zeros((1, 1), np.float32)
    options = dict(optimizer=optax.sgd(0.5), loss=lambda f, _: jnp.sum(f**4), at_once=4, watch=None, batch_size=None)
    options |= dict(net=Scale(), x=x, y=y)
    train(tmp_path / "s", members=2, epochs=40, record=[1, 40], **options)
    short = train(tmp_path / "s", members=3, epochs=1, record=[1], **options)
    np.testing.assert_array_equal(short.losses, train(members=3, epochs=1, record=[1], **options).losses)
    with pytest.raises(FloatingPointError, match="member 2 is not finite in epoch 5"):
        train(tmp_path / "s", members=3, epochs=40, record=[1, 40], **options)

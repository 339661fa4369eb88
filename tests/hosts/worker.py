"""One of several processes; run by `test_processes.py` with its rank, their number, a port and a folder."""

import sys
from pathlib import Path

import jax

rank, count, port, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], Path(sys.argv[4])
jax.distributed.initialize(f"localhost:{port}", count, rank)

import numpy as np  # noqa: E402
import optax  # noqa: E402

import eqbook as eq  # noqa: E402
from eqbook._hosts import hosts_of  # noqa: E402
from eqbook.dynamics import RowMatrix, learned_targets, solve  # noqa: E402

assert jax.process_count() == count
mesh = jax.make_mesh((jax.device_count(),), ("devices",))
x = np.random.default_rng(0).normal(size=(23, 5)).astype(np.float32)
y = np.sin(x[:, :2])
net = eq.Sequential(eq.Dense(8), eq.Relu(), eq.Dense(2))

found = {}
for name, batches in {"square": (x,), "rectangle": (x, x[:9])}.items():
    k = eq.gram(net, *batches, mesh=mesh)
    found |= {f"{name}_nngp": k.nngp, f"{name}_ntk": k.ntk}
stored = eq.gram(net, x, kinds=("ntk",), mesh=mesh, tile=6, store=folder / "tiles")
again = eq.gram(net, x, kinds=("ntk",), mesh=mesh, tile=6, store=folder / "tiles")
assert np.array_equal(stored.ntk, again.ntk)
found["stored_ntk"] = stored.ntk


def train(store=None, epochs=3, **more):
    return eq.train_ensemble(
        net, jax.random.key(1), x, y, members=7, epochs=epochs, optimizer=optax.sgd(1e-2), watch={"x": x}, mesh=mesh,
        at_once=2, store=store, **more,
    )  # fmt: skip


run = train()
found |= {"outputs": run.outputs["x"], "losses": run.losses, "prediction": run.predict(x[:4])}
train(folder / "members", epochs=2)
kept = train(folder / "members")  # two of its epochs are there
found |= {"kept_outputs": kept.outputs["x"], "kept_losses": kept.losses, "kept_prediction": kept.predict(x[:4])}

ntk = np.asarray(found["square_ntk"])
called = []


def rows(which):
    called.append(which)
    return ntk[which]


matrix = RowMatrix(rows, n=23, mesh=mesh)
assert sum(which.stop - which.start for which in called) < 23, "each process makes the rows of its own devices only"
found |= {"weights": solve(matrix, y, diag_reg=1e-2).weights, "learned": learned_targets(matrix, y, 3.0, steps=20)}

# One process fails, and all of them end with an error; none waits for ever.
hosts = hosts_of(mesh)
try:
    with hosts.together():
        if rank == count - 1:
            raise FloatingPointError("of this process")
except FloatingPointError:
    assert rank == count - 1
except RuntimeError as error:
    assert rank != count - 1 and f"process {count - 1} of {count}" in str(error)
else:
    raise AssertionError("the failure went unnoticed")
for label, differing in {
    "inputs": lambda: eq.gram(net, x + rank, mesh=mesh),
    "targets": lambda: solve(matrix, y + rank, diag_reg=1e-2),
    "a store on one process only": lambda: train(folder / "one" if rank == 0 else None),
}.items():
    try:
        differing()
    except ValueError as error:
        assert "expected the same on all" in str(error), label
    else:
        raise AssertionError(f"{label}: went unnoticed")

np.savez(folder / f"process-{rank}.npz", **{name: np.asarray(value) for name, value in found.items()})
print("done")

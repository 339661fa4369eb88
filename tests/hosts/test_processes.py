"""Several processes that share a Gram matrix, an ensemble and a regression find what one process finds."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from processes import finish, free_port, start

import eqbook as eq
from eqbook.dynamics import RowMatrix, learned_targets, solve
from eqbook.testing import relative_error, tolerance

WORKER = Path(__file__).with_name("worker.py")


@pytest.fixture(scope="module")
def alone():
    """What one process finds."""
    x = np.random.default_rng(0).normal(size=(23, 5)).astype(np.float32)
    y = np.sin(x[:, :2])
    net = eq.Sequential(eq.Dense(8), eq.Relu(), eq.Dense(2))
    square, rectangle = eq.gram(net, x), eq.gram(net, x, x[:9])
    run = eq.train_ensemble(
        net, jax.random.key(1), x, y, members=7, epochs=3, optimizer=optax.sgd(1e-2), watch={"x": x}, at_once=2
    )
    matrix = RowMatrix(np.asarray(square.ntk))
    return {
        **{f"square_{kind}": getattr(square, kind) for kind in ("nngp", "ntk")},
        **{f"rectangle_{kind}": getattr(rectangle, kind) for kind in ("nngp", "ntk")},
        "stored_ntk": square.ntk,
        **{f"{kind}outputs": run.outputs["x"] for kind in ("", "kept_")},
        **{f"{kind}losses": run.losses for kind in ("", "kept_")},
        **{f"{kind}prediction": run.predict(x[:4]) for kind in ("", "kept_")},
        "weights": solve(matrix, y, diag_reg=1e-2).weights,
        "learned": learned_targets(matrix, y, 3.0, steps=20),
    }


@pytest.mark.every(2)
@pytest.mark.parametrize("processes, devices", [(2, 2), (4, 1)])
def test_processes_find_together_what_one_finds_alone(tmp_path, alone, processes, devices):
    order = str(processes), free_port(), str(tmp_path)
    finish([start(str(WORKER), str(rank), *order, devices=devices) for rank in range(processes)])
    together = [np.load(tmp_path / f"process-{rank}.npz") for rank in range(processes)]
    # Sums over 23 examples, thrice; conjugate gradients and Lanczos stop at a tolerance of 1e-5.
    bounds = dict.fromkeys(alone, tolerance(jnp.float32, 3 * 23)) | {"weights": 1e-3, "learned": 1e-4}
    for name, expected in alone.items():
        for other in together:
            np.testing.assert_array_equal(other[name], together[0][name], f"{name}: the same on all processes")
        found, expected = together[0][name], np.asarray(expected)
        assert np.array_equal(np.isnan(found), np.isnan(expected)), name
        assert relative_error(np.nan_to_num(found), np.nan_to_num(expected)) < bounds[name], name
    assert {path.name for path in (tmp_path / "members").glob("metrics*")} == {
        "metrics.jsonl",
        *(f"metrics-{rank:04d}.jsonl" for rank in range(1, processes)),
    }

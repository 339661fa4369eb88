"""Regression and training on many devices: eight virtual ones of one process, and two processes."""

import textwrap

import pytest
from processes import finish, free_port, start

EIGHT = textwrap.dedent("""
    import jax, numpy as np
    import eqbook as eq
    from eqbook.dynamics import RowMatrix, learned_targets, solve
    from eqbook.testing import relative_error

    assert len(jax.devices()) == 8
    line, grid = jax.make_mesh((8,), ("rows",)), jax.make_mesh((4, 2), ("a", "b"))
    for n in (5, 61, 130):  # fewer rows than devices, padding, and more than the preconditioner has columns
        draw = np.random.default_rng(n)
        factor = draw.normal(size=(n, n))
        theta = factor @ factor.T / n + np.eye(n)
        y = draw.normal(size=(n, 3)) * [1, 1e-25, 1e25]
        for dtype, tolerance, bound in (("float32", 1e-6, 2e-5), ("float64", 1e-13, 1e-12)):
            with jax.enable_x64(dtype == "float64"):
                one = RowMatrix(theta.astype(dtype))
                for mesh in (line, grid) if n == 5 else (line,):
                    many = RowMatrix(lambda rows: theta[rows], n=n, mesh=mesh, dtype=dtype)
                    assert len(many.array.sharding.device_set) == 8
                    assert len(many.array.addressable_shards[0].data) == -(-n // 8)
                    options = dict(diag_reg=1e-2, tolerance=tolerance)
                    alone, shared = (solve(matrix, y, **options).weights for matrix in (one, many))
                    exact = np.linalg.solve(theta + 1e-2 * np.diag(theta).mean() * np.eye(n), y)
                    early = [learned_targets(matrix, y, 0.5, steps=40, tolerance=tolerance) for matrix in (one, many)]
                    for k in range(3):
                        assert relative_error(shared[:, k], alone[:, k]) < bound, (n, dtype, "solve")
                        assert relative_error(shared[:, k], exact[:, k]) < bound, (n, dtype, "solve")
                        assert relative_error(early[1][:, k], early[0][:, k]) < bound, (n, dtype, "learned")
    print("all agree")
""")

TWO = textwrap.dedent("""
    import sys
    import jax

    rank = int(sys.argv[1])
    jax.distributed.initialize(f"localhost:{sys.argv[2]}", 2, rank)
    import numpy as np
    import eqbook as eq
    from eqbook.dynamics import RowMatrix, Schedule, learned_targets, solve

    mesh = jax.make_mesh((jax.device_count(),), ("devices",))
    theta, y = np.diag(np.arange(1.0, 25.0)).astype(np.float32), np.ones((24, 2), np.float32)
    matrix = RowMatrix(lambda rows: theta[rows], n=24, mesh=mesh)

    class Own(Schedule):
        def __init__(self, rate):
            self.rate = rate

        def learned(self, eigenvalues, t):
            return self.rate * t / (1 + eigenvalues)

        def check(self, eigenvalues, t):
            pass

    def failing(rows):
        if rank == 1:
            raise FloatingPointError("of this process")
        return theta[rows]

    different = {
        "targets": lambda: solve(matrix, y + rank),
        "size of the targets": lambda: solve(matrix, y * 10.0**-rank),
        "number of targets": lambda: solve(matrix, y[:, rank:]),
        "diag_reg": lambda: solve(matrix, y, diag_reg=0.1 * (1 + rank)),
        "steps": lambda: solve(matrix, y, steps=100 + rank),
        "targets, learned": lambda: learned_targets(matrix, y + rank, 1.0),
        "t": lambda: learned_targets(matrix, y, 1.0 + rank),
        "rate": lambda: learned_targets(matrix, y, 1.0, eq.GradientFlow(1.0 + rank)),
        "rate of another schedule": lambda: learned_targets(matrix, y, 1.0, Own(1.0 + rank)),
        "schedule": lambda: learned_targets(matrix, y, 1.0, (eq.GradientFlow, eq.GradientDescent)[rank](0.01)),
        "a whole matrix": lambda: RowMatrix(theta * (1 + rank), mesh=mesh),
        "n": lambda: RowMatrix(lambda rows: theta[rows], n=24 - rank, mesh=mesh),
    }
    one_fails = {
        "targets": lambda: solve(matrix, y if rank == 0 else np.nan * y),
        "targets, learned": lambda: learned_targets(matrix, y[rank:], 1.0),
        "rank": lambda: solve(matrix, y, rank=-rank),
        "t": lambda: learned_targets(matrix, y, 1.0 if rank == 0 else np.inf),
        "the function": lambda: RowMatrix(failing, n=24, mesh=mesh),
        "its rows": lambda: RowMatrix(lambda rows: theta[rows] * (1 if rank == 0 else np.inf), n=24, mesh=mesh),
        "a whole matrix": lambda: RowMatrix(theta[rank:], mesh=mesh),
    }
    for cases, wanted in ((different, "expected the same on all 2"), (one_fails, None)):
        for name, call in cases.items():
            try:
                call()
            except (ValueError, FloatingPointError, RuntimeError) as error:
                said = wanted or ("process 1 of 2 has failed" if rank == 0 else ("expected", "of this process"))
                assert any(part in str(error) for part in ([said] if isinstance(said, str) else said)), (name, error)
            else:
                raise AssertionError(f"{name}: went unnoticed")
    same = solve(matrix, y).weights
    np.testing.assert_allclose(same, np.linalg.solve(theta, y), rtol=1e-4)
    rates = Own(2.0)
    np.testing.assert_allclose(learned_targets(matrix, y, 1.0, rates), 2 * y / (1 + np.diag(theta)[:, None]), rtol=1e-4)
    print("all noticed")
""")


def said(*running):
    return [text.splitlines()[-1] for text in finish(running)]


@pytest.mark.slow
def test_eight_devices_equal_one():
    assert said(start("-c", EIGHT, devices=8)) == ["all agree"]


@pytest.mark.slow
def test_processes_called_differently_are_told():
    port = free_port()
    assert said(*(start("-c", TWO, str(rank), port, devices=2) for rank in range(2))) == ["all noticed"] * 2

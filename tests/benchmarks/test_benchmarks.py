"""The benchmarks still check what they time: every case at tiny size, the counts, and the way from record to table.

Nothing is timed here that could fail by its time.
"""

import importlib.util
import json

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
import pytest

import eqbook as eq

if importlib.util.find_spec("neural_tangents") is None:
    pytest.skip("neural-tangents is the peer of some cases", allow_module_level=True)
pytest.importorskip("e3nn_jax", reason="the so3 extra")
matplotlib.use("Agg")

from benchmarks import checks, counts, kernels, measure, report, scaling, words  # noqa: E402
from benchmarks.cases import C4, CASES, POOL, SPHERE, entries, fully_connected  # noqa: E402
from benchmarks.operations import operations  # noqa: E402
from benchmarks.peers import ours  # noqa: E402

# Cases that differ only in size are one at tiny size.
DIFFERENT = list({(case.small, case.peer): name for name, case in CASES.items() if case.peer}.values())
MACHINE = {"operations_per_s": 1e11, "cached_bytes_per_s": 1e11, "memory_bytes_per_s": 1e10}


@pytest.mark.every(3)
@pytest.mark.parametrize("name", DIFFERENT)
def test_eqbook_and_peer_agree(name):
    found = checks.check(CASES[name].smoke())
    assert len(found) >= 4 and all(np.isfinite(one.difference) for one in found)


def test_a_wrong_answer_is_seen():
    case = CASES["fcn"].smoke()
    nngp, ntk = ours(case.net)(case.inputs())
    for wrong in ((nngp, ntk.at[0, 1].mul(1.001)), (nngp, ntk.at[1, 1].mul(1.01)), (nngp * jnp.nan, ntk)):
        with pytest.raises(checks.WrongAnswer, match="fcn: N"):
            checks.check(case, wrong, (nngp, ntk))


def test_a_kernel_off_by_a_thousandth_is_seen_at_the_size_of_every_case():
    for case in CASES.values():
        assert checks.rounding(case)[0] < 1e-3, case.name


def test_a_wrong_answer_is_not_timed():
    calls = {"ours": lambda: 1, "peer": lambda: 2}

    def check(results):
        assert results == {"ours": 1, "peer": 2}
        raise checks.WrongAnswer("they differ")

    with pytest.raises(checks.WrongAnswer):
        measure.alternate(calls, 10**9, float("inf"), check)


def test_first_inputs_do_not_depend_on_their_number():
    for case in (CASES["conv_pool"].smoke(), CASES["so3"].smoke()):
        np.testing.assert_allclose(case.inputs(2), case.inputs(3)[:2], rtol=1e-6, atol=1e-6)


def test_a_record_becomes_a_table(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(kernels, "ROUNDS", 2)
    record = kernels.run(CASES["fcn"].smoke(), smoke=False, with_memory=False, machine=MACHINE)
    record["memory"] = {"ours": {"2": 2**20}, "peer": {"2": 3 * 2**30}}
    record["targets"] = [
        {"what": "ratio", "reached": 3.0, "target": 2, "met": True},
        {"what": "bytes", "reached": 3 * 2**30, "target": 2**31, "met": False},
    ]
    kernels.show(record)
    assert "neural-tangents: median" in capsys.readouterr().out
    kernels.write(record, tmp_path, "fcn")
    kernels.write(record | {"smoke": True}, tmp_path, "conv_pool")
    read = report.load("cpu", tmp_path)
    assert list(read) == ["fcn"], "a try is no record"
    assert ("dense", "3", "2 ✓") == (*(row := report.speed(read).rows[1])[:1], *row[3:])
    assert report.goals(read).rows[0][3:] == ("3.00 GiB", "2.00 GiB ✗")
    read["fcn"]["peer"]["median_s"] = 0.29
    assert "took 145 ms (dense); in this record it took so many times as long: 2." in repr(report.goals(read))
    assert report.pace({"so3": read["fcn"]}) == "", "no case that was timed elsewhere"
    assert [row if isinstance(row, str) else row[0] for row in report.spreads(read).rows] == [
        "neural-tangents", "dense", "eqbook", "dense",
    ]  # fmt: skip
    assert report.costs(read).rows[0][3:5] == ("3.00 GiB", "1 MiB")
    read["fcn"]["memory"]["ours"]["5"] = read["fcn"]["memory"]["peer"].pop("2")
    read["fcn"]["memory"]["peer"]["3"] = 2**20
    first, second = report.costs(read).rows
    assert first[3:5] == ("1 MiB (n = 3)", "1 MiB") and (second[0], second[4]) == ("dense (n = 5)", "3.00 GiB")
    assert report.load("gpu", tmp_path) == {}
    place, row = report.circumstances(read).rows
    assert "cores; JAX on" in place and row[0] == "dense"


def test_differences_are_those_nearest_to_their_bounds():
    checks = [
        {"what": f"{kind} {place}, against {name}", "difference": difference, "bound": bound}
        for kind, place, name, difference, bound in (
            ("NNGP", "off the diagonal", "another", 2e-6, 1e-5),
            ("NTK", "off the diagonal", "another", 3e-6, 3e-4),
            ("NNGP", "on the diagonal", "another", 0.0, 1e-3),
            ("NTK", "at L = 2", "a third", 1e-4, 2e-4),
        )
    ]
    record = {"checks": checks, "circumstances": {"backend": "gpu"}}
    table = report.agreement({"so3": record})
    assert table.caption.startswith("GPU: ")
    assert table.rows == (
        "against another",
        ("SO(3), n = 100", "2.0e-06", "1.0e-05", "0", "1.0e-03"),
        "against a third",
        ("SO(3), n = 100, L = 2", "1.0e-04", "2.0e-04", "–", "–"),
    )


def test_numbers_are_shown_with_three_digits_and_no_exponent():
    assert [words.number(value) for value in (2216.4, 999.6, 99.96, 0.3023)] == ["2,220", "1,000", "100", "0.302"]
    assert [words.seconds(value) for value in (8.0, 0.0275, 0.9996)] == ["8.00 s", "27.5 ms", "1,000 ms"]
    assert [words.amount(value) for value in (1777.0, 1.69e7)] == ["1,780", "16.9 million"]
    assert [words.amount(value, "B") for value in (35.0, 297e3, 3.04e12)] == ["35 B", "297 kB", "3.04 TB"]


def test_names_of_cases_differ():
    assert len({case.label for case in CASES.values()} | set(words.OTHERS.values())) == len(CASES) + len(words.OTHERS)
    assert len(report.cases().rows) == len(CASES)
    assert set(report.SWEPT) == set(scaling.SWEEPS | scaling.ACCELERATED)


def test_targets_are_judged_by_what_was_measured():
    case = CASES["conv_pool"]
    record = {
        "ours": {"s_per_entry": 1.0},
        "peer": {"s_per_entry": 149.0},
        "memory": {"ours": {"20": 2**31, "80": 2**31 + 1}},
        "circumstances": {"backend": "cpu"},
    }
    met = {one["what"]: one["met"] for one in kernels._targets(case, record)}
    assert met == {"seconds_per_entry": None, "ratio": False, "bytes": False}
    record["peer"]["s_per_entry"] = 150.0
    assert kernels._targets(case, record)[1]["met"]
    record["circumstances"]["backend"] = "gpu"
    assert [one["target"] for one in kernels._targets(case, record)] == [None, None, 2**31], "ratios are of two cores"


def test_every_target_of_the_table_can_be_judged():
    for case in CASES.values():
        assert case.targets and set(case.targets) <= {"ratio", "seconds_per_entry", "bytes"}
        assert "ratio" not in case.targets or case.peer


def test_operations_are_those_of_the_program():
    x, m = jnp.ones(8), jnp.ones((4, 8))
    assert operations(lambda x: 2 * x + 1, x) == 16
    assert operations(lambda x: jnp.broadcast_to(x, (3, 8))[::2], x) == 0
    assert operations(lambda m, x: m @ x, m, x) == 2 * 4 * 8
    assert operations(lambda x: jax.lax.scan(lambda c, _: (c + x, None), x, length=5)[0], x) == 5 * 8
    assert operations(lambda x: jax.lax.cond(x[0] > 0, lambda x: x * x + x, lambda x: x, x), x) == 1 + 2 * 8


def test_counts_grow_as_the_algorithms_do():
    def work(net, shape, n=8):
        return counts.count(net, shape, n)

    small, large = work(POOL, (4, 4, 3)), work(POOL, (8, 8, 3))
    assert 14 < large.operations / small.operations < 18  # all pairs of pixels
    assert 10 < large.bytes / small.bytes < 16  # the border weighs less
    plain = eq.Sequential(eq.Conv(1, (3, 3)), eq.Relu(), eq.Conv(1, (3, 3)), eq.Relu(), eq.GlobalAvgPool())
    group = work(C4, (4, 4, 3)).operations / work(plain, (4, 4, 3)).operations
    assert 3.9 < group < 4.5
    deep = [work(fully_connected(depth), (4,), 100).operations for depth in (1, 2, 3)]
    assert deep[2] - deep[1] == pytest.approx(deep[1] - deep[0])
    # A relu on SO(3) is a fixed number of operations at each rotation beside the product with the Wigner matrices.
    points, features = 4 * 10**3, 10
    assert work(SPHERE, (4, 3, 2)).operations / points - 2 * features == pytest.approx(110, abs=40)
    with pytest.raises(ValueError, match="`net`: expected relu"):
        work(eq.Sequential(eq.Dense(1), eq.Erf(), eq.Dense(1)), (4,))


def test_the_slower_of_arithmetic_and_memory_is_the_limit():
    assert counts.Count(2e11, 1e10).least_seconds(MACHINE) == 2
    assert counts.Count(1e10, 3e11).least_seconds(MACHINE) == 3


def test_a_sweep_becomes_a_figure():
    rows = [{"value": v, "s_per_entry": v**4.0, "limit_s": 0.5, "fraction": 0.5} for v in (1, 2, 4)]
    rows = [row | {"operations": 1.0, "bytes": 1.0} for row in rows]
    record = {"sweeps": {"size": {"title": "pool", "axis": "side", "rows": rows}}, "circumstances": {"backend": "cpu"}}
    assert report.slope(rows) == pytest.approx(4)
    assert report.growth(record).rows == ("side", ("CNN, pool", "4", "1", "1 B", "256 s", "50%", "4.0"))
    assert "100 GB/s" in repr(report.rates(record | {"limits": MACHINE}))
    figure = report.scaling_figure(record)
    assert figure.axes[0].get_xscale() == figure.axes[0].get_yscale() == "log"
    matplotlib.pyplot.close(figure)


def test_sweeps_change_one_number():
    for sweep in (scaling.SWEEPS | scaling.ACCELERATED).values():
        values = [value for value, *_ in sweep.points]
        assert values == sorted(set(values)) and len(values) >= 4
        assert len(scaling.smoke(sweep).points) == 2


def test_what_was_held_before_does_not_hide_what_a_call_holds():
    """A peak of 400 MiB that is past, and then 200 MiB in use."""
    np.ones(50 * 2**20)
    before = measure.held()
    ballast = np.ones(25 * 2**20)
    assert ballast.nbytes * 0.9 < measure.peak() - before < ballast.nbytes * 1.5


def test_memory_of_another_process_is_its_own():
    """The peak of the process that starts the measurement does not count: this one holds 400 MiB more for a while."""
    ballast = np.ones(50 * 2**20)
    del ballast
    assert 0 < measure.memory("fcn", "ours", 2, smoke=True) < 300 * 2**20


def test_kept_records_are_of_cases_that_exist_and_passed():
    for path in report.RESULTS.glob("*.json"):
        if path.stem in ("builds", "faults", "fuzz"):
            continue  # of other scripts, asserted where the book shows them
        record = json.loads(path.read_text())
        assert not record["smoke"]
        if path.stem.startswith("ensembles"):
            continue  # see test_ensembles.py
        if path.stem.startswith("scaling"):
            assert set(record["sweeps"]) <= set(scaling.SWEEPS | scaling.ACCELERATED)
            continue
        case = CASES[record["case"]]
        assert record["entries"] == entries(case.n) and record["network"] == str(case.net)
        assert all(one["difference"] <= one["bound"] for one in record["checks"])

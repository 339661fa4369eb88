"""Random layer stacks: a right kernel or a clear error. `python -m benchmarks.fuzz` runs 2,000 of them."""

import json
from dataclasses import replace

import hypothesis
import jax
import numpy as np
import pytest
from hypothesis import strategies as st

from benchmarks import fuzz
from benchmarks.draw import FAMILIES, Seeded, rand_case
from benchmarks.stacks import Call, Case, call

# Those whose programs compile in a second; the long run has all.
QUICK = ("vectors", "pixels", "finite")


class Drawn:
    """Choices of hypothesis, which shrinks a case that fails towards the first options."""

    def __init__(self, draw):
        self._draw = draw

    def pick(self, options):
        return options[self._draw(st.integers(0, len(options) - 1))]


@st.composite
def cases(draw, families):
    return rand_case(Drawn(draw), families)


def settings(examples):
    return hypothesis.settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=(hypothesis.Phase.generate, hypothesis.Phase.shrink),
    )


def check(case):
    with jax.enable_x64(True):
        outcome = fuzz.try_case(case, finite=False)
    assert outcome.result in ("kernel", "refused"), f"{outcome.message}\n{case}"


@settings(30)
@hypothesis.given(cases(QUICK))
def test_right_or_refused(case):
    check(case)


@pytest.mark.every(3)
@pytest.mark.parametrize("seed", [5, 13, 115])
def test_seeds_of_the_long_run(seed, x64):
    """One on the sphere, one on the plane, and one whose relu sees opposite features."""
    outcome = fuzz.run_seed(seed)
    assert outcome.result in ("kernel", "refused")
    assert not outcome.kink and not outcome.rounded


def test_equal_seeds_give_equal_cases():
    for seed in range(50):
        assert repr(rand_case(Seeded(seed))) == repr(rand_case(Seeded(seed)))


def test_the_generator_reaches_everything():
    """Every layer, every dtype, every family, stacks that fit and stacks that do not."""
    drawn = [rand_case(Seeded(seed)) for seed in range(1000)]
    names = [name for case in drawn for name in case.names()]
    assert all(names.count(layer) > 20 for layer in fuzz.LAYERS)
    assert {case.dtype for case in drawn} == set(fuzz.BOUNDS)
    assert sum(bool(case.spoilt) for case in drawn) > 10
    assert len(FAMILIES) > len(QUICK)


WRONG = {
    "another error": (lambda *_, **__: 1 / 0, "ZeroDivisionError"),
    "an unclear error": (lambda *_, **__: jax.numpy.ones(2) @ jax.numpy.ones(3), "TypeError"),
    "an error without a name": (lambda *_, **__: (_ for _ in ()).throw(ValueError("no")), "unclear"),
}


@pytest.mark.parametrize("wrong, said", WRONG.values(), ids=list(WRONG))
def test_other_errors_are_found(wrong, said, monkeypatch, x64):
    monkeypatch.setattr(fuzz.eq, "gram", wrong)
    outcome = fuzz.try_case(Case((call("Dense", 1),), (2,)))
    assert outcome.result == "wrong" and said in outcome.message


def test_wrong_kernels_are_found(monkeypatch, x64):
    """A kernel that is off by 1e-9, one that is NaN, one that is not symmetric, and inputs that should be refused."""
    right = fuzz.eq.gram
    case = Case((call("Dense", 1, b_std=0.5), call("Erf"), call("Dense", 1)), (2,))
    assert fuzz.try_case(case).result == "kernel"
    spoil = {
        "off by": lambda k: k * (1 + 1e-9),
        "not finite": lambda k: k.at[0, 0].set(jax.numpy.nan),
        "not symmetric": lambda k: k.at[0, 1].add(1e-13),
        "dtype": lambda k: k.astype("float32"),
    }
    for said, change in spoil.items():

        def gram(*args, change=change, **options):
            return jax.tree.map(change, right(*args, **options))

        monkeypatch.setattr(fuzz.eq, "gram", gram)
        outcome = fuzz.try_case(case)
        assert outcome.result == "wrong" and said in outcome.message
    monkeypatch.setattr(fuzz.eq, "gram", lambda *_, **__: None)
    assert fuzz.try_case(Case(case.layers, (2,), spoilt="nan")).message == "inputs with nan were accepted"


def test_a_kink_is_no_excuse_elsewhere():
    relu = Case((call("Dense", 1), call("Relu"), call("Sequential", call("Activation", "leaky"))), (2,))
    plain = fuzz.smooth(relu)
    assert plain.layers == (call("Dense", 1), call("Erf"), call("Sequential", call("Activation", "tanh")))
    assert fuzz.smooth(plain) == plain


def test_rounding_is_an_excuse_only_where_it_decides(monkeypatch, x64):
    """The mean of a signal is 0, and LayerNorm makes 1 of what is left of it; and a kernel that is simply wrong."""
    right, outcome = fuzz.eq.gram, fuzz.run_seed(979)
    assert outcome.result == "kernel" and outcome.rounded and outcome.difference > 0.1
    monkeypatch.setattr(fuzz.eq, "gram", lambda *a, **o: jax.tree.map(lambda k: k * (1 + 1e-9), right(*a, **o)))
    assert fuzz.run_seed(5).result == "wrong"


def test_rounding_is_no_excuse_for_another_entry(monkeypatch, x64):
    """Beside entries that rounding decides, one that it does not."""
    right = fuzz.eq.gram

    def spoilt(*arguments, **options):
        found = right(*arguments, **options)
        return replace(found, nngp=found.nngp.at[2, 2].multiply(1.001))

    monkeypatch.setattr(fuzz.eq, "gram", spoilt)
    outcome = fuzz.run_seed(979)
    assert outcome.result == "wrong" and outcome.message.startswith("nngp: off by")


def test_a_recursion_that_is_not_finite_excuses_nothing(monkeypatch, x64):
    right = fuzz.literal
    monkeypatch.setattr(fuzz, "literal", lambda *a: right(*a) | {"ntk": np.nan * right(*a)["ntk"]})
    case = Case((call("Dense", 1), call("Relu"), call("Dense", 1)), (2,))
    assert fuzz.try_case(case).result == "wrong"


def test_groups_are_numbered_in_any_order():
    for name in ("Klein", "Q8", "S3", "C5"):
        groups = [Call("table", (name, shuffle)).make() for shuffle in range(4)]
        assert len({group.identity for group in groups}) > 1


def test_a_run_resumes_and_sums_up(tmp_path, capsys, monkeypatch):
    """Stopped after some cases, with a line cut off; another process takes the rest."""
    tried = []

    def run(seed):
        tried.append(seed)
        result = "wrong" if seed == 4 else "kernel" if seed % 2 else "refused"
        return fuzz.Outcome(result, ("Dense",), "float64", "Vectors", 1e-14 * seed, "expected 3, got 4", seed == 3)

    monkeypatch.setattr(fuzz, "run_seed", run)
    monkeypatch.setattr(jax.config, "update", lambda *_: None)
    out, log = tmp_path / "fuzz.json", tmp_path / "fuzz.log.jsonl"
    fuzz.main(["--cases", "6", "--out", str(out), "--shares", "2"])
    assert tried == [0, 2, 4] and json.loads(out.read_text())["cases"] == 3
    log.write_text(log.read_text() + '{"seed": 5, "resu')
    fuzz.main(["--cases", "6", "--out", str(out)])
    record = json.loads(out.read_text())
    assert sorted(tried) == [0, 1, 2, 3, 4, 5]
    counts = {name: record[name] for name in ("planned", "cases", "kernels", "refused", "different_messages")}
    assert counts == {"planned": 6, "cases": 6, "kernels": 3, "refused": 2, "different_messages": 1}
    assert list(record["wrong"]) == ["4"] and "seed 4" in capsys.readouterr().out
    assert record["kinks"] == {"cases": 1, "largest_difference": 3e-14}
    assert record["dtypes"]["float64"] == {"kernels": 2, "largest_difference": 5e-14, "bound": 1e-10}
    assert record["layers"]["Dense"]["cases"] == 6

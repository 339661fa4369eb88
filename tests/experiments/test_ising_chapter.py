"""The paper profile of the Ising chapter."""

import pytest

import eqbook as eq

CUT = dict(
    train_configurations=4,
    watched=5,
    draws=128,
    widths=(3, 4, 5),
    sizes=(2, 4),
    records=(1, 3),
    lazy_widths=(3, 5),
    small_members=3,
    control_members=4,
    largest=dict(width=3, sizes=(2, 5)),
    choices=dict(width=3, widths=(3, 4), members=4, steps=(1, 3, 9), members_of_one_rate=3),
    resamples=3,
    at_once=4,
)
NOT_OF_THE_PROFILE = ("half of the test inputs, width", "moved_inputs")


@pytest.mark.slow
def test_records_what_it_measured(run_paper_profile):
    names, recorded = run_paper_profile("ising", CUT, skip=NOT_OF_THE_PROFILE)
    assert recorded.settings["sizes"] == [2, 4] and recorded.settings["temperature"] == 3.0
    for key, quantity in names["quantities"].items():
        assert recorded.quantity(key) == quantity
    assert recorded.values["curves"]["test_0"]["spread"] == names["spreads"]["test", 3].tolist()
    columns = [row[2:] for row in names["comparison"].rows if not isinstance(row, str)]
    assert len(columns) == 33
    assert all(middle == build for middle, build in columns), "this build is the recorded run"
    assert "recorded run: " in names["comparison"].note
    # Ensembles of 10,000 are a run of their own.
    largest = eq.results.read("ising_largest")
    assert largest.settings["width"] == 3 and largest.settings["sizes"] == [2, 5]
    for name in ("train", "test", "out"):
        assert [len(curve) for curve in largest.values["curves"][name].values()] == [3] * 8
        assert largest.quantity(f"{name}_ensemble").value == largest.values["curves"][name]["relative_std"][-1]
        assert all(0 < p <= 1 for p in largest.values[f"{name}_p"])
    # So are other choices.
    choices = eq.results.read("ising_choices")
    levels = choices.values["levels"]
    assert list(levels)[:5] == [f"width 3, {t} steps" for t in (1, 3, 9)] + ["width 4, 3 steps", "critical temperature"]
    assert list(levels)[-2:] == ["one rate, width 3", "one rate, width 4"] and len(levels) == 11
    again = names["train"](names["network"](4), names["data"], 4, 24, names["law"].rate, (1, 3))
    measured = names["all_measures"](again, names["law"], names["data"].watch)
    for key in ("test_members", "test_gap", "train_rms_gap"):
        stored = eq.results.Quantity.from_json(levels["width 4, 3 steps"][key])
        assert stored.value == pytest.approx(measured[key].value, rel=1e-6)
    for N, steps in ((3, 3), (4, 2)):
        assert len(choices.values["between"][f"test, width {N}"]) == steps
        assert len(choices.values["bound"][f"test, width {N}"]["shares"]) == 3


def test_the_settings_of_the_paper_are_those_of_the_paper(paper_settings):
    settings = paper_settings("ising")
    assert settings["train_configurations"] == 128 and settings["widths"] == (512, 1024, 2048)
    assert settings["sizes"] == settings["largest"]["sizes"] == (100, 316, 1000, 3162, 10_000)

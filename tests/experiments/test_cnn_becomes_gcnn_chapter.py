"""The paper profile of the chapter on augmented CNNs and GCNNs."""

import pytest

import eqbook as eq

CUT = dict(
    pool=4,
    fields=6,
    sizes=(1, 2),
    exact_widths=(1,),
    exact_members=(12,),
    exact_record=(0, 1, 4),
    law_fields=3,
    pictures=dict(histology=20),
    widths=dict(histology=2),
    members=dict(histology=12),
    record=(0, 1, 2),
    batch_size=10,
    adam_sets=("histology",),
    adam_members=12,
    causes=("histology", 4),
    draws=50,
)
FETCHED = {"fetch_mnist": "mnist", "fetch_nct_crc": "histology"}


@pytest.mark.slow
def test_records_what_it_measured(run_paper_profile, quick_to_compile):
    # An exercise that evaluates what was trained.
    names, recorded = run_paper_profile("cnn_becomes_gcnn", CUT, FETCHED, ("paired(f_both",))
    assert recorded.settings["sizes"] == [1, 2] and recorded.settings["at_once"] is None
    for key, quantity in names["quantities"].items():
        assert recorded.quantity(key) == quantity
    assert {f"share_{name}" for name in ("mnist", "histology", "histology_adam")} <= set(recorded.values)
    assert recorded.values["curves"]["histology"]["2"] == names["curves"]["histology"][2].tolist()
    causes = eq.results.read("cnn_becomes_gcnn_causes")
    assert {label: causes.quantity(label) for label in names["variations"]} == {
        label: names["found"][label] for label in names["variations"]
    }
    for table in ("comparison", "levels"):
        columns = [row[2:] for row in names[table].rows if not isinstance(row, str)]
        assert columns and all(middle == build for middle, build in columns), "this build is the recorded run"
    assert "recorded run: " in names["comparison"].note


def test_minibatches_hold_equal_numbers_of_pictures_on_both_sides(paper_settings):
    settings = paper_settings("cnn_becomes_gcnn")
    smallest = min(settings["pictures"].values())
    assert settings["batch_size"] <= smallest and settings["exact_pictures"] < smallest


def test_the_settings_of_the_paper_are_those_of_the_paper(paper_settings):
    settings = paper_settings("cnn_becomes_gcnn")
    assert settings["sizes"] == (1, 3, 8, 100) and settings["pool"] == 1
    assert settings["pictures"]["mnist"] == 60_000 and settings["pictures"]["cifar10"] == 50_000
    assert {1, 5, 10, 15, 20} <= set(settings["record"]) and max(settings["record"]) == 20
    assert settings["widths"]["histology"] == 2 * settings["widths"]["cifar10"]
    assert settings["members"]["histology"] == 20 * settings["sizes"][-1], "20 repetitions"

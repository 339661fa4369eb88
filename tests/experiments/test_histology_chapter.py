"""The paper profile of the histology chapter."""

import pytest

CUT = dict(
    orders=(4, 8),
    ensembles=(2, 4),
    train_images=32,
    validation_images=16,
    random_images=8,
    epochs=2,
    channels=(2, 3),
    hidden=4,
    batch_size=32,
    watch_batch=64,
    control_members=3,
    resamples=10,
)
FETCHED = {"fetch_nct_crc": "histology", "fetch_pathmnist": "histology"}


@pytest.mark.slow
def test_records_what_it_measured(run_paper_profile):
    # Checks that do not depend on the profile; variants and the last exercise, which train and evaluate like the rest.
    skip = ("rho(q) rho(g)", "turned_parameters", "flat_net", "the gain hinges", "never_shown")
    skip += ("by_level", "surplus.items()", "of_five.items()")
    names, recorded = run_paper_profile("histology", CUT, FETCHED, skip)
    assert recorded.settings["ensembles"] == [2, 4] and recorded.settings["at_once"] is None
    for key, quantity in names["quantities"].items():
        assert recorded.quantity(key) == quantity
    curves = recorded.values["curves"]
    assert curves["osp"]["c8 random"]["4"] == names["osp"][8, "random"][4].tolist()
    assert curves["quartiles"]["c8 tissue"] == names["quartiles"][8, "tissue"].tolist()
    columns = [row[2:] for row in names["comparison"].rows if not isinstance(row, str)]
    assert all(middle == build for middle, build in columns), "this build is the recorded run"
    assert "recorded run: " in names["comparison"].note


@pytest.mark.every(2)
@pytest.mark.parametrize("data", ["nct_crc", "pathmnist"])
def test_reads_either_data_set(run_paper_profile, data):
    later = ("rotat", "CNN", "turned_", "outputs", "osp", "scores", "relative", "largest_share", "floors", "gains")
    later += ("recorded",)
    names, recorded = run_paper_profile("histology", {**CUT, "data": data}, FETCHED, later)
    assert recorded is None
    assert names["images"].shape == (32, 32, 32, 3) and names["validation"].shape == (16, 32, 32, 3)
    assert names["class_names"] == ["little DAB", "much DAB"], "labels come with these data"


def test_the_settings_of_the_paper_are_those_of_the_paper(paper_settings):
    settings = paper_settings("histology")
    assert settings["data"] == "nct_crc"
    assert (settings["orders"], settings["ensembles"], settings["epochs"]) == ((4, 8, 12, 16), (5, 20), 20)
    assert settings["train_images"] + settings["validation_images"] == 10_000
    assert settings["train_images"] == 10_000 * 11 // 12
    assert 224 % settings["size"] == 0

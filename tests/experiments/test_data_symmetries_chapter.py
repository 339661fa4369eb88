"""The paper profile of the chapter on five symmetries of the data."""

import pytest

CUT = dict(
    shrink=8,
    hidden=1,
    windows=(2, 2),
    # Multiples of the training images: tiles of one shape.
    infinite_train=dict.fromkeys(("FCN", "VEC"), 16) | dict.fromkeys(("small", "large", "GAP"), 8),
    infinite_test=dict.fromkeys(("FCN", "VEC"), 16) | dict.fromkeys(("small", "large", "GAP"), 8),
    iterative_above=15,
    widths=dict(FCN=32, GAP=16),
    train_images=16,
    test_images=8,
    members=2,
    batch_size=8,
    stages=(1, 2),
    rate_images=8,
    at_once=2,
)
# Checks that do not depend on the profile.
SKIP = ("condition = ", "pixelwise = ", "turned_start", "diverged", "here_and_there")


@pytest.mark.slow
def test_records_what_it_measured(run_paper_profile):
    names, recorded = run_paper_profile("data_symmetries", CUT, {"fetch_cifar10": "cifar10"}, SKIP)
    for key, quantity in names["quantities"].items():
        assert quantity in (recorded.quantity(key), recorded.values[key])
    assert {f"inf_{kind}_extrapolated" for kind in ("FCN", "VEC", "small", "large", "GAP")} <= set(recorded.values)
    assert len([key for key in recorded.values if key.startswith("inf_") and "extra" not in key]) == 30
    trained = [key for key in recorded.values if key.startswith("NN") and key.count("_") == 2]
    assert len(trained) == 20, "five symmetries, two of the models, two ways to train"
    assert set(names["curves"]["FCN", "identity"]) == {2, 4, 8, 16}
    columns = [row[2:] for row in names["comparison"].rows if not isinstance(row, str)]
    assert all(middle == build for middle, build in columns), "this build is the recorded run"


def test_the_settings_of_the_paper_are_those_of_the_paper(paper_settings):
    settings = paper_settings("data_symmetries")
    assert (settings["shrink"], settings["hidden"], settings["windows"]) == (1, 8, (4, 8))
    assert settings["widths"] == dict(FCN=1024, LCN=32, VEC=128, small=128, large=128, GAP=128)
    assert settings["infinite_train"]["FCN"] == settings["infinite_train"]["VEC"] == 45_000
    assert settings["train_images"] == 45_000 and settings["members"] == 5 and settings["batch_size"] == 40
    assert settings["classes"] == 10 and len(settings["symmetries"]) == 5 and settings["stages"][-1] == 900

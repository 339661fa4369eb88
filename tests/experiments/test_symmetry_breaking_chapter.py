"""The paper profile of the chapter on finite width and broken symmetries."""

import pytest

CUT = dict(
    side=4,
    hidden=1,
    train_images=12,
    test_images=9,
    widths=(2, 3),
    members={2: 3, 3: 2},
    path_widths=(3,),
    times=(1.0,),
    rates={"NN": 0.02, "NN+": 0.16},  # so narrow networks diverge at those of the paper
    batch_size=6,
    epochs=2,
    record=(1, 2),
    ridge=1e-3,
    pooled_images=4,
    kernel_widths=(2, 4),
    kernel_networks=60,
    kernel_draws=1,
    part=3,
    watch_batch=5,
)
ONLY_CHECKS = ("colours = np.array", "swap = np.array", "shares = []")


@pytest.mark.slow
def test_records_what_it_measured(run_paper_profile, quick_to_compile):
    names, recorded = run_paper_profile("symmetry_breaking", CUT, {"fetch_cifar10": "cifar10"}, ONLY_CHECKS)
    assert recorded.settings["widths"] == [2, 3] and recorded.settings["centred"] is False
    quantities = names["quantities"]
    assert {f"accuracy_{m}_normal_{r}_3" for m in ("clean", "rotated") for r in ("NN", "NN_plus")} <= set(quantities)
    assert {"pooled_1.0_3", "pooled_means_0.0_3", "uniform_accuracy_3", "slope_gap_NN"} <= set(quantities)
    assert "accuracy_1.0_normal_NN_plus_2" not in quantities, "width 2 is not one of the path"
    for key, quantity in quantities.items():
        assert recorded.quantity(key) == quantity
    rows = [row for row in names["comparison"].rows if not isinstance(row, str)]  # the others are headings
    columns = [row[2:] for row in rows if row[3] != "–"]
    assert columns and all(middle == build for middle, build in columns), "this build is the recorded run"
    assert "recorded run: " in names["comparison"].note


def test_the_settings_of_the_paper_are_those_of_the_paper(paper_settings):
    settings = paper_settings("symmetry_breaking")
    assert settings["widths"] == (16, 32, 64, 128, 256, 512, 1024)
    assert (settings["train_images"], settings["test_images"], settings["side"]) == (45_000, 10_000, 32)
    assert (settings["hidden"], settings["batch_size"], settings["momentum"]) == (8, 40, 0.9)
    assert settings["rates"] == {"NN": 1, "NN+": 8} and settings["weight_decay"] == {"NN": 0, "NN+": 1e-7}
    assert settings["epochs"] * settings["train_images"] // 40 >= 1e6
    assert min(settings["members"][width] for width in settings["widths"]) == 5
    assert all(settings["members"][width] == 10 for width in settings["path_widths"])
    assert not settings["centred"]

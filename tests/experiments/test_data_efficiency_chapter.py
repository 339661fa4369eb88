"""The paper profile of the chapter on learning curves."""

import pytest

CUT = dict(
    side=4,
    hidden=1,
    pool=40,
    test_images=30,
    groups=((5, 8, 12, 20, 40), (80,)),
    widths=dict(VEC=3, LCN=2),
    data=dict(VEC=("clean", "rotated"), LCN=("clean", "rotated")),
    runs=2,
    batch_size=5,
    steps=32,
    record=(0.5, 1),
    rate=0.1,
    iterative_above=30,
    ridge=1e-2,
    rate_images=20,
    watch_batch=20,
)
# Checks that do not depend on the profile.
SKIP = ("COUNT = 500", "shapes = {", "needed = {}")


@pytest.mark.slow
def test_records_what_it_measured(run_paper_profile, quick_to_compile):
    names, recorded = run_paper_profile("data_efficiency", CUT, {"fetch_cifar10": "cifar10"}, SKIP)
    assert list(names["sizes"]) == [5, 8, 12, 20, 40, 80]
    outputs = names["outputs"]
    assert set(outputs) == {"VEC_inf", *(f"{k}_N {m}" for k in ("VEC", "LCN") for m in ("clean", "rotated"))}
    assert outputs["LCN_N rotated"].shape == (2, 6, 2, 1, 30, 10)
    quantities = names["quantities"]
    for key, quantity in quantities.items():
        assert recorded.quantity(key) == quantity
    assert {"bend_vec_n_clean_over_rotated", "after_lcn_n_clean", "error_vec_inf_80", "p_bend_vec_inf"} <= set(
        quantities
    )
    assert "ratio_lcn_n_clean_over_rotated_5" in quantities
    columns = [row[2:] for row in names["comparison"].rows if not isinstance(row, str)]
    assert all(middle == build for middle, build in columns), "this build is the recorded run"


def test_the_settings_of_the_paper_are_those_of_the_paper(paper_settings):
    settings = paper_settings("data_efficiency")
    sizes = sum(settings["groups"], ())
    assert sizes[0] == 320 and sizes[-2:] == (45_000, 90_000) and settings["pool"] == 45_000
    assert all(2 <= b / a < 2.2 for a, b in zip(sizes, sizes[1:]))
    assert (settings["side"], settings["hidden"], settings["classes"]) == (32, 8, 10)
    assert settings["widths"] == dict(VEC=128, LCN=32) and settings["test_images"] == 10_000
    assert (settings["batch_size"], settings["steps"], settings["rate"]) == (40, 1_000_000, 8)
    assert settings["weight_decay"] == 1e-7 and settings["runs"] == 5

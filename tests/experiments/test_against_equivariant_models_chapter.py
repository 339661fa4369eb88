"""The paper profile of the chapter on networks that are invariant by construction."""

import pytest

import eqbook as eq

CUT = dict(
    groups=(4,), members=4, seeds=2, train_images=32, watched_images=20, epochs={4: 1}, channels=(2,),
    hidden=8, score_features=(2,), kernel_size=3, halvings=1, batch_size=32, at_once=1, generator="rbg",
    watch_batch=40, rival_rates=dict(factors=(1, 2), networks=2),
    all_images=dict(methods=("canonical",), images=64, epochs=1),
)  # fmt: skip
FETCHED = {"fetch_fashion_mnist": "fashion_mnist", "fetch_mnist": "mnist"}
# Checks that do not depend on the profile, each with programs of its own to compile.
SKIP = ("group_law_error", "gradients(", "upright_only", "canonicaliser", "strided", "sharper", "outside.mean")


@pytest.mark.slow
def test_records_what_it_measured(run_paper_profile):
    names, recorded = run_paper_profile("against_equivariant_models", CUT, FETCHED, SKIP)
    assert recorded.settings["members"] == 4 and recorded.settings["seeds"] == 2
    for key, quantity in names["quantities"].items():
        assert recorded.quantity(key) == quantity
    for method in ("ensemble", "single", "steerable", "canonical"):
        cost = recorded.values["cost"][f"{method}_4"]
        assert all(number > 0 for number in cost.values())
    assert recorded.quantity("osp_steerable_4").value == recorded.quantity("osp_GCNN_4").value == 4
    rows = [
        row for table in ("comparison", "accuracy_comparison") for row in names[table].rows if not isinstance(row, str)
    ]
    assert all(middle == build for *_, middle, build in rows), "this build is the recorded run"
    assert names["comparison"].rows[0] == "C₄" and rows[0][1] == "3.85 ± 0.12"
    for row in names["training_comparison"].rows[1:]:
        assert row[1] == row[2] and row[3] == row[4]
    rates, on_all = eq.results.read("against_rates"), eq.results.read("against_all_images")
    assert rates.values["canonical_4_2"]["osp_fashion"]["value"] == on_all.quantity("osp_fashion_canonical").value == 4
    assert rates.quantity("osp_ensemble - canonical_4_1").value <= 0
    run, _ = names["train"](("canonical", 4), *names["augmented"][4], 2, 2)
    scores = names["predict"](run, ("canonical", 4), names["watch"][4]["FashionMNIST"])
    assert rates.values["canonical_4_2"]["accuracy"]["value"] == names["right"](scores[:, :1]).mean() > 0


def test_the_settings_of_the_paper_are_those_of_the_paper(paper_settings):
    settings = paper_settings("against_equivariant_models")
    assert (settings["members"], settings["train_images"]) == (100, 60_000)
    assert settings["groups"] == (4, 8, 16) and settings["watched_images"] == 10_000

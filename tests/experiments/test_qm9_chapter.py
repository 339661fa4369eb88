"""The paper profile of the QM9 chapter."""

import numpy as np
import pytest

import eqbook as eq

CUT = dict(
    train_sizes=(4, 8, 16),
    slot_pool=16,
    element_pool=8,
    single_pool=8,
    validation=6,
    test=10,
    compare_at=8,
    small_at=4,
    moved=2,
    rules_at=(8, 16),
    signals_at=(4, 8),
    quadrature=3,
    element_quadrature=3,
    icosahedron_pools=(8, 16, 8, 4),
    mlp_pool=16,
    mlp_element_pool=8,
    coulomb_pool=8,
    rule_pool=8,
    dense_up_to=8,
    all_ridges_up_to=8,
    rank=4,
    tile=96,
)
# Checks that do not depend on the profile, and need kernels of their own.
SKIP = ("variants = {", "turning = {", "mixed_slots = ", "left.barh(", "relu_dual", "place = slice(start")


@pytest.mark.slow
def test_records_what_it_measured_and_solves_the_largest_by_iteration(run_paper_profile):
    names, recorded = run_paper_profile("qm9", CUT, {"fetch_qm9": "qm9"}, SKIP)
    assert recorded.settings["slot_pool"] == 16
    for key, quantity in names["quantities"].items():
        assert recorded.quantity(key) == quantity
    assert recorded.values["curves"]["SO(3), slots centred"]["16"] == names["mae"]["SO(3), slots", "centred"][16]
    columns = [row[2:] for row in names["comparison"].rows if not isinstance(row, str)]
    assert all(middle == build for middle, build in columns if build != "–"), "this build is the recorded run"
    assert {build for _, build in columns} != {"–"}
    assert "recorded run: " in names["comparison"].note

    # training sets of one size are disjoint: 4 of 4 molecules, 1 of 16
    assert [names["errors"]["SO(3), slots", "centred"][n].shape for n in (4, 16)] == [(4, 10), (1, 10)]

    gram, y = names["grams"]["SO(3), slots"][0][0], names["energies"][:16]
    assert np.linalg.eigvalsh(gram)[0] > 0
    iterated = names["all_ridges"](gram, y[:, None])  # 16 > dense_up_to
    names["settings"]["dense_up_to"] = 16
    dense = names["all_ridges"](gram, y[:, None])
    for ridge, found, exact in zip(names["settings"]["ridges"], iterated, dense, strict=True):
        condition = 16 / ridge + 1  # at most: the trace, over the ridge times the mean of the diagonal
        assert np.isnan(found).all() or np.linalg.norm(found - exact) <= 1e-6 * condition * np.linalg.norm(exact)
    assert np.isfinite(iterated[-9:]).all()  # ridges from 1e-4 on

    # on the icosahedron: the record has what the cell kept, and 16 molecules were solved by factors
    record, kept = eq.results.read("qm9_icosahedron"), names["sixty"]
    assert list(kept) == [
        "slots",
        "slots, smooth",
        "elements, smooth",
        "single, smooth",
        "MLP, slots",
        "MLP, elements",
        "SO(3), slots, smooth",
        "Coulomb matrix",
    ]
    sizes = [[4, 8], [4, 8, 16], [4, 8], [4], [4, 8, 16], [4, 8], [4, 8], [4, 8]]
    assert [list(curve) for curve in kept.values()] == sizes
    for name in ("MLP, slots", "MLP, elements", "Coulomb matrix"):  # by factors and by the chapter's other solvers
        for size, found in kept[name].items():
            for target, tested in found["errors"].items():
                np.testing.assert_allclose(tested, names["errors"][name, target][size], rtol=1e-3, atol=1)
    for name, curve in kept.items():
        for size, found in curve.items():
            for target, tested in found["errors"].items():
                value = record.values[f"{name}, {target}, {size}"]
                assert value["mae"]["value"] == tested.mean() and value["sets"] == len(tested)
                assert value["ridges"] == found["ridges"][target]
    # other signals: the published ones, with its std, are those of the icosahedron above; no gain over themselves
    signals = eq.results.read("qm9_signals").values
    assert len(signals) == len(names["SIGNALS"]) * 3 * 2
    for size in (4, 8):
        for target in ("centred", "uncentred", "dressed"):
            one = signals[f"as published, {target}, {size}"]
            assert one["gain"]["value"] == 0
            first = kept["elements, smooth"][size]["errors"][target][0].mean()
            by_std = one["by_std"]
            assert by_std[str(names["smooth"])] == pytest.approx(first, rel=1e-3)
            assert one["mae"]["value"] == by_std[str(one["std"])] and len(by_std) == 3
    everything = range(len(names["settings"]["ridges"]))
    found = names["by_factors"](gram.copy(), y[:, None], everything)
    np.testing.assert_allclose(found[-9:], dense[-9:], rtol=1e-9)


def test_the_settings_of_the_paper_are_those_of_the_paper(paper_settings):
    settings = paper_settings("qm9")
    published = (16, 24, 48, 96, 128, 256, 512, 1024, 3072, 4096)
    assert settings["train_sizes"][: len(published)] == published
    assert settings["train_sizes"][-1] == settings["slot_pool"] == 32_768
    assert settings["test"] >= 10_000 and settings["slot_pool"] + settings["validation"] + settings["test"] <= 130_831
    # those of which the chapter counts the tiles
    assert settings["icosahedron_pools"] == (8192, 32_768, 8192, 1024)
    assert (settings["slot_pool"], settings["element_pool"], settings["single_pool"]) == (32_768, 8192, 1024)
    assert settings["ridges"][0] <= 5e-5 <= settings["ridges"][-1]

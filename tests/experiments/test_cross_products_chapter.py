"""The paper profile of the chapter on cross products."""

import numpy as np
import pytest

import eqbook as eq

CUT = dict(widths=(5, 6, 7), members=8, examples=2, steps=3, watched=3, rotations=3)
SEARCH = dict(
    members=4,
    repeats=2,
    watched=3,
    batch_size=8,
    steps=(1, 2, 4),
    tried={
        "16 pairs": ("normal", 1.0, 2, 3, "usual", "adam", 2e-3),
        "theory": ("uniform", 1.0, 2, 3, "theory", "adam", 2e-2),
        "unit vectors": ("unit", 1.0, 9, 3, "usual", "sgd", 1e-3),
    },
)
ADAM = dict(learning_rate=2e-3, batch_size=16, epochs=1)
# What does not depend on the profile: the coupled runs, and sets of rotations at infinite width.
SKIP = (
    "def coupling_residual",
    "coupling_residual(optax.adam",
    "def equivariance_residual",
    "def uniform_pairs",
    "of_subsets",
    "fixed_vectors(",
    "spectra",
)


@pytest.mark.slow
def test_records_what_it_measured(run_paper_profile):
    changes = {**CUT, "adam": ADAM, "search": SEARCH}
    names, recorded = run_paper_profile("cross_products", changes, skip=SKIP)
    assert recorded.settings["members"] == 8 and recorded.settings["adam"]["epochs"] == 1
    for key, quantity in names["quantities"].items():
        assert recorded.quantity(key) == quantity
    curves = recorded.values["curves"]
    assert curves["sizes"] == [1, 2, 3, 4, 5, 6, 8] and set(curves["a_and_b"]) == set(curves["orbit_mse"])
    a, b = curves["a_and_b"]["cube 6 test"]
    np.testing.assert_allclose(curves["orbit_mse"]["cube 6 test"][0], a + b, rtol=1e-9)
    np.testing.assert_allclose(curves["orbit_mse"]["cube 6 test"][-1], a + b / 8, rtol=1e-9)
    # the search: a and b of each setting and width, for each kind of inputs, repeat and number of steps
    search = eq.results.read("cross_products_search")
    assert search.settings["search"]["repeats"] == 2 and "adam" not in search.settings
    assert set(search.values) == {f"{label}, {width}" for label in SEARCH["tried"] for width in CUT["widths"]}
    for found in search.values.values():
        assert {"train", "test", "one length", "other law"} < set(found)
        assert all(np.shape(each) == (2, 3, 2) for each in found.values())
    assert names["miss"].keys() == SEARCH["tried"].keys() and min(names["miss"].values()) > 1
    groups = [row for row in names["comparison"].rows if not isinstance(row, str)]
    assert len(groups) == 12 and all(row[1:3] == row[3:] for row in groups), "this build is the recorded run"
    exponents = [row for row in names["table_of_exponents"].rows if not isinstance(row, str)]
    assert all(middle == build for _, middle, build in exponents)
    for table in ("a", "b"):
        of = {"recorded run": [], "this build": []}
        for label, *cells in (row for row in names[f"table_of_{table}"].rows if row[0] in of):
            of[label].append(cells)
        assert of["recorded run"] == of["this build"] and len(of["this build"]) >= 4
    of, heading = {}, None
    for row in names["table_of_others"].rows:
        heading = row if isinstance(row, str) else heading
        of.setdefault(heading, []).extend([] if isinstance(row, str) else [row])
    for name in ("Adam, cube", "Adam, random subset"):
        assert of[f"{name}, recorded run"] == of[f"{name}, this build"] and len(of[f"{name}, this build"]) == 2
    assert "recorded run: " in names["comparison"].note


def test_the_settings_of_the_paper_are_those_of_the_paper(paper_settings):
    settings = paper_settings("cross_products")
    assert settings["widths"] == (128, 181, 256) and settings["members"] >= 20

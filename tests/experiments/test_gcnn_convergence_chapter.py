"""The paper profile of the chapter on the convergence of group convolutional networks."""

from types import SimpleNamespace

import numpy as np
import pytest

import eqbook as eq

CUT = dict(
    side=4,
    widths=(2, 7),
    networks=(20, 20),
    d4_activations=(),
    so3_activations=(),
    bias_widths=(1,),
    bias_second=1,
    bias_networks=(60,),
    other_bias=(("D_4", "erf"),),
    bias_again=(7,),
    shallow_networks=60,
    stored_widths=(1,),
    stored_pool=10,
    picture_networks=30,
)
ONLY_CHECKS = (
    "def from_first_layer",
    "relu_body",
    "on_theory = limits",
    "c4_16",
    "white_factor",
)


def stand_in(net, x):
    """Two kernels that are quick to compute, in place of the exact ones, far above those of the tiny networks."""
    flat = np.asarray(x).reshape(len(x), -1)
    nngp = 10 + flat @ flat.T / flat.shape[1]
    return SimpleNamespace(nngp=nngp, ntk=2 * nngp + 1)


@pytest.fixture
def no_exact_kernels(monkeypatch):
    """The chapter's own test and those of `eq.gram` compute them."""
    monkeypatch.setattr(eq, "gram", stand_in)


@pytest.mark.slow
def test_records_what_it_measured(run_paper_profile, quick_to_compile, no_exact_kernels):
    names, recorded = run_paper_profile("gcnn_convergence", CUT, skip=ONLY_CHECKS)
    assert recorded.settings["widths"] == [2, 7]
    for key, quantity in names["quantities"].items():
        assert recorded.quantity(key) == quantity
    noise = recorded.values["measured"]["noise"]["C_4 erf ntk"]
    assert noise == {str(N): value for N, (value, _) in names["noise"]["C_4", "erf", "ntk"].items()}
    found = recorded.values["measured"]["other_bias"]["D_4 erf features"]
    assert found == {"1": list(names["other_bias"]["D_4", "erf"]["features"][1])}
    again = eq.results.read("gcnn_convergence_again").values["7"]
    assert again["ntk"] == {"1": list(names["again"]["7"]["ntk"][1])}
    for table in ("comparison", "stored_table", "exponent_table"):
        columns = [row[-2:] for row in names[table].rows if not isinstance(row, str)]
        assert columns and all(middle == build for middle, build in columns), "this build is the recorded run"
    rows = [row for row in names["needed_table"].rows if not isinstance(row, str)]
    recorded_rows = rows[: -len(names["several"])]  # the last ones, with the edge, are not recorded
    assert len(recorded_rows) == 8 and all(row[1:3] == row[3:] for row in recorded_rows)
    assert "recorded run: " in names["comparison"].note


def test_the_settings_of_the_paper_are_those_of_the_paper(paper_settings):
    settings = paper_settings("gcnn_convergence")
    assert settings["widths"] == (1, 2, 3, 7, 12, 23, 80)
    assert settings["stored_widths"] == (1, 2, 4, 8)
    assert settings["side"] == 16
    for plan in ("", "d4_", "so3_", "bias_"):
        assert len(settings[f"{plan}widths"]) == len(settings[f"{plan}networks"])

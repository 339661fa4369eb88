"""The paper profile of the FashionMNIST chapter."""

import pytest

import eqbook as eq

CUT = dict(
    members=4,
    train_images={4: 16, 8: 8, 16: 4},
    watched_images=10,
    epochs=2,
    channels=(2, 3),
    batch_size=32,
    watch_batch=40,
    control_members=3,
    choice_members=2,
)
FETCHED = {"fetch_fashion_mnist": "fashion_mnist", "fetch_mnist": "mnist", "fetch_cifar10": "cifar10"}


@pytest.mark.slow
def test_records_what_it_measured(run_paper_profile):
    names, recorded = run_paper_profile("fashion_mnist", CUT, FETCHED, ("coupling_residual",))
    assert recorded.settings["members"] == 4 and recorded.settings["at_once"] is None
    assert {f"osp_{name}_ensemble_c{k}" for name in ("mnist", "fashion", "cifar") for k in (4, 8, 16)} <= set(
        names["quantities"]
    )
    for key, quantity in names["quantities"].items():
        assert recorded.quantity(key) == quantity
    assert recorded.values["curves"]["osp"]["16"]["MNIST"]["2"] == names["curves"][16]["MNIST"][2].tolist()
    columns = [row[2:] for row in names["comparison"].rows if not isinstance(row, str)]
    assert all(middle == build for middle, build in columns), "this build is the recorded run"
    assert "recorded run: " in names["comparison"].note
    choices = eq.results.read("fashion_mnist_choices").values
    assert set(choices) == set(names["more_choices"])
    assert choices["as above"]["MNIST"]["members"] == names["own"][4]["MNIST"][:, :2].tolist()


def test_the_settings_of_the_paper_are_those_of_the_paper(paper_settings):
    settings = paper_settings("fashion_mnist")
    assert settings["orders"] == (4, 8, 16)
    assert settings["train_images"] == dict.fromkeys((4, 8, 16), 60_000)
    assert (settings["members"], settings["epochs"], settings["watched_images"]) == (100, 10, 10_000)

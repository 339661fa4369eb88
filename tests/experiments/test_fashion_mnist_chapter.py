"""The paper profile of the FashionMNIST chapter."""

CUT = dict(members=4, train_images=48, watched_images=24, epochs=3, channels=(2, 3), batch_size=32, watch_batch=50)
FETCHED = {"fetch_fashion_mnist": "fashion_mnist", "fetch_mnist": "mnist"}


def test_records_what_it_measured(run_paper_profile):
    names, recorded = run_paper_profile("fashion_mnist", {**CUT, "control_members": 3}, FETCHED, ("coupling_residual",))
    assert recorded.settings["members"] == 4 and recorded.settings["at_once"] is None
    for key, quantity in names["quantities"].items():
        assert recorded.quantity(key) == quantity
    assert recorded.values["curves"]["osp"]["MNIST"]["2"] == names["osp"]["MNIST"][2].tolist()
    columns = [row[2:] for row in names["comparison"].rows]
    assert all(middle == build for middle, build in columns), "this build is the recorded run"
    assert "recorded run: " in names["comparison"].caption


def test_the_settings_of_the_paper_are_those_of_the_paper(paper_settings):
    settings = paper_settings("fashion_mnist")
    assert (settings["members"], settings["train_images"], settings["epochs"]) == (100, 60_000, 10)

"""The paper profile of the chapter on continuous rotations."""

import pytest

import eqbook as eq

CUT = dict(
    members=3,
    baseline_members=2,
    train_images=12,
    equal_steps=True,  # all groups, and the batches watched, have the same shapes: one program serves all
    epochs=2,
    watched_images=10,
    angles=3,
    profile_images=5,
    channels=(2, 3),
    batch_size=12,
    variant_members=2,
    choices=dict(members=2, epochs=(1, 2), rate=3e-3),
    kernel_images=4,
    kernel_watched=3,
    at_once=1,
    watch_batch=40,
)
FETCHED = {"fetch_fashion_mnist": "fashion_mnist", "fetch_mnist": "mnist", "fetch_cifar10": "cifar10"}
# Choices varied at the end do not depend on the profile; nor do bounds and exercises at infinite width.
SKIP = ("group_law_error", "turn_to_nearest", "random_rotation_fraction", "pytorch_start")
INFINITE = ("infinite_nets", "exact_case", "exact[", "pixels[", "covering(", "rings[", "part_of_c16")


@pytest.mark.slow
def test_records_what_it_measured(run_paper_profile):
    names, recorded = run_paper_profile("continuous_rotations", CUT, FETCHED, SKIP + INFINITE)
    assert recorded.settings["members"] == 3 and recorded.settings["at_once"] == 1
    for key, quantity in names["quantities"].items():
        assert recorded.quantity(key) == quantity
    assert recorded.values["curves"]["ensemble"]["16"]["MNIST"] == names["ensemble"][16]["MNIST"].tolist()
    columns = [row[2:] for row in names["comparison"].rows if not isinstance(row, str)]
    assert all(middle == build for middle, build in columns), "this build is the recorded run"
    assert "recorded run: " in names["comparison"].note
    choices = eq.results.read("continuous_rotations_choices").values
    labels = ("three times the rate", "momentum", "maxima", "tanh")
    assert list(choices) == [f"{label}, {k}" for label in labels for k in (4, 16)]
    by_tanh = choices["tanh, 16"]
    assert [len(row) for row in by_tanh["members"]] == [2, 2] and len(by_tanh["ensemble"]) == 2
    assert 0 <= min(by_tanh["accuracy"]) and by_tanh["members"] != choices["maxima, 16"]["members"]
    pooled = names["max_pool"](names["x"][:2])
    assert pooled.shape == (2, 14, 14, 1)
    assert pooled[1, 3, 5, 0] == names["x"][1, 6:8, 10:12, 0].max()
    for equal_steps, copies in ((True, 2), (False, 1)):
        names["settings"]["equal_steps"] = equal_steps
        assert len(names["training_set"](8)[0]) == copies * 8 * 12


def test_the_settings_of_the_paper_are_those_of_the_paper(paper_settings):
    settings = paper_settings("continuous_rotations")
    assert settings["orders"] == (1, 4, 8, 16)
    assert settings["equal_steps"] is False and settings["at_once"] is None
    assert (settings["members"], settings["train_images"], settings["epochs"]) == (100, 60_000, 10)

"""The paper profile of the chapter on large models, with a folder of pictures that looks like ImageNet."""

import numpy as np
import pytest

CUT = dict(
    networks=("small Mixer",),
    permuted=("small Mixer",),
    side=8,
    largest=48,
    i=(5, 4, 3, 2, 1, 0),
    test=20,
    seeds=2,
    epochs=2,
    batch_size=8,
    imagenet_networks=("small Mixer",),
    imagenet_side=8,
    imagenet_i=(2, 1, 0),
    imagenet_epochs=1,
    imagenet_batch_size=8,
)


@pytest.fixture
def pictures(tmp_path):
    """Ten classes of three training pictures and one test picture."""
    Image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(0)
    for split, count in (("train", 3), ("val", 1)):
        for label in range(10):
            folder = tmp_path / "pictures" / split / f"n{label}"
            folder.mkdir(parents=True)
            for k in range(count):
                Image.fromarray(rng.integers(0, 255, (12, 14, 3), np.uint8)).save(folder / f"{k}.JPEG")
    return tmp_path / "pictures"


def test_records_what_it_measured(run_paper_profile, pictures):
    names, recorded = run_paper_profile(
        "large_models", CUT | {"imagenet": str(pictures)}, {"fetch_cifar10": "cifar10"}, ("coupled = {}",)
    )
    expected = {f"{kind}_small_mixer_{title}" for kind in ("slope", "bend", "error") for title in ("clean", "turned")}
    expected |= {"gap_small_mixer", "error_small_mixer_permuted", "permuted_train_small_mixer"}
    expected |= {"imagenet_gap_small_mixer", "imagenet_slope_small_mixer_turned"}
    assert expected <= set(names["quantities"])
    for key, quantity in names["quantities"].items():
        assert recorded.quantity(key) == quantity
    assert recorded.values["curves"]["sizes"] == [8, 12, 17, 24, 34, 48]
    assert recorded.values["curves"]["imagenet_sizes"] == [15, 21, 30]
    assert names["folder_wrong"]["small Mixer", "clean"].shape == (3, 2, 10)
    assert "recorded run: " in names["comparison"].note
    sizes = 1000 * 2.0 ** np.arange(9)  # two lines that meet at 8,000
    errors = 0.9 * sizes**-0.1 * np.maximum(sizes / 8000, 1) ** -0.35
    np.testing.assert_allclose(names["two_phases"](sizes, errors), (0.45, 8000))


def test_the_settings_of_the_paper_are_those_of_the_paper(paper_settings):
    settings = paper_settings("large_models")
    assert settings["networks"] == ("ResNet-18", "ResNet-50", "ResNet-101", "Mixer S/4")
    assert (settings["side"], settings["largest"], settings["test"]) == (32, 50_000, 10_000)
    assert sorted(settings["i"]) == sorted(settings["imagenet_i"]) == list(range(13))
    assert (settings["epochs"], settings["imagenet_epochs"], settings["seeds"]) == (150, 150, 3)
    assert (settings["base_rate"], settings["weight_decay"], settings["imagenet_side"]) == (0.1, 1e-4, 224)

"""The sizes of the paper profiles go together, where a cell far behind the training takes one that another made.

The runs of the neighbouring tests have sizes of their own, and leave cells out: they do not see the paper's.
"""

import json
from pathlib import Path

import numpy as np
import pytest

import eqbook as eq

BOOK = Path(eq.__file__).resolve().parents[1] / "book"
RECORDED = [p for p in sorted((BOOK / "results").glob("*.json")) if (BOOK / "experiments" / f"{p.stem}.md").exists()]


def test_groups_that_are_compared_are_trained(paper_settings):
    settings = paper_settings("against_equivariant_models")
    assert {4, 8} <= set(settings["groups"]) == set(settings["epochs"])
    assert all(n % 4 == 0 for n in settings["groups"]), "each has the quarter turns"
    assert settings["members"] > 1 and settings["seeds"] > 1, "errors over networks"
    settings = paper_settings("fashion_mnist")
    assert {4, 16} <= set(settings["orders"]) == set(settings["train_images"])
    assert 2 < settings["control_members"] <= settings["members"]
    settings = paper_settings("histology")
    assert {4, 8, 12} <= set(settings["orders"])
    assert settings["control_members"] <= max(settings["ensembles"]), "compared with as many of the main run"
    settings = paper_settings("continuous_rotations")
    assert {1, 4, 8, 16} <= set(settings["orders"]) and max(settings["orders"]) == 16
    assert max(settings["baseline_members"], settings["variant_members"]) <= settings["members"]
    assert settings["epochs"] >= 3, "the last three are averaged"
    assert settings["profile_images"] <= settings["watched_images"]


def test_batches_are_no_larger_than_the_data(paper_settings):
    settings = paper_settings("large_models")
    for prefix in ("", "imagenet_"):
        total = settings["largest"] if not prefix else 1_281_167
        sizes = [round(total * 2 ** (-i / 2)) for i in settings[prefix + "i"]]
        assert min(sizes) >= settings[prefix + "batch_size"] and len(sizes) >= 6, "a bend is looked for"
    assert set(settings["permuted"]) <= set(settings["networks"])
    settings = paper_settings("data_efficiency")
    sizes = sum(settings["groups"], ())
    assert settings["pool"] in sizes and max(sizes) <= 2 * settings["pool"], "the pool, and its flips"
    assert min(sizes) >= settings["batch_size"] and len(sizes) >= 5
    epochs = [round(settings["steps"] * settings["batch_size"] / max(group)) for group in settings["groups"]]
    records = [{max(1, round(share * count)) for share in settings["record"]} for count in epochs]
    assert {len(one) for one in records} == {len(settings["record"])}, "curves of one length"


def test_every_width_has_its_members(paper_settings):
    settings = paper_settings("symmetry_breaking")
    assert set(settings["members"]) == set(settings["widths"]) >= set(settings["path_widths"])
    assert min(settings["members"].values()) > 1 and settings["epochs"] in settings["record"]
    assert settings["batch_size"] % settings["part"] == 0
    assert max(settings["pooled_images"], 40) <= settings["train_images"]
    assert set(settings["rates"]) <= set(settings["weight_decay"])
    settings = paper_settings("cnn_becomes_gcnn")
    assert len(settings["exact_widths"]) == len(settings["exact_members"])
    assert set(settings["pictures"]) == set(settings["widths"]) == set(settings["members"])
    assert settings["law_fields"] <= settings["fields"]
    steps = set(settings["exact_record"])
    assert any(4 * t in steps for t in steps - {0}), "CNNs of four times the steps"
    settings = paper_settings("ising")
    assert settings["sizes"][0] * 10 <= min(settings["small_members"], settings["control_members"])
    assert len(settings["widths"]) == 3, "the paper's curves lie beside them"


def test_kernels_of_one_size_are_compared(paper_settings):
    settings = paper_settings("data_symmetries")
    train, test = settings["infinite_train"], settings["infinite_test"]
    assert train.keys() == test.keys() and set(settings["widths"]) <= {"LCN", *train}
    # Another transformation of the test images: at most 1000 images, a size that was computed.
    vec = {train["GAP"] // 4, train["GAP"] // 2, train["GAP"], train["VEC"]}
    assert min(train["VEC"], 1000) in vec
    assert all(train["GAP"] <= train[kind] and test["GAP"] <= test[kind] for kind in train)
    assert settings["train_images"] <= train["VEC"] or settings["train_images"] <= 50_000
    assert settings["symmetries"][0] == "identity", "the others are compared with the first"
    assert all(32 // settings["shrink"] % window == 0 for window in settings["windows"])
    settings = paper_settings("qm9")
    assert settings["small_at"] in settings["train_sizes"], "errors of this size are looked up"
    settings = paper_settings("kernel_regression")
    assert 8 in settings["train_sizes"]["histology"], "the size of the notebook"
    assert 1e-4 in settings["ridges"]
    assert 32 % settings["sides"]["pictures"] == 28 % settings["sides"]["clothes"] == 0
    images = {"clothes": 70_000, "pictures": 60_000, "histology": 100_000}
    for name, sizes in settings["train_sizes"].items():
        assert list(sizes) == sorted(sizes)
        wanted = settings["pools"][name] * sizes[-1] + settings["validation"][name] + settings["test"][name]
        assert wanted <= images[name]


def test_the_kernel_at_finite_width_has_enough_networks(paper_settings):
    settings = paper_settings("gcnn_convergence")
    assert settings["picture_networks"] >= 6000, "an exponent in their number, up to 3000"
    assert np.all(np.diff(settings["widths"]) > 0) and settings["widths"][0] == 1
    settings = paper_settings("cross_products")
    assert len(settings["widths"]) > 1 and settings["members"] > 1


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_a_chapter_takes_the_settings_of_its_recorded_run(paper_settings, monkeypatch, path):
    used = dict(eq.results.read(path.stem).settings)
    monkeypatch.setenv("EQBOOK_SETTINGS", str(path))
    taken = json.loads(json.dumps(paper_settings(path.stem)))
    assert {name: taken.get(name) for name in used} == used

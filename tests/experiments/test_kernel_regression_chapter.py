"""The paper profile of the chapter on kernel regression."""

import numpy as np
import pytest

import eqbook as eq

TASKS = ("histology", "clothes", "pictures")
CUT = dict(
    sides=dict.fromkeys(TASKS, 8),
    train_sizes=dict(histology=(5, 8, 12), clothes=(4, 8), pictures=(4, 8)),
    pools=dict(histology=2, clothes=1, pictures=1),
    sets=2,
    validation=dict.fromkeys(TASKS, 3),
    test=dict.fromkeys(TASKS, 9),
    other_patients=4,
    turns=2,
    mirrored=(4, 8),
    block=8,
)
# Any images do; those of one shape share a compiled program.
FETCHED = {
    "fetch_nct_crc": "histology",
    "fetch_pathmnist": "histology",
    "fetch_fashion_mnist": "cifar10",
    "fetch_cifar10": "cifar10",
}
SKIP = ("def literal", "def predict", "def check", "offset = ")  # checks that do not depend on the profile


@pytest.mark.slow
def test_records_what_it_measured(run_paper_profile):
    names, recorded = run_paper_profile("kernel_regression", CUT, FETCHED, SKIP)
    assert recorded.settings["data"] == "nct_crc" and recorded.settings["other_patients"] == 4
    for key, quantity in names["quantities"].items():
        assert recorded.quantity(key) == quantity
    for size in (5, 8, 12):
        assert {f"histology_{model}_{size}" for model in ("cnn", "c4", "d4", "doubled", "augmented")} <= set(
            names["quantities"]
        )
    assert {"notebook_cnn", "notebook_c4", "pictures_cnn_upright_8", "clothes_c4_gain_4"} <= set(names["quantities"])
    columns = [row[2:] for row in names["comparison"].rows if not isinstance(row, str)]
    assert all(middle == build for middle, build in columns if build != "–"), "this build is the recorded run"
    assert {build for _, build in columns} != {"–"}
    assert "recorded run: " in names["comparison"].note

    # training sets of one size are disjoint: two of each of two pools, one of the largest
    assert [names["correct"]["histology", "C4"][n].shape for n in (5, 8, 12)] == [(5, 4, 16), (5, 2, 16), (5, 2, 16)]

    # the table is the kernel of the group network, for pools whose size no block divides
    task, table = names["tasks"]["histology"], names["tables"]["histology"][1]
    net = eq.Sequential(
        eq.Lift(names["D4"], 1, (3, 3), "VALID"),
        eq.Relu(),
        eq.GroupConv(names["D4"], 1, (3, 3), "VALID"),
        eq.Relu(),
        eq.GroupPool(),
        eq.Dense(1),
    )
    bound = eq.testing.tolerance(np.float32, (8 * 64) ** 2)
    found = names["model_kernels"](table, "D4", "dense")[1]
    assert found.shape == (1, 16, 12)
    expected = eq.gram(net, task.rest, task.pools[1], kinds=("ntk",)).ntk
    assert eq.testing.relative_error(found[0], expected) < bound

    # and turning two images turns its entries
    same, group = names["model_kernels"](table, "CNN")[0], names["D4"]
    angles = np.arange(12) % 8
    moved = np.concatenate([eq.groups.ImageAction(group)(int(g), x[None]) for g, x in zip(angles, task.pools[1])])
    direct, _ = names["tabulate"](names["cnn"], group, moved, task.rest)
    entries = names["turned"](same, group, angles, angles)
    assert eq.testing.relative_error(entries, names["model_kernels"](direct, "CNN")[0][0]) < bound

    # so do those of a subgroup, also where elements outside of it move the images
    for model in ("CNN", "C4", "D4"):
        at_rest, of_moved = (names["of_subgroup"](t, group, model, "notebook") for t in (table, direct))
        left = np.zeros(len(task.rest), int)
        assert eq.testing.relative_error(names["turned"](at_rest[0], group, angles, angles), of_moved[0][0]) < bound
        assert eq.testing.relative_error(names["turned"](at_rest[1], group, left, angles), of_moved[1][0]) < bound
        if model != "CNN":
            whole = names["model_kernels"](table, model)
            assert all(eq.testing.relative_error(k[0], w[0]) < bound for k, w in zip(at_rest, whole))
    invariant = names["turned"](at_rest[0], group, angles, 0 * angles)
    # an angle of 0 keeps half of the digits of a covariance that is summed in another order
    np.fill_diagonal(invariant, at_rest[0][0].diagonal())
    assert eq.testing.relative_error(invariant, at_rest[0][0]) < bound

    second = eq.results.read("kernel_regression_mirrored")
    assert second.settings["mirrored"] == [4, 8] and "ridges" not in second.settings
    accuracies, differences = second.values["accuracies"], second.values["differences"]
    assert len(accuracies) == 2 * 2 * 10 and len(differences) == 2 * 2 * 7
    for name in ("clothes", "pictures"):
        # kernels that see no quarter turn, or nothing of the group, predict the same however images are moved
        for move, model in (("turned", "C4"), ("turned", "D4"), ("mirrored", "D4")):
            assert accuracies[f"{name}, {move}, {model}, dense"] == accuracies[f"{name}, upright, {model}, dense"]
        assert set(differences[f"{name}, turned, doubled - C4, dense"]) == {"4", "8", "mean"}


@pytest.mark.parametrize("data", ["nct_crc", "pathmnist"])
def test_reads_either_data_set(run_paper_profile, data):
    later = (
        "def blocks",
        "tabulate",
        "add_tables",
        "read_out",
        "def right",
        "bootstrap",
        "quantities",
        "curves",
        "dense",
        "gains",
        "differences[",
        "recorded is",
        "by_factors",
        "draw_run",
        "third is",
    )
    later += ("def predict", "def check", "correct[", "results.benchmark")
    names, recorded = run_paper_profile("kernel_regression", {**CUT, "data": data}, FETCHED, later)
    assert recorded is None
    task = names["tasks"]["histology"]
    assert [pool.shape for pool in task.pools] == [(12, 8, 8, 3)] * 2
    assert task.rest.shape == (16, 8, 8, 3) and task.classes == 2, "labels come with these data"
    small = np.arange(28 * 28 * 3, dtype=np.uint8).reshape(1, 28, 28, 3)  # PathMNIST has no 32 pixels
    np.testing.assert_array_equal(names["coarse"](small, 32), eq.data.to_unit(small))


def test_the_settings_of_the_paper_are_those_of_the_paper(paper_settings):
    settings = paper_settings("kernel_regression")
    assert settings["data"] == "nct_crc" and settings["sides"]["histology"] == 32
    published = {5, 12, 20, 40, 80, 100, 200, 300, 500, 1000}
    assert published | {8} == set(settings["train_sizes"]["histology"])
    assert settings["test"]["histology"] == 1000 and 1e-4 in settings["ridges"]
    assert settings["train_sizes"]["clothes"][-1] == settings["train_sizes"]["pictures"][-1] == 10_000

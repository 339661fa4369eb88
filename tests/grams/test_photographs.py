"""Single precision on photographs, whose patches are often nearly parallel: there a relu's NTK loses digits first."""

import numpy as np
import pytest

import eqbook as eq


def body(first, second):
    return first, eq.Relu(), second, eq.Relu()


C4 = eq.cyclic(4)
CONVS = body(eq.Conv(1, (3, 3)), eq.Conv(1, (3, 3)))
NETS = {
    "flat": eq.Sequential(*CONVS, *body(eq.Conv(1, (3, 3)), eq.Conv(1, (3, 3))), eq.Flatten(), eq.Dense(1)),
    "bias": eq.Sequential(*body(eq.Conv(1, (3, 3), b_std=0.3), eq.Conv(1, (3, 3), b_std=0.3)), eq.Flatten()),
    "pooled": eq.Sequential(*CONVS, eq.GlobalAvgPool(), eq.Dense(1)),
    "C4": eq.Sequential(*body(eq.Lift(C4, 1, (3, 3)), eq.GroupConv(C4, 1, (3, 3))), eq.GroupPool(), eq.Dense(1)),
}


@pytest.mark.parametrize("centred", [False, True], ids=["unit", "centred"])
@pytest.mark.parametrize("data", ["cifar10", pytest.param("fashion_mnist", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", NETS)
def test_float32_is_within_1e_5_of_float64(name, data, centred, x64):
    """Each entry, relative to itself."""
    x = eq.data.to_unit(eq.data.load_sample(data).train_images[: 24 if name in ("flat", "bias") else 4])
    x = np.asarray(x.reshape(*x.shape[:3], -1) - centred * x.mean(), np.float32)
    single, double = eq.gram(NETS[name], x), eq.gram(NETS[name], x.astype(float))
    for kind in ("nngp", "ntk"):
        np.testing.assert_allclose(getattr(single, kind), getattr(double, kind), rtol=1e-5)

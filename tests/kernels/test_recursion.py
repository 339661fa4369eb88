"""One pair of inputs: what the recursion refuses before it starts."""

import numpy as np
import pytest

import eqbook as eq
from eqbook.kernels import pair_kernel

DENSE = eq.Sequential(eq.Dense(2), eq.Relu(), eq.Dense(1))
POOLED = eq.Sequential(eq.Conv(2, (3, 3)), eq.Relu(), eq.GlobalAvgPool(), eq.Dense(1))
IMAGE = np.ones((4, 4, 2))


@pytest.mark.parametrize(
    "net, x1, x2, message",
    [
        (DENSE, np.ones(5), np.ones(1), r"`x2`: expected an input of shape \(5,\) as in `x1`, got shape \(1,\)"),
        (POOLED, IMAGE, np.ones((4, 4, 1)), r"`x2`: expected an input of shape \(4, 4, 2\)"),
        (POOLED, IMAGE, np.ones((5, 5, 2)), r"`x2`: expected an input of shape \(4, 4, 2\)"),
        (DENSE, np.ones((3, 5)), np.ones((3, 5)), r"`x1`: expected one vector \[d\] or image .*use `gram`"),
        (POOLED, IMAGE[None], IMAGE[None], r"`x1`: expected one vector \[d\] or image .*use `gram`"),
        (DENSE, np.ones(0), np.ones(0), r"`x1`: expected one vector \[d\] or image"),
        (DENSE, 1.0, 1.0, r"`x1`: expected one vector \[d\] or image"),
        (DENSE, np.ones(2), np.ones(2) * 1j, "`x2`: expected real numbers"),
    ],
    ids=["one entry", "one channel", "other sides", "batch", "batch of images", "empty", "number", "complex"],
)
def test_inputs_of_other_shapes(net, x1, x2, message):
    """Each of the first three would be broadcast, or averaged, to a number."""
    with pytest.raises(ValueError, match=message):
        pair_kernel(net, x1, x2)

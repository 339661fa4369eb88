"""Halving the resolution without breaking the symmetry of the square."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from eqbook._checks import as_float

EVEN, ODD = (1, 3, 3, 1), (1, 2, 1)


def halve(x: Float[Array, "*batch h w c"]) -> Float[Array, "*batch h2 w2 c"]:
    r"""Every second pixel of a blurred image, for sides of any parity, commuting with quarter turns and reflections.

    A side of $2 m$ pixels is blurred with $(1, 3, 3, 1) / 8$, whose middle lies between two pixels, and becomes $m$;
    a side of $2 m + 1$ pixels is blurred with $(1, 2, 1) / 4$ and becomes $m + 1$. In both cases the new pixels lie
    symmetrically about the centre of the image, as the old ones do. Taking every second pixel of an even image as it is
    would move the centre by half a pixel. The blur dampens frequencies that the coarse grid cannot hold, which makes
    other rotations less wrong as well. Outside the image is 0.

    Args:
        x: images or feature maps, `[..., h, w, c]`.

    Raises:
        ValueError: if there are fewer than three axes or a side has a single pixel.

    References:
        Zhang, "Making Convolutional Networks Shift-Invariant Again", 2019, https://arxiv.org/abs/1904.11486
    """
    if np.ndim(x) < 3 or min(np.shape(x)[-3:-1]) < 2:
        raise ValueError(
            f"`x`: expected images [..., height, width, channels] of at least 2 by 2, got shape {np.shape(x)}."
        )
    x = as_float(x)  # a sum of bytes would overflow
    # In 16 bits the sum would round at each step, and be infinite where the blurred image is not.
    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    return _halve_axis(_halve_axis(wide, x.ndim - 3), x.ndim - 2).astype(x.dtype)


def _halve_axis(x: Array, axis: int) -> Array:
    taps = ODD if x.shape[axis] % 2 else EVEN
    padded = jnp.pad(x, [(1, 1) if i == axis else (0, 0) for i in range(x.ndim)])
    count = (x.shape[axis] + 1) // 2

    def shifted(i: int) -> Array:
        index = [slice(None)] * x.ndim
        index[axis] = slice(i, i + 2 * count - 1, 2)
        return padded[tuple(index)]

    return sum(tap * shifted(i) for i, tap in enumerate(taps)) / sum(taps)

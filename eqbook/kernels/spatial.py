"""Sums of kernels over pixels: what convolution and pooling do to a covariance."""

import itertools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def borders(
    sides: tuple[int, int], window: tuple[int, int], strides: tuple[int, int], padding: str
) -> list[tuple[int, int]]:
    """Pixels that padding adds before and after each axis.

    Raises:
        ValueError: if the window is larger than the padded image, or a circular border wider than the image.
    """
    rule = "VALID" if padding == "VALID" else "SAME"
    pads = [(int(low), int(high)) for low, high in jax.lax.padtype_to_pads(sides, window, strides, rule)]
    for side, length, (low, high) in zip(sides, window, pads, strict=True):
        if length > side + low + high:
            raise ValueError(f"expected images of at least {window} pixels for this window, got {sides}.")
        if padding == "CIRCULAR" and max(low, high) > side:
            raise ValueError(f"expected a circular border no wider than the image, got {(low, high)} on side {side}.")
    return pads


def window_sum(
    k: Float[Array, "..."],
    window: tuple[int, int],
    strides: tuple[int, int],
    padding: str,
    copies: int | None = None,
) -> Float[Array, "..."]:
    r"""$\sum_{y \in F} K(s t + y, s t' + y)$: both pixels move together, as one filter sees both inputs.

    Args:
        k: `[h, w]` for pairs of one pixel, `[h, w, h, w]` for all pairs; with `copies` given, more axes may follow.
        window: $F$.
        strides: $s$.
        padding: `"SAME"`, `"VALID"` or `"CIRCULAR"`.
        copies: how many pixels the first axes of `k` index, 1 or 2; all axes if not given.
    """
    copies = k.ndim // 2 if copies is None else copies
    pads = borders(k.shape[:2], window, strides, padding)
    rest = [(0, 0)] * (k.ndim - 2 * copies)
    padded = jnp.pad(k, pads * copies + rest, mode="wrap" if padding == "CIRCULAR" else "constant")
    spans = [
        (side + sum(pad) - length) // step * step + 1
        for side, pad, length, step in zip(k.shape[:2], pads, window, strides, strict=True)
    ]

    def at(offset: tuple[int, int]) -> Array:
        cut = tuple(slice(o, o + span, step) for o, span, step in zip(offset, spans, strides, strict=True))
        return padded[cut * copies]

    return sum(map(at, itertools.product(*map(range, window))))


def pool_mean(
    k: Float[Array, "h w h w"], window: tuple[int, int], strides: tuple[int, int]
) -> Float[Array, "h2 w2 h2 w2"]:
    r"""$\frac{1}{|F|^2} \sum_{y, y' \in F} K(s t + y, s t' + y')$: each input is averaged on its own."""
    borders(k.shape[:2], window, strides, "VALID")
    summed = jax.lax.reduce_window(k, 0.0, jax.lax.add, (*window, *window), (*strides, *strides), "VALID")
    return summed / (window[0] * window[1]) ** 2


def mean_of_all(k: Float[Array, "..."]) -> Float[Array, ""]:
    """Mean of all entries, one axis after the other: added up in one row, thousands of terms lose two digits."""
    while k.ndim:
        k = jnp.mean(k, -1)
    return k


def same_pixel(k: Float[Array, "..."]) -> Float[Array, "h w"]:
    """$K(t, t)$ from either layout of images."""
    return k if k.ndim == 2 else jnp.einsum("hwhw->hw", k)


def only_same_pixel(k: Float[Array, "..."]) -> Float[Array, "..."]:
    r"""$\delta_{tt'} K(t, t')$ in either layout of images."""
    if k.ndim == 2:
        return k
    h, w = k.shape[:2]
    return k * jnp.eye(h * w, dtype=k.dtype).reshape(h, w, h, w)

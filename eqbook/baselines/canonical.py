"""Canonicalisation: an equivariant network chooses the frame, a plain network predicts in it."""

from collections.abc import Callable

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from eqbook._checks import as_float, as_number, check_int, check_integers, check_ints, check_square_images
from eqbook._shown import shown
from eqbook.baselines.steerable import SteerableBody
from eqbook.groups.angles import without_turns
from eqbook.networks.patches import PatchConv, mean_pool

Rotate = Callable[[Array, float], Array]


class FrameScores(nn.Module):
    r"""A score $s_r(x)$ for each element of $C_n$ that turns with the image, $s_r(\rho(h) x) = s_{h^{-1} r}(x)$.

    A small steerable network, the mean over the pixels and one number from the channels. Exact, to rounding, for
    rotations by multiples of 90 degrees if 4 divides $n$.

    Args:
        n: order of the group.
        features: number of fields in each convolution.
        kernel_size: odd side of the filters.
    """

    n: int
    features: tuple[int, ...] = (4, 8)
    kernel_size: int = 5

    @nn.compact
    def __call__(self, x: Float[Array, "batch h w c"]) -> Float[Array, "batch n"]:
        z = SteerableBody(self.n, self.features, self.kernel_size)(x)
        return nn.Dense(1, use_bias=False)(jnp.mean(z, axis=(2, 3)))[..., 0]


class PlainCNN(nn.Module):
    """Convolution, relu and means over squares of 2 by 2 pixels, once for each entry of `channels`; two dense layers.

    Args:
        channels: channels of each convolution; a side of the images is divisible by 2 to their number.
        hidden: width of the first dense layer.
        classes: number of outputs.
        kernel_size: odd side of the filters.
    """

    channels: tuple[int, ...] = (16, 32)
    hidden: int = 64
    classes: int = 10
    kernel_size: int = 3

    @nn.compact
    def __call__(self, x: Float[Array, "batch h w c"]) -> Float[Array, "batch classes"]:
        x = as_float(x)
        hidden, classes = check_int("hidden", self.hidden, 1), check_int("classes", self.classes, 1)
        for channels in check_ints("channels", self.channels, 1, "(16, 32)"):
            x = mean_pool(nn.relu(PatchConv(channels, self.kernel_size)(x)))
        return nn.Dense(classes)(nn.relu(nn.Dense(hidden)(x.reshape(len(x), -1))))


class Canonicalized(nn.Module):
    r"""An invariant network from any network: $f(x) = p(\rho(r^*)^{-1} x)$ with $r^* = \arg\max_r s_r(x)$.

    Since $r^*(\rho(h) x) = h\, r^*(x)$, the predictor sees the same image for $x$ and $\rho(h) x$, and $f$ is invariant
    exactly where scores and rotations are exact: for multiples of 90 degrees if 4 divides $n$. In between the two
    images differ by interpolation, and the frame can jump. Where two scores tie the first wins, and $f$ need not be
    invariant; an image with a symmetry of its own does no harm.

    The choice has no gradient. In training the weights of the frames are
    $w = \mathrm{onehot}(r^*) + q - \mathrm{stopgradient}(q)$ with $q = \mathrm{softmax}(s / T)$: their values are those
    of the choice, exactly, and their gradients those of the softmax (straight through). The predictor runs once, on
    $\sum_r w_r\, \rho(r)^{-1} x$.

    Args:
        n: order of the group.
        scores: module from images to scores `[batch, n]`, equivariant, such as `FrameScores(n)`.
        predictor: module from images to outputs, such as `PlainCNN()`.
        rotate: `rotate(x, angle)` turns images `[batch, h, w, c]` counter-clockwise by an angle in degrees, such as
            `eq.groups.rotate_images`; exact quarter turns if not given, for n in 1, 2, 4.
        temperature: $T$ of the softmax, positive.

    Raises:
        ValueError: if an argument is out of range, `rotate` is missing for another n, scores have another shape, or
            `rotate` refuses the images (quarter turns want square ones), when the network is used.

    References:
        Kaba, Mondal, Zhang, Bengio, Ravanbakhsh, "Equivariance with Learned Canonicalization Functions", ICML 2023,
        https://arxiv.org/abs/2211.06489
    """

    n: int
    scores: nn.Module
    predictor: nn.Module
    rotate: Rotate | None = None
    temperature: float = 1.0

    def __call__(self, x: Float[Array, "batch h w c"]) -> Float[Array, "batch classes"]:
        n = check_int("n", self.n, 1)
        if not as_number("temperature", self.temperature) > 0:
            raise ValueError(f"`temperature`: expected a number > 0, got {self.temperature!r}.")
        if self.rotate is None and n not in (1, 2, 4):
            raise ValueError(f"`rotate`: expected rotate(x, angle) for n = {n}: its rotations do not permute pixels.")
        x = as_float(x)
        scores = self.scores(x)
        if scores.shape != (len(x), n):
            raise ValueError(f"`scores`: expected outputs of shape {(len(x), n)}, got {scores.shape}.")
        soft = jax.nn.softmax(scores / self.temperature, axis=-1)
        # The difference is 0 to the last bit, and its gradient is that of the softmax.
        weights = jax.nn.one_hot(jnp.argmax(scores, -1), n, dtype=x.dtype) + (soft - jax.lax.stop_gradient(soft))
        rotate = quarter_turn if self.rotate is None else self.rotate
        canonical = sum(weights[:, r, None, None, None] * rotate(x, -360 * r / n) for r in range(n))
        return self.predictor(canonical)


def quarter_turn(x: Float[Array, "*batch size size c"], angle: float) -> Float[Array, "*batch size size c"]:
    """Images turned counter-clockwise by a multiple of 90 degrees: a permutation of pixels.

    Args:
        x: square images, `[..., size, size, c]`.
        angle: in degrees.

    Raises:
        ValueError: if the angle is no multiple of 90 degrees or the images are not square.
    """
    degrees = as_number("angle", angle)
    turned = without_turns(angle) if np.isfinite(degrees) else np.nan  # a large integer is not rounded
    if not turned % 90 == 0:
        raise ValueError(f"`angle`: expected a multiple of 90 degrees, got {shown(angle)}.")
    check_square_images("x", x)
    check_integers("x", x)
    x = jnp.asarray(x)
    return jnp.rot90(x, round(turned / 90) % 4, axes=(x.ndim - 3, x.ndim - 2))

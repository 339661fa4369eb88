"""Steerable convolution for C_n with any n: fields of the regular representation, filters of circular harmonics."""

from collections.abc import Callable

import flax.linen as nn
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from eqbook._checks import as_float, check_int, check_ints, check_ndim, check_number
from eqbook.baselines.downsample import halve
from eqbook.baselines.harmonics import turned_basis
from eqbook.networks.layers import convolve

GROUP_POOLS: dict[str, Callable] = {"max": jnp.max, "mean": jnp.mean}


class SteerableLift(nn.Module):
    r"""Steerable convolution from images to fields of the regular representation of $C_n$.

    $z_i(t, r) = \sum_{u, j} \kappa_{ij}(r^{-1} u)\, x_j(t + u) + b_i$ with filters $\kappa$ in the span of circular
    harmonics, which is turned exactly by every $r \in C_n$ (`eqbook.baselines.harmonics`). For an image as a function
    of the plane, turning it by $h \in C_n$ gives $z(h^{-1} t, h^{-1} r)$. On pixels this is exact, to rounding, for
    multiples of 90 degrees, if 4 divides $n$; between them it has the error of sampling.

    Images `[batch, h, w, n_in]` become `[batch, n, h, w, features]`. Zero padding; computed as one convolution with the
    filters in all positions.

    Args:
        n: order of the group.
        features: number of fields.
        kernel_size: odd side of the filters.
        use_bias: whether to add $b$, one number for a field, which starts at 0.
        W_variance: variance of $z$ at the start for white noise of variance 1, as in He's rule for relu.

    References:
        Weiler, Hamprecht, Storath, "Learning Steerable Filters for Rotation Equivariant CNNs", 2018,
        https://arxiv.org/abs/1711.07289
        Weiler, Cesa, "General E(2)-Equivariant Steerable CNNs", 2019, https://arxiv.org/abs/1911.08251
    """

    n: int
    features: int
    kernel_size: int = 5
    use_bias: bool = True
    W_variance: float = 2.0

    @nn.compact
    def __call__(self, x: Float[Array, "batch h w c"]) -> Float[Array, "batch n h w features"]:
        x = as_float(x)
        check_ndim("x", x, 4, "batch, height, width, channels")
        return _convolve(self, x[:, None], 1)


class SteerableConv(nn.Module):
    r"""Steerable convolution between fields of the regular representation of $C_n$.

    $z_i(t, r) = \sum_{u, q, j} \kappa_{ij}(r^{-1} u, r^{-1} q)\, x_j(t + u, q) + b_i$; moves with its input as the
    output of `SteerableLift` does. `[batch, n, h, w, n_in]` becomes `[batch, n, h, w, features]`.

    Args:
        n: order of the group.
        features: number of fields.
        kernel_size: odd side of the filters.
        use_bias: whether to add $b$, one number for a field, which starts at 0.
        W_variance: as in `SteerableLift`.

    References:
        As `SteerableLift`.
    """

    n: int
    features: int
    kernel_size: int = 5
    use_bias: bool = True
    W_variance: float = 2.0

    @nn.compact
    def __call__(self, x: Float[Array, "batch n h w c"]) -> Float[Array, "batch n h w features"]:
        x = as_float(x)
        check_ndim("x", x, 5, "batch, n, height, width, channels")
        if x.shape[1] != self.n:
            raise ValueError(f"`x`: expected fields of C_{self.n} on axis 1, got shape {x.shape}.")
        return _convolve(self, x, self.n)


class SteerableNet(nn.Module):
    r"""Classifier that is invariant under $C_n$: steerable convolutions, pooling over the group and the pixels, dense.

    Convolution, relu, `halve` for each entry of `features`; then the maximum (or mean) over the group, the mean over
    the pixels, and two dense layers. Invariant, to rounding, under rotations by multiples of 90 degrees if 4 divides
    $n$, for images of any side; under the other elements of $C_n$ up to the error of sampling.

    Args:
        n: order of the group.
        features: number of fields in each convolution.
        kernel_size: odd side of the filters.
        hidden: width of the first dense layer.
        classes: number of outputs.
        group_pool: `"max"`, as in E2CNN, or `"mean"`.

    Raises:
        ValueError: if an argument is out of range, or a side has not more than $2^{l-1}$ pixels for $l$ convolutions,
            when the network is used.

    References:
        Weiler, Cesa, "General E(2)-Equivariant Steerable CNNs", 2019, https://arxiv.org/abs/1911.08251
    """

    n: int
    features: tuple[int, ...] = (8, 16, 16)
    kernel_size: int = 5
    hidden: int = 64
    classes: int = 10
    group_pool: str = "max"

    @nn.compact
    def __call__(self, x: Float[Array, "batch h w c"]) -> Float[Array, "batch classes"]:
        if self.group_pool not in GROUP_POOLS:
            raise ValueError(f"`group_pool`: expected one of {', '.join(GROUP_POOLS)}, got {self.group_pool!r}.")
        hidden, classes = check_int("hidden", self.hidden, 1), check_int("classes", self.classes, 1)
        z = SteerableBody(self.n, self.features, self.kernel_size)(x)
        z = jnp.mean(GROUP_POOLS[self.group_pool](z, axis=1), axis=(1, 2))
        return nn.Dense(classes)(nn.relu(nn.Dense(hidden)(z)))


class SteerableBody(nn.Module):
    """Steerable convolution, relu and `halve`, one after the other: images to fields of the regular representation.

    Args:
        n: order of the group.
        features: number of fields in each convolution.
        kernel_size: odd side of the filters.
    """

    n: int
    features: tuple[int, ...]
    kernel_size: int = 5

    @nn.compact
    def __call__(self, x: Float[Array, "batch h w c"]) -> Float[Array, "batch n h2 w2 features"]:
        if not self.features:
            raise ValueError("`features`: expected at least one convolution, got none; give their numbers of fields.")
        widths = check_ints("features", self.features, 1, "(8, 16)")
        check_ndim("x", x, 4, "batch, height, width, channels")
        count, sides = len(widths), np.shape(x)[1:3]
        if min(sides) <= 2 ** (count - 1):  # one pixel, and no second one, before the last `halve`
            raise ValueError(
                f"`x`: expected images of more than {2 ** (count - 1)} pixels a side for {count} convolutions, each of "
                f"which is followed by a halving, got {sides[0]} by {sides[1]}; give larger images or fewer `features`."
            )
        for i, features in enumerate(widths):
            layer = SteerableConv if i else SteerableLift
            x = halve(nn.relu(layer(self.n, features, self.kernel_size)(x)))
        return x


def _convolve(module: SteerableLift | SteerableConv, x: Float[Array, "b q h w c"], q: int) -> Array:
    """Convolution of `q` fields' elements per channel with all turned filters at once."""
    n, features, k = module.n, check_int("features", module.features, 1), module.kernel_size
    basis = turned_basis(n, k)
    b, _, h, w, c = x.shape
    p = basis.shape[1]
    init = nn.initializers.normal(np.sqrt(check_number("W_variance", module.W_variance, positive=True) / (p * q * c)))
    W = module.param("kernel", init, (p, q, c, features), x.dtype)
    # For output r the filter is turned by r, and the group axis of the input counted from r.
    relative = (np.arange(q) - np.arange(n)[:, None]) % q  # [r, q]; for images, q = 1, all 0
    filters = jnp.einsum("rpij,prqcf->ijqcrf", jnp.asarray(basis, x.dtype), W[:, relative], precision="highest")
    merged = jnp.moveaxis(x, 1, 3).reshape(b, h, w, q * c)
    z = convolve(merged, filters.reshape(k, k, q * c, n * features), (1, 1), "SAME")
    z = jnp.moveaxis(z.reshape(b, h, w, n, features), 3, 1)
    return z + module.param("bias", nn.initializers.zeros, (features,), x.dtype) if module.use_bias else z

"""What the benchmark of ensembles trains: pictures by convolutional networks, and spins by networks of dense layers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

import eqbook as eq
from eqbook.ensembles import cross_entropy, squared_error
from eqbook.networks import PatchConv, mean_pool
from eqbook.testing import tolerance

SIDE, CLASSES = 28, 10


class CNN(nn.Module):
    """Convolution, relu, means over 2 by 2 pixels, twice; then two dense layers."""

    channels: tuple[int, int]
    hidden: int
    flax: bool  # layers of Flax throughout; the parameters are the same

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        for k, channels in enumerate(self.channels):
            if self.flax:
                x = nn.avg_pool(nn.relu(nn.Conv(channels, (3, 3), name=f"Conv_{k}")(x)), (2, 2), (2, 2))
            else:
                x = mean_pool(nn.relu(PatchConv(channels, name=f"Conv_{k}")(x)))
        x = nn.relu(nn.Dense(self.hidden)(x.reshape(len(x), -1)))
        return nn.Dense(CLASSES)(x)


class MLP(nn.Module):
    """One hidden layer in NTK parametrisation, of Flax's layers."""

    hidden: int
    outputs: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        z = nn.relu(nn.Dense(self.hidden, use_bias=False)(x) * (2 / x.shape[1]) ** 0.5)
        return nn.Dense(self.outputs, use_bias=False)(z) * self.hidden**-0.5


@dataclass(frozen=True)
class Pictures:
    """Convolutional networks of about 120,000 parameters on images of 28 by 28 pixels, in batches, for one epoch."""

    members: int = 100
    images: int = 512
    batch: int = 64
    channels: tuple[int, int] = (32, 64)
    hidden: int = 32
    width: int = 1
    part: int = 8
    wide: int = 100

    epochs, loss, function = 1, "cross_entropy", staticmethod(cross_entropy)

    def data(self) -> tuple[jax.Array, jax.Array]:
        """Random images and classes."""
        images, classes = jax.random.split(jax.random.key(1))
        x = jax.random.uniform(images, (self.images, SIDE, SIDE, 1))
        return x, jax.random.randint(classes, (self.images,), 0, CLASSES)

    def net(self) -> Any:
        """The network for `eqbook`."""
        return CNN(self.channels, self.hidden, flax=False)

    def peer(self) -> nn.Module:
        """The same network, of Flax's layers."""
        return CNN(self.channels, self.hidden, flax=True)

    def translate(self, params: Any) -> Any:
        """Parameters of `net` as those of `peer`."""
        return params

    def options(self) -> dict[str, int]:
        """What `train_ensemble` is told: what its docstring advises for such networks, on a CPU and elsewhere."""
        if jax.default_backend() == "cpu":
            return {"at_once": self.width, "part": self.part}
        return {"at_once": min(self.wide, self.members)}

    def optimizer(self) -> optax.GradientTransformation:
        """Of both."""
        return optax.sgd(0.02, momentum=0.9)

    def operations(self) -> int:
        """Multiplications and additions of one member, gradients included, as the plain sums have them."""
        (c1, c2), pixels = self.channels, SIDE**2
        first, second = pixels * 9 * c1, pixels // 4 * 9 * c1 * c2
        dense = pixels // 16 * c2 * self.hidden + self.hidden * CLASSES
        # Two products for each layer's gradient; the first layer has no inputs to differentiate in.
        return 2 * self.images * (2 * first + 3 * (second + dense))

    def bound(self) -> float:
        """Of the difference by rounding: each step adds up at most as many terms as there are pixels in a batch."""
        return self.images // self.batch * tolerance(jnp.float32, self.batch * SIDE**2)


@dataclass(frozen=True)
class Spins:
    """Networks with one hidden layer, as on the Ising page: full batches of 512 configurations of 16 spins."""

    members: int = 100
    images: int = 512
    sites: int = 16
    hidden: int = 1024
    epochs: int = 100
    width: int = 1
    wide: int = 100

    loss, function = "squared_error", staticmethod(squared_error)

    @property
    def batch(self) -> int:
        """All examples."""
        return self.images

    def data(self) -> tuple[jax.Array, jax.Array]:
        """Random spins and targets."""
        spins, targets = jax.random.split(jax.random.key(1))
        x = jax.random.rademacher(spins, (self.images, self.sites), jnp.float32)
        return x, jax.random.normal(targets, (self.images, self.sites))

    def net(self) -> Any:
        """The network for `eqbook`."""
        return eq.Sequential(eq.Dense(self.hidden, W_std=2**0.5), eq.Relu(), eq.Dense(self.sites))

    def peer(self) -> nn.Module:
        """The same network, of Flax's layers."""
        return MLP(self.hidden, self.sites)

    def translate(self, params: Any) -> Any:
        """Parameters of `net` as those of `peer`."""
        first, second = (params["params"][name]["W"] for name in ("layers_0", "layers_2"))
        return {"params": {"Dense_0": {"kernel": first}, "Dense_1": {"kernel": second}}}

    def options(self) -> dict[str, int]:
        """What `train_ensemble` is told."""
        return {"at_once": self.width if jax.default_backend() == "cpu" else min(self.wide, self.members)}

    def optimizer(self) -> optax.GradientTransformation:
        """Of both; training does not diverge with it."""
        return optax.sgd(0.5 / self.images)

    def operations(self) -> int:
        """Multiplications and additions of one member: two layers, their gradients, one derivative in the inputs."""
        return 5 * 2 * self.images * self.sites * self.hidden * self.epochs

    def bound(self) -> float:
        """Of the difference by rounding: each step adds up all examples, or all hidden units."""
        return self.epochs * tolerance(jnp.float32, max(self.images, self.hidden))


CASES: dict[str, Callable[[], Any]] = {"ensembles": Pictures, "ensembles_dense": Spins}
SMOKE = {"ensembles": Pictures(3, 64, 32, (4, 8), 8, 1, 16), "ensembles_dense": Spins(3, 32, 4, 8, 3)}

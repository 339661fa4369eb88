"""Layers on the sphere and on its rotations, SO(3)."""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import pairwise
from typing import Any, Literal

from eqbook._checks import check_int
from eqbook._shown import shown
from eqbook.groups.polyhedral import POLYHEDRA
from eqbook.layers.dense import check_std, check_weights, python_number
from eqbook.layers.domain import Domain, OnRotations, in_words, output_domain
from eqbook.layers.layer import Layer

ByPeak = tuple[tuple[float, int], ...]  # heights up to which the rules of these sizes serve


def check_quadrature(name: str, quadrature: int | str, minimum: int = 1) -> int | str:
    """The size of a rule on SO(3), or the name of a group of rotations.

    Args:
        name: of the argument, for the message.
        quadrature: what was asked for.
        minimum: of a size.

    Raises:
        ValueError: if it is neither.
    """
    if not isinstance(quadrature, str):
        return check_int(name, quadrature, minimum)
    if quadrature not in POLYHEDRA:
        names = ", ".join(f'"{known}"' for known in POLYHEDRA)
        raise ValueError(
            f"`{name}`: expected the size of a rule, an integer, or one of {names}, got {shown(quadrature)}."
        )
    return quadrature


def check_by_peak(name: str, quadrature: Sequence) -> ByPeak:
    """Heights of peaks and the sizes of the rules that serve up to them.

    Args:
        name: of the argument, for the message.
        quadrature: pairs of a height and a size, both rising, the last height 1.

    Raises:
        ValueError: if it is anything else.
    """
    pairs = tuple(tuple(pair) if isinstance(pair, list | tuple) else (pair,) for pair in quadrature)
    if not pairs or any(len(pair) != 2 for pair in pairs):
        raise ValueError(
            f"`{name}`: expected pairs of a height and a size, such as ((0.5, 6), (1, 10)), got {shown(quadrature)}."
        )
    heights = tuple(check_std(name, "height", height) for height, _ in pairs)
    sizes = tuple(check_int(f"{name}: size", python_number(name, "size", size), 1) for _, size in pairs)
    if not (rises((0.0, *heights)) and rises(sizes) and heights[-1] == 1):
        raise ValueError(
            f"`{name}`: expected heights that rise from above 0 to 1, and sizes that rise with them, got "
            f"{shown(quadrature)}; sort the pairs, and give the last one the height 1."
        )
    return tuple(zip(heights, sizes, strict=True))


def rises(row: Sequence[float]) -> bool:
    """Whether each number is larger than the one before."""
    return all(a < b for a, b in pairwise(row))


@dataclass(frozen=True)
class LiftS2(Layer):
    r"""From a signal on the sphere to feature maps on SO(3), by a filter that covers the sphere.

    $z_i(R) = \frac{\sigma_W}{\sqrt{4\pi\, n_{in}}} \sum_j \int \kappa_{ij}(R^{-1} x)\, f_j(x)\, dx + \sigma_b b_i$
    with white noise $\kappa = \sum_{lm} \kappa_{lm} Y_{lm}$, $\kappa_{lm}, b_i \sim N(0, 1)$ in an orthonormal basis.
    Degrees that the signal does not have do not matter. It stands first in a network, on batches
    `[n, 2L, 2L-1, channels]` of signals at colatitudes $(2t+1)\pi/4L$ and longitudes $2\pi p/(2L-1)$.

    Kernels have the error of the rule on SO(3), in float64 as in float32. How far $K(x, Rx)$ is from $K(x, x)$ for a
    rotation $R$ shows it. Measured of the NTK for two hidden layers, the default rule and noise of bandwidth 4 to 8:
    up to 1e-4 with relu. With `Erf` and one channel up to 6e-4 for signals of standard deviation 1, 7e-3 for 3, and 0.2
    for 22 to 2000, where it saturates (median about 1e-3); with three channels, of bandwidth 4 and 6, up
    to 3e-6, 1e-3 and 1e-2. Scale signals to a variance of about 1, or raise `quadrature`.

    Args:
        channels: number of output channels.
        W_std: $\sigma_W$, standard deviation of the weights.
        b_std: $\sigma_b$, standard deviation of the bias. 0 means that the layer has no bias.
        bandwidth: degrees to keep, those below it; at most the L of the signals, which is the default.
        quadrature: size B of the rule on SO(3): B Gauss-Legendre nodes in $\cos\beta$ by 2B uniform angles $\alpha$ and
            $\gamma$, at least the bandwidth. By default `eqbook.kernels.so3.default_quadrature` of the bandwidth. It is
            larger for the kernel of a network with other nonlinearities than relu; finite networks take that for relu.
            All that follows, up to `SO3Pool`, is evaluated at these rotations. Or `"tetrahedron"`, `"cube"` or
            `"icosahedron"`: the network is then one on the group of their 12, 24 or 60 rotations, with filters on the
            group in `SO3Conv` and the mean over it in `SO3Pool`. It is equivariant under this group exactly, finite or
            infinite, and an approximation of the network on SO(3) with few points: what the nonlinearities make of the
            correlation of two signals differs behind the pooling from degree 3, 4 or 6 on. The kernel is exact for any
            bandwidth, and Gram matrices have no negative eigenvalues but for rounding. Or pairs of a height and a size,
            such as `((0.3, 4), (0.6, 6), (1, 12))`: in `eqbook.gram` a pair of inputs takes at least the first rule
            whose height is not below that of its peak, measured at the points of the smallest rule, see
            `eqbook.grams.methods.by_peak`. Which larger one it may take depends on the pairs computed beside it, so
            entries change by the error of the rules with the size of tiles, the number of cores, or inside `jit`.
            Finite networks, inputs with themselves and the literal recursion take the last rule.

    Raises:
        ValueError: if an argument is of the wrong kind, a rule is too small for the bandwidth, heights or sizes do not
            rise, or no group has that name.

    References:
        Misof, Kessel, Gerken, "Equivariant Neural Tangent Kernels", 2025, https://arxiv.org/abs/2406.06504
    """

    channels: int
    W_std: float = 1.0
    b_std: float = 0.0
    _: KW_ONLY
    bandwidth: int | None = None
    quadrature: int | Literal["tetrahedron", "cube", "icosahedron"] | ByPeak | None = None

    def __post_init__(self) -> None:
        check_weights(self)
        if isinstance(self.quadrature, list | tuple):
            object.__setattr__(self, "quadrature", check_by_peak("LiftS2: quadrature", self.quadrature))
            least: Any = self.quadrature[0][1]
        else:
            self._check("quadrature", check_quadrature)
            least = self.quadrature
        self._check("bandwidth", check_int)
        if isinstance(least, int) and least < (self.bandwidth or 1):
            raise ValueError(f"LiftS2: `quadrature`: expected at least the bandwidth {self.bandwidth}, got {least}.")

    def _check(self, name: str, check: Callable) -> None:
        if getattr(self, name) is not None:
            number = python_number("LiftS2", name, getattr(self, name))
            object.__setattr__(self, name, check(f"LiftS2: {name}", number, 1))


@dataclass(frozen=True)
class SO3Conv(Layer):
    r"""Group convolution on SO(3), or the finite group that `LiftS2` chose, by a filter that covers the group.

    $z_i(R) = \frac{\sigma_W}{\sqrt{8\pi^2 n_{in}}} \sum_j \int_{SO(3)} \kappa_{ij}(R^{-1} S)\, f_j(S)\, dS
    + \sigma_b b_i$ with white noise $\kappa$ on SO(3), total volume $8\pi^2$, and $b_i \sim N(0, 1)$.

    At infinite width the filter has all degrees. A finite network on the rule of size B keeps those below B, the ones
    that the rule resolves: its filters are $\kappa = \sum_{l<B} \sum_{pn} \kappa^l_{pn} \sqrt{(2l+1)/8\pi^2}\,
    D^l_{pn}$ with $\kappa^l_{pn} \sim N(0, 1)$. What the nonlinearity before it puts into degrees from B on is lost
    there, and present in the infinite kernel; without a nonlinearity the two agree. Measured on noise of bandwidth 4,
    lift, relu, convolution, relu, pool: the NTK differs by 2 per cent for B = 4 and 1 in a thousand for B = 9. The
    limit of the network as it stands, B included, is `eqbook.kernels.so3.literal.literal_kernel`.

    On a finite group H: $z_i(g) = \frac{\sigma_W}{\sqrt{|H| n_{in}}} \sum_j \sum_{s \in H} W_{ij}(g^{-1} s)\, f_j(s) +
    \sigma_b b_i$ with $W_{ij}(h) \sim N(0, 1)$. No degree is left out.

    Args:
        channels: number of output channels.
        W_std: $\sigma_W$, standard deviation of the weights.
        b_std: $\sigma_b$, standard deviation of the bias. 0 means that the layer has no bias.

    Raises:
        ValueError: if an argument is of the wrong kind.

    References:
        Misof, Kessel, Gerken, "Equivariant Neural Tangent Kernels", 2025, https://arxiv.org/abs/2406.06504
    """

    channels: int
    W_std: float = 1.0
    b_std: float = 0.0

    def __post_init__(self) -> None:
        check_weights(self)


@dataclass(frozen=True)
class SO3Pool(Layer):
    r"""Mean over rotations, $z = \frac{1}{8\pi^2} \int_{SO(3)} f(R)\, dR$: the output does not feel a rotation.

    On a finite group it is the mean over its elements, and the output does not feel these.
    """


@output_domain.register
def _(layer: LiftS2, domain: Domain) -> Domain:
    if domain != "pixels":
        raise ValueError(
            f"{layer}: expected signals on the sphere [n, 2L, 2L-1, channels], got {in_words(domain)}; "
            "sample them on its grid."
        )
    return OnRotations()


@output_domain.register(SO3Conv)
@output_domain.register(SO3Pool)
def _(layer: Layer, domain: Domain) -> Domain:
    if not isinstance(domain, OnRotations):
        raise ValueError(f"{layer}: expected a feature map on SO(3), got {in_words(domain)}; put a LiftS2 before it.")
    return "vectors" if isinstance(layer, SO3Pool) else domain

r"""How far the mean of infinitely many members is from invariance under a continuous group of which only a finite
subgroup was used for augmentation: the bound of the paper, and a sharper one from kernels alone."""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from eqbook._checks import (
    as_float,
    check_batch,
    check_int,
    check_key,
    check_net,
    check_range,
    check_same_features,
    joined,
)
from eqbook.dynamics import EnsembleLaw, Schedule
from eqbook.grams import gram
from eqbook.layers import Sequential
from eqbook.metrics.wide import in_all_digits, is_narrowed, narrowed


def kernel_distance(net: Sequential, x1: Float[Array, "n ..."], x2: Float[Array, "n ..."]) -> Float[Array, " n"]:
    r"""$d_\Theta(x, x') = \sqrt{\Theta(x, x) + \Theta(x', x') - 2 \Theta(x, x')}$, for pairs.

    It is the distance of $x$ and $x'$ in the feature space of the NTK: the root mean square over initialisations of
    $\|\partial_\theta f(x) - \partial_\theta f(x')\|$. Between close inputs half of the digits cancel: a distance below
    $\sqrt{\epsilon\, \Theta(x, x)}$, with $\epsilon$ that of the dtype, or one whose square is too small for the dtype
    is rounding, and may come out as 0. Use float64: NumPy's numbers of 64 bits keep their digits also where JAX has 32,
    and only the result is narrowed.

    Args:
        net: network; its infinite-width NTK is $\Theta$.
        x1: inputs $x$, `[n, ...]`.
        x2: inputs $x'$, one for each, `[n, ...]`.

    Raises:
        ValueError: if the two are no batches of the same shape, or a kernel or distance has left the dtype.
    """
    x1, x2 = joined("x1", x1), joined("x2", x2)
    check_batch("x1", x1)
    check_batch("x2", x2)
    check_same_features("x1", x1, "x2", x2)
    if len(x1) != len(x2):
        raise ValueError(f"`x2`: expected {len(x1)} inputs, one for each in `x1`, got {len(x2)}.")

    def distance() -> Array:
        pairs = zip(as_float(x1), as_float(x2))
        theta = jnp.stack([gram(net, jnp.stack(pair), kinds=("ntk",)).ntk for pair in pairs])
        return jnp.sqrt(jnp.maximum(theta[:, 0, 0] + theta[:, 1, 1] - 2 * theta[:, 0, 1], 0))

    found = in_all_digits(distance, *((x1, x2) if is_narrowed(x1) else (x2, x1)))
    return narrowed("x1` and `x2", found)


def rkhs_norm(law: EnsembleLaw, t: float, schedule: Schedule | None = None) -> Float[Array, " k"]:
    r"""$\|\mu_t\|_\Theta = \sqrt{Y^\top H_t \Theta H_t Y}$, the norm of the mean in the space of functions of the NTK.

    $\mu_t = \sum_j a_j \Theta(\cdot, x_j)$ with $a = H_t Y$, and the functions $\Theta(\cdot, x)$ have the products
    $\langle \Theta(\cdot, x), \Theta(\cdot, x') \rangle = \Theta(x, x')$.

    Args:
        law: law of the trained networks.
        t: training time, or number of steps.
        schedule: how the networks are trained; `GradientFlow(1.0)` if not given.

    Returns:
        One norm for each output.

    Raises:
        ValueError: as `EnsembleLaw.mean`, or if the norm has left the dtype.

    References:
        Aronszajn, "Theory of Reproducing Kernels", 1950.
    """
    return check_range("law", _root_of_product(_coefficients(law, t, schedule), law.train_mean(t, schedule)))


def continuous_group_bound(
    net: Sequential,
    law: EnsembleLaw,
    t: float,
    x1: Float[Array, "n ..."],
    x2: Float[Array, "n ..."],
    schedule: Schedule | None = None,
) -> Float[Array, "n k"]:
    r"""$|\mu_t(x) - \mu_t(x')| \le \|\mu_t\|_\Theta\, d_\Theta(x, x')$, from the infinite-width NTK alone.

    Proof: $\mu_t(x) = \langle \mu_t, \Theta(\cdot, x) \rangle$, so the difference is the product of $\mu_t$ and
    $\Theta(\cdot, x) - \Theta(\cdot, x')$, whose norm is $d_\Theta(x, x')$; then Cauchy-Schwarz.

    For a continuous group $G$ and data augmented by a finite subgroup $B$, with invariant targets, take
    $\rho(g) x$ and $\rho(b) x$ for $x, x'$, with $b \in B$ close to $g$. Since $\mu_t(\rho(b) x) = \mu_t(x)$,
    $|\mu_t(\rho(g) x) - \mu_t(x)| \le \|\mu_t\|_\Theta \min_{b} d_\Theta(\rho(g) x, \rho(b) x)$.
    Against lemma 6.2 of the paper (`continuous_group_constant`) it needs no Lipschitz constant, so it holds for relu,
    whose gradients have none; it does not take absolute values of $H_t Y$; and nothing in it is an estimate. It holds
    up to rounding, which between close inputs is that of `kernel_distance`.

    Args:
        net: network; its infinite-width NTK is $\Theta$.
        law: law of the trained networks, of the same NTK.
        t: training time, or number of steps.
        x1: inputs $x$, `[n, ...]`.
        x2: inputs $x'$, one for each, `[n, ...]`.
        schedule: how the networks are trained; `GradientFlow(1.0)` if not given.

    Returns:
        A bound for each pair and each output, in the unit of the outputs.

    Raises:
        ValueError: as `kernel_distance` and `EnsembleLaw.mean`, or if the bound has left the dtype.

    References:
        Gerken, Kessel, "Emergent Equivariance in Deep Ensembles", ICML 2024, https://arxiv.org/abs/2403.03103
        (lemma 6.2 is what this sharpens).
    """
    return check_range("x1`, `x2` and `law", kernel_distance(net, x1, x2)[:, None] * rkhs_norm(law, t, schedule))


def continuous_group_constant(
    net: Any,
    key: jax.Array,
    law: EnsembleLaw,
    t: float,
    x: Float[Array, "n ..."],
    x_train: Float[Array, "n_train ..."],
    region: Float[Array, "m ..."],
    members: int = 32,
    schedule: Schedule | None = None,
) -> tuple[Float[Array, "n k"], Float[Array, "n k"]]:
    r"""The constant of lemma 6.2, $|\mu_t(\rho(g) x) - \mu_t(x)| \le \epsilon\, C(x)$ for data augmented by $B$.

    $C(x) = \sum_l E_\theta[\|\partial_{\theta^{(l)}} f_\theta(x)\|\, L_l(\theta)] \sum_j \|x_j\|\, |(H_t Y)_j|$
    with $L_l(\theta)$ the Lipschitz constant of $x \mapsto \partial_{\theta^{(l)}} f_\theta(x)$, and $\epsilon$ from
    `cyclic_covering_radius` or `so3_covering_radius`.

    Proof, with the NTK $\Theta(x, x') = E_\theta \sum_l \langle \partial_l f_\theta(x), \partial_l f_\theta(x')\rangle$
    and an NTK that does not notice a common rotation: $\mu_t(\rho(g) x) - \mu_t(\rho(b) x) = \sum_j
    [\Theta(x, \rho(g)^{-1} x_j) - \Theta(x, \rho(b)^{-1} x_j)]\, (H_t Y)_j$, each bracket is at most
    $\sum_l E_\theta[\|\partial_l f_\theta(x)\| L_l]\, \|\rho(g)^{-1} x_j - \rho(b)^{-1} x_j\|$, and the last norm is at
    most $\epsilon \|x_j\|$. Since $\mu_t(\rho(b) x) = \mu_t(x)$, this is the claim.

    The expectation is a mean over networks of the width that `net` has. $L_l$ is the largest operator norm of
    the derivative over `region`, so it is approached from below. It is finite for smooth nonlinearities; for relu the
    gradient jumps, the lemma does not apply, and the value returned misses the jumps.

    Args:
        net: network with one output, a `Sequential` or a module of flax.linen, at a finite width.
        key: random key of the members.
        law: law of the trained networks.
        t: training time, or number of steps.
        x: inputs, `[n, ...]`.
        x_train: training inputs of `law`, augmented, `[n_train, ...]`.
        region: inputs at which derivatives are taken, `[m, ...]`: dense on the chords from $\rho(g)^{-1} x_j$ to
            $\rho(b)^{-1} x_j$.
        members: number of networks in the mean, at least 2.
        schedule: how the networks are trained; `GradientFlow(1.0)` if not given.

    Returns:
        $C(x)$ for each input and output of `law`, in units of the outputs, and its standard error.

    Raises:
        ValueError: if `net`, `key` or `law` is none, a batch does not fit the others, the network has more than one
            output, or the constant has left the dtype.

    References:
        Gerken, Kessel, "Emergent Equivariance in Deep Ensembles", ICML 2024, https://arxiv.org/abs/2403.03103
        (lemma 6.2; the constant is written out here from its proof).
    """
    batches = {name: joined(name, batch) for name, batch in (("x", x), ("x_train", x_train), ("region", region))}
    for name, batch in batches.items():
        check_batch(name, batch)
        check_same_features("x", batches["x"], name, batch)
    members = check_int("members", members, 2)
    check_net("net", net)
    check_key("key", key)
    x, x_train, region = (narrowed(name, batch) for name, batch in batches.items())
    a = _coefficients(law, t, schedule)
    if len(a) != len(x_train):
        raise ValueError(f"`x_train`: expected the {len(a)} training inputs of `law`, got {len(x_train)}.")

    def member(k: jax.Array) -> Float[Array, " n"]:
        params = net.init(k, x[:1] if isinstance(net, nn.Module) else x[:1].shape)
        norms, constants = _gradient_norms(net, params, x), _lipschitz_constants(net, params, region)
        return jnp.matmul(norms, constants, precision="highest")

    products = jax.lax.map(member, jax.random.split(key, members))  # [members, n]
    # In units of powers of 2, as for `_root_of_product`.
    flat, exponents = _in_units(x_train.reshape(len(x_train), -1).T)
    norms = jnp.ldexp(jnp.linalg.norm(flat, axis=0), exponents)
    weight = jnp.matmul(norms, jnp.abs(a), precision="highest")  # [k]
    products, exponents = _in_units(check_range("x` and `region", products))
    mean, error = jnp.mean(products, axis=0), jnp.std(products, axis=0, ddof=1) / np.sqrt(members)
    found = [jnp.ldexp(part, exponents)[:, None] * weight for part in (mean, error)]
    return tuple(check_range("x`, `x_train`, `region` and `law", part) for part in found)


def _coefficients(law: EnsembleLaw, t: float, schedule: Schedule | None) -> Float[Array, "n k"]:
    """$H_t Y$, read off the mean: with the unit matrix for the kernel rows that is all that is left of it."""
    if not isinstance(law, EnsembleLaw):
        raise ValueError(f"`law`: expected an EnsembleLaw, got {type(law).__name__}; write eq.EnsembleLaw(ntk, y=y).")
    return law.mean(np.eye(len(law.eigenvalues), dtype=law.eigenvalues.dtype), t, schedule)


@jax.jit  # one by one, these operations would take longer to compile than to run
def _root_of_product(x: Float[Array, "n k"], y: Float[Array, "n k"]) -> Float[Array, " k"]:
    r"""$\sqrt{\sum_j x_j y_j}$ in units of powers of 2: the square of a root that fits may not fit."""
    (x, exponents), (y, others) = _in_units(x), _in_units(y)
    half, odd = jnp.divmod(exponents + others, 2)
    squared = jnp.ldexp(jnp.sum(x * y, axis=0), odd)
    return jnp.ldexp(jnp.sqrt(jnp.maximum(squared, 0)), half)


@jax.jit
def _in_units(x: Float[Array, "n k"]) -> tuple[Float[Array, "n k"], Int[Array, " k"]]:
    """$x_j / 2^{e_j}$ and $e_j$, so that the largest entry of a column lies between 1/2 and 1."""
    exponents = jnp.frexp(jnp.max(jnp.abs(x), axis=0))[1]
    return jnp.ldexp(x, -exponents), exponents


def _output(net: Any, params: Any, x: Float[Array, "..."]) -> Float[Array, ""]:
    y = net.apply(params, x[None])
    if y.shape != (1, 1):
        raise ValueError(f"`net`: expected one output, got outputs of shape {y.shape[1:]}; outputs have one law.")
    return y[0, 0]


def _by_layer(gradient: Any) -> list[list[Array]]:
    """Leaves of a tree of parameters, those of one layer together."""
    layers: dict[str, list[Array]] = {}
    for path, leaf in jax.tree.leaves_with_path(gradient):
        layers.setdefault(jax.tree_util.keystr(path[:-1]), []).append(leaf)
    return list(layers.values())


def _gradient_norms(net: Any, params: Any, x: Float[Array, "n ..."]) -> Float[Array, "n layers"]:
    r"""$\|\partial_{\theta^{(l)}} f_\theta(x)\|$."""

    def norms(one: Array) -> Array:
        gradient = jax.grad(lambda p: _output(net, p, one))(params)
        return jnp.stack([jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in layer)) for layer in _by_layer(gradient)])

    return jax.lax.map(norms, x)


def _lipschitz_constants(net: Any, params: Any, region: Float[Array, "m ..."]) -> Float[Array, " layers"]:
    r"""Largest operator norm over the region of the derivative of $x \mapsto \partial_{\theta^{(l)}} f_\theta(x)$."""

    def norms(one: Array) -> Array:
        derivative = jax.jacfwd(lambda z: jax.grad(lambda p: _output(net, p, z))(params))(one)
        d = one.size
        squares = [sum(_square(leaf.reshape(-1, d)) for leaf in layer) for layer in _by_layer(derivative)]
        # Gradients of a last bias do not depend on the input: an eigenvalue 0 may come out negative.
        return jnp.stack([jnp.sqrt(jnp.maximum(jnp.linalg.eigvalsh(square)[-1], 0)) for square in squares])

    return jnp.max(jax.lax.map(norms, region), axis=0)


def _square(J: Float[Array, "p d"]) -> Float[Array, "d d"]:
    return jnp.matmul(J.T, J, precision="highest")

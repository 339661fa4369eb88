"""Dual of any nonlinearity, by Gauss-Hermite quadrature."""

from collections.abc import Callable
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from eqbook._checks import check_function, check_int
from eqbook.kernels.duals import safe_sqrt
from eqbook.layers.activation import MOST_NODES

Scalar = Float[Array, "*batch"]


@cache
def gauss_hermite(nodes: int) -> tuple[np.ndarray, np.ndarray]:
    r"""Nodes $z_i$ and weights $w_i$ with $E[f(z)] \approx \sum_i w_i f(z_i)$ for $z \sim N(0, 1)$, in float64.

    Raises:
        ValueError: if the number of nodes is not an integer from 1 to 256.
    """
    if check_int("nodes", nodes, 1) > MOST_NODES:
        raise ValueError(f"`nodes`: expected at most {MOST_NODES}, got {nodes}; weights underflow.")
    z, w = np.polynomial.hermite_e.hermegauss(nodes)
    return z, w / w.sum()


def quadrature_dual(function: Callable, nodes: int, a: Scalar, b: Scalar, c: Scalar) -> tuple[Scalar, Scalar]:
    r"""Dual of $\sigma$: $E[\sigma(u)\sigma(v)]$ and $E[\sigma'(u)\sigma'(v)]$ for variances $a, b$ and covariance $c$.

    With independent $z_1, z_2 \sim N(0, 1)$, correlation $r = c / \sqrt{ab}$: $u = \sqrt a\, (p z_1 + q z_2)$,
    $v = \sqrt b\, (p z_1 - q z_2)$, where $p^2 = (1 + r)/2$ and $q^2 = (1 - r)/2$. The nodes are symmetric
    under $z_2 \mapsto -z_2$, so the kernel is symmetric in $u$ and $v$.

    Args:
        function: $\sigma$.
        nodes: nodes in each dimension; the sum has their square as many terms.
        a: variance of u.
        b: variance of v.
        c: covariance of u and v.

    Returns:
        $E[\sigma(u)\sigma(v)]$ and $E[\sigma'(u)\sigma'(v)]$.

    Raises:
        ValueError: if `function` is none, or `nodes` is not an integer from 1 to 256.
    """
    check_function("function", function, "jnp.tanh")
    dtype = jnp.result_type(a, b, c)
    z, w = (jnp.asarray(array, dtype) for array in gauss_hermite(nodes))
    root_a, root_b = safe_sqrt(a), safe_sqrt(b)
    scale = root_a * root_b
    r = jnp.clip(jnp.where(scale > 0, c / jnp.where(scale > 0, scale, 1), 0), -1, 1)
    p, q = safe_sqrt((1 + r) / 2), safe_sqrt((1 - r) / 2)

    def values(u: Scalar) -> Scalar:
        return jnp.asarray(function(u), dtype)  # a function with NumPy constants may widen it

    derivative = elementwise_derivative(values)

    def add(total: tuple[Array, Array], node: tuple[Array, Array, Array]) -> tuple[tuple[Array, Array], None]:
        z1, z2, weight = node
        u, v = root_a * (p * z1 + q * z2), root_b * (p * z1 - q * z2)
        terms = (values(u) * values(v)).astype(dtype), (derivative(u) * derivative(v)).astype(dtype)
        return tuple(old + weight * new for old, new in zip(total, terms, strict=True)), None

    zero = jnp.zeros(jnp.broadcast_shapes(jnp.shape(a), jnp.shape(b), jnp.shape(c)), dtype)
    grid = jnp.repeat(z, nodes), jnp.tile(z, nodes), jnp.outer(w, w).ravel()
    return jax.lax.scan(add, (zero, zero), grid)[0]


def elementwise_derivative(function: Callable) -> Callable:
    r"""$\sigma'$, entry by entry."""

    def derivative(u: Scalar) -> Scalar:
        return jax.jvp(function, (u,), (jnp.ones_like(u),))[1]

    return derivative

"""The largest learning rate of gradient descent, from the largest eigenvalue of the neural tangent kernel."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from eqbook._checks import (
    check_batch,
    check_finite,
    check_int,
    check_integers,
    check_key,
    check_net,
    check_number,
    native,
)
from eqbook._shown import shown
from eqbook.ensembles.epoch import init_member


def ntk_learning_rate(
    net: Any, at: Any, x: Float[Array, "n ..."], fraction: float = 1.0, tolerance: float = 1e-3, max_steps: int = 200
) -> float:
    r"""$\eta = c \cdot 2 / \lambda_{\max}$ of the empirical neural tangent kernel on the training inputs.

    For the loss $\frac12 \sum_i \|f(x_i) - y_i\|^2$ (`squared_error`) and a network linear in its parameters,
    full-batch gradient descent multiplies the error along an eigenvector by $1 - \eta \lambda$: it converges for
    $c < 1$ and is quickest along the largest eigenvalue at $c = 1/2$. A finite network's kernel moves; stay below
    $c = 1$. For `cross_entropy`, a mean over $n$ examples whose second derivative in the outputs is at most 1/2, $2 n$
    times this rate is safe in the same sense.

    $\lambda_{\max}$ is that of $J J^\top$, $[n k, n k]$ for k outputs, found by Lanczos iteration; J is applied by one
    forward and one reverse derivative and never stored. The residual is added to the estimate, so that the rate errs to
    the small side, unless the iteration has settled on a smaller eigenvalue: a single one a little above thousands of
    others can be missed. That of a neural tangent kernel usually stands far above the rest.

    Args:
        net: a `Sequential`, or a module of flax.linen.
        at: parameters of one network; or a random key, which draws them; or `"infinite"` for the infinitely wide
            network of a `Sequential`, whose kernel is the same for each output.
        x: training inputs, all of the (augmented) set: `[n, ...]`.
        fraction: $c$.
        tolerance: relative size of the residual at which the iteration ends.
        max_steps: products with the kernel at most; each keeps one vector.

    Returns:
        The learning rate.

    Raises:
        ValueError: if `net` or `at` is not of its kind, the inputs are not a finite batch, a parameter is not finite, a
            number is out of range, or the kernel is zero or overflows.
        RuntimeError: if the residual is still larger after `max_steps`.

    References:
        Jacot, Gabriel, Hongler, "Neural Tangent Kernel: Convergence and Generalization in Neural Networks", 2018,
        https://arxiv.org/abs/1806.07572
        Lanczos, "An iteration method for the solution of the eigenvalue problem of linear differential and integral
        operators", 1950, https://doi.org/10.6028/jres.045.026
    """
    check_net("net", net, ("apply",))
    check_batch("x", x)
    check_integers("x", x)
    check_int("max_steps", max_steps, 1)
    fraction, tolerance = check_number("fraction", fraction, True), check_number("tolerance", tolerance, True)
    if not (isinstance(at, str) and at == "infinite" or _is_key(at) or _is_tree(at)):
        raise ValueError(f'`at`: expected parameters, a random key or "infinite", got {shown(at)}.')
    x = jnp.asarray(native(x))
    largest = _infinite(net, x) if isinstance(at, str) else _empirical(net, at, x, tolerance, max_steps)
    if not largest > 0:
        raise ValueError("`x`: expected inputs on which the outputs depend on the parameters, got a kernel that is 0.")
    return float(fraction * 2 / largest)


def _is_key(at: Any) -> bool:
    try:
        check_key("at", at)
    except ValueError:
        return False
    return True


def _is_tree(at: Any) -> bool:
    """Whether it may be parameters: a tree of arrays, and never one alone."""
    return bool(jax.tree.leaves(at)) and not jax.tree_util.all_leaves([at])


def _infinite(net: Any, x: Array) -> float:
    from eqbook.grams import gram

    return float(np.linalg.eigvalsh(np.asarray(gram(net, x).ntk, float))[-1])


def _empirical(net: Any, at: Any, x: Array, tolerance: float, max_steps: int) -> float:
    if isinstance(at, jax.Array):
        at = init_member(net, at, x[:1])
    for leaf in jax.tree.leaves(at):
        check_finite("at", leaf)
    shape = jax.eval_shape(net.apply, at, x)

    # Parameters and inputs are arguments: captured, they would be constants of the program.
    @jax.jit
    def product(params, x, v):
        outputs = lambda p: net.apply(p, x)  # noqa: E731
        (direction,) = jax.vjp(outputs, params)[1](v.reshape(shape.shape).astype(shape.dtype))
        return jax.jvp(outputs, (params,), (direction,))[1].reshape(-1)

    def finite_product(v: np.ndarray) -> np.ndarray:
        found = np.asarray(product(at, x, jnp.asarray(v)), float)
        if not np.isfinite(found).all():
            raise ValueError("`x`: expected inputs whose kernel is finite; scale the inputs, or use a wider dtype.")
        return found

    return largest_eigenvalue(finite_product, int(np.prod(shape.shape)), tolerance, max_steps)


def largest_eigenvalue(product: Any, size: int, tolerance: float = 1e-3, max_steps: int = 200) -> float:
    r"""An estimate of the largest eigenvalue of a symmetric matrix: Ritz value plus residual.

    Lanczos iteration from a random vector, every new vector made orthogonal to all before it. An eigenvalue is within
    the residual of the Ritz value. It is the largest one if that stands out from the others; where it does not, as 1.05
    among thousands of ones, the iteration can end at one below it.

    Args:
        product: $v \mapsto A v$, both `[size]`.
        size: of the matrix.
        tolerance: relative residual at which to stop; below it the Ritz value is as close to an eigenvalue.
        max_steps: products at most.

    Raises:
        RuntimeError: if the residual is still larger.
    """
    v = np.random.default_rng(0).normal(size=size)
    basis, alphas, betas = [v / np.linalg.norm(v)], [], []
    for step in range(min(size, max_steps)):
        w = product(basis[-1])
        alphas.append(float(w @ basis[-1]))
        for _ in range(2):  # twice is enough
            w = w - np.asarray(basis).T @ (np.asarray(basis) @ w)
        beta = float(np.linalg.norm(w))
        values, vectors = np.linalg.eigh(np.diag(alphas) + np.diag(betas, 1) + np.diag(betas, -1))
        residual = beta * abs(vectors[-1, -1])
        if residual <= tolerance * abs(values[-1]) or step == size - 1:
            return float(values[-1] + residual)
        betas.append(beta)
        basis.append(w / beta)
    raise RuntimeError(f"the largest eigenvalue is known to {residual / values[-1]:.1e} only; raise `max_steps`.")

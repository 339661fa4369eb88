"""Kernels of one finite network, at its present parameters."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from eqbook._checks import check_batch, check_integers, check_net, check_range, check_same_features, native
from eqbook.grams import Gram


def empirical_kernels(
    net: Any, params: Any, x1: Float[Array, "n1 ..."], x2: Float[Array, "n2 ..."] | None = None
) -> Gram:
    r"""Neural tangent kernel and output products of one finite network, averaged over its outputs.

    $\hat\Theta(x, x') = \frac{1}{n_{out}} \sum_k \langle \partial_\theta f_k(x), \partial_\theta f_k(x') \rangle$ and
    $\hat K(x, x') = \frac{1}{n_{out}} \sum_k f_k(x) f_k(x')$. Over random parameters their expectations are the NTK and
    the NNGP of the network at its finite width. An input is differentiated by itself: what a module makes of the other
    inputs of a batch, as batch normalisation does in training, is left out of the tangent kernel.

    Args:
        net: network with `apply(params, x) -> [n, n_out]`: a `Sequential` or a module of flax.linen.
        params: its parameters.
        x1: batch of inputs, `[n1, ...]`.
        x2: second batch, `[n2, ...]`; `None` means `x1`.

    Returns:
        `Gram` with `nngp` and `ntk`, both `[n1, n2]`.

    Raises:
        ValueError: if `net` is none, a batch is empty or not finite, its integers do not fit into those of JAX, the two
            do not fit together, or a kernel leaves the dtype.

    References:
        Jacot, Gabriel, Hongler, "Neural Tangent Kernel: Convergence and Generalization in Neural Networks", 2018,
        https://arxiv.org/abs/1806.07572
    """
    check_net("net", net, ("apply",))
    check_batch("x1", x1)
    if x2 is not None:
        check_batch("x2", x2)
        check_same_features("x1", x1, "x2", x2)
        check_integers("x2", x2)
        x2 = jnp.asarray(native(x2))
    check_integers("x1", x1)  # integers stay what they are: some modules, such as embeddings, take nothing else
    x1 = jnp.asarray(native(x1))

    def outputs(p, x):
        y = net.apply(p, x)
        return y.reshape(x.shape[0], -1)

    def flat_jacobian(x, n_out):
        if not jax.tree.leaves(params):  # a network without parameters
            return jnp.zeros((len(x), n_out, 0), x.dtype)
        # Of each input by itself: through a batch each of its outputs would be differentiated in all inputs.
        one = jax.jacrev(lambda p, x: outputs(p, x[None])[0])
        jacobian = jax.tree.leaves(jax.vmap(one, (None, 0))(params, x))
        return jnp.concatenate([leaf.reshape(len(x), n_out, -1) for leaf in jacobian], axis=-1)

    f1 = outputs(params, x1)
    n_out = f1.shape[1]
    j1 = flat_jacobian(x1, n_out)
    f2, j2 = (f1, j1) if x2 is None else (outputs(params, x2), flat_jacobian(x2, n_out))
    nngp = jnp.matmul(f1, f2.T, precision="highest") / n_out
    ntk = jnp.einsum("iop,jop->ij", j1, j2, precision="highest") / n_out
    return Gram(nngp=check_range("x1", nngp), ntk=check_range("x1", ntk))

"""Mean and covariance of infinitely wide networks, trained for a time t."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from eqbook._checks import as_float, check_finite, check_number, check_range, check_rectangular
from eqbook._precision import use_float64
from eqbook._shown import brief, shown
from eqbook.dynamics.arguments import DTYPES, check_matrices
from eqbook.dynamics.rounding import check_resolved, rounding_floor
from eqbook.dynamics.schedule import GradientFlow, Schedule, as_time
from eqbook.grams import Gram


def _square(name: str, matrix: Any) -> Array:
    check_matrices(name, matrix, name)
    if matrix is None:
        raise ValueError(f"`{name}`: expected a square Gram matrix [n, n], got None; ask `gram` for it by `kinds`.")
    check_finite(name, matrix)
    if np.ndim(matrix) != 2 or np.shape(matrix)[0] != np.shape(matrix)[1] or np.shape(matrix)[0] == 0:
        raise ValueError(f"`{name}`: expected a square Gram matrix [n, n], got shape {np.shape(matrix)}.")
    matrix = _narrowed(name, matrix)
    with jax.ensure_compile_time_eval():
        scale, skew = _asymmetry(matrix)
        symmetric = skew <= 1e3 * jnp.finfo(matrix.dtype).eps * scale
    if not isinstance(symmetric, jax.core.Tracer) and not symmetric:
        raise ValueError(f"`{name}`: expected a symmetric matrix, got one with |A - A^T| up to {skew:.3g}.")
    return matrix


# Programs, each compiled in one piece: one by one, their operations would take longer to compile than to run.


@jax.jit
def _asymmetry(matrix: Array) -> tuple[Array, Array]:
    """Largest entries of a matrix, and of its difference from the transpose."""
    return jnp.max(jnp.abs(matrix)), jnp.max(jnp.abs(matrix - matrix.T))


@jax.jit
def _diagonalised(ntk: Array, diag_reg: Array) -> tuple[Array, Array]:
    ridge = diag_reg * jnp.mean(jnp.diag(ntk))
    return jnp.linalg.eigh(ntk + ridge * jnp.eye(len(ntk), dtype=ntk.dtype))


@jax.jit
def _mean(vectors: Array, learned: Array, rows: Array, y: Array) -> tuple[Array, Array, Array]:
    """The mean; weights and targets in the eigenbasis."""
    with jax.default_matmul_precision("highest"):
        targets = vectors.T @ y
        return (rows @ vectors) * learned @ targets, learned[:, None] * targets, targets


@jax.jit
def _covariance(
    vectors: Array, learned: Array, nngp: Array, nngp_test_test: Array, k_rows: Array, theta: Array
) -> tuple[Array, Array, Array]:
    """The covariance; weights and targets in the eigenbasis, for which it changes as a mean does."""
    with jax.default_matmul_precision("highest"):
        # In the eigenbasis of Theta, A = Theta(x, X) H_t is a scaling of columns.
        a = (theta @ vectors) * learned
        k_rows = k_rows @ vectors
        cross = a @ k_rows.T
        a_k = a @ (vectors.T @ nngp @ vectors)
        # Sigma changes by 2 dA (K A^T - K(X, x)) with A: what the mean is for targets K(X, x) - K A^T.
        weights = learned[:, None] * (a_k - k_rows).T
        return nngp_test_test + a_k @ a.T - cross - cross.T, weights, k_rows.T


def _narrowed(name: str, value: Any) -> Array:
    """Finite numbers as JAX keeps them; 1e300 is infinite in float32, and refused.

    Known arrays are looked at even inside `jit`, where without `ensure_compile_time_eval` all that is made of them is
    abstract.
    """
    with np.errstate(over="ignore"), jax.ensure_compile_time_eval():
        return check_range(name, as_float(value, name))


class EnsembleLaw:
    r"""Law of the outputs of infinitely wide networks trained on the squared loss.

    With $\Theta$, $K$ the Gram matrices on the training set, $Y$ the targets, and
    $H_t = \phi_t(\Theta)$, which is $\Theta^{-1}(1 - e^{-\eta\Theta t})$ for gradient flow:

    $\mu_t(x) = \Theta(x, X) H_t Y$,

    $\Sigma_t(x, x') = K(x, x') + \Theta(x, X) H_t K H_t \Theta(X, x')
    - \Theta(x, X) H_t K(X, x') - K(x, X) H_t \Theta(X, x')$.

    $\Theta$ is diagonalised once, when the object is made; every time and every schedule then costs products only.

    Computed eigenvalues are off by about $n \epsilon \lambda_{max}$, and a matrix with negative ones by their size:
    modes below that floor are rounding. A result that they would decide is refused: always at $t = \infty$, and at a
    finite time once $\|H_t Y\|$ times the floor, or that of 20 inputs if there are fewer, restricted to them, exceeds
    $\|Y\|$. That keeps out results made of rounding, not rounding itself: it grows up to there. In float32, means just
    below the refusal were measured to be off by 1 to 3 % of the largest $|Y|$, and of small variances nothing may be
    left, see `covariance`. Where that matters, compute Gram matrices and law in 64 bits,
    `jax.config.update("jax_enable_x64", True)`; kernels of networks that pool, and $t = \infty$, mostly need it.

    Args:
        ntk: $\Theta(X, X)$, `[n, n]`, float32 or float64, or integers.
        nngp: $K(X, X)$, `[n, n]`; needed for covariances only.
        y: targets $Y$, `[n, k]`, in the unit that predictions shall have.
        diag_reg: added to the diagonal of $\Theta$, in units of its mean diagonal entry. 0 is the theory's setting.

    Raises:
        ValueError: if a matrix is not square, symmetric and finite, `ntk` is of another dtype, `y` does not fit, or
            `diag_reg` is no number >= 0. Abstract values (inside `jit`) pass: they cannot be looked at.

    References:
        Lee, Xiao, Schoenholz, Bahri, Novak, Sohl-Dickstein, Pennington, "Wide Neural Networks of Any Depth Evolve as
        Linear Models Under Gradient Descent", 2019, https://arxiv.org/abs/1902.06720 (equations 13 to 15).
    """

    def __init__(
        self,
        ntk: Float[Array, "n n"],
        nngp: Float[Array, "n n"] | None = None,
        y: Float[Array, "n k"] | None = None,
        diag_reg: float = 0.0,
    ) -> None:
        ntk = _square("ntk", ntk)
        if ntk.dtype.name not in DTYPES:  # no others can be diagonalised
            raise ValueError(f"`ntk`: expected float32 or float64, got {ntk.dtype}; compute the Gram matrix in these.")
        check_rectangular("y", y)
        if y is None or np.ndim(y) != 2 or np.shape(y)[0] != ntk.shape[0]:
            got = None if y is None else np.shape(y)
            raise ValueError(f"`y`: expected targets [n, k] with n = {ntk.shape[0]} as in `ntk`, got shape {got}.")
        check_finite("y", y)
        y = _narrowed("y", y)
        if nngp is not None:
            nngp = _square("nngp", nngp)
            if nngp.shape != ntk.shape:
                raise ValueError(f"`nngp`: expected shape {ntk.shape} as `ntk`, got {nngp.shape}.")
        self.eigenvalues, self._vectors = _diagonalised(ntk, check_number("diag_reg", diag_reg))
        check_range("ntk", self.eigenvalues)
        self.diag_reg = float(diag_reg)
        self._ntk, self._nngp, self._y = ntk, nngp, y

    def __repr__(self) -> str:
        parts = {"ntk": self._ntk, "nngp": self._nngp, "y": self._y, "diag_reg": self.diag_reg}
        return f"EnsembleLaw({', '.join(f'{name}={brief(part)}' for name, part in parts.items())})"

    def mean(
        self, ntk_test_train: Float[Array, "m n"], t: float, schedule: Schedule | None = None
    ) -> Float[Array, "m k"]:
        r"""$\mu_t(x) = \Theta(x, X) H_t Y$.

        In float32 it may be off by 1 to 3 % of the largest $|Y|$ just before `t` is refused.

        Args:
            ntk_test_train: $\Theta(x, X)$, `[m, n]`.
            t: training time, or number of steps; `inf` for the end of training. A known number: it cannot be traced by
                `jit`, `grad` or `vmap`.
            schedule: how the networks are trained; `GradientFlow(1.0)` if not given.

        Raises:
            ValueError: if a shape does not fit, `t` is no training time, the Gram matrix is singular at `t = inf`,
                training diverges, rounding would decide the result, or it has left the dtype.
        """
        rows, learned = self._rows("ntk_test_train", ntk_test_train), self._learned(t, schedule)
        mean, weights, targets = _mean(self._vectors, learned, rows, self._y)
        check_resolved(self.eigenvalues, weights, targets, t)
        return check_range("y", mean)

    def train_mean(self, t: float, schedule: Schedule | None = None) -> Float[Array, "n k"]:
        """The mean on the training inputs; see `mean`."""
        return self.mean(self._ntk, t, schedule)

    def covariance(
        self,
        nngp_test_test: Float[Array, "m m"],
        test_train: Gram,
        t: float,
        schedule: Schedule | None = None,
    ) -> Float[Array, "m m"]:
        r"""$\Sigma_t(x, x')$ of one output; different outputs are independent.

        It is a difference of terms of the size of $K(x, x)$. Variances smaller than the rounding of these, about
        $\epsilon K(x, x)$ times a factor that grows with the condition of what is learned of $\Theta$, come out wrong
        or negative: in float32 near training inputs after long training, say. They are not refused. Compute Gram
        matrices and law in 64 bits, `jax.config.update("jax_enable_x64", True)`, where small variances matter; where
        they do not, cut them at 0, `jnp.maximum(variance, 0)`.

        Args:
            nngp_test_test: $K(x, x')$, `[m, m]`.
            test_train: `Gram` with $K(x, X)$ and $\Theta(x, X)$, each `[m, n]`.
            t: training time, or number of steps; `inf` for the end of training. It cannot be traced.
            schedule: how the networks are trained; `GradientFlow(1.0)` if not given.

        Raises:
            ValueError: as `mean`, or if `nngp` was not given.
        """
        if self._nngp is None:
            raise ValueError("`nngp`: expected the training Gram matrix K(X, X), got None; EnsembleLaw(..., nngp=...).")
        if not isinstance(test_train, Gram):
            got = type(test_train).__name__
            raise ValueError(f"`test_train`: expected the Gram of eq.gram(net, x, x_train), got {got}.")
        theta = self._rows("test_train.ntk", test_train.ntk)
        k_rows = self._rows("test_train.nngp", test_train.nngp)
        if k_rows.shape != theta.shape:
            raise ValueError(f"`test_train.nngp`: expected shape {theta.shape} as its `ntk`, got {k_rows.shape}.")
        check_matrices("nngp_test_test", nngp_test_test, "nngp")
        if np.shape(nngp_test_test) != (theta.shape[0], theta.shape[0]):
            raise ValueError(
                f"`nngp_test_test`: expected [m, m] with m = {theta.shape[0]} as in `test_train`, "
                f"got shape {np.shape(nngp_test_test)}."
            )
        check_finite("nngp_test_test", nngp_test_test)
        nngp_test_test = _narrowed("nngp_test_test", nngp_test_test)
        learned = self._learned(t, schedule)
        found = _covariance(self._vectors, learned, self._nngp, nngp_test_test, k_rows, theta)
        covariance, weights, targets = found
        check_resolved(self.eigenvalues, weights, targets, t)
        return check_range("nngp", covariance)

    def _learned(self, t: float, schedule: Schedule | None) -> Float[Array, " n"]:
        schedule = GradientFlow() if schedule is None else schedule
        if not isinstance(schedule, Schedule):
            raise ValueError(f"`schedule`: expected GradientFlow(...) or GradientDescent(...), got {shown(schedule)}.")
        t = as_time(t)
        schedule.check(self.eigenvalues, t)
        if t == float("inf"):
            self._check_invertible()
        # A Gram matrix has no negative eigenvalue: one that is computed is rounding, and would grow as exp(|lambda| t).
        return schedule.learned(jnp.maximum(self.eigenvalues, 0), t)

    def _check_invertible(self) -> None:
        if isinstance(self.eigenvalues, jax.core.Tracer):
            return
        smallest, largest = np.asarray(self.eigenvalues)[[0, -1]]
        floor = rounding_floor(self.eigenvalues)
        if smallest <= floor:
            wider = "" if self.eigenvalues.dtype == np.float64 else f"{use_float64()}, "
            raise ValueError(
                f"`ntk`: expected an invertible Gram matrix for t = inf (smallest eigenvalue > {floor:.3g}), got "
                f"{smallest:.3g}, largest {largest:.3g}; remove duplicate inputs, {wider}take a finite `t`, or "
                "`diag_reg` > 0."
            )

    def _rows(self, name: str, matrix: Array | None) -> Array:
        n = len(self.eigenvalues)
        check_matrices(name, matrix, "ntk")
        if matrix is None or np.ndim(matrix) != 2 or np.shape(matrix)[1] != n:
            got = None if matrix is None else np.shape(matrix)
            raise ValueError(f"`{name}`: expected [m, n] with n = {n} training inputs, got shape {got}.")
        check_finite(name, matrix)
        return _narrowed(name, matrix)

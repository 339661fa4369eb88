"""Power laws, straight or bent once, through learning curves; the search for the bend is accounted for."""

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from jaxtyping import Float, Real

from eqbook._checks import check_finite, check_int, check_known, check_level
from eqbook._shown import summary

CANDIDATES = 400  # places of the bend that are tried


@dataclass(frozen=True)
class BentPowerLaw:
    r"""What `bent_power_law` has found; arrays of the shape `*batch` of the curves, intervals `[*batch, 2]`.

    Attributes:
        slope: $\alpha$ of the single power law $e = c\, m^{-\alpha}$, and `slope_interval`.
        before: $\alpha_1$, the exponent of sizes below the bend, and `before_interval`.
        after: $\alpha_2$, the exponent of sizes above it, and `after_interval`.
        bend: $b$, a size, and `bend_interval`. An end of the interval that is an end of the search, the second or the
            last but one size, is no bound: the data do not limit the bend on that side.
        error: error at the bend.
        single_misfit: $\chi^2$ of the single law, with two degrees of freedom less than there are sizes.
        misfit: $\chi^2$ of the bent law, with four less.
    """

    slope: Float[np.ndarray, "..."]
    before: Float[np.ndarray, "..."]
    after: Float[np.ndarray, "..."]
    bend: Float[np.ndarray, "..."]
    error: Float[np.ndarray, "..."]
    slope_interval: Float[np.ndarray, "... 2"]
    before_interval: Float[np.ndarray, "... 2"]
    after_interval: Float[np.ndarray, "... 2"]
    bend_interval: Float[np.ndarray, "... 2"]
    single_misfit: Float[np.ndarray, "..."]
    misfit: Float[np.ndarray, "..."]

    __repr__ = summary

    def __call__(self, sizes: Real[np.ndarray, " n"]) -> Float[np.ndarray, "*batch n"]:
        """Errors of the bent law at other sizes.

        Args:
            sizes: sizes of training sets.

        Raises:
            ValueError: if they are not positive and finite, do not go with the curves, or are abstract (inside `jit`).
        """
        check_known("sizes", sizes)
        check_finite("sizes", sizes)
        if not (np.asarray(sizes) > 0).all():
            raise ValueError(f"`sizes`: expected positive numbers, got {np.min(sizes)}.")
        batch = np.shape(self.bend)
        try:
            np.broadcast_shapes(np.shape(sizes), (*batch, 1))
        except ValueError:
            raise ValueError(
                f"`sizes`: expected sizes [n] for curves of shape {batch}, got shape {np.shape(sizes)}; reshape them."
            ) from None
        steps = np.log(np.asarray(sizes, float)) - np.log(self.bend)[..., None]
        slopes = np.where(steps < 0, self.before[..., None], self.after[..., None])
        return self.error[..., None] * np.exp(-slopes * steps)


def bent_power_law(
    sizes: Real[np.ndarray, " n"],
    errors: Real[np.ndarray, "*batch n"],
    covariance: Real[np.ndarray, "n n"],
    level: float = 0.95,
) -> BentPowerLaw:
    r"""Fit power laws that meet, $e(m) = e_b\, (m / b)^{-\alpha_1}$ for $m < b$ and $e_b\, (m / b)^{-\alpha_2}$ after.

    Generalised least squares in $\log e$ with the covariance $\Sigma$. Given $b$ the model is linear. $b$ is the best
    of 400 places, evenly spaced in $\log m$ from the second to the last but one size. With $\chi^2(b)$ the smallest
    misfit given $b$, and $q$ the quantile of $\chi^2_2$, the intervals are those of the likelihood ratio: for the bend
    all $b$ with $\chi^2(b) \le \min \chi^2 + q$, and one place more on either side; for a slope all $\alpha$ that some
    $b$ makes as good,

    $$\bigcup_b \Big\{ \alpha :\ \chi^2(b) + \frac{(\alpha - \hat\alpha_b)^2}{v_b} \le \min \chi^2 + q \Big\} ,$$

    with $\hat\alpha_b$ and $v_b$ estimate and variance given $b$; of this union the two ends. For one parameter of a
    smooth model $\chi^2_1$ would do. Where a bend is weak or absent its place is not a smooth parameter, and the
    intervals of $\chi^2_1$ cover too seldom, 90 % for 95 %; those of $\chi^2_2$ cover at least as often as they should
    in all simulations of the tests. Whether there is a bend at all, `bend_p_value` tests.

    Args:
        sizes: $m$, increasing, at least five.
        errors: $e(m)$ of one curve or of many, positive; or ratios of the errors of two curves.
        covariance: $\Sigma$ of $\log e$, for example of bootstrap draws.
        level: confidence level, between 0 and 1.

    Raises:
        ValueError: if sizes do not increase or their logarithms do not differ in double precision, an error is not
            positive, the covariance is not symmetric, positive definite and of the right shape, the level is not
            between 0 and 1, or an array is abstract (inside `jit`).

    References:
        Hudson, "Fitting segmented curves whose join points have to be estimated", JASA 61, 1966.
        Seber, Wild, "Nonlinear Regression", 1989, chapter 9.
    """
    u, L = _check(sizes, covariance)
    logs = _check_errors(errors, len(u))
    level = check_level("level", level)
    places = np.linspace(u[1], u[-2], CANDIDATES)
    y = _whiten(L, logs)
    line, line_error, rest = _line(u, L, y)
    Q, R = _designs(u, L, places)
    seen = np.einsum("gnk,...n->...gk", Q, rest)
    # From residuals: the difference of the squares of `rest` and `seen`, where errors are small, is rounding.
    misfit = np.sum((rest[..., None, :] - np.einsum("gnk,...gk->...gn", Q, seen)) ** 2, -1)  # [*batch, places]
    inverse = np.linalg.inv(R)
    # (error at the bend, slopes): those of the line, changed by what the rest asks for
    found = np.einsum("gkl,...gl->...gk", inverse, seen)
    found += np.stack(np.broadcast_arrays(*_line_at(line, places)), -1)
    spread = np.sqrt(np.sum(inverse**2, -1))  # [places, 3]
    best = np.argmin(misfit, -1)[..., None]
    q = -2 * np.log1p(-level)  # of chi^2 with two degrees of freedom
    room = q - (misfit - np.take_along_axis(misfit, best, -1))  # what is left for a parameter at this place
    inside, room = room >= 0, np.sqrt(np.maximum(room, 0))

    def at_best(values):
        return np.take_along_axis(values, best, -1)[..., 0]

    def ends(low, high):
        return np.stack([np.where(inside, low, np.inf).min(-1), np.where(inside, high, -np.inf).max(-1)], -1)

    alphas = [-found[..., k] for k in (1, 2)]
    before, after = (ends(a - spread[:, k] * room, a + spread[:, k] * room) for k, a in zip((1, 2), alphas))
    half = -NormalDist().inv_cdf((1 - level) / 2) * line_error  # (1 + level) / 2 may round to 1
    step = places[1] - places[0]
    return BentPowerLaw(
        slope=-line[..., 1],
        before=at_best(alphas[0]),
        after=at_best(alphas[1]),
        bend=np.exp(places[best[..., 0]]),
        error=np.exp(at_best(found[..., 0])),
        slope_interval=np.stack([-line[..., 1] - half, -line[..., 1] + half], -1),
        before_interval=before,
        after_interval=after,
        bend_interval=np.exp(np.clip(ends(places - step, places + step), u[1], u[-2])),
        single_misfit=np.sum(rest**2, -1),
        misfit=at_best(misfit),
    )


def bend_p_value(
    sizes: Real[np.ndarray, " n"],
    errors: Real[np.ndarray, "*batch n"],
    covariance: Real[np.ndarray, "n n"],
    draws: int = 2000,
    seed: int = 0,
) -> Float[np.ndarray, "*batch"]:
    r"""$p$-value of the single power law against the bent one, by simulation.

    The statistic is the difference of the two $\chi^2$ of `bent_power_law`. Both models contain all lines, so under the
    hypothesis of a single law it does not depend on that law, and one set of Gaussian draws with covariance $\Sigma$
    serves all curves. $p = (1 + r) / (1 + D)$, where $r$ of $D$ draws have a statistic at least as large, is a valid
    $p$-value for every $D$; no limit is involved, and the search for the bend is accounted for.

    Args:
        sizes: $m$, increasing, at least five.
        errors: $e(m)$ of one curve or of many, positive.
        covariance: $\Sigma$ of $\log e$.
        draws: $D$.
        seed: of the draws.

    Raises:
        ValueError: as `bent_power_law`, or if `draws` is not a positive integer, `seed` not one of at least 0.

    References:
        Davies, "Hypothesis testing when a nuisance parameter is present only under the alternative", Biometrika 74,
        1987 (why $\chi^2_2$ would be wrong).
    """
    u, L = _check(sizes, covariance)
    logs = _check_errors(errors, len(u))
    draws, seed = check_int("draws", draws, 1), check_int("seed", seed, 0)
    Q, _ = _designs(u, L, np.linspace(u[1], u[-2], CANDIDATES))

    def statistic(y):
        rest = _line(u, L, y)[2]
        return np.sum(np.einsum("gnk,...n->...gk", Q, rest) ** 2, -1).max(-1)

    null = np.sort(statistic(np.random.default_rng(seed).standard_normal((draws, len(u)))))
    larger = draws - np.searchsorted(null, statistic(_whiten(L, logs)), side="left")
    return (1 + larger) / (1 + draws)


def _designs(u: np.ndarray, L: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """QR of the whitened columns 1, (u - b)_- and (u - b)_+ for each place b: `[places, n, 3]` and `[places, 3, 3]`."""
    steps = u - places[:, None]
    columns = np.stack([np.ones_like(steps), np.minimum(steps, 0), np.maximum(steps, 0)], -1)
    return np.linalg.qr(np.swapaxes(_whiten(L, np.swapaxes(columns, -1, -2)), -1, -2))


def _line(u: np.ndarray, L: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, float, np.ndarray]:
    """Intercept and slope of the line through whitened curves, the slope's standard error, and what it leaves."""
    Q, R = np.linalg.qr(_whiten(L, np.stack([np.ones_like(u), u])).T)
    seen = y @ Q
    inverse = np.linalg.inv(R)
    return seen @ inverse.T, float(np.linalg.norm(inverse[1])), y - seen @ Q.T


def _line_at(line: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, ...]:
    """A line as (value at the place, slope before, slope after)."""
    intercept, slope = line[..., :1], line[..., 1:]
    return intercept + slope * places, slope, slope


def _whiten(L: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Rows in units of their errors: `L^-1` applied along the last axis."""
    return np.linalg.solve(L, rows.reshape(-1, len(L)).T).T.reshape(rows.shape)


def _check(sizes: object, covariance: object) -> tuple[np.ndarray, np.ndarray]:
    for name, value in (("sizes", sizes), ("covariance", covariance)):
        check_known(name, value)
        check_finite(name, value)
    sizes, covariance = np.asarray(sizes, float), np.asarray(covariance, float)
    if sizes.ndim != 1 or len(sizes) < 5 or not (sizes[0] > 0 and (np.diff(sizes) > 0).all()):
        raise ValueError(f"`sizes`: expected at least five increasing positive sizes, got {sizes}.")
    u = np.log(sizes)
    if np.diff(u).min() < 100 * np.spacing(np.abs(u).max()):  # rounded to a percent, or to equal ones
        raise ValueError(
            f"`sizes`: expected sizes whose logarithms differ in double precision, got {sizes}; leave out close ones."
        )
    if covariance.shape != (len(sizes),) * 2:
        raise ValueError(
            f"`covariance`: expected a symmetric matrix for {len(sizes)} sizes, got shape {covariance.shape}."
        )
    near = 1e-9 * np.abs(covariance).max(initial=0)  # of entries that are 0 but for rounding
    if not np.allclose(covariance, covariance.T, rtol=1e-6, atol=near):
        skew = np.abs(covariance - covariance.T).max()
        raise ValueError(
            f"`covariance`: expected a symmetric matrix, got one with |A - A^T| up to {skew:.3g}; if that is rounding, "
            "take (A + A^T) / 2."
        )
    try:
        return u, np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError as error:
        raise ValueError(
            "`covariance`: expected a positive definite matrix, got a singular or indefinite one; draw more bootstrap "
            "samples than there are sizes, or add the variance of what was not resampled to the diagonal."
        ) from error


def _check_errors(errors: object, count: int) -> np.ndarray:
    check_known("errors", errors)
    check_finite("errors", errors)
    errors = np.asarray(errors, float)
    if errors.ndim < 1 or errors.shape[-1] != count:
        raise ValueError(f"`errors`: expected one for each of {count} sizes, got shape {errors.shape}.")
    if not (errors > 0).all():
        raise ValueError(f"`errors`: expected positive numbers, got {errors.min()}; a logarithm is fitted.")
    return np.log(errors)

"""Exact mean energies of the Ising model in two dimensions, to check samples against."""

import numpy as np

from eqbook._checks import check_int, check_number


def kaufman_energy(side: int, temperature: float) -> float:
    r"""Mean energy per site $u$ on the periodic lattice of $L \times L$ sites, with $J = 1$.

    With $K = 1/T$, $u = -L^{-2}\, \partial_K \log Z$ and $Z = \frac12 (2 \sinh 2K)^{L^2/2} \sum_{i=1}^4 Z_i$, where

    $$
    Z_{1,2} = \prod_{r=0}^{L-1} 2 \{\cosh, \sinh\} \tfrac{L}{2} \gamma_{2r+1}, \quad
    Z_{3,4} = \prod_{r=0}^{L-1} 2 \{\cosh, \sinh\} \tfrac{L}{2} \gamma_{2r},
    $$

    $$
    \cosh \gamma_l = \cosh 2K \coth 2K - \cos \tfrac{\pi l}{L}, \quad \gamma_0 = 2K + \log \tanh K.
    $$

    Args:
        side: L, at least 2. For L = 2 neighbours are joined by two bonds.
        temperature: T > 0 in units of $J / k_B$.

    Returns:
        $u$; the mean of `total_energy` is $2u$. At high temperatures rounding leaves a relative error of $10^{-16} T$.

    Raises:
        ValueError: if an argument is out of range.

    References:
        Kaufman, "Crystal statistics. II. Partition function evaluated by spinor analysis", Physical Review 76, 1949,
        https://doi.org/10.1103/PhysRev.76.1232
    """
    side, K = check_int("side", side, 2), _coupling(temperature)
    if K > 100:
        return -2.0  # that of equal spins: the rest, of order e^-8K, is no number any more, and cosh^2 2K may overflow
    # The derivative by a step into the complex plane, which loses no digits: f'(K) = Im f(K + ih) / h.
    step = 1e-30
    return -_log_partition(K + 1j * step, side).imag / step / side**2


def onsager_energy(temperature: float) -> float:
    r"""Mean energy per site $u$ on the infinite lattice, with $J = 1$.

    $u = -\coth 2K \, [1 + \frac{2}{\pi} (2 \tanh^2 2K - 1)\, \mathcal K(k)]$ with $K = 1/T$,
    $k = 2 \sinh 2K / \cosh^2 2K$, and the complete elliptic integral
    $\mathcal K(k) = \pi / 2\, \mathrm{agm}(1, \sqrt{1 - k^2})$.

    Args:
        temperature: T > 0 in units of $J / k_B$.

    Raises:
        ValueError: if the temperature is not positive.

    References:
        Onsager, "Crystal statistics. I. A two-dimensional model with an order-disorder transition", Physical Review 65,
        1944, https://doi.org/10.1103/PhysRev.65.117
    """
    K = _coupling(temperature)
    if K < 1e-9:
        return -2 * K  # the next term is K^2 smaller; below, squares of K would vanish in the end
    tanh = np.tanh(2 * K)
    factor = 2 * tanh**2 - 1  # also sqrt(1 - k^2), up to its sign
    if factor == 0:
        return float(-1 / tanh)  # the product below is 0 times infinity, with limit 0
    # The arithmetic-geometric mean of 1 and |factor|, less 1: at high temperatures its digits are what is left.
    start = -2 * tanh**2 if factor < 0 else 2 * tanh**2 - 2
    a, b = 0.0, start
    for _ in range(10):  # each doubles the digits
        a, b = (a + b) / 2, np.expm1((np.log1p(a) + np.log1p(b)) / 2)
    rest = (a - start) if factor < 0 else 1 + a + factor
    return float(-rest / (1 + a) / tanh)


def _coupling(temperature: float) -> float:
    return 1 / check_number("temperature", temperature, positive=True)


def _log_partition(K: complex, side: int) -> complex:
    r"""log Z at a complex coupling close to a real one; each product is kept as exp(sum) times a moderate factor.

    With $s = \sinh 2K$ the factor $s^{L/2}$ of each of the L terms goes into $s e^{|\gamma|}$, which has a limit at
    high temperatures, where $s$ and $e^{-\gamma}$ vanish.
    """
    s = np.sinh(2 * K)
    gap = (1 - s) ** 2 + s * (1 - np.cos(np.pi * np.arange(2 * side) / side))  # s (cosh(gamma) - 1)
    root = np.sqrt(gap) * np.sqrt(gap + 2 * s)  # s sinh(gamma)
    sign0 = 1 if s.real > 1 else -1  # of gamma_0, which is negative above the critical temperature
    root[0] = sign0 * np.sqrt(1 + s * s) * (s - 1)
    rising = gap + s + root  # s e^|gamma|
    sums, factors = [], []
    for parity in (1, 0):
        decay = (s / rising[parity::2]) ** side  # e^(-L |gamma|)
        flipped = sign0 if parity == 0 else 1
        for sign, prefactor in ((1, 1), (-1, flipped)):  # 2 cosh x, 2 sinh x = e^x (1 +- e^-2x)
            sums.append(side / 2 * np.log(2 * rising[parity::2]).sum())
            factors.append(prefactor * np.prod(1 + sign * decay))
    largest = max(sums, key=lambda value: value.real)
    total = sum(factor * np.exp(value - largest) for factor, value in zip(factors, sums, strict=True))
    return largest + np.log(total / 2)

r"""Filters that can be turned by any angle: circular harmonics on rings, sampled on the pixels."""

from functools import cache

import numpy as np
from jaxtyping import Complex, Float

from eqbook._checks import check_int, check_odd


def circular_harmonics(kernel_size: int) -> tuple[Complex[np.ndarray, "b k k"], tuple[int, ...]]:
    r"""Basis of filters $\psi_{jm}(u) \propto e^{-(|u| - r_j)^2 / 2 \sigma_j^2}\, e^{i m \arg u}$ with $m \ge 0$.

    Rings have radii $r_j = 0, 1, \dots, (k - 1) / 2$ and widths 0.6, the outermost 0.4, the innermost only the middle
    pixel. Frequencies $m$ stop where a ring's pixels no longer resolve them: at 0 in the middle, at 2 on the outermost
    ring, which is cut by the corners, and between at $2 r$ for odd and $2 r - 1$ for even $r$. Each $\psi$ has norm 1.
    These are the choices of the library escnn, so that the filters span the same space.

    Args:
        kernel_size: odd side $k$ of the square filters.

    Returns:
        The sampled functions, `[b, k, k]`, the imaginary unit turning counter-clockwise, and their frequencies $m$.

    Raises:
        ValueError: if `kernel_size` is not odd and positive.

    References:
        Weiler, Cesa, "General E(2)-Equivariant Steerable CNNs", 2019, https://arxiv.org/abs/1911.08251
    """
    # Checked before the cache is asked, which takes 5.0 and 5 for the same.
    return _harmonics(check_odd("kernel_size", kernel_size))


@cache
def _harmonics(k: int) -> tuple[Complex[np.ndarray, "b k k"], tuple[int, ...]]:
    outermost = k // 2
    rows, columns = np.mgrid[-outermost : outermost + 1, -outermost : outermost + 1]
    radius, angle = np.hypot(rows, columns), np.arctan2(-rows, columns)  # rows count downwards
    functions, frequencies = [], []
    for r in range(outermost + 1):
        width = 0.005 if r == 0 else 0.4 if r == outermost else 0.6
        ring = np.exp(-((radius - r) ** 2) / (2 * width**2))
        highest = 0 if r == 0 else 2 if r == outermost else 2 * r - (r % 2 == 0)
        for m in range(highest + 1):
            # The middle pixel has no direction: a harmonic with m > 0 that is not 0 there cannot be turned.
            psi = np.where((radius == 0) & (m > 0), 0, ring * np.exp(1j * m * angle))
            functions.append(psi / np.linalg.norm(psi))
            frequencies.append(m)
    basis = np.stack(functions)
    basis.setflags(write=False)
    return basis, tuple(frequencies)


def turned_basis(n: int, kernel_size: int) -> Float[np.ndarray, "n p k k"]:
    r"""The real basis of filters, turned counter-clockwise by each element of $C_n$.

    A filter $\kappa = \sum_b \mathrm{Re}(w_b \psi_b)$ turned by $\alpha$ is $\kappa(g_\alpha^{-1} u) =
    \sum_b \mathrm{Re}(w_b e^{-i m_b \alpha} \psi_b(u))$: turning needs no interpolation, whatever the angle. Real
    coefficients of $\sqrt2\, \mathrm{Re}$ and $-\sqrt2\, \mathrm{Im}$, or of $\mathrm{Re}$ alone for $m = 0$, are the
    parameters; each has a function whose squared norm, averaged over the angle, is 1.

    Args:
        n: number of rotations.
        kernel_size: odd side $k$ of the filters.

    Returns:
        Functions of the `p` parameters, `[n, p, k, k]`.

    Raises:
        ValueError: if `n` is not positive or `kernel_size` not odd and positive.
    """
    return _turned(check_int("n", n, 1), check_odd("kernel_size", kernel_size))


@cache
def _turned(n: int, k: int) -> Float[np.ndarray, "n p k k"]:
    basis, frequencies = _harmonics(k)
    angles = 2 * np.pi * np.arange(n) / n
    functions = []
    for psi, m in zip(basis, frequencies):
        turned = np.exp(-1j * m * angles)[:, None, None] * psi
        functions += [turned.real] if m == 0 else [np.sqrt(2) * turned.real, -np.sqrt(2) * turned.imag]
    stacked = np.stack(functions, axis=1)
    stacked.setflags(write=False)
    return stacked

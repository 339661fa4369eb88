"""Smooth random images: Gaussian fields with a given correlation, far from any picture of something."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key
from scipy.special import i0e

from eqbook._checks import check_int, check_key, check_number


def smooth_random_fields(
    key: Key[Array, ""],
    n: int,
    shape: tuple[int, int, int],
    correlation_length: float,
    wavelength: float | None = None,
    saturated: bool = False,
) -> Float[Array, "n height width channels"]:
    r"""Draw Gaussian random fields with the covariance $C(r) = J_0(2\pi r / \lambda)\, e^{-r^2 / 2 \ell^2}$.

    They are white noise whose Fourier coefficients are multiplied by $\sqrt{S(k)}$, with
    $S(k) \propto e^{-\ell^2 (k^2 + q^2) / 2}\, I_0(\ell^2 k q)$ and $q = 2\pi / \lambda$. Without a wavelength,
    $q = 0$, and the fields are blobs of size $\ell$; with $\lambda < \ell$ only frequencies in a band of width $1/\ell$
    about $q$ are left, and the fields are stripes of period $\lambda$ that stay straight over the length $\ell$. Mean
    0, variance 1; channels are independent; the fields continue periodically. Their law does not change under
    translations and rotations (by multiples of 90 degrees, on a square grid). The covariance is that of the plane; on
    pixels it holds for $\ell$ and $\lambda$ well above a pixel and well below the side. For $\ell$ below a pixel, or
    $\lambda$ near 2, frequencies that pixels cannot show are missing from it.

    Args:
        key: random key.
        n: number of fields.
        shape: height, width, channels.
        correlation_length: $\ell$ in pixels, positive.
        wavelength: $\lambda$ in pixels, at least 2, the shortest that pixels show; None for no band.
        saturated: return 1 where the field is positive and 0 elsewhere. With three channels these are images in the
            eight saturated colours. Otherwise, `jax.scipy.special.ndtr` of a field has uniform values in [0, 1].

    Returns:
        `[n, height, width, channels]`, float32.

    Raises:
        ValueError: if an argument is out of range.
    """
    check_key("key", key)
    if not isinstance(shape, tuple | list) or len(shape) != 3:
        raise ValueError(f"`shape`: expected (height, width, channels), got {shape!r}.")
    height, width, channels = (check_int("shape", size, 1) for size in shape)
    check_int("n", n, 1)
    if check_number("correlation_length", correlation_length, positive=True) > 1e100:
        raise ValueError(f"`correlation_length`: expected a number of pixels up to 1e100, got {correlation_length!r}.")
    if wavelength is not None and check_number("wavelength", wavelength) < 2:
        raise ValueError(f"`wavelength`: expected a number of pixels, at least 2, or None, got {wavelength!r}.")
    noise = jax.random.normal(key, (n, height, width, channels), jnp.float32)
    amplitude = jnp.asarray(_amplitude(height, width, correlation_length, wavelength), jnp.float32)
    field = jnp.fft.ifft2(jnp.fft.fft2(noise, axes=(1, 2)) * amplitude[..., None], axes=(1, 2)).real
    return (field > 0).astype(jnp.float32) if saturated else field


def _amplitude(
    height: int, width: int, correlation_length: float, wavelength: float | None
) -> Float[np.ndarray, "height width"]:
    """Square root of S at the frequencies of the grid, such that the variance of a pixel is 1."""
    frequencies = (2 * np.pi * np.fft.fftfreq(size) for size in (height, width))
    k = np.hypot(*np.meshgrid(*frequencies, indexing="ij"))
    q = 0.0 if wavelength is None else 2 * np.pi / wavelength
    # exp(-l^2 (k^2 + q^2) / 2) I0(l^2 k q), written so that nothing overflows
    density = np.exp(-((correlation_length * (k - q)) ** 2) / 2) * i0e(correlation_length**2 * k * q)
    if density.sum() == 0:
        raise ValueError("`correlation_length`: no frequency of the grid lies in the band; take a shorter length.")
    return np.sqrt(density / density.mean())

"""A smooth picture that is known at every angle, so that turning it needs no interpolation."""

import numpy as np

# Middle x and y, width, height; inside the disc of radius 1 to a few per cent.
BLOBS = ((0.35, 0.1, 0.18, 1.0), (-0.2, 0.4, 0.15, -0.7), (-0.1, -0.3, 0.2, 0.9), (0.15, -0.45, 0.12, 0.6))


def smooth_image(size: int, angle: float = 0.0) -> np.ndarray:
    """Sum of Gaussian blobs turned counter-clockwise by an angle, at the pixels of a square, `[size, size]`."""
    half = (size - 1) / 2
    rows, columns = np.mgrid[:size, :size]
    x, y = (columns - half) / half, (half - rows) / half
    c, s = np.cos(angle), np.sin(angle)
    x, y = c * x + s * y, -s * x + c * y  # g^-1 of the pixel
    return sum(a * np.exp(-((x - cx) ** 2 + (y - cy) ** 2) / (2 * w**2)) for cx, cy, w, a in BLOBS)

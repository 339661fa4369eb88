"""Group layers written out as sums, in NumPy and without the package's rotations of arrays."""

import numpy as np


def turn(group, r, point):
    """The element r of cyclic(n) or dihedral(n), n in 1, 2, 4, at a point (x, y) of the plane, y upwards."""
    reflects = "s" in group.names[-1]
    n = group.order // 2 if reflects else group.order
    x, y = point
    if r >= n:  # r^k s: the mirror image first
        x = -x
    for _ in range((r % n) * 4 // n):
        x, y = -y, x
    return x, y


def centred(index, sides):
    """Twice the position of a pixel, or of a filter entry, from the centre: integers, x to the right, y upwards."""
    (i, j), (h, w) = index, sides
    return 2 * j - (w - 1), (h - 1) - 2 * i


def places(group, size, filter_shape, padding):
    """Index of the pixel at t + r y, one flat index for each `[|G|, h, w, filter]`, or size^2 where there is none."""
    out = size if padding != "VALID" else size - filter_shape[0] + 1
    table = np.zeros((group.order, out, out, np.prod(filter_shape)), int)
    for r, i, j in np.ndindex(*table.shape[:3]):
        x, y = centred((i, j), (out, out))
        for k, tap in enumerate(np.ndindex(*filter_shape)):
            dx, dy = turn(group, r, centred(tap, filter_shape))
            row, column = (size - 1 - (y + dy)) // 2, (x + dx + size - 1) // 2
            assert (size - 1 - (y + dy)) % 2 == 0 and (x + dx + size - 1) % 2 == 0
            if padding == "CIRCULAR":
                row, column = row % size, column % size
            inside = 0 <= row < size and 0 <= column < size
            table[r, i, j, k] = row * size + column if inside else size**2
    return table


def seen_by_lift(layer, x):
    """x(t + r y) for one image `[h, w, c]`: `[|G|, h2, w2, filter, c]`."""
    flat = np.concatenate([x.reshape(-1, x.shape[-1]), np.zeros((1, x.shape[-1]))])
    return flat[places(layer.group, len(x), layer.filter_shape, layer.padding)]


def entries_of_conv(layer, size):
    """Flat index of (r q, t + r y) in a feature map with a zero behind it: `[|G|, h2, w2, q, filter]`."""
    pixels = places(layer.group, size, layer.filter_shape, layer.padding)
    element = layer.group.table[:, list(layer.elements)][:, None, None, :, None]
    pixel = pixels[:, :, :, None, :]
    return np.where(pixel == size**2, layer.group.order * size**2, element * size**2 + pixel)


def seen_by_conv(layer, x):
    """x(t + r y, r q) for one feature map `[|G|, h, w, c]`: `[|G|, h2, w2, q, filter, c]`."""
    flat = np.concatenate([x.reshape(-1, x.shape[-1]), np.zeros((1, x.shape[-1]))])
    return flat[entries_of_conv(layer, x.shape[1])]


def conv_covariance(layer, k):
    """Mean over the filter of K(r q, t + r y; r' q, t' + r' y) for `[|G|, h, w, |G|, h, w]`."""
    order, size = k.shape[:2]
    flat = np.zeros((order * size**2 + 1,) * 2)
    flat[:-1, :-1] = k.reshape(order * size**2, -1)
    entries = entries_of_conv(layer, size)
    rows = entries.reshape(-1, np.prod(entries.shape[3:]))
    mean = np.mean([flat[np.ix_(rows[:, m], rows[:, m])] for m in range(rows.shape[1])], axis=0)
    return mean.reshape(*entries.shape[:3], *entries.shape[:3])

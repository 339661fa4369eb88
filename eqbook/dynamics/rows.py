"""A symmetric matrix that is larger than the memory of one device: each device has some of its rows."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float

from eqbook._checks import check_finite, check_int, check_rectangular
from eqbook._hosts import hosts_of

Rows = Callable[[slice], Float[Array, "rows n"]]


class RowMatrix:
    r"""A symmetric positive matrix $\Theta$, its rows split over the devices of a mesh.

    A product with vectors is computed where the rows are; what is sent is the product, $n$ numbers for each vector.
    Rows are added until every device has as many: these carry a 1 on the diagonal and 0 elsewhere, and touch nothing.

    Attributes:
        n: size of the matrix.
        array: rows on their devices, `[n + padding, n + padding]`.
        mesh: the devices; `None` for the default one.
    """

    def __init__(
        self, matrix: Float[Array, "n n"] | Rows, n: int | None = None, mesh: Mesh | None = None, dtype: str = "float32"
    ) -> None:
        """Put the rows where they belong.

        Args:
            matrix: the matrix, `[n, n]`; or a function that returns the rows of a slice, `[rows, n]`, and is called on
                each process for the rows of its own devices only.
            n: size of the matrix, if it is given by a function.
            mesh: devices; `None` for the default one. They may belong to several processes.
            dtype: of the matrix, if it is given by a function.

        Raises:
            ValueError: if the matrix is not square, not symmetric or not finite, or a function returns other shapes.
        """
        hosts_of(mesh)  # refuses what is no mesh
        if callable(matrix):
            self.n, rows, dtype = check_int("n", n, 1), matrix, _floating(dtype)
        else:
            check_rectangular("matrix", matrix)
            array = np.asarray(matrix)
            self.n, rows, dtype = _check_matrix(array), lambda which: array[which], array.dtype
        # Axes of `jax.make_mesh` are explicit ones, which refuse operands that lie elsewhere; these move them.
        self.mesh = None if mesh is None else Mesh(mesh.devices, mesh.axis_names)
        size = -(-self.n // (1 if mesh is None else mesh.size)) * (1 if mesh is None else mesh.size)

        def block(which: slice) -> np.ndarray:
            start, stop, _ = which.indices(size)
            found = np.eye(stop - start, size, start, dtype)
            last = max(start, min(stop, self.n))
            found[: last - start, self.n :] = 0
            if last > start:
                found[: last - start, : self.n] = _check_rows(rows(slice(start, last)), (last - start, self.n))
            return found

        if self.mesh is None:
            self.array = jnp.asarray(block(slice(0, size)))
        else:
            sharding = NamedSharding(self.mesh, PartitionSpec(self.mesh.axis_names))
            self.array = jax.make_array_from_callback((size, size), sharding, lambda index: block(index[0]))

    def pad(self, y: Float[Array, "n k"]) -> Float[np.ndarray, "padded k"]:
        """Vectors with zeros where the matrix has padding; the same on all devices."""
        y = np.asarray(y, self.array.dtype)
        return np.pad(y, ((0, len(self.array) - self.n), (0, 0)))

    def fetch(self, x: Float[Array, "padded ..."]) -> Float[np.ndarray, "n ..."]:
        """The values of an array that is whole on each device, without padding."""
        return np.asarray(x.addressable_data(0))[: self.n]

    def everywhere(self) -> NamedSharding | None:
        """Where results of a program belong: whole on each device."""
        return None if self.mesh is None else NamedSharding(self.mesh, PartitionSpec())


def check_row_matrix(matrix: RowMatrix) -> None:
    """Raise unless `matrix` is a `RowMatrix`.

    Raises:
        ValueError: saying how to make one.
    """
    if not isinstance(matrix, RowMatrix):
        raise ValueError(f"`matrix`: expected a RowMatrix, got {type(matrix).__name__}; write RowMatrix(matrix).")


def _floating(dtype: str) -> jnp.dtype:
    try:
        found = jnp.dtype(dtype)
    except TypeError:
        found = None
    if found is None or not jnp.issubdtype(found, jnp.floating):
        raise ValueError(f"`dtype`: expected a floating dtype such as 'float32', got {dtype!r}.")
    return found


def _check_matrix(matrix: np.ndarray) -> int:
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or len(matrix) == 0:
        raise ValueError(f"`matrix`: expected [n, n] or a function of a slice of rows, got shape {matrix.shape}.")
    if not np.issubdtype(matrix.dtype, np.floating):
        raise ValueError(f"`matrix`: expected floating-point numbers, got {matrix.dtype}; convert it.")
    check_finite("matrix", matrix)
    skew, scale = np.abs(matrix - matrix.T).max(), np.abs(matrix).max()
    if skew > len(matrix) * np.finfo(matrix.dtype).eps * scale:
        raise ValueError(f"`matrix`: expected a symmetric matrix, got a relative asymmetry of {skew / scale:.2g}.")
    return len(matrix)


def _check_rows(rows: Array, shape: tuple[int, int]) -> np.ndarray:
    rows = np.asarray(rows)
    if rows.shape != shape:
        raise ValueError(f"`matrix`: expected rows of shape {shape} from the function, got {rows.shape}.")
    if not np.isfinite(rows).all():
        raise ValueError("`matrix`: expected finite rows, got NaN or infinity.")
    return rows

"""A symmetric matrix that is larger than the memory of one device: each device has some of its rows."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float

from eqbook._checks import check_int, check_known, check_rectangular
from eqbook._hosts import hosts_of
from eqbook.dynamics.arguments import as_rows, check_matrices, check_matrix, floating
from eqbook.grams import Gram
from eqbook.grams.store import fingerprint

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
            matrix: the matrix, `[n, n]`, float32 or float64; or a function that returns the rows of a slice,
                `[rows, n]`, and is called on each process for the rows of its own devices only.
            n: size of the matrix, if it is given by a function; beside an array, the array's or `None`.
            mesh: devices; `None` for the default one. They may belong to several processes, which make the same call.
            dtype: of the matrix, if it is given by a function: `"float32"`, or `"float64"` if JAX computes in 64 bits.
                An array keeps its own as far as JAX does; beside it, `"float32"` counts as not given, and another dtype
                has to be the array's.

        Raises:
            ValueError: if the matrix is not square, not symmetric, of another dtype, not finite in its own, or abstract
                (inside `jit`), if `n` or `dtype` is not that of an array, if a function returns other shapes or no real
                numbers, or if processes were given different matrices, sizes or dtypes. Of functions only the rows that
                they return are checked: nobody has all of them.
            RuntimeError: on a process of several, if another one fails.
        """
        hosts = hosts_of(mesh)
        whole = []
        with hosts.together():
            if callable(matrix):
                self.n, rows, kept = check_int("n", n, 1), matrix, floating(dtype)
            else:
                check_matrices("matrix", matrix, "ntk")
                check_known("matrix", matrix)
                check_rectangular("matrix", matrix)
                array = np.asarray(matrix)
                kept, self.n, rows, whole = check_matrix(array), len(array), lambda which: array[which], [array]
                if n is not None and check_int("n", n, 1) != self.n:
                    raise ValueError(f"`n`: expected {self.n}, the size of `matrix`, or None, got {n}.")
                if floating(dtype) not in (floating("float32"), kept):
                    raise ValueError(f"`dtype`: expected {kept} as the array has it, got {dtype!r}; convert the array.")
        if hosts.count > 1:
            hosts.check_same("arguments of `RowMatrix`", fingerprint("rows", whole, n=self.n, dtype=kept.name))
        # Axes of `jax.make_mesh` are explicit ones, which refuse operands that lie elsewhere; these move them.
        self.mesh = None if mesh is None else Mesh(mesh.devices, mesh.axis_names)
        size = -(-self.n // (1 if mesh is None else mesh.size)) * (1 if mesh is None else mesh.size)

        def block(which: slice) -> np.ndarray:
            start, stop, _ = which.indices(size)
            found = np.eye(stop - start, size, start, kept)
            last = max(start, min(stop, self.n))
            found[: last - start, self.n :] = 0
            if last > start:
                wanted = slice(start, last)
                found[: last - start, : self.n] = as_rows(rows(wanted), wanted, self.n, kept)
            return found

        with hosts.together():  # each process makes other rows, and any of them may be wrong
            if self.mesh is None:
                self.array = jnp.asarray(block(slice(0, size)))
            else:
                sharding = NamedSharding(self.mesh, PartitionSpec(self.mesh.axis_names))
                self.array = jax.make_array_from_callback((size, size), sharding, lambda index: block(index[0]))

    def __repr__(self) -> str:
        devices = 1 if self.mesh is None else self.mesh.size
        return f"RowMatrix(n={self.n}, dtype={self.array.dtype}, devices={devices})"

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
        given = "matrix.ntk" if isinstance(matrix, Gram) else "matrix"
        raise ValueError(f"`matrix`: expected a RowMatrix, got {type(matrix).__name__}; write RowMatrix({given}).")

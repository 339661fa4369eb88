"""Checks of arguments that several modules share. Each error names the argument, what was expected, and what to do."""

import os
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from eqbook._precision import SWITCH, use_float64
from eqbook._shown import shown


def is_abstract(value: Any) -> bool:
    """Whether a value is abstract (inside `jit`), or an entry of lists is: it cannot be looked at."""
    if isinstance(value, list | tuple):
        return any(is_abstract(entry) for entry in value)
    return isinstance(value, jax.core.Tracer)


def check_known(name: str, value: Any, what: str = "numbers") -> None:
    """Raise if a value that NumPy has to look at is abstract; `what` says in words what is expected.

    Raises:
        ValueError: naming the argument.
    """
    if is_abstract(value):
        raise ValueError(f"`{name}`: expected {what}, got an abstract value; call this outside of `jit`.")


def joined(name: str, value: Any) -> Any:
    """Lists with abstract entries as the array of JAX that they make, which has a shape; anything else as it is.

    Raises:
        ValueError: naming the argument, if they make none.
    """
    if not isinstance(value, list | tuple) or not is_abstract(value):
        return value
    check_rectangular(name, value)
    try:
        return jnp.asarray(value)
    except TypeError:
        raise ValueError(f"`{name}`: expected an array of numbers, got {shown(value)}.") from None


def check_rectangular(name: str, value: Any) -> None:
    """Raise if nested lists do not make an array, which NumPy and JAX say without naming the argument.

    Raises:
        ValueError: naming the argument.
    """
    if isinstance(value, list | tuple):
        try:
            np.shape(value)
        except jax.errors.TracerArrayConversionError:  # of abstract entries NumPy knows the shapes
            check_rectangular(name, jax.tree.map(lambda entry: np.zeros(np.shape(entry)), value))
        except ValueError:
            raise ValueError(f"`{name}`: expected an array, got lists that differ in length; pad them.") from None


def check_numeric(name: str, value: Any) -> None:
    """Raise unless JAX can make an array of numbers, of any kind, of a value. Its entries are not looked at.

    Raises:
        ValueError: naming the argument.
    """
    if isinstance(value, jax.Array):
        return
    check_rectangular(name, value)
    try:
        array = np.asarray(value)
    except jax.errors.TracerArrayConversionError:  # a list of abstract values
        return
    if not (jnp.issubdtype(array.dtype, jnp.number) or array.dtype == bool):
        got = f"dtype {array.dtype}" if array.ndim else shown(value)
        raise ValueError(f"`{name}`: expected an array of numbers, got {got}.")


def check_finite(name: str, value: Any, real: bool = True) -> None:
    """Raise if an array holds NaN or infinity. Abstract values (inside `jit`) pass: they cannot be looked at.

    Args:
        name: of the argument.
        value: what was given.
        real: whether complex numbers and truth values are refused, too.

    Raises:
        ValueError: naming the argument and the first bad index, or its dtype if that is not one of such numbers.
    """
    if isinstance(value, jax.core.Tracer):
        return
    check_rectangular(name, value) if real else check_numeric(name, value)
    if _finite_on_accelerator(value, real):
        return
    try:
        array = np.asarray(value)
    except jax.errors.TracerArrayConversionError:  # a list of abstract values
        return
    # jnp, not np: bfloat16 is no number to NumPy.
    if real and not (jnp.issubdtype(array.dtype, jnp.floating) or jnp.issubdtype(array.dtype, jnp.integer)):
        if array.dtype == object and array.ndim == 0:
            raise ValueError(f"`{name}`: expected an array of real numbers, got {shown(value)}.")
        raise ValueError(f"`{name}`: expected an array of real numbers, got dtype {array.dtype}; convert it first.")
    bad = ~np.isfinite(array)
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        raise ValueError(
            f"`{name}`: expected finite numbers, got {array[where]} at index {where} "
            f"({int(bad.sum())} bad of {array.size}); clean or drop those entries."
        )


def _finite_on_accelerator(value: Any, real: bool) -> bool:
    """Whether an array that an accelerator holds is one of finite numbers; looked at there, not copied to the host."""
    if not isinstance(value, jax.Array) or jax.default_backend() == "cpu":
        return False
    if not jnp.issubdtype(value.dtype, jnp.floating if real else jnp.inexact):
        return False
    with jax.ensure_compile_time_eval():  # inside of the user's jit too
        return bool(_all_finite(value))


def lies_on_host(x: Any) -> bool:
    """Whether NumPy can look at a known array at once. It is as quick as XLA there, and has nothing to compile."""
    if not isinstance(x, jax.Array):
        return True
    if jax.default_backend() != "cpu":
        return False
    return x.is_fully_addressable and all(device.platform == "cpu" for device in x.devices())


@jax.jit
def _all_finite(x: jax.Array) -> jax.Array:
    return jnp.isfinite(x).all()


def check_range(name: str, found: Any) -> Any:
    """Return what was made of finite numbers if it is finite, too. Abstract values (inside `jit`) pass.

    Raises:
        ValueError: naming the argument that it was made of.
    """
    if isinstance(found, jax.core.Tracer):
        return found
    if not (np.isfinite(np.asarray(found)).all() if lies_on_host(found) else _all_finite(found)):
        raise ValueError(
            f"`{name}`: expected numbers that stay finite in {found.dtype}, got NaN or infinity; scale them"
            f"{'' if found.dtype == np.float64 else f', or {use_float64()}'}."
        )
    return found


def check_ndim(name: str, value: Any, ndim: int, axes: str) -> None:
    """Raise unless `value` has `ndim` axes; `axes` says in words what they are.

    Raises:
        ValueError: naming the argument, the axes expected and the shape got.
    """
    check_rectangular(name, value)
    if np.ndim(value) != ndim:
        raise ValueError(f"`{name}`: expected {ndim} axes [{axes}], got shape {np.shape(value)}; reshape it.")


def check_square_images(name: str, x: Any) -> None:
    """Raise unless `x` is one image or more, `[..., size, size, channels]`.

    Raises:
        ValueError: naming the argument.
    """
    check_rectangular(name, x)
    if np.ndim(x) < 3 or np.shape(x)[-2] != np.shape(x)[-3]:
        raise ValueError(
            f"`{name}`: expected square images [..., size, size, channels], the only ones that groups act on here, got "
            f"shape {np.shape(x)}; crop or pad them."
        )


def check_batch(name: str, x: Any, look: bool = True) -> None:
    """Raise unless `x` is a finite batch of at least one example with at least one feature axis.

    Args:
        name: of the argument.
        x: what was given.
        look: whether to look at its entries, too.

    Raises:
        ValueError: for a missing batch axis, an empty batch, or entries that are not finite.
    """
    check_rectangular(name, x)
    if np.ndim(x) < 2:
        raise ValueError(
            f"`{name}`: expected a batch [n, ...features], got shape {np.shape(x)}; "
            f"add the batch axis with `{name}[None]`."
        )
    if 0 in np.shape(x):
        raise ValueError(f"`{name}`: expected at least one example and one feature, got shape {np.shape(x)}.")
    if look:
        check_finite(name, x)


def check_same_features(name1: str, x1: Any, name2: str, x2: Any) -> None:
    """Raise unless two batches agree in every axis but the first.

    Raises:
        ValueError: naming both arguments and both shapes.
    """
    if np.shape(x1)[1:] != np.shape(x2)[1:]:
        raise ValueError(
            f"`{name2}`: expected examples of shape {np.shape(x1)[1:]} as in `{name1}`, got {np.shape(x2)[1:]}."
        )


def as_float(x: Any, name: str = "x") -> jax.Array:
    """A JAX array with the dtype of `x` if that is floating, with the default floating dtype if it is not.

    Raises:
        ValueError: naming the argument, if no array of real numbers can be made of it.
    """
    if isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jnp.floating):
        return x  # `asarray` would take longer than all checks of it
    check_numeric(name, x)
    if not isinstance(x, jax.Array) and (wide := _wide_integers(x)) is not None:
        x = wide.astype(np.dtype(jnp.result_type(float)))
    if not isinstance(x, jax.Array | np.ndarray | np.generic):
        x = jnp.asarray(x)
    if jnp.issubdtype(x.dtype, jnp.complexfloating):
        raise ValueError(f"`{name}`: expected real numbers, got dtype {x.dtype.name}; take the real parts.")
    x = jnp.asarray(native(x))
    return x if jnp.issubdtype(x.dtype, jnp.floating) else x.astype(jnp.result_type(float))


def native(x: Any) -> Any:
    """A NumPy array in the byte order of the machine, at most 64 bits wide, as JAX needs it; anything else as it is."""
    if not isinstance(x, np.ndarray | np.generic) or x.dtype.kind not in "iuf":
        return x
    return x.astype(np.float64 if x.dtype.itemsize > 8 else x.dtype.newbyteorder("="), copy=False)


def check_integers(name: str, value: Any) -> None:
    """Raise if integers do not fit into those that JAX makes of them, 32 bits wide by default: they would wrap around.

    Raises:
        ValueError: naming the argument.
    """
    if isinstance(value, jax.Array) or jax.config.jax_enable_x64 or (wide := _wide_integers(value)) is None:
        return
    limits = np.iinfo(np.uint32 if wide.dtype.kind == "u" else np.int32)
    if wide.size and (wide.min() < limits.min or wide.max() > limits.max):
        raise ValueError(
            f"`{name}`: expected integers between {limits.min} and {limits.max}, got {wide.min()} to {wide.max()}; "
            f"convert them to floats, or switch 64 bits on, {SWITCH}."
        )


def _wide_integers(x: Any) -> np.ndarray | None:
    """The array that NumPy makes of `x` if that has integers of 64 bits, which JAX would cut to 32."""
    if isinstance(x, list | tuple | int) or (hasattr(x, "__array__") and not isinstance(x, np.ndarray | jax.Array)):
        try:
            x = np.asarray(x)
        except (ValueError, OverflowError, jax.errors.TracerArrayConversionError):
            return None
    return x if isinstance(x, np.ndarray) and x.dtype.kind in "iu" and x.dtype.itemsize == 8 else None


def check_int(name: str, value: Any, minimum: int) -> int:
    """Return `value` as an int if it is an integer of at least `minimum`.

    Raises:
        ValueError: naming the argument.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < minimum:
        raise ValueError(f"`{name}`: expected an integer of at least {minimum}, got {shown(value)}.")
    return int(value)


def check_odd(name: str, value: Any) -> int:
    """Return the side of a filter as an int if it is an odd integer of at least 1.

    Raises:
        ValueError: naming the argument.
    """
    side = check_int(name, value, 1)
    if side % 2 == 0:
        raise ValueError(f"`{name}`: expected an odd number, got {side}; an even filter has no middle.")
    return side


def check_ints(name: str, value: Any, minimum: int, example: str) -> tuple[int, ...]:
    """Return a tuple or list of integers, each at least `minimum`, as a tuple.

    Args:
        name: of the argument.
        value: what was given.
        minimum: of each entry.
        example: a tuple that is right, for the message.

    Raises:
        ValueError: naming the argument.
    """
    if not isinstance(value, tuple | list):
        raise ValueError(f"`{name}`: expected a tuple of integers such as {example}, got {shown(value)}.")
    return tuple(check_int(name, entry, minimum) for entry in value)


def check_key(name: str, key: Any) -> None:
    """Raise unless `key` is one random key; `jax.random.PRNGKey` makes an older kind, which JAX takes as well.

    Raises:
        ValueError: naming the argument.
    """
    if isinstance(key, jax.Array):
        new = jnp.issubdtype(key.dtype, jax.dtypes.prng_key) and key.shape == ()
        if new or (key.dtype == jnp.uint32 and key.shape == (2,)):
            return
    raise ValueError(f"`{name}`: expected one random key, got {shown(key)}; make one with `jax.random.key(0)`.")


def check_number(name: str, value: Any, positive: bool = False) -> float:
    """Return `value` as a float if it is one finite number that is not negative, or not 0 either if `positive`.

    Raises:
        ValueError: naming the argument.
    """
    try:
        array = np.asarray(value)
        # Truth values, complex numbers, bytes and text are refused also as scalars of NumPy, which `float` takes.
        number = float(value) if array.ndim == 0 and array.dtype.kind not in "bcSU" else np.nan
    except (TypeError, ValueError, OverflowError):
        number = np.nan
    if not np.isfinite(number) or number < 0 or (positive and number == 0):
        raise ValueError(
            f"`{name}`: expected a {'positive number' if positive else 'number >= 0'}, got {shown(value)}."
        )
    return number


def check_level(name: str, value: Any) -> float:
    """Return `value` as a float if it is one number between 0 and 1, neither of the two.

    Raises:
        ValueError: naming the argument.
    """
    try:
        level = check_number(name, value)
    except ValueError:
        level = 0.0
    if not 0 < level < 1:
        raise ValueError(f"`{name}`: expected a number between 0 and 1, got {shown(value)}.")
    return level


def as_number(name: str, value: Any) -> float:
    """A number as a Python float; NaN and infinity pass.

    Raises:
        ValueError: naming the argument, if it is none.
    """
    try:
        if not isinstance(value, str | bytes) and not np.iscomplexobj(value):  # NumPy would drop the imaginary part
            return float(value)
    except (TypeError, ValueError, OverflowError):
        pass
    raise ValueError(f"`{name}`: expected one number, got {shown(value)}.")


def check_function(name: str, value: Any, example: str) -> None:
    """Raise unless a value can be called; `example` is one that can, for the message.

    Raises:
        ValueError: naming the argument.
    """
    if not callable(value):
        raise ValueError(f"`{name}`: expected a function such as {example}, got {shown(value)}.")


def check_net(name: str, net: Any, methods: tuple[str, ...] = ("init", "apply")) -> None:
    """Raise unless there is a network with the methods that are used: one with parameters at hand needs no `init`.

    Raises:
        ValueError: naming the argument.
    """
    if isinstance(net, type):
        raise ValueError(f"`{name}`: expected a network, got the class {net.__name__}; call it: {net.__name__}(...).")
    if not all(callable(getattr(net, method, None)) for method in methods):
        got = shown(net)
        if any(kind.__module__.startswith("flax.nnx") for kind in type(net).__mro__):
            got = f"{type(net).__name__}, a module of flax.nnx, which holds its parameters; write it with flax.linen"
        raise ValueError(f"`{name}`: expected a Sequential or a module of flax.linen, got {got}.")


def check_path(name: str, path: Any) -> None:
    """Raise unless `path` can name a folder.

    Raises:
        ValueError: naming the argument.
    """
    named = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(named, str) or not named or "\0" in named:
        raise ValueError(f"`{name}`: expected the path of a folder, got {shown(path)}.")

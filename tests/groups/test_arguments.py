"""What all functions of groups do with arrays of other kinds: foreign bytes, numbers out of range, abstract values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from registry import planar_matrices

import eqbook as eq
from eqbook.groups import (
    ColourRotation,
    EntryPermutation,
    EntryRotation,
    ImageAction,
    Irrep,
    MatrixAction,
    RegularAction,
    RotationAction,
    TrivialAction,
    augment,
    fourier_block,
    group_law_error,
    haar_orthogonal,
    irreps,
    isotypic_projector,
    multiplicities,
    orbit,
    permutation_matrix,
    rand_image_symmetry,
    rotate_images,
)

C4 = eq.cyclic(4)
TRIVIAL, PICTURES = TrivialAction(C4), ImageAction(C4)
TURN = MatrixAction(eq.cyclic(2), np.array([[[1.0]], [[-1.0]]]))
KEY = jax.random.key(0)

MOVES = {  # what moves images [2, 2, 2, 1]
    "trivial": lambda x: orbit(TRIVIAL, x),
    "orbit": lambda x: orbit(PICTURES, x),
    "inputs": lambda x: augment(PICTURES, x, TRIVIAL, np.ones(2))[0],
    "targets": lambda x: augment(TRIVIAL, np.ones(2), PICTURES, x)[1],
    "images": lambda x: PICTURES(1, x),
    "regular": lambda x: RegularAction(eq.cyclic(2), -2)(1, x),
    "matrix": lambda x: TURN(1, x),
    "rotation": lambda x: rotate_images(x, 30.0, mask=False),
    "rotations": lambda x: RotationAction(C4, mask=False)(1, x),
    "permutation": lambda x: EntryPermutation([2, 0, 3, 1])(x),
    "entries": lambda x: EntryRotation(np.eye(4)[[2, 0, 3, 1]])(x),
    "colours": lambda x: ColourRotation([[-1]])(x),
}
NAMES = {"targets": "y", "rotation": "images"}
X = np.arange(8.0).reshape(2, 2, 2, 1)


@pytest.fixture(params=MOVES)
def name(request):
    return request.param


@pytest.mark.parametrize("kind", [">f8", ">f4", ">f2", ">i4", "longdouble", ">c16"])
def test_foreign_bytes(name, kind, dtype):
    """Arrays of files, and numbers wider than JAX's, are moved as JAX's own; also in lists."""
    x, move = X.astype(kind), MOVES[name]
    wide = {">f8": dtype, "longdouble": dtype, ">c16": np.result_type(dtype, np.complex64)}
    own = X.astype(wide.get(kind, kind[1:]))
    if kind == ">c16" and name in ("rotation", "rotations", "entries", "colours"):
        with pytest.raises(ValueError, match=f"`{NAMES.get(name, 'x')}`: expected real numbers"):
            move(x)
        return
    for given in (x, list(x)):
        found, expected = move(given), move(own)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


def test_group_law_error_of_foreign_bytes():
    for kind in (">f8", "longdouble", ">i4", jnp.bfloat16):
        for action in (TRIVIAL, PICTURES):
            assert not group_law_error(action, X.astype(kind)).any()


@pytest.mark.parametrize("wrong", [1e200, -1e200])
def test_floats_out_of_range_are_refused(name, wrong):
    x = X.copy()
    x[1, 1, 0, 0] = wrong
    message = (
        f"`{NAMES.get(name, 'x')}`: expected numbers that fit into float32, got -?[0-9.]*e.*; scale them, or switch "
    )
    for given in (x, x.tolist(), x.astype(np.longdouble)):
        with pytest.raises(ValueError, match=message):
            MOVES[name](given)


def test_floats_in_range_pass(name, x64):
    """All that float64 has once it is on; NaN and infinity are what they are, with and without."""
    assert np.isfinite(MOVES[name](X * 1e200)).all()
    jax.config.update("jax_enable_x64", False)
    for x in (X * 1e30, np.where(X == 1, np.inf, X), np.where(X == 1, np.nan, X)):
        moved = MOVES[name](x)
        assert np.isfinite(moved).all() == np.isfinite(x).all()
    if name != "rotation":  # which adds numbers up
        assert np.isfinite(MOVES[name](np.full(X.shape, float(np.finfo(np.float32).max)))).all()


def test_imaginary_parts_out_of_range_are_refused():
    with pytest.raises(ValueError, match="`x`: expected numbers that fit into float32, got 1e.200"):
        RegularAction(C4)(1, np.array([1, 2, 3, 4 + 1e200j]))


@pytest.mark.parametrize("wrong", [[[1, 2], [3]], "abcd", [None] * 4, ["a"] * 4])
def test_what_is_no_array_of_numbers_is_refused(name, wrong):
    with pytest.raises(ValueError, match=f"`{NAMES.get(name, 'x')}`: expected an array"):
        MOVES[name](wrong)


@pytest.mark.parametrize("kind", [list, tuple])
def test_lists_of_abstract_values_are_moved(kind):
    moved = jax.jit(lambda x: RegularAction(C4)(1, kind(x)))(jnp.arange(4.0))
    np.testing.assert_array_equal(moved, [3, 0, 1, 2])
    turned = jax.jit(lambda x: ColourRotation(-np.eye(4))([[kind(x)]]))(jnp.arange(4.0))
    np.testing.assert_array_equal(turned, [[[0, -1, -2, -3]]])


TRIVIAL_IRREP = irreps(C4)[0]
NUMPY_ONLY = {
    "FiniteGroup": (eq.FiniteGroup, C4.table, "table"),
    "MatrixAction": (lambda m: MatrixAction(C4, m), planar_matrices(4, False), "matrices"),
    "permutation_matrix": (permutation_matrix, np.arange(3), "permutation"),
    "group_law_error": (lambda x: group_law_error(PICTURES, x), X, "x"),
    "Irrep": (lambda m: Irrep("A", m, 1), np.ones((4, 1, 1)), "matrices"),
    "multiplicities": (lambda chi: multiplicities(C4, chi), np.ones(4), "character"),
    "multiplicities of a list": (lambda chi: multiplicities(C4, [chi] * 4), np.float32(1), "character"),
    "isotypic_projector": (lambda rho: isotypic_projector(TRIVIAL_IRREP, rho), np.ones((4, 1, 1)), "representation"),
    "fourier_block": (lambda k: fourier_block(TRIVIAL_IRREP, k), np.ones(4), "k"),
    "ColourRotation": (ColourRotation, np.eye(3), "matrices"),
    "EntryPermutation": (EntryPermutation, np.arange(3), "order"),
    "EntryRotation": (EntryRotation, np.eye(3), "matrix"),
    "haar_orthogonal": (lambda key: haar_orthogonal(key, 2), KEY, "key"),
    "haar_orthogonal by an old key": (lambda key: haar_orthogonal(key, 2), jax.random.key_data(KEY), "key"),
    "haar_orthogonal by a known key": (lambda _: haar_orthogonal(KEY, 2), 0, "key"),
    "rand_image_symmetry": (lambda key: rand_image_symmetry("identity", key, (2, 2, 1)), KEY, "key"),
    "group_law_error of known numbers": (lambda _: group_law_error(PICTURES, X), 0, "x"),
}


@pytest.mark.parametrize("case", NUMPY_ONLY)
def test_abstract_values_are_refused_by_name(case):
    """What NumPy computes is not for `jit`; outside of it the same arguments are good."""
    call, good, argument = NUMPY_ONLY[case]
    call(good)
    with pytest.raises(ValueError, match=f"`{argument}`: expected numbers, got an abstract value; call this outside"):
        jax.jit(lambda value: (call(value), 0)[1])(good)

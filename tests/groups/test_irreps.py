"""Irreducible representations: orthogonality, completeness, and the block-diagonal form of what commutes with G."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest
from registry import GROUPS

import eqbook as eq
from eqbook.groups import Irrep, fourier_block, irreps, isotypic_projector, multiplicities, symmetry_adapted_basis
from eqbook.testing import tolerance


def permutations_group(size):
    """All permutations of `size` things: S_3 is D_3 in another order, S_4 is neither cyclic nor dihedral."""
    elements = list(itertools.permutations(range(size)))
    return eq.FiniteGroup(
        np.array([[elements.index(tuple(p[i] for i in q)) for q in elements] for p in elements]),
        tuple("".join(map(str, p)) for p in elements),
    )


def quaternions():
    """1, i, j, k and their negatives, as pairs (sign, unit)."""
    product = {(0, u): (0, u) for u in range(4)} | {(u, 0): (0, u) for u in range(4)}
    product |= {(u, u): (1, 0) for u in (1, 2, 3)}
    for a, b, c in ((1, 2, 3), (2, 3, 1), (3, 1, 2)):
        product |= {(a, b): (0, c), (b, a): (1, c)}
    elements = [(s, u) for s in (0, 1) for u in range(4)]
    table = [[(s + t + product[u, v][0]) % 2 * 4 + product[u, v][1] for t, v in elements] for s, u in elements]
    return eq.FiniteGroup(np.array(table))


CASES = {f"{name}-complex": (group, False) for name, group in GROUPS.items()}
CASES |= {f"{name}-real": (group, True) for name, group in GROUPS.items()}
CASES |= {"C6-real": (eq.cyclic(6), True), "D6-real": (eq.dihedral(6), True)}
CASES |= {"S3": (permutations_group(3), False), "S4": (permutations_group(4), False), "Q8": (quaternions(), False)}


@pytest.fixture(params=CASES, ids=list(CASES))
def case(request):
    return CASES[request.param]


def left_regular(group):
    """(L(g) f)(h) = f(g^-1 h)."""
    return np.eye(group.order)[group.table[group.inverse]]


def convolution(group, k):
    """The matrix with entries k(h^-1 h'), built from the definition."""
    n, m = k.shape[1:]
    a = np.zeros((group.order, n, group.order, m), k.dtype)
    for h, q in np.ndindex(group.order, group.order):
        a[h, :, group.table[h, q]] = k[q]
    return a.reshape(group.order * n, group.order * m)


def test_representations_are_unitary_homomorphisms(case):
    group, real = case
    for sigma in irreps(group, real):
        m = sigma.matrices
        assert m.shape == (group.order, sigma.dimension, sigma.dimension)
        assert not real or m.dtype == np.float64
        products = np.einsum("gab,hbc->ghac", m, m)
        np.testing.assert_allclose(products, m[group.table], atol=tolerance(float, group.order))
        np.testing.assert_allclose(
            m @ m.conj().swapaxes(1, 2), np.broadcast_to(np.eye(sigma.dimension), m.shape), atol=tolerance(float, 8)
        )


def test_characters_are_orthogonal_and_complete(case):
    """Schur: <chi, chi'> = delta for complex irreps; a real one that splits has norm d / copies."""
    group, real = case
    table = np.stack([sigma.character for sigma in irreps(group, real)])
    norms = [sigma.dimension / sigma.copies for sigma in irreps(group, real)]
    np.testing.assert_allclose(table @ table.conj().T / group.order, np.diag(norms), atol=tolerance(float, group.order))
    assert sum(sigma.dimension * sigma.copies for sigma in irreps(group, real)) == group.order
    np.testing.assert_allclose(table[0], 1, atol=tolerance(float, group.order))
    if not real:  # as many as classes of conjugate elements
        classes = {
            frozenset(group.table[group.table[g, h], group.inverse[g]] for g in group.elements) for h in group.elements
        }
        assert len(table) == len(classes)


def test_names_and_generators():
    names = lambda group, real=False: [sigma.name for sigma in irreps(group, real)]  # noqa: E731
    assert names(eq.cyclic(4)) == ["A", "B", "E1+", "E1-"] and names(eq.cyclic(4), True) == ["A", "B", "E1"]
    assert names(eq.dihedral(4)) == ["A1", "A2", "B1", "B2", "E1"] and names(eq.dihedral(3)) == ["A1", "A2", "E1"]
    by_name = {sigma.name: sigma.matrices for sigma in irreps(eq.dihedral(4))}
    r, s = 1, 4
    assert [float(by_name[name][r, 0, 0]) for name in ("A1", "A2", "B1", "B2")] == [1, 1, -1, -1]
    assert [float(by_name[name][s, 0, 0]) for name in ("A1", "A2", "B1", "B2")] == [1, -1, 1, -1]
    np.testing.assert_allclose(by_name["E1"][r], [[0, -1], [1, 0]], atol=1e-15)


def test_adapted_basis_is_unitary_and_block_diagonalises(case):
    group, real = case
    q = symmetry_adapted_basis(group, real)
    np.testing.assert_allclose(q.conj().T @ q, np.eye(group.order), atol=tolerance(float, group.order))
    n, m = 3, 2
    k = np.random.default_rng(0).normal(size=(group.order, n, m))
    blocks = np.kron(q, np.eye(n)).conj().T @ convolution(group, k) @ np.kron(q, np.eye(m))
    expected, at = np.zeros_like(blocks), 0
    for sigma in irreps(group, real):
        for _ in range(sigma.copies):
            d = sigma.dimension
            expected[at * n : (at + d) * n, at * m : (at + d) * m] = fourier_block(sigma, k)
            at += d
    assert at == group.order
    np.testing.assert_allclose(blocks, expected, atol=tolerance(float, group.order**2) * np.abs(expected).max())


def test_isotypic_projectors_are_complete_orthogonal_and_commute(case):
    group, real = case
    regular = left_regular(group)
    projectors = [isotypic_projector(sigma, regular) for sigma in irreps(group, real)]
    bound = tolerance(float, group.order)
    np.testing.assert_allclose(sum(projectors), np.eye(group.order), atol=bound)
    for i, p in enumerate(projectors):
        sigma = irreps(group, real)[i]
        assert abs(np.trace(p) - sigma.dimension * sigma.copies) < bound * group.order
        on_it = np.einsum("ij,gji->g", p, regular)  # the character of what it projects onto
        np.testing.assert_allclose(on_it, sigma.copies * sigma.character, atol=bound * group.order)
        for j, other in enumerate(projectors):
            np.testing.assert_allclose(p @ other, p if i == j else 0 * p, atol=bound)
        for g in group.elements:
            np.testing.assert_allclose(p @ regular[g], regular[g] @ p, atol=bound)


def test_multiplicities():
    """The regular representation holds sigma d times; a permutation representation the trivial one once per orbit."""
    for group in (eq.cyclic(5), eq.dihedral(4), permutations_group(4), quaternions()):
        regular = np.trace(left_regular(group), axis1=1, axis2=2)
        np.testing.assert_array_equal(multiplicities(group, regular), [s.dimension for s in irreps(group)])
        both = irreps(group)[-1].character + 2 * irreps(group)[0].character
        expected = np.zeros(len(irreps(group)), int)
        expected[-1] += 1
        expected[0] += 2
        np.testing.assert_array_equal(multiplicities(group, both), expected)


@pytest.mark.parametrize("kind", [np.float32, np.float16, jnp.bfloat16])
def test_multiplicities_of_rounded_traces(kind):
    """The larger the traces and the fewer their digits, the farther are multiplicities from integers."""
    C5 = eq.cyclic(5)
    turn = 2 * np.cos(2 * np.pi * np.arange(5) / 5)  # E1+ and E1-
    for copies in (1, 3, 100) if kind == np.float32 else (1, 3):
        traces = (copies * turn).astype(kind)
        np.testing.assert_array_equal(multiplicities(C5, traces), [0, copies, copies, 0, 0])
    large = np.array([5 * 2.0**12, 0, 0, 0, 0]).astype(kind)  # exact in all of them
    np.testing.assert_array_equal(multiplicities(C5, large), [2**12] * 5)
    for wrong in ([2, 1, 0, 0, 1], [200.5, 0, 0, 0, 0])[: 2 if kind == np.float32 else 1]:
        with pytest.raises(ValueError, match="`character`: expected the traces of a representation"):
            multiplicities(C5, np.array(wrong).astype(kind))


def test_real_pair_is_the_sum_of_its_complex_parts():
    complex_names = {sigma.name: sigma.character for sigma in irreps(eq.cyclic(5))}
    for sigma in irreps(eq.cyclic(5), real=True)[1:]:
        expected = complex_names[f"{sigma.name}+"] + complex_names[f"{sigma.name}-"]
        np.testing.assert_allclose(sigma.character, expected, atol=1e-15)


def test_mirror_alone_has_the_table_of_a_half_turn():
    assert [sigma.name for sigma in irreps(eq.dihedral(1))] == ["A", "B"]


def test_irreps_made_by_hand():
    """Lists and arrays of JAX too; the caller's array stays open to changes, which do not change the representation."""
    mine = np.ones((4, 1, 1))
    sigma = Irrep("A", mine, 1)
    mine[:] = 2
    assert sigma.character.tolist() == [1] * 4
    for given in ([[[1]]], jnp.ones((1, 1, 1)), np.ones((1, 1, 1), np.float32)):
        assert Irrep("A", given, 1).matrices.dtype == np.float64
    assert Irrep("E", 1j * np.ones((1, 1, 1), np.complex64), 1).matrices.dtype == np.complex128
    for wrong, said in (([[1]], r"\[order, d, d\], got shape"), (np.ones((2, 1, 3)), "got shape"), ("A", "numbers")):
        with pytest.raises(ValueError, match=f"`matrices`: expected .*{said}"):
            Irrep("A", wrong, 1)


def test_other_groups_are_recognised_by_their_table():
    assert [s.name for s in irreps(eq.FiniteGroup(eq.dihedral(3).table))] == ["A1", "A2", "E1"]
    assert [s.dimension for s in irreps(permutations_group(4))] == [1, 1, 2, 3, 3]


def test_shared_arrays_cannot_be_changed():
    for group in (eq.cyclic(3), eq.dihedral(3), quaternions()):
        for sigma in irreps(group):
            with pytest.raises(ValueError, match="read-only"):
                sigma.matrices[0] = 0


def test_bad_arguments():
    C3, E = eq.cyclic(3), irreps(eq.dihedral(3))[-1]
    with pytest.raises(ValueError, match="`real`: expected False"):
        irreps(quaternions(), real=True)
    for wrong in ("False", 1, None, np.array([True])):
        for call in (irreps, symmetry_adapted_basis):
            with pytest.raises(ValueError, match="`real`: expected True or False, got"):
                call(C3, wrong)
    assert irreps(C3, np.True_) == irreps(C3, True)
    for wrong in (C3.table, [[0]]):  # have no hash
        for call in (irreps, symmetry_adapted_basis):
            with pytest.raises(ValueError, match="`group`: expected a group"):
                call(wrong)
    with pytest.raises(ValueError, match="`character`: expected one trace per element"):
        multiplicities(C3, np.ones(4))
    with pytest.raises(ValueError, match="`character`: expected the traces of a representation"):
        multiplicities(C3, np.array([1.0, 0.0, 0.0]))
    with pytest.raises(ValueError, match="`representation`: expected"):
        isotypic_projector(E, np.ones((3, 2, 2)))
    with pytest.raises(ValueError, match="`k`: expected"):
        fourier_block(E, np.ones((6, 2)))

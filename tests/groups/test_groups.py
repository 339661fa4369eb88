"""Group axioms, actions, orbits and the permutation of an augmented set, over all groups of the registry."""

import jax.numpy as jnp
import numpy as np
import pytest
from numbers_drawn import normal
from registry import GROUPS, IMAGE_GROUPS, planar_matrices

import eqbook as eq
from eqbook.groups import ImageAction, MatrixAction, TrivialAction


@pytest.fixture(params=GROUPS, ids=list(GROUPS))
def group(request):
    return GROUPS[request.param]


@pytest.fixture(params=IMAGE_GROUPS, ids=list(IMAGE_GROUPS))
def image_action(request):
    return ImageAction(IMAGE_GROUPS[request.param])


def matrix_action(name):
    return MatrixAction(GROUPS[name], planar_matrices(int(name[1:]), name[0] == "D"))


def test_axioms(group):
    t, e = group.table, group.identity
    for g in group.elements:
        assert t[g, e] == t[e, g] == g
        assert t[g, group.inverse[g]] == t[group.inverse[g], g] == e
    np.testing.assert_array_equal(t[t], t[:, t])  # (g h) k = g (h k)
    assert len(set(group.names)) == group.order


def test_orders_and_commutativity():
    assert [eq.cyclic(n).order for n in (1, 5)] == [1, 5] and [eq.dihedral(n).order for n in (1, 5)] == [2, 10]
    assert eq.cyclic(6).is_abelian and not eq.dihedral(3).is_abelian and eq.dihedral(2).is_abelian


def test_equality_tells_a_turn_from_a_mirror():
    assert eq.cyclic(4) == eq.cyclic(4) and hash(eq.cyclic(4)) == hash(eq.cyclic(4))
    assert eq.cyclic(2) != eq.dihedral(1)


@pytest.mark.parametrize("name", [n for n in GROUPS if n not in ("D1", "D2")])
def test_planar_groups_multiply_as_their_matrices(name):
    matrix_action(name)  # the constructor checks M_g M_h = M_gh


def left_action(action, x):
    G = action.group
    for g in G.elements:
        for h in G.elements:
            np.testing.assert_allclose(action(g, action(h, x)), action(int(G.table[g, h]), x), atol=1e-6)
    np.testing.assert_array_equal(action(G.identity, x), x)


def test_image_action_is_a_left_action(image_action):
    left_action(image_action, jnp.arange(2 * 5 * 5 * 3.0).reshape(2, 5, 5, 3))


def test_image_action_turns_counter_clockwise_and_mirrors():
    picture = np.array([[1, 2], [3, 4]])[..., None]
    turned = ImageAction(eq.cyclic(4))(1, picture)[..., 0]
    np.testing.assert_array_equal(turned, [[2, 4], [1, 3]])
    np.testing.assert_array_equal(ImageAction(eq.dihedral(1))(1, picture)[..., 0], [[2, 1], [4, 3]])
    np.testing.assert_array_equal(ImageAction(eq.cyclic(2))(1, picture)[..., 0], [[4, 3], [2, 1]])


def test_image_action_is_faithful_and_permutes_pixels(image_action):
    x = jnp.arange(16.0).reshape(4, 4, 1)
    images = [np.asarray(image_action(g, x)) for g in image_action.group.elements]
    assert len({image.tobytes() for image in images}) == image_action.group.order
    assert all(sorted(image.ravel()) == list(range(16)) for image in images)


def test_matrix_action_is_a_left_action():
    left_action(matrix_action("D3"), normal(0, (4, 2)))


@pytest.mark.parametrize("group_name", list(IMAGE_GROUPS))
def test_augmented_set_is_permuted(group_name):
    """rho_X(g) x_j = x_{pi_g(j)} and the same for targets, with targets that the group moves too."""
    action = ImageAction(IMAGE_GROUPS[group_name])
    group, n = action.group, 3
    x = normal(0, (n, 4, 4, 1))
    x_aug, y_aug = eq.groups.augment(action, x, action, 2 * x)
    assert x_aug.shape == (group.order * n, 4, 4, 1)
    pis = [eq.groups.augmented_permutation(group, n, g) for g in group.elements]
    for g in group.elements:
        np.testing.assert_array_equal(action(g, x_aug), x_aug[pis[g]])
        np.testing.assert_array_equal(action(g, y_aug), y_aug[pis[g]])
        for h in group.elements:
            # pi_g(pi_h(j)) moves by h first: pi is a homomorphism; Pi(g) Pi(h) reverses the order.
            gh = int(group.table[g, h])
            np.testing.assert_array_equal(pis[g][pis[h]], pis[gh])
            matrices = [eq.groups.permutation_matrix(pis[k]) for k in (g, h, gh)]
            np.testing.assert_array_equal(matrices[1] @ matrices[0], matrices[2])
    np.testing.assert_array_equal(x_aug[:n] if group.identity == 0 else x, x)


def test_orbit_puts_the_group_in_front():
    action = matrix_action("C4")
    x = jnp.ones((5, 2))
    assert eq.groups.orbit(action, x).shape == (4, 5, 2)
    np.testing.assert_allclose(eq.groups.orbit(action, x)[1], action(1, x))


def test_tables_of_all_integer_types_are_one_group():
    """Equal groups have equal hashes, and small integers do not overflow in an augmented set."""
    small = eq.FiniteGroup(eq.cyclic(4).table.astype(np.uint8), eq.cyclic(4).names)
    assert small == eq.cyclic(4) and hash(small) == hash(eq.cyclic(4))
    assert ImageAction(small).group == eq.cyclic(4)
    pi = eq.groups.augmented_permutation(small, 200, 1)
    np.testing.assert_array_equal(pi, eq.groups.augmented_permutation(eq.cyclic(4), 200, 1))


def test_augmented_set_of_a_group_that_does_not_commute():
    """The order of g h matters: C4 and D2 could not tell."""
    action, n = matrix_action("D3"), 2
    x = normal(1, (n, 2))
    x_aug, y_aug = eq.groups.augment(action, x, TrivialAction(action.group), [0, 1])
    for g in action.group.elements:
        pi = eq.groups.augmented_permutation(action.group, n, g)
        np.testing.assert_allclose(action(g, x_aug), x_aug[pi], atol=1e-6)
        np.testing.assert_array_equal(y_aug, y_aug[pi])


def test_matrix_action_on_integers_turns_by_the_whole_matrix():
    np.testing.assert_allclose(matrix_action("C3")(1, np.array([2, 0])), [-1, np.sqrt(3)], rtol=1e-6)


def test_nothing_changes_behind_the_back():
    matrices = planar_matrices(4, False)
    action = MatrixAction(eq.cyclic(4), matrices)
    matrices[:] = 0
    np.testing.assert_allclose(action(1, np.array([1.0, 0.0])), [0, 1], atol=1e-6)
    for array in (C4.table, C4.inverse):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_lists_of_images():
    picture = [[[1.0], [2.0]], [[3.0], [4.0]]]
    np.testing.assert_array_equal(ImageAction(C4)(2, picture), [[[4.0], [3.0]], [[2.0], [1.0]]])


def test_augmented_set_without_features():
    """Sizes are not guessed from each other: targets may be empty, and there may be no example."""
    shapes = [
        [z.shape for z in eq.groups.augment(ImageAction(C4), np.ones((n, 4, 4, 1)), TrivialAction(C4), np.ones((n, k)))]
        for n, k in ((5, 0), (0, 1), (0, 0))
    ]
    assert shapes == [[(20, 4, 4, 1), (20, 0)], [(0, 4, 4, 1), (0, 1)], [(0, 4, 4, 1), (0, 0)]]


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (lambda group: eq.groups.RegularAction(group), (4,)),
        (lambda group: eq.groups.RegularAction(group, axis=-2), (4, 3)),
        (lambda group: MatrixAction(group, planar_matrices(4, False)), (2,)),
        (lambda group: ImageAction(group), (4, 4, 1)),
        (lambda group: eq.groups.RotationAction(group), (4, 4, 1)),
    ],
    ids=["vectors", "feature maps", "matrices", "one image", "one rotated image"],
)
def test_augmentation_does_not_mix_examples(make, shape):
    """An action on the axis of examples would give each the label of another."""
    action, invariant, z = make(C4), TrivialAction(C4), np.arange(float(np.prod(shape))).reshape(shape)
    for call, name in (
        (lambda: eq.groups.augment(action, z, invariant, z), "x"),
        (lambda: eq.groups.augment(invariant, z, action, z), "y"),
    ):
        said = rf"`{name}`: expected an axis of examples in front of the \d that {type(action).__name__}.* moves, got"
        with pytest.raises(ValueError, match=said):
            call()
    x, _ = eq.groups.augment(action, z[None], invariant, np.zeros(1))
    np.testing.assert_array_equal(x, eq.groups.orbit(action, z))


S = np.array([[0, 1, 2], [1, 0, 2], [2, 1, 0]])
NONASSOCIATIVE = np.array([[0, 1, 2, 3, 4], [1, 0, 3, 4, 2], [2, 4, 0, 1, 3], [3, 2, 4, 0, 1], [4, 3, 1, 2, 0]])
C4, C3 = eq.cyclic(4), eq.cyclic(3)
WIDE = np.full(4, 2**40)  # would be 0 in 32 bits
BAD = {
    "order 0": (lambda: eq.cyclic(0), "`n`: expected an integer of at least 1, got 0"),
    "order float": (lambda: eq.dihedral(2.0), "`n`: expected an integer of at least 1, got 2.0"),
    "not square": (lambda: eq.FiniteGroup(np.zeros((2, 3), int)), "`table`: expected a square array of integers"),
    "floats": (lambda: eq.FiniteGroup(np.zeros((1, 1))), "`table`: expected a square array of integers"),
    "out of range": (lambda: eq.FiniteGroup(np.array([[0, 1], [1, 2]])), "expected entries 0 .. 1, got 0 .. 2"),
    "repeated": (lambda: eq.FiniteGroup(S), "each element once in every row and column"),
    "no identity": (lambda: eq.FiniteGroup(np.array([[1, 0, 2], [0, 2, 1], [2, 1, 0]])), "without a neutral element"),
    "not associative": (lambda: eq.FiniteGroup(NONASSOCIATIVE), "expected an associative product"),
    "names": (lambda: eq.FiniteGroup(C4.table, ("e",)), "`names`: expected 4 names, got 1"),
    "names of another kind": (lambda: eq.FiniteGroup(C4.table, (["e"], *"abc")), "`names`: expected strings, got"),
    "images under C3": (lambda: ImageAction(C3), "whose elements permute the pixels"),
    "images under C8": (lambda: ImageAction(eq.cyclic(8)), "other rotations need interpolation"),
    "matrix shape": (lambda: MatrixAction(C4, np.ones((3, 2, 2))), r"expected \[order, d, d\] with order = 4"),
    "not orthogonal": (lambda: MatrixAction(C4, 2 * planar_matrices(4, False)), "expected orthogonal matrices"),
    "wrong order": (lambda: MatrixAction(C4, planar_matrices(4, False)[[0, 2, 1, 3]]), "expected M_g M_h = M_gh"),
    "nan matrix": (lambda: MatrixAction(C4, np.full((4, 2, 2), np.nan)), "`matrices`: expected finite"),
    "not square image": (lambda: ImageAction(C4)(1, np.ones((4, 5, 1))), r"`x`: expected square images"),
    "no channel axis": (lambda: ImageAction(C4)(1, np.ones((5, 5))), r"`x`: expected square images"),
    "vector size": (lambda: matrix_action("C4")(1, np.ones((2, 3))), "`x`: expected a last axis of size 2"),
    "element": (lambda: ImageAction(C4)(4, np.ones((5, 5, 1))), "`g`: expected an element 0 .. 3, got 4"),
    "element between": (lambda: ImageAction(C4)(1.5, np.ones((5, 5, 1))), "expected an element 0 .. 3, got 1.5"),
    "element text": (lambda: C4.check_element("1"), "`g`: expected an element 0 .. 3, got '1'"),
    "elements": (lambda: C4.check_element(np.array([0, 1])), "`g`: expected an element 0 .. 3"),
    "complex matrix": (lambda: MatrixAction(C4, 1j * np.ones((4, 1, 1))), "`matrices`: expected an array of real"),
    "repeated index": (lambda: eq.groups.permutation_matrix([1, 1]), "`permutation`: expected each of 0 .. m - 1 once"),
    "no example axis": (
        lambda: eq.groups.augment(TrivialAction(C4), 1.0, TrivialAction(C4), 1.0),
        r"`x`: expected examples \[n, ...\], got one number, 1.0",
    ),
    "trivial element": (lambda: TrivialAction(C4)(-1, 1.0), "`g`: expected an element 0 .. 3, got -1"),
    "two groups": (
        lambda: eq.groups.augment(TrivialAction(C4), np.ones(3), TrivialAction(C3), np.ones(3)),
        "`action_y`: expected an action of",
    ),
    "lengths": (
        lambda: eq.groups.augment(TrivialAction(C4), np.ones(3), TrivialAction(C4), np.ones(2)),
        r"`y`: expected \(3,\) examples as in `x`, got shape \(2,\)",
    ),
    "permutation of nothing": (
        lambda: eq.groups.augmented_permutation(C4, 0, 1),
        "`n`: expected an integer of at least 1",
    ),
    "wide integers": (lambda: eq.groups.orbit(TrivialAction(C4), WIDE), "`x`: expected integers between -2147483648"),
    "wide inputs": (
        lambda: eq.groups.augment(TrivialAction(C4), WIDE, TrivialAction(C4), np.ones(4)),
        "`x`: expected integers",
    ),
    "wide targets": (
        lambda: eq.groups.augment(TrivialAction(C4), np.ones(4), TrivialAction(C4), WIDE),
        "`y`: expected integers",
    ),
    "wide pixels": (lambda: ImageAction(C4)(1, WIDE.reshape(2, 2, 1)), "`x`: expected integers"),
    "wide vectors": (lambda: matrix_action("C4")(1, WIDE[:2]), "`x`: expected integers"),
    "wide functions": (lambda: eq.groups.RegularAction(C4)(1, WIDE), "`x`: expected integers"),
    "ragged image": (lambda: ImageAction(C4)(1, [[[1.0], [2.0]], [[3.0]]]), "`x`: .*lists that differ in length"),
    "permutation of None": (
        lambda: eq.groups.permutation_matrix([None, 0]),
        "`permutation`: expected an array of real",
    ),
    "order without memory": (lambda: eq.cyclic(10**30), "`n`: expected at most 10000, since the Cayley table grows"),
    "rotations without memory": (lambda: eq.dihedral(10**30), "`n`: expected at most 5000"),
    "permutation by nobody": (lambda: eq.groups.augmented_permutation(C4, 2, 9), "`g`: expected an element"),
}


@pytest.mark.parametrize("make, message", BAD.values(), ids=list(BAD))
def test_bad_input(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("name", GROUPS)
def test_regular_action_translates_functions_on_the_group(name):
    group = GROUPS[name]
    f = np.random.default_rng(0).normal(size=(2, group.order, 3)).astype(np.float32)
    action = eq.groups.RegularAction(group, axis=-2)
    assert eq.groups.RegularAction(group, axis=np.int64(-2)) == action
    for g in group.elements:
        moved = action(g, f)
        for h in group.elements:
            np.testing.assert_array_equal(moved[:, h], f[:, group.table[group.inverse[g], h]])
            np.testing.assert_array_equal(action(h, moved), action(group.table[h, g], f))


def test_regular_action_refuses_bad_input():
    with pytest.raises(ValueError, match="`axis`: expected a negative integer"):
        eq.groups.RegularAction(eq.cyclic(3), axis=0)
    with pytest.raises(
        ValueError, match=r"`x`: expected size 3, the order of the group, on axis -1, got shape \(2, 4\)"
    ):
        eq.groups.RegularAction(eq.cyclic(3))(1, np.ones((2, 4)))

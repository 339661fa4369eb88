"""Augmentation on the device against augmented data, and random elements against their law."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from numbers_drawn import normal

import eqbook as eq
from eqbook.ensembles import full_orbits, random_elements
from eqbook.groups import ImageAction, MatrixAction, RegularAction, TrivialAction, augment
from eqbook.testing import relative_error, tolerance

C4, D4 = eq.cyclic(4), eq.dihedral(4)
TURNS = [np.linalg.matrix_power(np.array([[0.0, -1.0], [1.0, 0.0]]), k) for k in range(4)]
IMAGES = normal(1, (3, 4, 4, 1))
PLANE = normal(2, (3, 2))
NET = eq.Sequential(eq.Flatten(), eq.Dense(16, b_std=0.2), eq.Relu(), eq.Dense(2))


def train(x, y, **changes):
    arguments = dict(members=2, epochs=3, optimizer=optax.sgd(0.02), watch={"x": IMAGES}, at_once=2)
    return eq.train_ensemble(NET, jax.random.key(0), x, y, **{**arguments, **changes})


def test_orbits_are_the_augmented_set_in_its_order():
    for action_x, action_y, x, y in (
        (ImageAction(C4), MatrixAction(C4, np.stack(TURNS)), IMAGES, PLANE),
        (ImageAction(D4), None, IMAGES, jnp.arange(3)),
        (RegularAction(D4), RegularAction(D4), jnp.arange(24.0).reshape(3, 8), jnp.arange(24).reshape(3, 8)),
    ):
        made = full_orbits(action_x, action_y)
        size = made.size(3)
        expected = augment(action_x, x, action_y or TrivialAction(action_x.group), y)
        for one, other in zip(made.draw(None, jnp.arange(size), x, y), expected, strict=True):
            assert one.shape[0] == size == 3 * action_x.group.order
            np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.every(2)
@pytest.mark.parametrize("batch_size", [None, 5])
def test_training_on_orbits_is_training_on_augmented_data(batch_size):
    actions = ImageAction(C4), MatrixAction(C4, np.stack(TURNS))
    x, y = augment(actions[0], IMAGES, actions[1], PLANE)
    expected = train(x, y, batch_size=batch_size)
    run = train(IMAGES, PLANE, augment=full_orbits(*actions), batch_size=batch_size)
    steps = 3 * (1 if batch_size is None else 2)
    assert relative_error(run.outputs["x"], expected.outputs["x"]) < steps * tolerance(jnp.float32, 12 * 16)
    assert relative_error(run.losses[1:], expected.losses[1:]) < steps * tolerance(jnp.float32, 12 * 16)


def test_random_elements_equal_a_loop_by_hand():
    """One full-batch step: the elements that the member drew are found again from its key."""
    made = random_elements(ImageAction(C4), MatrixAction(C4, np.stack(TURNS)))
    run = train(IMAGES, PLANE, augment=made, epochs=2)
    start = train(IMAGES, PLANE, epochs=0).params
    for m in range(2):
        _, key = eq.ensembles.epoch.member_keys(jax.random.key(0), m)
        params = jax.tree.map(lambda leaf: leaf[m], start)  # noqa: B023
        for epoch in range(2):
            stream = jax.random.fold_in(key, jnp.uint32(2**32 - 1))
            drawn = jax.random.fold_in(jax.random.fold_in(stream, epoch), 0)
            g = jax.random.randint(drawn, (3,), 0, 4)
            x = jnp.stack([jnp.rot90(IMAGES[i], int(g[i])) for i in range(3)])
            y = jnp.stack([TURNS[int(g[i])].astype(np.float32) @ PLANE[i] for i in range(3)])
            gradient = jax.grad(lambda p: 0.5 * jnp.sum((NET.apply(p, x) - y) ** 2))(params)  # noqa: B023
            params = jax.tree.map(lambda p, d: p - 0.02 * d, params, gradient)
        assert relative_error(run.outputs["x"][-1, m], NET.apply(params, IMAGES)) < 2 * tolerance(jnp.float32, 16 * 3)


def test_random_elements_are_uniform_and_drawn_anew():
    made, n = random_elements(ImageAction(C4)), 4000
    x = jnp.tile(jnp.arange(4.0).reshape(1, 2, 2, 1), (n, 1, 1, 1))
    moved, labels = made.draw(jax.random.key(0), jnp.arange(n), x, jnp.arange(n))
    corners = np.asarray(moved[:, 0, 0, 0]).astype(int)  # each turn brings another pixel there
    counts = np.bincount(corners, minlength=4)
    assert np.abs(counts - n / 4).max() < 5 * np.sqrt(n * 0.25 * 0.75)
    np.testing.assert_array_equal(labels, np.arange(n))
    again, _ = made.draw(jax.random.key(1), jnp.arange(n), x, jnp.arange(n))
    assert 0.7 < np.mean(np.asarray(again[:, 0, 0, 0]) != corners) < 0.8


def test_an_epoch_of_orbits_has_more_examples():
    run = train(IMAGES, PLANE, augment=full_orbits(ImageAction(C4)), batch_size=12, epochs=1)
    assert np.isfinite(run.losses[1:]).all()
    with pytest.raises(ValueError, match="`batch_size`: expected at most 12"):
        train(IMAGES, PLANE, augment=full_orbits(ImageAction(C4)), batch_size=13)
    with pytest.raises(ValueError, match="`batch_size`: expected at most 3"):
        train(IMAGES, PLANE, augment=random_elements(ImageAction(C4)), batch_size=4)


@pytest.mark.parametrize("make", [full_orbits, random_elements])
def test_bad_input(make):
    with pytest.raises(ValueError, match="`action_x`: expected an action"):
        make(C4)
    with pytest.raises(ValueError, match="`action_y`: expected an action"):
        make(ImageAction(C4), C4)
    with pytest.raises(ValueError, match="`action_y`: expected an action of"):
        make(ImageAction(C4), ImageAction(D4))
    with pytest.raises(ValueError, match="`augment`"):
        train(IMAGES, PLANE, augment=ImageAction(C4))

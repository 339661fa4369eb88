"""A quadrature rule for each pair of signals, by the height of its peak."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from numbers_drawn import quick_key

import eqbook as eq

pytest.importorskip("e3nn_jax", reason="the so3 extra")

from eqbook.kernels import pair_kernel, so3  # noqa: E402

RULES = ((0.35, 4), (0.5, 6), (1.0, 10))
W_STD, B_STD = 1.3, 0.2


def network(quadrature, *between):
    between = between or (eq.Erf(), eq.SO3Conv(1, 1.2, 0.3), eq.Erf())
    return eq.Sequential(
        eq.LiftS2(1, W_STD, B_STD, quadrature=quadrature), *between, eq.SO3Pool(), eq.Dense(1, b_std=0.1)
    )


@pytest.fixture
def signals():
    """Of bandwidth 3, more and less alike, and of many scales, so that heights differ."""
    common, own = np.random.default_rng(0).normal(size=(2, 150, 9, 2))
    coefficients = common[:1] + np.geomspace(0.2, 3, 150)[:, None, None] * own
    coefficients *= np.resize(np.geomspace(0.3, 3, 7), 150)[:, None, None]
    return np.asarray(so3.sphere_signal(coefficients), float)


def heights(one, two, size, of_erf):
    """By the formula, at all points of the product rule, with sums that share nothing with the package's tables."""
    c1, c2 = (np.asarray(so3.sphere_coefficients(x, 3), float) for x in (one, two))
    turned = np.stack([so3.rotate_coefficients(angles, c2) for angles in so3.rotation_points(size)[0]])
    volume = 4 * np.pi * c1.shape[-1]
    k = W_STD**2 * np.einsum("imc,pjmc->ijp", c1, turned) / volume + B_STD**2
    a, b = (W_STD**2 * (c**2).sum((1, 2)) / volume + B_STD**2 for c in (c1, c2))
    a, b = (1 + 2 * a, 1 + 2 * b) if of_erf else (a, b)
    return (2 if of_erf else 1) * np.abs(k).max(-1) / np.sqrt(a[:, None] * b)


@pytest.mark.parametrize("of_erf", [True, False])
def test_each_pair_takes_the_rule_of_its_height(signals, of_erf, x64):
    between = () if of_erf else (eq.Relu(), eq.SO3Conv(1, 1.2, 0.3), eq.Erf())
    one, two = signals[:70], signals[70:]
    rules = RULES if of_erf else ((0.6, 4), (0.75, 6), (1.0, 10))
    found = eq.gram(network(rules, *between), one, two)
    height = heights(one, two, 4, of_erf)
    level = np.searchsorted([h for h, _ in rules], height)
    assert np.bincount(level.ravel(), minlength=3).min() > 100, "the test wants pairs of all three"
    # Pairs are sorted in blocks: a rule may be one that is needed by a neighbour, never a smaller one.
    by_size = [eq.gram(network(size, *between), one, two) for _, size in rules]
    for kind in ("nngp", "ntk"):
        ours = getattr(found, kind)
        fits = np.stack([np.isclose(ours, getattr(each, kind), rtol=1e-12, atol=1e-14) for each in by_size])
        assert fits.any(0).all()
        coarse = [getattr(each, kind) for each in by_size[:-1]]
        apart = np.stack([abs(np.asarray(k - getattr(by_size[-1], kind))) > 1e-10 for k in coarse])
        for size in range(2):  # a rule too small for the pair, where it can be told from the largest
            assert not (fits[size] & apart[size] & (level > size)).any()
        least = fits[0] & apart[0]
        assert least.sum() > 0.8 * ((level == 0) & apart[0]).sum(), "most small ones take the small rule"


def test_one_rule_is_that_rule(signals):
    for between in (
        (),
        (eq.Relu(), eq.SO3Conv(1)),
        (eq.LayerNorm(), eq.Residual(eq.Erf(), eq.SO3Conv(1, b_std=0.1)), eq.Relu()),
        (eq.SO3Conv(1), eq.Activation(jax.numpy.tanh)),
        (eq.SO3Conv(1),),
    ):
        ours, plain = (eq.gram(network(q, *between), signals[:40]) for q in (((1, 6),), 6))
        bound = eq.testing.tolerance(np.float32, 4 * 6**3) * np.abs(plain.ntk).max()
        for kind in ("nngp", "ntk"):
            np.testing.assert_allclose(getattr(ours, kind), getattr(plain, kind), atol=bound)


def test_is_exact_to_the_error_of_its_rules(signals, x64):
    """Heights up to which each rule is good to 1e-5 here; the smallest rule alone is not."""
    rules = ((0.25, 4), (0.45, 5), (0.55, 6), (0.7, 8), (0.85, 12), (1.0, 20))
    exact = eq.gram(network(20), signals[:60], signals[60:], "ntk").ntk
    ours, small = (eq.gram(network(q), signals[:60], signals[60:], "ntk").ntk for q in (rules, 4))
    assert np.abs(ours - exact).max() < 1e-4 < np.abs(small - exact).max()


def test_matrix_is_symmetric_and_the_same_by_tiles(signals):
    net = network(RULES)
    whole = np.asarray(eq.gram(net, signals).ntk)
    np.testing.assert_array_equal(whole, whole.T)
    tiles = np.asarray(eq.gram(net, signals, tile=64).ntk)
    finest = np.asarray(eq.gram(network(10), signals).ntk)
    coarse = np.abs(np.asarray(eq.gram(network(4), signals).ntk) - finest).max()
    # Blocks hold other neighbours: a pair may take a larger rule than it needs.
    assert np.abs(tiles - whole).max() < 0.1 * coarse


def test_inside_jit_and_grad(signals):
    net, one, two = network(RULES), signals[:5], signals[5:12]
    np.testing.assert_allclose(
        jax.jit(lambda a, b: eq.gram(net, a, b, "ntk").ntk)(one, two), eq.gram(net, one, two, "ntk").ntk, atol=1e-6
    )

    def total(quadrature):
        return jax.grad(lambda x: eq.gram(network(quadrature), x, two, "ntk").ntk.sum())(jax.numpy.asarray(one))

    np.testing.assert_allclose(total(RULES), total(10), atol=2e-3 * np.abs(total(10)).max())


def test_the_largest_rule_elsewhere(signals):
    """Pair by pair, in the finite network, and for an input with itself."""
    net, fine = network(RULES), network(10)
    x = signals[:2].astype(np.float32)
    np.testing.assert_array_equal(pair_kernel(net, x[0], x[1]).ntk, pair_kernel(fine, x[0], x[1]).ntk)
    ours, plain = (np.diag(eq.gram(each, x).ntk) for each in (net, fine))
    np.testing.assert_allclose(ours, plain, rtol=1e-6)
    outputs = [each.apply(each.init(quick_key(0), x.shape), x) for each in (net, fine)]
    np.testing.assert_array_equal(*outputs)


def test_settings_are_plain_and_hashable():
    given = [[np.float32(0.5), np.int64(4)], [1, 6]]
    lift = eq.LiftS2(1, quadrature=given)
    assert lift == eq.LiftS2(1, quadrature=((0.5, 4), (1.0, 6))) and hash(lift) == hash(replace(lift))
    assert repr(lift.quadrature) == "((0.5, 4), (1.0, 6))"
    assert eq.LiftS2(1, bandwidth=4, quadrature=((0.5, 4), (1, 6))).quadrature[0] == (0.5, 4)


@pytest.mark.parametrize(
    ("quadrature", "words"),
    [
        ((), r"pairs of a height and a size"),
        ((0.5, 4), r"pairs of a height and a size"),
        (((0.5, 4, 1), (1, 6)), r"pairs of a height and a size"),
        (((0.5, 4), (0.9, 6)), r"the last one the height 1"),
        (((0.5, 4), (0.5, 6), (1, 8)), r"heights that rise"),
        (((0.0, 4), (1, 8)), r"heights that rise"),
        (((0.5, 6), (1, 6)), r"sizes that rise"),
        (((0.5, "4"), (1, 6)), r"size.*integer.*'4'"),
        (((float("nan"), 4), (1, 6)), r"height.*finite"),
        ((("half", 4), (1, 6)), r"height.*finite"),
        (((-0.5, 4), (1, 6)), r"height.*>= 0"),
        (((0.5, True), (1, 6)), r"size.*integer"),
    ],
)
def test_names_what_is_wrong(quadrature, words):
    with pytest.raises(ValueError, match=r"quadrature.*" + words):
        eq.LiftS2(1, quadrature=quadrature)


def test_smallest_rule_holds_the_bandwidth(signals):
    with pytest.raises(ValueError, match="at least the bandwidth 5, got 4"):
        eq.LiftS2(1, bandwidth=5, quadrature=RULES)
    with pytest.raises(ValueError, match="at least the bandwidth of the signals, 3, got 2"):
        eq.gram(network(((0.5, 2), (1, 6))), signals[:2])

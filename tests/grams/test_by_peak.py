"""A quadrature rule for each pair of signals, by the height of its peak."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from numbers_drawn import quick_key

import eqbook as eq

pytest.importorskip("e3nn_jax", reason="the so3 extra")

from eqbook.kernels import erf_dual, pair_kernel, relu_dual, so3  # noqa: E402

RULES = ((0.35, 4), (0.5, 6), (1.0, 10))
W_STD, B_STD = 1.3, 0.2
TURNS = np.random.default_rng(2).uniform(0.3, 2.8, (40, 3))  # angles of rotations


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


# Layers between lift and pooling, and what they do to a covariance: weights, a nonlinearity, a branch.
NETWORKS = {
    "erf": ((eq.Erf(), eq.SO3Conv(1, 1.2, 0.3), eq.Erf()), ("erf", (1.2, 0.3), "erf"), RULES),
    "relu": (
        (eq.Relu(), eq.SO3Conv(1, 1.2, 0.3), eq.Erf()),
        ("relu", (1.2, 0.3), "erf"),
        ((0.6, 4), (0.75, 6), (1.0, 10)),
    ),
    # The second one is the higher one.
    "gain behind the first": (
        (eq.Erf(), eq.SO3Conv(1, 4.0), eq.Erf()),
        ("erf", (4.0, 0), "erf"),
        ((0.5, 4), (0.7, 6), (1, 10)),
    ),
    "relu last": ((eq.Erf(), eq.SO3Conv(1), eq.Relu()), ("erf", (1.0, 0), "relu"), ((0.6, 4), (0.75, 6), (1, 10))),
    "any activation": (
        (eq.SO3Conv(1), eq.Activation(jax.numpy.tanh, nodes=24), eq.SO3Conv(1)),
        ((1.0, 0), "any", (1.0, 0)),
        ((0.6, 4), (0.75, 6), (1, 10)),
    ),
    "residual": (
        (eq.LayerNorm(), eq.Residual(eq.SO3Conv(1, 1.5, 0.5)), eq.Residual(eq.Erf(), eq.SO3Conv(1)), eq.Relu()),
        ("norm", [(1.5, 0.5)], ["erf", (1.0, 0)], "relu"),
        ((0.6, 4), (0.75, 6), (1, 10)),
    ),
}


def heights(one, two, size, steps):
    """By the formula, at all points of the product rule, with none of the separable tables."""
    c1, c2 = (np.asarray(so3.sphere_coefficients(x, 3), float) for x in (one, two))
    turned = np.stack([so3.rotate_coefficients(angles, c2) for angles in so3.rotation_points(size)[0]])
    volume, found = 4 * np.pi * c1.shape[-1], []
    start = [np.einsum("imc,pjmc->ijp", c1, turned) / volume]
    start += [((c**2).sum((1, 2)) / volume).reshape(shape) for c, shape in ((c1, (-1, 1, 1)), (c2, (1, -1, 1)))]

    def walk(steps, kab):
        for step in steps:
            k, a, b = kab
            if isinstance(step, tuple):
                kab = [step[0] ** 2 * x + step[1] ** 2 for x in kab]
            elif isinstance(step, list):
                kab = [x + y for x, y in zip(kab, walk(step, kab))]
            elif step == "norm":
                kab = [k / np.sqrt(a * b), a / a, b / b]
            else:
                c = 2 * k / np.sqrt((1 + 2 * a) * (1 + 2 * b)) if step == "erf" else k / np.sqrt(a * b)
                found.append(np.abs(c).max(-1))
                if step == "any":  # the last one
                    return kab
                dual = erf_dual if step == "erf" else relu_dual
                kab = [np.asarray(dual(*ends)[0]) for ends in ((a, b, k), (a, a, a), (b, b, b))]
        return kab

    walk(((W_STD, B_STD), *steps), start)
    return np.max(found, 0)


@pytest.mark.parametrize("name", NETWORKS)
def test_each_pair_takes_the_rule_of_its_height(signals, name, x64):
    between, steps, rules = NETWORKS[name]
    step = 2 if name == "any activation" else 1  # it takes its time
    one, two = signals[:70:step], signals[70::step]
    found = eq.gram(network(rules, *between), one, two)
    level = np.searchsorted([h for h, _ in rules], heights(one, two, 4, steps))
    assert np.bincount(level.ravel(), minlength=3).min() > 20, "the test wants pairs of all three"
    by_size = [eq.gram(network(size, *between), one, two) for _, size in rules]
    for kind in ("nngp", "ntk"):
        ours, each = getattr(found, kind), [np.asarray(getattr(gram, kind)) for gram in by_size]
        fits = np.stack([np.isclose(ours, kernel, rtol=1e-12, atol=1e-14) for kernel in each])
        assert fits.any(0).all()
        apart = np.stack([abs(kernel - each[-1]) > 1e-10 for kernel in each[:-1]])
        # Blocks of sorted pairs share a rule: one that a neighbour needs, never one too small.
        for size in range(2):
            assert not (fits[size] & apart[size] & (level > size)).any()
            its = apart[size] & (level == size)
            assert its.any() and (fits[size] & its).sum() > 0.6 * its.sum(), "most take the rule of their height"


def test_a_branch_counts_as_much_as_what_it_equals(signals, x64):
    """Weights beside an identity are weights of another size."""
    beside, alone = (eq.Residual(eq.SO3Conv(1, 1.0, 1.0)), eq.Relu()), (eq.SO3Conv(1, 2**0.5, 1.0), eq.Relu())
    rules = ((0.6, 4), (0.75, 6), (1.0, 10))
    one, two = (eq.gram(network(rules, *between), signals).nngp for between in (beside, alone))
    np.testing.assert_allclose(one, two, rtol=1e-12)


def test_one_rule_is_that_rule(signals, x64):
    one, plain = (eq.gram(network(q), signals[:20]) for q in (((1, 6),), 6))
    np.testing.assert_array_equal(one.ntk, plain.ntk)
    # Where no nonlinearity is singular, heights are 0, and any rule is exact.
    linear, fine = (eq.gram(network(q, eq.SO3Conv(1)), signals[:20]).ntk for q in (RULES, 8))
    np.testing.assert_allclose(linear, fine, rtol=1e-10)


def test_is_exact_to_the_error_of_its_rules(signals, x64):
    """Heights up to which each rule is good to 1e-4 here; the smallest rule alone is not."""
    rules = ((0.25, 4), (0.45, 5), (0.55, 6), (0.7, 8), (0.85, 12), (1.0, 20))
    exact = eq.gram(network(20), signals[:60], signals[60:], "ntk").ntk
    ours, small = (eq.gram(network(q), signals[:60], signals[60:], "ntk").ntk for q in (rules, 4))
    assert np.abs(ours - exact).max() < 1e-4 < np.abs(small - exact).max()


def test_heights_at_the_smallest_rule_are_not_much_too_low(x64):
    """As the module's docstring has it: on noise by up to a fifth, of the highest degree alone by almost a third."""
    noise = np.random.default_rng(1).normal(size=(40, 9, 2))
    alone, lowest = np.where(np.arange(9)[:, None] >= 4, noise, 0), {}
    for name, f in (("noise", noise), ("alone", alone)):
        g = np.stack([so3.rotate_coefficients(R, c[None])[0] for R, c in zip(TURNS, f, strict=True)])
        k = [np.asarray(so3.correlation_features(f, g)) @ so3.rotation_rule(3, size)[0] for size in (4, 12)]
        coarse, fine = (np.abs(values).max(1) * 8 * np.pi / (f**2).sum((1, 2)) for values in k)
        assert np.abs(fine - 1).max() < 0.05, "a rotated copy reaches 1"
        lowest[name] = (coarse / fine).min()
    assert 0.8 < lowest["noise"] < 0.95 and 0.65 < lowest["alone"] < lowest["noise"], lowest


def test_matrix_is_symmetric_and_the_same_by_tiles(signals):
    net = network(RULES)
    whole = np.asarray(eq.gram(net, signals).ntk)
    np.testing.assert_array_equal(whole, whole.T)
    tiles = np.asarray(eq.gram(net, signals, tile=64).ntk)
    finest = np.asarray(eq.gram(network(10), signals).ntk)
    coarse = np.abs(np.asarray(eq.gram(network(4), signals).ntk) - finest).max()
    # Blocks hold other neighbours: a pair may take a larger rule than it needs.
    assert np.abs(tiles - whole).max() < 0.1 * coarse


def test_inside_jit_and_grad(signals, x64):
    """All heights below that of the smallest rule: the same numbers and slopes as with that rule."""
    rules = ((0.999, 4), (1.0, 10))
    one, two = jax.numpy.asarray(signals[:5]), signals[5:12]
    ours, small, large = (
        jax.jit(lambda a, b, q=q: eq.gram(network(q), a, b, "ntk").ntk)(one, two) for q in (rules, 4, 10)
    )
    np.testing.assert_allclose(ours, small, rtol=1e-12)
    assert np.abs(ours - large).max() > 1e-9

    def slopes(quadrature):
        return jax.grad(lambda x: eq.gram(network(quadrature), x, two, "ntk").ntk.sum())(one)

    ours, small, large = map(slopes, (rules, 4, 10))
    np.testing.assert_allclose(ours, small, atol=1e-12 * np.abs(small).max())
    assert np.abs(ours - large).max() > 1e-7 * np.abs(large).max()


def test_the_largest_rule_elsewhere(signals, x64):
    """Pair by pair, in the finite network, and for inputs with themselves, in blocks and beyond one."""
    net, fine = network(RULES), network(10)
    x = 3 * signals[-33:]
    np.testing.assert_array_equal(pair_kernel(net, x[0], x[1]).ntk, pair_kernel(fine, x[0], x[1]).ntk)
    for x_n in (x[:2], x):  # inside jit one worker has them all: 33 are two blocks
        ours, plain, coarse = (
            np.diag(jax.jit(lambda x, net=each: eq.gram(net, x).ntk)(x_n)) for each in (net, fine, network(4))
        )
        np.testing.assert_allclose(ours, plain, rtol=1e-12)
        assert np.abs(coarse / plain - 1).max() > 1e-9, "the diagonal tells rules apart"
    outputs = [each.apply(each.init(quick_key(0), x.shape), x[:2]) for each in (net, fine)]
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

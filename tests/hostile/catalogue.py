"""Bad input, as a table: a name, the call, and words that its error must contain.

Every error is a `ValueError` (the errors of the data folder and of recorded runs are subclasses of it). The first word
names the argument or the layer; the others say what was expected and what was got. What the tests of each folder refuse
already, such as bad batches for every network (`tests/grams/test_bad_input.py`), is not repeated here.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax

import eqbook as eq
from eqbook import baselines, data, ensembles, groups, kernels, metrics, models, networks, results
from eqbook.dynamics import RowMatrix, learned_targets, solve
from eqbook.kernels import so3

KEY = jax.random.key(0)
C4, D3 = eq.cyclic(4), eq.dihedral(3)
NET = eq.Sequential(eq.Dense(4), eq.Relu(), eq.Dense(1))
X, Y = np.ones((3, 2), np.float32), np.ones((3, 1), np.float32)
IMAGES = np.zeros((2, 4, 4, 3), np.uint8)
EYE = np.eye(3, dtype=np.float32)
FAR = np.arange(24, dtype=np.float32).reshape(4, 2, 3)
SIZES, COV = np.array([10.0, 20.0, 40.0, 80.0, 160.0, 320.0]), 0.01 * np.eye(6)
TEXT, RAGGED = "some text", [[1.0, 2.0], [3.0]]
HUGE = np.full((1, 2), 2**31 + 5)  # integers of 64 bits, which JAX would cut to 32


def law(**changes):
    return eq.EnsembleLaw(**({"ntk": EYE, "nngp": EYE, "y": Y} | changes))


def fails(sample):
    """A statistic that raises, and does not say why."""
    raise TypeError


def train(**changes):
    arguments = {"net": NET, "key": KEY, "x": X, "y": Y, "members": 1, "epochs": 1, "optimizer": optax.sgd(0.1)}
    return eq.train_ensemble(**(arguments | {"progress": False, "at_once": 1} | changes))


def flax(net):
    return net.init(KEY, np.zeros((2, 8, 8, 3), np.float32))


def stream(**changes):
    arguments = {"net": NET, "params": {}, "batches": [], "rates": [0.1], "optimizer": optax.sgd(0.1)}
    return models.train_on_stream(**(arguments | changes))


def constant(**changes):
    arguments = {"net": NET, "key": KEY, "law": law(), "t": 1.0, "x": X, "x_train": X, "region": X}
    return metrics.continuous_group_constant(**(arguments | changes))


def paper_value(value):
    return results.PaperValue(value, None, None, "paper", "figure", "read off")


def images(**changes):
    fine = {"train_images": IMAGES, "train_labels": np.zeros(2, np.int32), "test_images": IMAGES}
    arguments = fine | {"test_labels": np.zeros(2, np.int32), "class_names": ("a", "b")} | changes
    return data.ImageSet(**arguments)


def recorded(values, seconds=1.0, chapter="some_chapter"):
    return results.write(chapter, {}, values, seconds)


LAYERS = [
    ("Dense of no features", lambda: eq.Dense(0), "`Dense: features`", "at least 1", "0"),
    ("Dense of half a feature", lambda: eq.Dense(2.5), "`Dense: features`", "integer", "2.5"),
    ("Dense of text", lambda: eq.Dense("3"), "`Dense: features`", "integer", "'3'"),
    ("Dense of True features", lambda: eq.Dense(True), "`Dense: features`", "integer", "True"),
    ("negative deviation", lambda: eq.Dense(1, W_std=-1), "`W_std`", "finite number >= 0", "-1"),
    ("complex deviation", lambda: eq.Dense(1, b_std=1j), "`b_std`", "finite number >= 0", "1j"),
    ("deviation of NaN", lambda: eq.Conv(1, (3, 3), b_std=np.nan), "`b_std`", "finite number >= 0", "nan"),
    ("deviation of 1e160", lambda: eq.Dense(1, W_std=1e160), "`W_std`", "finite square", "1e+160"),
    ("bias beyond all floats", lambda: eq.Dense(1, b_std=10**400), "`b_std`", "finite number", "1000"),
    ("paddings in an array", lambda: eq.Conv(1, (3, 3), padding=np.array(["SAME"] * 2)), "`padding`", "one of SAME"),
    ("deviations in an array", lambda: eq.Conv(1, (3, 3), W_std=np.ones(2)), "`W_std`", "finite number"),
    ("one side", lambda: eq.Conv(1, 3), "`filter_shape`", "two sizes", "3"),
    ("three sides", lambda: eq.Conv(1, (3, 3, 3)), "`filter_shape`", "two sizes", "(3, 3, 3)"),
    ("side of 0", lambda: eq.Conv(1, (0, 1)), "filter_shape", "at least 1", "0"),
    ("strides of 0", lambda: eq.Conv(1, (1, 1), (0, 1)), "strides", "at least 1", "0"),
    ("padding in small letters", lambda: eq.Conv(1, (1, 1), padding="same"), "`padding`", "SAME", "'same'"),
    ("padding in a list", lambda: eq.LocallyConnected(1, (1, 1), padding=["SAME"]), "`padding`", "SAME"),
    ("locally without channels", lambda: eq.LocallyConnected(None, (1, 1)), "channels", "integer", "None"),
    ("window of text", lambda: eq.AvgPool("22"), "`window`", "two sizes", "'22'"),
    ("window strides", lambda: eq.AvgPool((2, 2), (1, 1, 1)), "`strides`", "two sizes", "(1, 1, 1)"),
    ("activation of no function", lambda: eq.Activation("tanh"), "`function`", "jnp.tanh", "'tanh'"),
    ("activation of a class", lambda: eq.Activation(int), "`function`", "jnp.tanh"),
    ("activation that sums", lambda: eq.Activation(jnp.sum), "`function`", "elementwise"),
    ("activation to three", lambda: eq.Activation(lambda u: u * np.ones(3)), "`function`", "(3,) of a single number"),
    ("activation of NumPy", lambda: eq.Activation(np.tanh), "`function`", "elementwise", "fails"),
    ("too many nodes", lambda: eq.Activation(jnp.tanh, 10**6), "`nodes`", "at most 256", "1000000"),
    ("no layers", lambda: eq.Sequential(), "Sequential", "at least one layer", "none"),
    ("a list of layers", lambda: eq.Sequential([eq.Dense(1)]), "layer 0", "expected a layer", "[Dense"),
    ("a class for a layer", lambda: eq.Sequential(eq.Relu), "layer 0", "expected a layer", "Relu"),
    ("an empty branch", lambda: eq.Residual(), "Residual", "at least one layer"),
    ("a class in a branch", lambda: eq.Residual(eq.Relu), "Residual: layer 0", "expected a layer", "Relu"),
    ("lift without a group", lambda: eq.Lift(4, 1), "`group`", "eq.cyclic(4)", "4"),
    ("lift by C3 on the plane", lambda: eq.Lift(eq.cyclic(3), 1, (3, 3)), "`group`", "n in 1, 2, 4"),
    ("even filter", lambda: eq.Lift(C4, 1, (2, 2)), "`filter_shape`", "odd sides", "(2, 2)"),
    ("action of another group", lambda: eq.Lift(C4, 1, action=groups.TrivialAction(D3)), "`action`", "Trivial"),
    ("action of text", lambda: eq.Lift(C4, 1, action=TEXT), "`action`", "expected an action", TEXT),
    ("support on the plane", lambda: eq.Lift(C4, 1, (1, 1), support=(0,)), "`support`", "leave `support` out"),
    ("empty support", lambda: eq.GroupConv(C4, 1, support=()), "`support`", "different indices", "()"),
    ("support twice", lambda: eq.GroupConv(C4, 1, support=(1, 1)), "`support`", "different", "(1, 1)"),
    ("support of lists", lambda: eq.GroupConv(C4, 1, support=([0], [1])), "support", "integer", "[0]"),
    ("support outside", lambda: eq.GroupConv(C4, 1, support=(4,)), "`support`", "0 .. 3", "4"),
    ("rule below the bandwidth", lambda: eq.LiftS2(1, bandwidth=4, quadrature=3), "`quadrature`", "4", "3"),
    (
        "group of no name",
        lambda: eq.LiftS2(1, quadrature="dodecahedron"),
        "`LiftS2: quadrature`",
        "icosahedron",
        "'dodec",
    ),
    ("bandwidth of text", lambda: eq.LiftS2(1, bandwidth="4"), "bandwidth", "integer", "'4'"),
    ("rules without heights", lambda: eq.LiftS2(1, quadrature=(4, 6)), "`LiftS2: quadrature`", "a height", "(4, 6)"),
    (
        "heights that fall",
        lambda: eq.LiftS2(1, quadrature=((0.9, 4), (0.5, 6), (1, 8))),
        "`LiftS2: quadrature`",
        "heights that rise",
        "sort the pairs",
    ),
]

GRAMS = [
    ("net of layers in a list", lambda: eq.gram([eq.Dense(1)], X), "`net`", "Sequential(...)", "[Dense"),
    ("net is a layer", lambda: eq.gram(eq.Dense(1), X), "`net`", "Sequential(...)", "Dense"),
    ("ragged inputs", lambda: eq.gram(NET, RAGGED), "`x1`", "expected", "differ in length"),
    ("text for inputs", lambda: eq.gram(NET, TEXT), "`x1`", "expected vectors", "()"),
    ("nothing for inputs", lambda: eq.gram(NET, None), "`x1`", "expected vectors", "()"),
    ("inputs of text", lambda: eq.gram(NET, np.full((2, 2), "a")), "`x1`", "real numbers", "<U1"),
    ("complex inputs", lambda: eq.gram(NET, X * 1j), "`x1`", "real numbers", "complex"),
    ("inputs of booleans", lambda: eq.gram(NET, X > 0), "`x1`", "real numbers", "bool"),
    ("kinds in a word", lambda: eq.gram(NET, X, kinds="nngp,ntk"), "`kinds`", "'nngp', 'ntk'", "'nngp,ntk'"),
    ("kinds unknown", lambda: eq.gram(NET, X, kinds=("ntk", "ck")), "`kinds`", "'nngp', 'ntk'", "'ck'"),
    ("kinds a number", lambda: eq.gram(NET, X, kinds=3), "`kinds`", "3"),
    ("kinds unhashable", lambda: eq.gram(NET, X, kinds=[["ntk"]]), "`kinds`", "['ntk']"),
    ("tile of text", lambda: eq.gram(NET, X, tile="64"), "`tile`", "integer", "'64'"),
    ("method as a list", lambda: eq.gram(NET, X, method=["auto"]), "`method`", "'literal'", "['auto']"),
    ("mesh of text", lambda: eq.gram(NET, X, mesh="cpu"), "`mesh`", "jax.sharding.Mesh", "'cpu'"),
    ("store without a name", lambda: eq.gram(NET, X, store=""), "`store`", "path of a folder", "''"),
    ("store with a zero", lambda: eq.gram(NET, X, store="a\0b"), "`store`", "path of a folder"),
    ("store of bytes", lambda: eq.gram(NET, X, store=b"folder"), "`store`", "path of a folder"),
    ("second batch ragged", lambda: eq.gram(NET, X, RAGGED), "`x2`", "expected", "differ in length"),
    ("empirical, vectors", lambda: eq.empirical_kernels(NET, {}, X[0]), "`x1`", "batch", "(2,)"),
    ("empirical, features", lambda: eq.empirical_kernels(NET, {}, X, X[:, :1]), "`x2`", "(2,)", "(1,)"),
    ("pairs of different length", lambda: metrics.kernel_distance(NET, X, X[:2]), "`x2`", "3 inputs", "2"),
    ("sphere coefficients", lambda: so3.sphere_signal(np.ones((1, 3, 1))), "`coefficients`", "L^2", "(1, 3, 1)"),
    ("empirical, no network", lambda: eq.empirical_kernels(None, {}, X), "`net`", "Sequential", "None"),
    ("sphere coefficients of None", lambda: so3.sphere_signal(None), "`coefficients`", "numbers", "None"),
    ("negative bandwidth", lambda: so3.sphere_coefficients(np.ones((1, 4, 3, 1)), -1), "`bandwidth`", "least 1", "-1"),
    ("features of a negative bandwidth", lambda: so3.feature_count(-1), "`bandwidth`", "at least 0", "-1"),
    ("rule that is no group", lambda: so3.quadrature_size("9", 4), "`quadrature`", "integer", "'9'"),
    ("four Euler angles", lambda: so3.angles_to_matrix(np.ones((1, 4))), "`angles`", "[..., 3]", "(1, 4)"),
    ("Euler angle of NaN", lambda: so3.angles_to_matrix([0, np.nan, 0]), "`angles`", "finite", "nan"),
    ("angles of a plane", lambda: so3.matrix_to_angles(np.eye(2)), "`rotation`", "3, 3", "(2, 2)"),
    ("Wigner at one angle", lambda: so3.wigner_matrix(1, np.ones(3)), "`angles`", "[points, 3]", "(3,)"),
    ("harmonics of None", lambda: so3.spherical_harmonics(2, None, np.ones(2)), "`theta`", "real numbers"),
    ("harmonics at three and two", lambda: so3.spherical_harmonics(2, np.ones(2), np.ones(3)), "`phi`", "(3,)"),
    ("dual by a million nodes", lambda: kernels.quadrature_dual(jnp.tanh, 10**6, 1.0, 1.0, 0.5), "`nodes`", "at most"),
    ("dual of text", lambda: kernels.quadrature_dual("tanh", 4, 1.0, 1.0, 0.5), "`function`", "jnp.tanh", "'tanh'"),
]

NETWORKS = [
    ("shape of one example", lambda: NET.init(KEY, (2,)), "`input_shape`", "(n, ...features)", "(2,)"),
    ("shape of text", lambda: NET.init(KEY, TEXT), "`input_shape`", "(n, ...features)", TEXT),
    ("shape with a fraction", lambda: NET.init(KEY, (3, 2.5)), "`input_shape`", "(3, 2.5)"),
    ("a batch for its shape", lambda: NET.init(KEY, X), "`input_shape`", "x.shape"),
    ("init with a number for a key", lambda: NET.init(0, (3, 2)), "`key`", "random key", "0"),
    ("apply to text", lambda: NET.apply({}, TEXT), "`x`", "real numbers"),
    ("apply to other features", lambda: NET.apply(NET.init(KEY, (3, 2)), X[:, :1]), "`params`", "expected"),
    ("apply with text for parameters", lambda: NET.apply(TEXT, X), "`params`", "net.init", "str"),
    ("pool by 3", lambda: networks.mean_pool(np.ones((1, 4, 4, 1)), 3), "`x`", "3"),
    ("GCNN without channels", lambda: baselines.gcnn(C4, ()), "`channels`", "(16, 16)", "()"),
    ("width for no parameters", lambda: baselines.matching_width(eq.Dense, 0, (1, 2)), "`parameters`", "0"),
    ("partner of a layer", lambda: baselines.cnn_partner(eq.Dense(1)), "`net`", "Sequential", "Dense"),
    ("pool nothing", lambda: networks.mean_pool(None), "`x`", "images", "()"),
    ("halve nothing", lambda: baselines.halve(None), "`x`", "images", "()"),
    ("quarter turn by None", lambda: baselines.quarter_turn(np.ones((1, 4, 4, 1)), None), "`angle`", "None"),
    ("quarter turn by NaN", lambda: baselines.quarter_turn(np.ones((1, 4, 4, 1)), np.nan), "`angle`", "90", "nan"),
    ("count of no network", lambda: baselines.parameter_count(None, (1, 2)), "`net`", "Sequential", "None"),
    ("width of no networks", lambda: baselines.matching_width(None, 10, (1, 2)), "`make`", "function", "None"),
    ("features in one number", lambda: flax(baselines.SteerableNet(4, 8, 3)), "`features`", "tuple", "8"),
    ("channels in one number", lambda: flax(baselines.PlainCNN(16)), "`channels`", "tuple", "16"),
    ("blocks in one number", lambda: flax(models.ResNet(2)), "`blocks`", "tuple", "2"),
    ("rates of None", lambda: stream(rates=None), "`rates`", "steps", "()"),
    ("rates of NaN", lambda: stream(rates=[np.nan]), "`rates`", "finite", "nan"),
    ("batches of None", lambda: stream(batches=None), "`batches`", "images", "None"),
    ("stream without an optimiser", lambda: stream(optimizer=None), "`optimizer`", "optax.sgd(0.1)", "None"),
    ("batches of no images", lambda: next(models.batches_of(None, Y, 1)), "`x`", "array", "None"),
]

GROUPS = [
    ("cyclic of 0", lambda: eq.cyclic(0), "`n`", "at least 1", "0"),
    ("cyclic of text", lambda: eq.cyclic("4"), "`n`", "integer", "'4'"),
    ("dihedral of half", lambda: eq.dihedral(1.5), "`n`", "integer", "1.5"),
    ("table of text", lambda: eq.FiniteGroup(TEXT), "`table`", "square array of integers", "()"),
    ("ragged table", lambda: eq.FiniteGroup([[0, 1], [1]]), "`table`", "differ in length"),
    ("table of fractions", lambda: eq.FiniteGroup([[0.0, 1.0], [1.0, 0.0]]), "`table`", "integers", "float64"),
    ("table with a 2", lambda: eq.FiniteGroup([[0, 1], [1, 2]]), "`table`", "0 .. 1", "2"),
    ("table without inverses", lambda: eq.FiniteGroup([[0, 1], [1, 1]]), "`table`", "each element once"),
    ("too few names", lambda: eq.FiniteGroup([[0, 1], [1, 0]], ("e",)), "`names`", "2 names", "1"),
    ("names not in a tuple", lambda: eq.FiniteGroup([[0, 1], [1, 0]], 3), "`names`", "2 names", "3"),
    ("element outside", lambda: C4.check_element(4), "`g`", "0 .. 3", "4"),
    ("element of text", lambda: C4.check_element("r1"), "`g`", "0 .. 3", "'r1'"),
    ("trivial action of no group", lambda: groups.TrivialAction(4), "`group`", "eq.cyclic(4)", "4"),
    ("regular action of no group", lambda: groups.RegularAction(None), "`group`", "eq.cyclic(4)", "None"),
    ("matrices of no group", lambda: groups.MatrixAction(TEXT, np.ones((1, 1, 1))), "`group`", TEXT),
    ("images of no group", lambda: groups.ImageAction(4), "`group`", "cyclic(n)", "4"),
    (
        "matrices that stretch",
        lambda: groups.MatrixAction(eq.cyclic(1), 2 * np.ones((1, 1, 1))),
        "`matrices`",
        "orthogonal",
    ),
    (
        "matrices of another group",
        lambda: groups.MatrixAction(C4, np.stack([np.eye(2)] * 3)),
        "`matrices`",
        "order = 4",
    ),
    ("matrices of text", lambda: groups.MatrixAction(C4, TEXT), "`matrices`", "real numbers"),
    (
        "matrix on other vectors",
        lambda: groups.MatrixAction(eq.cyclic(1), np.eye(2)[None])(0, X.T),
        "`x`",
        "size 2",
        "3",
    ),
    ("oblong images", lambda: groups.ImageAction(C4)(1, np.ones((1, 3, 4, 1))), "`x`", "square", "(1, 3, 4, 1)"),
    ("orbit of no action", lambda: groups.orbit(C4, X), "`action`", "eq.groups.ImageAction", "FiniteGroup"),
    ("augment by no action", lambda: groups.augment(TEXT, X, TEXT, Y), "`action_x`", "ImageAction", TEXT),
    (
        "augment by two groups",
        lambda: groups.augment(groups.TrivialAction(C4), X, groups.TrivialAction(D3), Y),
        "`action_y`",
    ),
    (
        "targets missing",
        lambda: groups.augment(groups.TrivialAction(C4), X, groups.TrivialAction(C4), Y[:2]),
        "`y`",
        "3",
        "2",
    ),
    ("no permutation", lambda: groups.permutation_matrix([0, 0]), "`permutation`", "once", "(2,)"),
    ("permutation of examples", lambda: groups.augmented_permutation(C4, 0, 1), "`n`", "at least 1", "0"),
    ("irreps of no group", lambda: groups.irreps(4), "`group`", "4"),
    ("character of another group", lambda: groups.multiplicities(C4, [1, 1]), "`character`", "[4]", "(2,)"),
    ("character of nothing", lambda: groups.multiplicities(C4, [0.5, 0, 0, 0]), "`character`", "representation"),
    ("symmetry unknown", lambda: groups.rand_image_symmetry("SO(3)", KEY, (4, 4, 3)), "`name`", "O(3) x I", "SO(3)"),
    ("symmetry of a plane", lambda: groups.rand_image_symmetry("O(3d)", KEY, (4, 4)), "`shape`", "channels", "(4, 4)"),
    ("rotation by NaN", lambda: groups.rotate_images(np.ones((1, 4, 4, 1)), np.nan), "`angle`", "finite", "nan"),
    ("spline of order 2", lambda: groups.rotate_images(np.ones((1, 4, 4, 1)), 5.0, order=2), "`order`", "1", "2"),
    ("disc without pixels", lambda: groups.disc_mask(0), "`size`", "at least 1", "0"),
    ("rotations of no group", lambda: groups.RotationAction(None), "`group`", "eq.cyclic(4)", "None"),
    ("images of a table", lambda: groups.ImageAction([[0]]), "`group`", "cyclic(n)", "[[0]]"),
    ("rotation by None", lambda: groups.rotate_images(np.ones((1, 4, 4, 1)), None), "`angle`", "finite", "None"),
    ("rotation by text", lambda: groups.rotate_images(np.ones((1, 4, 4, 1)), "90"), "`angle`", "finite", "'90'"),
    ("orbit of nothing", lambda: groups.orbit(groups.TrivialAction(C4), None), "`x`", "numbers", "None"),
    ("matrix on nothing", lambda: groups.MatrixAction(eq.cyclic(1), np.eye(2)[None])(0, None), "`x`", "None"),
    (
        "augment nothing",
        lambda: groups.augment(groups.TrivialAction(C4), None, groups.TrivialAction(C4), Y),
        "`x`",
        "None",
    ),
    ("law of no action", lambda: groups.group_law_error(None, X), "`action`", "ImageAction", "None"),
    ("law on NaN", lambda: groups.group_law_error(groups.TrivialAction(C4), X * np.nan), "`x`", "finite", "nan"),
    ("permutation of no group", lambda: groups.augmented_permutation(None, 1, 0), "`group`", "eq.cyclic(4)", "None"),
    ("ragged permutation", lambda: groups.permutation_matrix([[0], [0, 1]]), "`permutation`", "differ in length"),
    ("character of no group", lambda: groups.multiplicities(None, [1]), "`group`", "eq.cyclic(4)", "None"),
    ("character of NaN", lambda: groups.multiplicities(C4, [np.nan] * 4), "`character`", "finite", "nan"),
    ("projector of no irrep", lambda: groups.isotypic_projector(None, X), "`irrep`", "eq.groups.irreps", "None"),
    (
        "projector from NaN",
        lambda: groups.isotypic_projector(groups.irreps(C4)[0], np.full((4, 1, 1), np.nan)),
        "`representation`",
        "finite",
    ),
    ("block of no irrep", lambda: groups.fourier_block("A", X), "`irrep`", "eq.groups.irreps", "'A'"),
    ("block of NaN", lambda: groups.fourier_block(groups.irreps(C4)[0], [np.nan] * 4), "`k`", "finite", "nan"),
    ("orthogonal by a seed", lambda: groups.haar_orthogonal(0, 3), "`key`", "random key", "0"),
    ("orthogonal, draws in a number", lambda: groups.haar_orthogonal(KEY, 3, 2), "`draws`", "tuple", "2"),
    ("symmetry by a seed", lambda: groups.rand_image_symmetry("O(3d)", 0, (2, 2, 3)), "`key`", "random key", "0"),
    ("symmetry of no images", lambda: groups.rand_image_symmetry("P(3d)", KEY, (2, 2, 3))(None), "`x`", "None"),
    ("colours turned by NaN", lambda: groups.ColourRotation(np.eye(3) * np.nan), "`matrices`", "finite", "nan"),
    ("colours turned by a vector", lambda: groups.ColourRotation(np.ones(3)), "`matrices`", "[c, c]", "(3,)"),
    ("entries twice", lambda: groups.EntryPermutation(np.zeros(3, int)), "`order`", "once", "(3,)"),
    ("entries turned by a vector", lambda: groups.EntryRotation(np.ones(3)), "`matrix`", "h * w * c", "(3,)"),
]

DYNAMICS = [
    ("ridge of text", lambda: law(diag_reg="1"), "`diag_reg`", "number >= 0", "'1'"),
    ("ridges", lambda: law(diag_reg=[0.1, 0.2]), "`diag_reg`", "number >= 0", "[0.1, 0.2]"),
    ("ridge of NaN", lambda: law(diag_reg=np.nan), "`diag_reg`", "number >= 0", "nan"),
    ("ragged kernel", lambda: law(ntk=RAGGED), "`ntk`", "expected", "differ in length"),
    ("ragged targets", lambda: law(y=[[1], [1, 2], [3]]), "`y`", "expected", "differ in length"),
    ("targets of text", lambda: law(y=np.full((3, 1), "a")), "`y`", "real numbers", "<U1"),
    ("kernel of text", lambda: law(ntk=TEXT), "`ntk`", "real numbers"),
    ("a Gram for its matrix", lambda: law().mean(eq.grams.Gram(EYE, EYE), 1.0), "`ntk_test_train`", "`.ntk`"),
    ("no Gram", lambda: law().covariance(EYE, EYE, 1.0), "`test_train`", "Gram", "ndarray"),
    ("time of None", lambda: law().train_mean(None), "`t`", "one number", "None"),
    ("time that is complex", lambda: law().train_mean(1j), "`t`", "one number", "1j"),
    ("rate of None", lambda: eq.GradientFlow(None), "`learning_rate`", "finite number > 0", "None"),
    ("steps with a fraction", lambda: law().train_mean(0.5, eq.GradientDescent(0.1)), "`t`", "whole number", "0.5"),
    ("solve an array", lambda: solve(EYE, Y), "`matrix`", "RowMatrix", "ndarray"),
    ("solve, ridge of text", lambda: solve(RowMatrix(EYE), Y, diag_reg="0"), "`diag_reg`", "number >= 0", "'0'"),
    ("solve, tolerance None", lambda: solve(RowMatrix(EYE), Y, tolerance=None), "`tolerance`", "None"),
    ("solve, half a rank", lambda: solve(RowMatrix(EYE), Y, rank=0.5), "`rank`", "integer", "0.5"),
    ("learn an array", lambda: learned_targets(EYE, Y, 1.0), "`matrix`", "RowMatrix", "ndarray"),
    ("learn by no schedule", lambda: learned_targets(RowMatrix(EYE), Y, 1.0, 0.1), "`schedule`", "GradientFlow", "0.1"),
    ("learn at a text", lambda: learned_targets(RowMatrix(EYE), Y, "1"), "`t`", "one number", "'1'"),
    ("learn at None", lambda: learned_targets(RowMatrix(EYE), Y, None), "`t`", "one number", "None"),
    ("rows of text", lambda: RowMatrix(TEXT), "`matrix`", "[n, n]"),
    ("rows with infinity", lambda: RowMatrix(np.full((2, 2), np.inf)), "`matrix`", "finite", "inf"),
    ("rows on no device", lambda: RowMatrix(EYE, mesh="cpu"), "`mesh`", "jax.sharding.Mesh", "'cpu'"),
    ("rows of an unknown dtype", lambda: RowMatrix(lambda which: EYE[which], 3, dtype="float31"), "`dtype`", "float31"),
    ("targets too large", lambda: law(ntk=3 * EYE - 0.5, y=3e38 * Y).train_mean(1.0), "`y`", "finite in float32"),
    ("targets of 1e300 in float32", lambda: law(y=np.full((3, 1), 1e300)), "`y`", "finite in float32", "float64"),
    ("kernel of 1e300 in float32", lambda: law(ntk=1e300 * np.eye(3)), "`ntk`", "finite in float32", "float64"),
    ("kernel of 3e38", lambda: law(ntk=np.full((3, 3), 3e38, np.float32)), "`ntk`", "finite in float32"),
]

ENSEMBLES = [
    ("a seed for a key", lambda: train(key=0), "`key`", "jax.random.key(0)", "0"),
    ("no members", lambda: train(members=0), "`members`", "at least 1", "0"),
    ("members in a list", lambda: train(members=[1]), "`members`", "integer", "[1]"),
    ("epochs of text", lambda: train(epochs="1"), "`epochs`", "integer", "'1'"),
    ("a rate for the optimiser", lambda: train(optimizer=0.1), "`optimizer`", "optax.sgd(0.1)", "0.1"),
    ("loss unknown", lambda: train(loss="mse"), "`loss`", "squared_error", "'mse'"),
    ("loss in a list", lambda: train(loss=["squared_error"]), "`loss`", "squared_error"),
    ("batch larger than all", lambda: train(batch_size=4), "`batch_size`", "at most 3", "4"),
    ("part that does not divide", lambda: train(part=2), "`part`", "divisor of 3", "2"),
    ("targets of another shape", lambda: train(y=np.ones((3, 2), np.float32)), "`y`", "(3, 1)", "(3, 2)"),
    ("classes that are not there", lambda: train(y=np.full(3, 7), loss="cross_entropy"), "`y`", "0 .. 0", "7"),
    ("ragged inputs for training", lambda: train(x=[[1.0], [1.0, 2.0], [3.0]]), "`x`", "expected", "differ in length"),
    ("inputs of text for training", lambda: train(x=TEXT), "`x`", "expected"),
    ("watch a batch", lambda: train(watch=X), "`watch`", "dictionary", "ndarray"),
    ("watch a name that is no text", lambda: train(watch={1: X}), "`watch`", "text", "1"),
    ("watch other features", lambda: train(watch={"a": X[:, :1]}), "watch['a']", "(2,)", "(1,)"),
    ("watch a ragged batch", lambda: train(watch={"a": RAGGED}), "watch['a']", "expected", "differ in length"),
    ("watch integers of 64 bits", lambda: train(watch={"a": HUGE}), "watch['a']", "2147483647", "convert"),
    ("predict at integers of 64 bits", lambda: train().predict(HUGE), "`x`", "2147483647", "convert"),
    ("predict at an epoch of 2.0", lambda: train().predict(X, epoch=2.0), "`epoch`", "integer", "2.0"),
    (
        "rate for integers of 64 bits",
        lambda: ensembles.ntk_learning_rate(NET, "infinite", HUGE),
        "`x`",
        "2147483647",
        "convert",
    ),
    ("record one epoch", lambda: train(record=1), "`record`", "[0, 1]", "1"),
    ("record beyond the end", lambda: train(record=[2]), "`record`", "between 0 and 1", "(2,)"),
    ("augment by an action", lambda: train(augment=groups.TrivialAction(C4)), "`augment`", "full_orbits"),
    ("store that is a number", lambda: train(store=3), "`store`", "path of a folder", "3"),
    ("no network", lambda: train(net=NET.apply), "`net`", "Sequential"),
    ("orbits of no action", lambda: ensembles.full_orbits(C4, C4), "`action_x`", "ImageAction"),
    (
        "fraction of text",
        lambda: ensembles.ntk_learning_rate(NET, KEY, X, fraction="1"),
        "`fraction`",
        "positive",
        "'1'",
    ),
    ("fraction None", lambda: ensembles.ntk_learning_rate(NET, KEY, X, fraction=None), "`fraction`", "None"),
    ("rate of no network", lambda: ensembles.ntk_learning_rate(None, KEY, X), "`net`", "Sequential", "None"),
    ("targets that are words", lambda: train(y=np.array(["a", "b", "a"])), "`y`", "array of numbers", "<U1"),
    ("inputs that are objects", lambda: train(x=X.astype(object)), "`x`", "array of numbers", "object"),
    ("loss of each example", lambda: train(loss=lambda o, y: o - y), "`loss`", "one real number", "(3, 1)"),
    ("optimiser with a line search", lambda: train(optimizer=optax.lbfgs()), "`optimizer`", "gradient", "value"),
    (
        "noise from a key of another kind",
        lambda: train(optimizer=optax.chain(optax.sgd(0.1), optax.add_noise(0.1, 0.5, "key"))),
        "`optimizer`",
        "begins with the parameters",
        "'key'",
    ),
    ("class of a network", lambda: train(net=networks.PatchConv), "`net`", "class PatchConv", "call it"),
    ("members for no distance", lambda: metrics.members_needed(0.05, 1e-200, 2.0), "`delta`", "stay finite"),
    ("too many axes", lambda: data.idx.parse_idx(bytes((0, 0, 8, 100)) + bytes(400), "idx"), "`idx`", "shape", "(0,"),
    ("rate at nothing", lambda: ensembles.ntk_learning_rate(NET, None, X), "`at`", "random key", "None"),
    ("rate at a seed", lambda: ensembles.ntk_learning_rate(NET, 0, X), "`at`", "random key", "0"),
    ("losses in no folder", lambda: ensembles.read_metrics("/no/such/folder"), "`folder`", "store", "/no/such/folder"),
    ("losses in None", lambda: ensembles.read_metrics(None), "`folder`", "path", "None"),
    ("error of nothing", lambda: ensembles.squared_error(None, Y), "`y`", "()", "(3, 1)"),
]

METRICS = [
    ("scores without classes", lambda: metrics.orbit_same_predictions(X), "`outputs`", "[order, n, classes]", "(3, 2)"),
    ("scores of NaN", lambda: metrics.orbit_same_predictions(np.full((2, 2, 2), np.nan)), "`outputs`", "finite"),
    ("spread of scores", lambda: metrics.relative_orbit_std(np.ones((2, 2, 2))), "`outputs`", "2 axes", "(2, 2, 2)"),
    ("distance by no action", lambda: metrics.orbit_mse(np.ones((4, 2, 3)), TEXT), "`action_out`", "expected"),
    (
        "distance in another group",
        lambda: metrics.orbit_mse(np.ones((4, 2, 3)), groups.TrivialAction(D3)),
        "`action_out`",
        "4",
    ),
    ("interval of one sample", lambda: metrics.bootstrap_interval(KEY, [1.0]), "`values`", "two samples", "(1,)"),
    ("interval at 95", lambda: metrics.bootstrap_interval(KEY, [1.0, 2.0], level=95), "`level`", "0 and 1", "95"),
    (
        "interval at text",
        lambda: metrics.bootstrap_interval(KEY, [1.0, 2.0], level="0.95"),
        "`level`",
        "0 and 1",
        "'0.95'",
    ),
    ("interval of text", lambda: metrics.bootstrap_interval(KEY, ["a", "b"]), "`values`", "real numbers"),
    ("interval over an axis twice", lambda: metrics.bootstrap_interval(KEY, X, axes=(0, 0)), "`axes`", "(0, 0)"),
    ("interval without a key", lambda: metrics.bootstrap_interval(0, X), "`key`", "random key", "0"),
    ("normal interval of one draw", lambda: metrics.normal_interval([1.0]), "`draws`", "two resampled", "(1,)"),
    ("normal interval at 99", lambda: metrics.normal_interval([1.0, 2.0], 99), "`level`", "0 and 1", "99"),
    ("normal interval of NaN", lambda: metrics.normal_interval([1.0, np.nan]), "`draws`", "finite"),
    ("one resample", lambda: metrics.bootstrap_interval(KEY, X, resamples=1), "`resamples`", "at least 2", "1"),
    ("ensembles of all and one", lambda: metrics.disjoint_ensembles(X, 4), "`size`", "at most the 3", "4"),
    ("interval of NumPy's median", lambda: metrics.bootstrap_interval(KEY, X, np.median), "`statistic`", "jnp.median"),
    (
        "interval of an error that says nothing",
        lambda: metrics.bootstrap_interval(KEY, X, fails),
        "`statistic`",
        "no message",
    ),
    (
        "interval of a choice of entries",
        lambda: metrics.bootstrap_interval(KEY, X, lambda s: s[s > 0].mean()),
        "`statistic`",
        "NonConcreteBooleanIndexError",
    ),
    ("interval of nothing", lambda: metrics.bootstrap_interval(KEY, X, print), "`statistic`", "makes nothing"),
    ("ensembles of flat outputs", lambda: metrics.bootstrap_ensembles(KEY, X, len), "`outputs`", "[members", "(3, 2)"),
    (
        "metric of one number",
        lambda: metrics.bootstrap_ensembles(KEY, np.ones((2, 2, 2, 2)), np.mean),
        "`metric`",
        "[2]",
        "()",
    ),
    ("deviation of 0", lambda: metrics.finite_ensemble_tail(0.0, 1.0, 3), "`delta`", "positive", "0.0"),
    ("negative variance", lambda: metrics.finite_ensemble_tail(1.0, -1.0, 3), "`variance`", ">= 0", "-1"),
    ("probability of 1", lambda: metrics.members_needed(1.0, 0.1, 1.0), "`epsilon`", "between 0 and 1", "1.0"),
    ("probability of text", lambda: metrics.members_needed("a", 0.1, 1.0), "`epsilon`", "real numbers"),
    ("frequency above n", lambda: metrics.cyclic_covering_radius(4, 9), "`frequency`", "9"),
    ("radius of no rotations", lambda: metrics.so3_covering_radius(2 * np.eye(3)[None]), "`rotations`", "orthogonal"),
    (
        "radius to a text",
        lambda: metrics.so3_covering_radius(np.eye(3)[None], tol="1"),
        "`tol`",
        "positive",
        "'1'",
    ),
    ("norm of no law", lambda: metrics.rkhs_norm(EYE, 1.0), "`law`", "EnsembleLaw", "ndarray"),
    ("relative error of two shapes", lambda: eq.testing.relative_error(X, Y), "`actual`", "(3, 1)", "(3, 2)"),
    ("one draw", lambda: eq.testing.monte_carlo_z(np.ones(1), 1.0), "`samples`", "at least two", "(1,)"),
    (
        "equivariant under two groups",
        lambda: eq.testing.assert_equivariant(abs, X, groups.TrivialAction(C4), groups.TrivialAction(D3)),
        "`action_out`",
    ),
    ("interval at None", lambda: metrics.bootstrap_interval(KEY, X, level=None), "`level`", "0 and 1", "None"),
    ("interval of a text", lambda: metrics.bootstrap_interval(KEY, X, "mean"), "`statistic`", "jnp.mean", "'mean'"),
    ("interval of ragged samples", lambda: metrics.bootstrap_interval(KEY, RAGGED), "`values`", "differ in length"),
    ("ensembles of NaN", lambda: metrics.disjoint_ensembles(X * np.nan, 2), "`outputs`", "finite", "nan"),
    ("ensembles of nothing", lambda: metrics.disjoint_ensembles(None, 2), "`outputs`", "numbers", "None"),
    ("metric of None", lambda: metrics.bootstrap_ensembles(KEY, np.ones((2, 2, 2, 2)), None), "`metric`", "None"),
    (
        "distances beyond float32",
        lambda: metrics.orbit_mse(1e30 * FAR, groups.TrivialAction(C4)),
        "`outputs`",
        "finite",
    ),
    ("radius to None", lambda: metrics.so3_covering_radius(np.eye(3)[None], tol=None), "`tol`", "positive", "None"),
    ("power law at None", lambda: metrics.bent_power_law(SIZES, 1 / SIZES, COV, None), "`level`", "0 and 1", "None"),
    ("bend by a text", lambda: metrics.bend_p_value(SIZES, 1 / SIZES, COV, 9, "0"), "`seed`", "integer", "'0'"),
    ("power law at -1", lambda: metrics.bent_power_law(SIZES, 1 / SIZES, COV)([-1.0]), "`sizes`", "positive", "-1"),
    ("rotated by no function", lambda: metrics.random_rotation_fraction(KEY, abs, None, X), "`rotate`", "None"),
    ("predicted by nothing", lambda: metrics.random_rotation_fraction(KEY, None, abs, X), "`predict`", "None"),
    ("constant of no network", lambda: constant(net=None), "`net`", "Sequential", "None"),
    ("constant by a seed", lambda: constant(key=0), "`key`", "random key", "0"),
    ("tolerance of integers", lambda: eq.testing.tolerance("int32"), "`dtype`", "floating", "'int32'"),
    ("tolerance of None", lambda: eq.testing.tolerance(None), "`dtype`", "floating", "None"),
    ("tolerance of -1 operations", lambda: eq.testing.tolerance("float32", -1), "`operations`", ">= 0", "-1"),
    ("relative error of nothing", lambda: eq.testing.relative_error(None, None), "`actual`", "numbers", "None"),
    ("below None", lambda: eq.testing.assert_below(1.0, None), "`bound`", "one number", "None"),
    ("draws of NaN", lambda: eq.testing.monte_carlo_z([1.0, np.nan], 0.0), "`samples`", "finite", "nan"),
    ("draws of an expected NaN", lambda: eq.testing.monte_carlo_z([1.0, 2.0], np.nan), "`expected`", "finite", "nan"),
    (
        "equivariant under nothing",
        lambda: eq.testing.assert_equivariant(abs, X, None, groups.TrivialAction(C4)),
        "`action_in`",
        "None",
    ),
    ("ensembles of 1e308", lambda: metrics.disjoint_ensembles(np.full(2, 1e308), 2), "`outputs`", "finite in float64"),
    ("interval of 3e38", lambda: metrics.bootstrap_interval(KEY, 3e38 * EYE**0), "`values`", "finite in float32"),
]

DATA = [
    ("sample unknown", lambda: data.load_sample("imagenet"), "`name`", "fashion_mnist", "'imagenet'"),
    ("sample up the tree", lambda: data.load_sample("../../secrets"), "`name`", "fashion_mnist", "secrets"),
    ("sample in a list", lambda: data.load_sample(["fashion_mnist"]), "`name`", "fashion_mnist"),
    ("scaled twice", lambda: data.to_unit(IMAGES / 255), "`images`", "uint8", "float64"),
    ("scale a list", lambda: data.to_unit([[0, 255]]), "`images`", "uint8", "list"),
    ("labels missing", lambda: images(train_labels=np.zeros(1, int)), "`train_labels`", "2"),
    ("labels without a class", lambda: images(test_labels=np.full(2, 5, np.int32)), "`test_labels`", "0..1", "5"),
    ("images in floats", lambda: images(train_images=IMAGES / 255), "`train_images`", "uint8", "float64"),
    ("folder that is not there", lambda: data.fetch_mnist("/no/such/folder"), "/no/such/folder", "create"),
    ("folder that is a number", lambda: data.fetch_mnist(3), "`data_dir`", "path", "3"),
    ("fields of a plane", lambda: data.smooth_random_fields(KEY, 1, (4, 4), 1.0), "`shape`", "channels", "(4, 4)"),
    (
        "fields of text",
        lambda: data.smooth_random_fields(KEY, 1, (4, 4, 1), "1"),
        "`correlation_length`",
        "positive",
        "'1'",
    ),
    (
        "fields of short waves",
        lambda: data.smooth_random_fields(KEY, 1, (4, 4, 1), 1.0, 1.0),
        "`wavelength`",
        "at least 2",
        "1.0",
    ),
    ("a rose of no points", lambda: data.rose(KEY, 0, 3), "`n`", "at least 1", "0"),
    ("a rose without leaves", lambda: data.rose(KEY, 1, 0), "`leaves`", "at least 1", "0"),
    ("cross products of 0", lambda: data.cross_product(KEY, 0), "`n`", "at least 1", "0"),
    ("cross products to scale", lambda: data.cross_product(KEY, 1, scale="1"), "`scale`", "positive", "'1'"),
    ("spins at no temperature", lambda: data.ising_configurations(KEY, 1, 4, 0.0), "`temperature`", "positive", "0.0"),
    ("spins at a text", lambda: data.ising_configurations(KEY, 1, 4, "2"), "`temperature`", "positive", "'2'"),
    (
        "spins by luck",
        lambda: data.ising_configurations(KEY, 1, 4, 2.0, algorithm="luck"),
        "`algorithm`",
        "cluster",
        "luck",
    ),
    ("spins without channels", lambda: data.local_energies(np.ones((4, 4))), "`spins`", "side, side, 1", "(4, 4)"),
    ("stains of floats", lambda: data.stain_amounts(IMAGES / 255), "`images`", "uint8", "float64"),
    ("images in a list", lambda: images(train_images=[[0]]), "`train_images`", "uint8", "list"),
    ("labels in a list", lambda: images(test_labels=[0, 1]), "`test_labels`", "int32", "list"),
    ("classes of None", lambda: images(class_names=None), "`class_names`", "tuple", "None"),
    ("molecules of None", lambda: data.Molecules(None, None, None, None), "`charges`", "array", "NoneType"),
    ("pictures of nowhere", lambda: data.ImageFolder(None), "`root`", "path of a folder", "None"),
    ("patches of nothing", lambda: data.stained_patches(None), "`image`", "uint8", "NoneType"),
    ("cross product turned by NaN", lambda: data.cross_product_matrices(np.full((1, 3, 3), np.nan)), "`rotations`"),
    (
        "fields of waves of text",
        lambda: data.smooth_random_fields(KEY, 1, (4, 4, 1), 1.0, [3.0]),
        "`wavelength`",
        "[3.0]",
    ),
]

RESULTS = [
    ("chapter up the tree", lambda: results.read("../secrets"), "`chapter`", "letters", "../secrets"),
    ("chapter of None", lambda: results.read(None), "`chapter`", "letters", "None"),
    ("result of NaN", lambda: recorded({"a": np.nan}), "values['a']", "finite", "nan"),
    ("result of a function", lambda: recorded({"a": len}), "values['a']", "expected", "len"),
    ("results in a list", lambda: recorded([1.0]), "`values`", "dictionary", "[1.0]"),
    ("time of text", lambda: recorded({}, "1 h"), "`wall_time_s`", "seconds", "'1 h'"),
    ("quantity of text", lambda: results.Quantity("1"), "`value`", "a finite number", "'1'"),
    ("interval the wrong way", lambda: results.Quantity(1.0, interval=(2.0, 1.0)), "`interval`", "lower", "(2.0, 1.0)"),
    ("interval of a number", lambda: results.Quantity(1.0, interval=3.0), "`interval`", "lower", "3.0"),
    ("interval of one end", lambda: results.Quantity(1.0, interval=(3.0,)), "`interval`", "lower", "(3.0,)"),
    ("width below 0", lambda: results.Quantity(1.0, -0.1), "`uncertainty`", "at least 0"),
    ("table without rows", lambda: results.comparison([], "some_chapter"), "`rows`", "at least one"),
    ("rows of no kind", lambda: results.comparison([3], "some_chapter"), "`rows`", "Row", "3"),
    ("paper of nobody", lambda: results.paper_values("no_such_chapter"), "no_such_chapter", "not found"),
    ("rows in a row", lambda: results.comparison(results.Row("a", None), "some_chapter"), "`rows`", "list", "Row"),
    ("entry of a number", lambda: paper_value(1.0).quantity(0), "`index`", "None", "0"),
    ("entry beyond a curve", lambda: paper_value([1.0, 2.0]).quantity(2), "`index`", "0 .. 1", "2"),
    ("a curve for a number", lambda: paper_value([1.0, 2.0]).quantity(), "`index`", "None"),
    ("interval of a number, read", lambda: results.Quantity.from_json({"interval": 3}), "`interval`", "lower", "3"),
]

PLOTTING = [
    ("slider named by a number", lambda: eq.plotting.slider([], [], title=5), "`title`", "text", "5"),
    ("slider of nothing", lambda: eq.plotting.slider([], [], title="t"), "`figures`", "at least two", "0"),
    ("slider of text", lambda: eq.plotting.slider(["a", "b"], ["1", "2"], title="t"), "`figures`", "matplotlib", "'a'"),
    ("slider without labels", lambda: eq.plotting.slider(["a", "b"], ["1"], title="t"), "`labels`", "2", "1"),
    ("picture of text", lambda: eq.plotting.to_svg("a figure"), "`figure`", "matplotlib", "'a figure'"),
    ("slider of None", lambda: eq.plotting.slider(None, ["1"], title="t"), "`figures`", "list", "None"),
    ("slider with one label", lambda: eq.plotting.slider([], None, title="t"), "`labels`", "list", "None"),
]

CATALOGUE = [*LAYERS, *GRAMS, *NETWORKS, *GROUPS, *DYNAMICS, *ENSEMBLES, *METRICS, *DATA, *RESULTS, *PLOTTING]

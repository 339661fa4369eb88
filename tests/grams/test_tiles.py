"""Tiles, the store on disk, the progress bar, and memory."""

import contextlib
import gc
import io
import json
import os
import subprocess
import sys
import weakref
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from grams.cases import CASES, inputs

import eqbook as eq
from eqbook._identity import numbers_in
from eqbook.grams import store, tiles
from eqbook.grams.methods.vectors import Vectors
from eqbook.testing import relative_error, tolerance

NET, SHAPE, _ = CASES["relu-bias"]
KINDS = ("nngp", "ntk")


def equal(one, two):
    return all(np.array_equal(getattr(one, kind), getattr(two, kind)) for kind in KINDS)


@pytest.mark.every(3)
@pytest.mark.parametrize("name, sizes", [("relu-bias", (1, 3, 7, 50)), ("one-row", (3,)), ("flat-head", (5,))])
def test_tiles_do_not_change_the_result(name, sizes):
    """Sizes that divide the batch, that do not, one, and more than there are; rectangles in `test_methods` too."""
    net, shape, _ = CASES[name]
    x = inputs(shape, 7)
    whole = eq.gram(net, x)
    for tile in sizes:
        k = eq.gram(net, x, tile=tile)
        for kind in KINDS:
            matrix = getattr(k, kind)
            np.testing.assert_array_equal(matrix, matrix.T)
            assert relative_error(matrix, getattr(whole, kind)) < tolerance(jnp.float32, 10)


def test_tiles_of_a_rectangle():
    x, y = inputs(SHAPE, 7), inputs(SHAPE, 5, seed=1)
    whole = eq.gram(NET, x, y)
    for tile in (1, 2, 5, 6):
        assert relative_error(eq.gram(NET, x, y, tile=tile).ntk, whole.ntk) < tolerance(jnp.float32, 10)


@pytest.mark.parametrize("place", [0, 5, 6])
def test_a_kernel_that_overflows_is_told_in_any_tile(place, tmp_path):
    """Tiles are checked where they are written, also the last one, and none of them is kept."""
    x = np.array(inputs(SHAPE, 7))
    x[place] *= 1e30
    for options in ({}, {"store": tmp_path}):
        with pytest.raises(ValueError, match="got an infinite entry of the NNGP"):
            eq.gram(NET, x, tile=2, **options)
    assert eq.gram(NET, np.delete(x, place, 0), tile=2).ntk.shape == (6, 6)


def test_an_error_that_was_caught_holds_no_matrix(monkeypatch):
    """Without the collector of cycles: who catches it and scales the inputs may need all of the memory."""
    made = []

    def seen(*args, aligned=tiles.aligned):
        made.append(weakref.ref(array := aligned(*args)))
        return array

    monkeypatch.setattr(tiles, "aligned", seen)
    x = np.array(inputs(SHAPE, 7))
    x[6] *= 1e30
    gc.collect()
    gc.disable()
    try:
        with contextlib.suppress(ValueError):
            eq.gram(NET, x, tile=2)
        assert [array() for array in made] == [None, None]
    finally:
        gc.enable()


AT_THE_END = """
import sys, threading, time
import numpy as np
import eqbook as eq
net = eq.Sequential(eq.Conv(4, (3, 3)), eq.Relu(), eq.GlobalAvgPool(), eq.Dense(1))
x = np.sin(np.arange(7 * 4 * 4.0, dtype=np.float32)).reshape(7, 4, 4, 1)
def work():
    threading.main_thread().join()
    time.sleep(0.2)
    print(np.array_equal(eq.gram(net, x, tile=3).ntk, expected))
expected = eq.gram(net, x, tile=3).ntk
threading.Thread(target=work).start()
"""


@pytest.mark.slow
def test_a_thread_that_outlives_the_main_one_has_its_matrices():
    """Python starts no threads of a pool any more by then."""
    run = subprocess.run([sys.executable, "-c", AT_THE_END], text=True, capture_output=True, check=True)
    assert run.stdout == "True\n" and run.stderr == ""


@pytest.mark.parametrize("dtype", [np.float32, np.float64, jnp.bfloat16])
def test_memory_of_the_result_suits_the_device(dtype):
    for shape in ((1, 1), (3, 5), (200, 300)):
        array = tiles.aligned(shape, dtype)
        assert array.shape == shape and array.dtype == dtype and array.ctypes.data % 64 == 0
        array[...] = 2
        np.testing.assert_array_equal(jax.device_put(array).astype(jnp.float32), 2)


def test_places_cover_each_entry_once():
    for n1, n2, tile in ((7, 7, 3), (6, 6, 2), (1, 1, 5), (4, 9, 4)):
        for symmetric in (False, True) if n1 == n2 else (False,):
            seen = np.zeros((n1, n2), int)
            for i, j in tiles.places(n1, n2, tile, symmetric):
                seen[i, j] += 1
                if symmetric and i != j:
                    seen[j, i] += 1
            np.testing.assert_array_equal(seen, 1)


class Interrupted(Exception):
    pass


@pytest.fixture
def count(monkeypatch):
    """Counts tiles that are computed, and raises before the one of number `limit`."""

    class Count:
        done, limit = 0, None

    original = Vectors.compute

    def compute(self, *args, **kwargs):
        if Count.done == Count.limit:
            raise Interrupted
        Count.done += 1
        return original(self, *args, **kwargs)

    monkeypatch.setattr(Vectors, "compute", compute)
    return Count


def test_interrupted_run_resumes(tmp_path, count):
    x = inputs(SHAPE)
    whole = eq.gram(NET, x, tile=3)
    tiles_in_all = count.done
    assert tiles_in_all == 6  # three rows of tiles, the upper triangle
    count.done, count.limit = 0, 4
    with pytest.raises(Interrupted):
        eq.gram(NET, x, tile=3, store=tmp_path / "s")
    count.limit, finished = None, count.done
    resumed = eq.gram(NET, x, tile=3, store=tmp_path / "s")
    assert finished == 4 and count.done == tiles_in_all
    again = eq.gram(NET, x, tile=3, store=tmp_path / "s")
    assert count.done == tiles_in_all
    assert equal(resumed, whole) and equal(again, whole)
    assert resumed.ntk.dtype == whole.ntk.dtype


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_run_in_half_precision_resumes(tmp_path, count, dtype):
    x = inputs(SHAPE, dtype=dtype)
    whole = eq.gram(NET, x, tile=3, store=tmp_path)
    count.done = 0
    again = eq.gram(NET, x, tile=3, store=tmp_path)
    assert count.done == 0 and equal(again, whole)
    assert again.nngp.dtype == again.ntk.dtype == dtype


@pytest.mark.parametrize(
    "kinds", [{"nngp", "ntk"}, ("ntk", "nngp"), ["ntk", "nngp", "ntk"]], ids=["set", "turned", "twice"]
)
def test_the_order_of_kinds_does_not_matter_to_a_store(tmp_path, count, kinds):
    """A set has another order in the next process."""
    x = inputs(SHAPE)
    whole = eq.gram(NET, x, tile=3, store=tmp_path)
    count.done = 0
    assert equal(eq.gram(NET, x, kinds=kinds, tile=3, store=tmp_path), whole) and count.done == 0


@pytest.mark.every(10)
@pytest.mark.parametrize("name", ["relu-bias", "one-row", "pooled-branches", "flat-head", "D3-matrices"])
@pytest.mark.parametrize("asarray", [np.asarray, jnp.asarray], ids=["numpy", "jax"])
def test_known_inputs_inside_jit_are_computed_as_outside(tmp_path, name, asarray):
    """Tile by tile, on threads, with a store: bit for bit, whichever of both makes it."""
    net, shape, _ = CASES[name]
    x, y = asarray(inputs(shape, 9)), asarray(inputs(shape, 5, seed=1))
    for other in (None, y):
        folder = tmp_path / str(other is None)
        whole = eq.gram(net, x, other, tile=4)
        for options in ({}, {"store": folder}, {"store": folder}):
            inside = jax.jit(lambda s, other=other, options=options: (s, eq.gram(net, x, other, tile=4, **options)))
            assert equal(inside(2.0)[1], whole)
        assert equal(eq.gram(net, x, other, tile=4, store=folder), whole)
        slope = jax.jit(jax.grad(lambda s, other=other: s * eq.gram(net, x, other, tile=4).ntk[0, 1]))(1.0)
        assert slope == whole.ntk[0, 1]


@pytest.mark.every(2)
@pytest.mark.parametrize("name", ["relu-bias", "flat-head"])
def test_known_arrays_meet_abstract_ones(name):
    """Inside of the user's jit, what is done with the known ones alone is traced as well."""
    net, shape, _ = CASES[name]
    x, known = inputs(shape, 3), inputs(shape, 2, seed=1)
    for a, b in ((0, 1), (1, 0)):
        found = jax.jit(lambda x, a=a, b=b: eq.gram(net, (x, known)[a], (x, known)[b]))(x)
        whole = eq.gram(net, (x, known)[a], (x, known)[b])
        for kind in KINDS:
            assert relative_error(getattr(found, kind), getattr(whole, kind)) < tolerance(jnp.float32, 36)


@pytest.mark.parametrize("damage", ["truncated", "empty", "bit flipped in the data", "bit flipped in the checksum"])
def test_damaged_tile_is_computed_again(tmp_path, count, damage):
    x = inputs(SHAPE)
    whole = eq.gram(NET, x, tile=4, store=tmp_path)
    path = sorted(tmp_path.glob("tile-*"))[1]
    content = bytearray(path.read_bytes())
    if damage == "truncated":
        content = content[:-7]
    elif damage == "empty":
        content = b""
    else:
        content[-3 if damage.endswith("data") else 5] ^= 1
    path.write_bytes(bytes(content))
    count.done = 0
    assert equal(eq.gram(NET, x, tile=4, store=tmp_path), whole)
    assert count.done == 1


def test_leftover_of_a_write_does_not_matter(tmp_path):
    """A process that is killed while it writes leaves a file under another name."""
    x = inputs(SHAPE)
    whole = eq.gram(NET, x, tile=4, store=tmp_path)
    (tmp_path / ".writing-abc").write_bytes(b"half")
    assert equal(eq.gram(NET, x, tile=4, store=tmp_path), whole)


def activation(function):
    return eq.Sequential(eq.Dense(4), eq.Activation(function, 12), eq.Dense(1))


def clipped(threshold):
    return lambda u: jnp.minimum(u, threshold)


C3, C4, D2 = eq.cyclic(3), eq.cyclic(4), eq.dihedral(2)


def lifted(group, **options):
    return eq.Sequential(eq.Lift(group, 4, **options), eq.Relu(), eq.GroupPool(), eq.Dense(1))


OTHERS = {
    "inputs": (NET, {"x1": inputs(SHAPE, seed=1)}),
    "dtype": (NET, {"x1": inputs(SHAPE, dtype="bfloat16")}),
    "second batch": (NET, {"x2": inputs(SHAPE)}),
    "net": (eq.Sequential(*NET.layers[:-1], eq.Dense(1, W_std=0.9, b_std=0.21)), {}),
    "tile": (NET, {"tile": 5}),
    "kinds": (NET, {"kinds": ("ntk",)}),
    "method": (NET, {"method": "literal"}),
}


@pytest.mark.parametrize("net, options", OTHERS.values(), ids=list(OTHERS))
def test_store_of_another_computation_is_refused(tmp_path, net, options):
    plain = {"x1": inputs(SHAPE), "tile": 4, "store": tmp_path}
    eq.gram(NET, **plain)
    with pytest.raises(ValueError, match="`store`: .* holds tiles of another network, other inputs or other settings"):
        eq.gram(net, **plain | options)


def signs(slope):
    """The sign of a number, with a derivative of one's own."""
    function = jax.custom_jvp(jnp.sign)
    function.defjvps(lambda tangent, _, u: tangent * slope(-jnp.abs(u)))
    return function


DIFFERENT = {
    "functions without a name": (activation(lambda u: jnp.tanh(u)), activation(lambda u: jnp.tanh(2 * u))),
    "thresholds far out": tuple(activation(partial(jnp.clip, min=-c, max=c)) for c in (4.5, 9.0)),
    "thresholds in a closure": tuple(activation(clipped(c)) for c in (1e8, 1e9)),
    "widths of a group": (lifted(C4), lifted(D2)),
    "supports": (lifted(C3), lifted(C3, support=(0, 2))),
    "actions": (lifted(C3), lifted(C3, action=eq.groups.TrivialAction(C3))),
    "nesting in a branch": (
        eq.Sequential(eq.Dense(4), eq.Residual(eq.Relu(), eq.Dense(4))),
        eq.Sequential(eq.Dense(4), eq.Relu(), eq.Dense(4)),
    ),
    "derivatives": (
        activation(lambda u: jnp.sign(u)),
        activation(lambda u: u + jax.lax.stop_gradient(jnp.sign(u) - u)),
    ),
    "rules for derivatives": (activation(signs(jnp.exp)), activation(signs(jnp.cosh))),
    "spheres": tuple(eq.Sequential(eq.LiftS2(4, quadrature=size), eq.SO3Pool()) for size in (3, 4)),
}


@pytest.mark.parametrize("one, two", DIFFERENT.values(), ids=list(DIFFERENT))
def test_different_networks_have_different_fingerprints(one, two):
    assert store.fingerprint(one, []) != store.fingerprint(two, [])


@pytest.mark.parametrize("name", ["derivatives", "rules for derivatives"])
def test_these_functions_differ_in_nothing_but_derivatives(name):
    one, two = ([layer for layer in net.layers if isinstance(layer, eq.Activation)][0] for net in DIFFERENT[name])
    (values, slopes), (same, others) = (store._values(layer.function) for layer in (one, two))
    assert values == same and slopes != others and numbers_in(one.function) == numbers_in(two.function)


def test_derivatives_that_are_rounded_otherwise_are_the_same():
    """Other programs and processors round them in other ways; a store is recognised there."""
    for function in (jax.scipy.special.erf, jax.nn.gelu, jnp.tanh, lambda u: jnp.sin(5 * u)):
        with jax.disable_jit():
            other = store._values(function)[1]
        assert store._values(function)[1] == other and len(set(other)) > 10


def test_numbers_at_the_end_of_a_long_table_are_noticed():
    def looked_up(table):
        return lambda u: jnp.interp(u, 1e9 + table, table)

    table = np.arange(200.0)
    other = table + (table == 199)
    assert numbers_in(looked_up(table)) == numbers_in(looked_up(table.copy())) != numbers_in(looked_up(other))


def test_equal_networks_have_one_fingerprint():
    """Also networks built twice, and functions that compute the same."""
    for make in (
        lambda: activation(lambda u: jnp.tanh(u)),
        lambda: lifted(eq.cyclic(3)),
        lambda: CASES["residual"].net,
    ):
        assert store.fingerprint(make(), []) == store.fingerprint(make(), [])


def test_fingerprint_does_not_depend_on_the_process():
    """A run is resumed by another process: nothing of Python's salted hashes or of addresses may enter."""
    names = ("norm-tanh", "plane-C4-SAME", "D3-matrices")
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from grams.cases import CASES\nfrom eqbook.grams.store import fingerprint\n"
        f"print([fingerprint(CASES[name].net, []) for name in {names}])"
    )
    tests = os.path.dirname(os.path.dirname(__file__))
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"  # another one than here
    other = subprocess.run(
        [sys.executable, "-c", script, tests], env=os.environ | {"PYTHONHASHSEED": seed}, text=True,
        capture_output=True, check=True,
    ).stdout  # fmt: skip
    here = str([store.fingerprint(CASES[name].net, []) for name in names])
    assert other.strip() == here and len(here) > 100


def test_folders_that_are_no_store_are_refused(tmp_path):
    x = inputs(SHAPE)
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "thesis.tex").write_text("do not touch")
    with pytest.raises(ValueError, match="`store`: expected an empty folder or a store, got"):
        eq.gram(NET, x, store=tmp_path / "foreign")
    assert [path.name for path in (tmp_path / "foreign").iterdir()] == ["thesis.tex"]
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="`store`: .*file cannot be used"):
        eq.gram(NET, x, store=tmp_path / "file")
    for text in ("", "[]", '{"format": 1}'):
        (tmp_path / "broken").mkdir(exist_ok=True)
        (tmp_path / "broken" / store.MANIFEST).write_text(text)
        with pytest.raises(ValueError, match="`store`: .*broken"):
            eq.gram(NET, x, store=tmp_path / "broken")


def test_store_says_what_it_is(tmp_path):
    eq.gram(NET, inputs(SHAPE), store=tmp_path)
    assert json.loads((tmp_path / store.MANIFEST).read_text())["eqbook"] == eq.__version__


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("stream, shown", [(Terminal, True), (io.StringIO, False)], ids=["terminal", "file"])
def test_progress_is_shown_on_a_terminal_only(monkeypatch, stream, shown):
    out = stream()
    monkeypatch.setattr(sys, "stderr", out)
    eq.gram(NET, inputs(SHAPE), tile=3, progress=True)
    assert ("entry/s" in out.getvalue()) == shown
    if shown:
        assert "/43.0 " in out.getvalue()  # entries of the tiles on and above the diagonal: 9 + 9 + 4 and 9 + 6 + 6
    silent = stream()
    monkeypatch.setattr(sys, "stderr", silent)
    eq.gram(NET, inputs(SHAPE), tile=3)
    assert silent.getvalue() == ""


def test_an_error_ends_the_bar(monkeypatch):
    """One that is left would stand on the terminal, and move the next one a line down."""
    out = Terminal()
    monkeypatch.setattr(sys, "stderr", out)
    x = np.array(inputs(SHAPE, 7))
    x[0] *= 1e30
    with pytest.raises(ValueError, match="infinite entry"):
        eq.gram(NET, x, tile=2, progress=True)
    assert "entry/s" in out.getvalue() and out.getvalue().endswith(" \r")


MEMORY = """
import resource, sys
import jax.numpy as jnp
import eqbook as eq
net = eq.Sequential(eq.Conv(4, (3, 3)), eq.Relu(), eq.GlobalAvgPool(), eq.Dense(1))
x = jnp.sin(jnp.arange(4 * {n} * 4 * 4.0)).reshape(4 * {n}, 4, 4, 1)
eq.gram(net, x[:{n}], tile={n})
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
k = eq.gram(net, x, tile={n})
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024, k.ntk.nbytes)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss has the unit of Linux")
def test_memory_beyond_the_result_is_that_of_a_tile():
    """Four times the inputs need no more than the result, and what compiling a tile takes."""
    n = 192
    run = subprocess.run([sys.executable, "-c", MEMORY.format(n=n)], text=True, capture_output=True, check=True)
    grown, size = map(int, run.stdout.split())
    pairs = (4 * n) ** 2
    # Whole, the recursion would hold at least a field of 16 pixels, K and Theta, for each pair.
    assert 2 * size < pairs * 16 * 2 * 4
    assert grown < 2 * size + 2**25

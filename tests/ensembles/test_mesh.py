"""Members shared by the devices of a mesh: eight virtual ones, in a process of its own."""

import subprocess
import sys
import textwrap
from pathlib import Path

DEVICES = """
    import jax, numpy as np, sys
    sys.path.insert(0, "tests")
    from ensembles.test_chunks import CNN, DENSE, IMAGES, VECTORS, assert_same_bits, train
    from eqbook.testing import relative_error, tolerance

    assert len(jax.devices()) == 8
    mesh = jax.make_mesh((8,), ("members",))
    two = jax.sharding.Mesh(np.array(jax.devices()[:4]).reshape(2, 2), ("a", "b"))
    few, many = (train(CNN(), IMAGES, m, mesh=mesh, at_once=16, batch_size=5) for m in (3, 18))
    assert_same_bits(few, many)
    alone = train(CNN(), IMAGES, 3, at_once=2, batch_size=5)
    bound = 9 * tolerance(np.float32, 64)  # steps
    assert relative_error(few.outputs["x"], alone.outputs["x"]) < bound
    shared, alone = (train(DENSE, VECTORS, 3, mesh=devices) for devices in (two, None))
    assert relative_error(shared.outputs["x"], alone.outputs["x"]) < bound
    spread = jax.tree.leaves(few._programs.advance(0, few._programs.start(0), 0, 1))
    assert all(len(leaf.sharding.device_set) == 8 for leaf in spread)
    assert few.predict(IMAGES[:3]).shape == (3, 3, 3)
    for wrong in (dict(mesh=mesh, at_once=12), dict(mesh="all")):
        try:
            train(DENSE, VECTORS, 3, **wrong)
        except ValueError as error:
            assert "`at_once`" in str(error) or "`mesh`" in str(error)
        else:
            raise AssertionError(wrong)
    there = jax.device_put(VECTORS, jax.devices()[3])  # without a mesh everything happens where the data are
    elsewhere, here = (train(DENSE, x, 3, at_once=2) for x in (there, VECTORS))
    assert relative_error(elsewhere.predict(VECTORS), here.predict(there)) < bound
    assert train(DENSE, VECTORS, 2, mesh=jax.make_mesh((1,), ("m",)), at_once=2).predict(VECTORS).shape[0] == 2
    print("fine")
"""


def test_members_are_shared_by_the_devices_of_a_mesh():
    environment = {"XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu", "PATH": ""}
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(DEVICES)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=500, cwd=root)
    assert done.returncode == 0 and "fine" in done.stdout, done.stderr

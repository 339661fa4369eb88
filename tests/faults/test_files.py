"""Files of stores: who may read them, and links and depths that a stranger put there."""

import os
import threading

import numpy as np
import pytest
from faults.test_damage import SETTINGS, SHAPES

from eqbook._files import in_use, is_sealed, sealed, write_whole
from eqbook.ensembles.store import Store as Members

pytest.importorskip("fcntl", reason="modes, locks and links of Unix")


@pytest.fixture
def umask():
    """The function that sets it; afterwards it is what it was."""
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o027, 0o640), (0o002, 0o664)])
def test_files_have_the_mode_that_the_umask_leaves(tmp_path, umask, mask, mode):
    umask(mask)
    write_whole(tmp_path / "file", b"content")
    assert (tmp_path / "file").stat().st_mode & 0o777 == mode
    assert umask(mask) == mask, "it was changed"


def test_the_umask_outlives_many_threads(tmp_path, umask):
    umask(0o027)
    work = [threading.Thread(target=write_whole, args=(tmp_path / str(k), b"")) for k in range(32)]
    for thread in work:
        thread.start()
    for thread in work:
        thread.join()
    assert umask(0o027) == 0o027 and {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o640}


@pytest.mark.parametrize("there", [True, False])
def test_a_link_in_place_of_the_lock_is_refused(tmp_path, there):
    """What it leads to is neither emptied nor made."""
    work, folder = tmp_path / "thesis.txt", tmp_path / "store"
    folder.mkdir()
    if there:
        work.write_text("mine")
    (folder / ".lock").symlink_to(work)
    for claim in (lambda: in_use(folder), lambda: Members(folder, SETTINGS, SHAPES)):
        with pytest.raises(ValueError, match="`store`: expected a file of the store, got a link, .*lock; delete it"):
            claim()
    assert work.read_text() == "mine" if there else not work.exists()


def test_a_lock_keeps_its_content_and_other_kinds_are_named(tmp_path):
    (tmp_path / ".lock").write_text("content")
    in_use(tmp_path).close()
    assert (tmp_path / ".lock").read_text() == "content"
    (tmp_path / ".lock").unlink()
    (tmp_path / ".lock").mkdir()
    with pytest.raises(ValueError, match="`store`: .* cannot be used"):
        Members(tmp_path, SETTINGS, SHAPES)


def test_depths_are_not_what_was_sealed():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    good = sealed({"a": np.int32(1)})
    assert is_sealed(good) and not is_sealed(good | {"b": deep})

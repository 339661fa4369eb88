"""What the sources of the package never do: unpickle, evaluate text, open archives or the network in passing."""

import ast
from pathlib import Path

import pytest

import eqbook

ROOT = Path(eqbook.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))
UNSAFE = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "yaml", "torch"}
EVALUATE = {"eval", "exec", "compile", "__import__"}
# The one module that may use each of these, which others go through.
ONLY_IN = {
    "tarfile": {"data/archives.py"},
    "zipfile": {"data/archives.py"},
    "requests": {"data/download.py"},
    "urllib": set(),
    "http": set(),
    "socket": set(),
    "ftplib": set(),
    "subprocess": {"data/packages.py", "results/circumstances.py"},
}


@pytest.fixture(params=MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def module(request):
    return str(request.param.relative_to(ROOT)), list(ast.walk(ast.parse(request.param.read_text())))


def imported(nodes):
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module.split(".")[0]


def test_imports(module):
    name, nodes = module
    found = set(imported(nodes))
    assert not found & UNSAFE
    for library, places in ONLY_IN.items():
        assert library not in found or name in places, f"{name} imports {library}"


def test_calls(module):
    """`np.load` refuses pickles wherever it is called; nothing is evaluated, no command goes through a shell."""
    name, nodes = module
    for call in (node for node in nodes if isinstance(node, ast.Call)):
        options = {option.arg: option.value for option in call.keywords}
        if isinstance(call.func, ast.Name):
            assert call.func.id not in EVALUATE, f"{name}, line {call.lineno}"
        if isinstance(call.func, ast.Attribute) and call.func.attr in ("load", "save", "fromfile", "memmap"):
            refuses = options.get("allow_pickle")
            assert isinstance(refuses, ast.Constant) and refuses.value is False, f"{name}, line {call.lineno}"
        if isinstance(call.func, ast.Attribute):
            assert call.func.attr not in ("extract", "extractall", "system", "popen"), f"{name}, line {call.lineno}"
        if ast.unparse(call.func) == "tarfile.open":  # with bounded headers
            assert "tarinfo" in options, f"{name}, line {call.lineno}"
        assert "shell" not in options, f"{name}, line {call.lineno}"


def test_every_download_has_an_encrypted_address_and_a_digest():
    """SHA-256, or MD5 of the one set of which we found no other: its reader expects anything."""
    md5 = set()
    for data_set in eqbook.data.DATA_SETS.values():
        for edition in data_set.editions:
            assert all(address.startswith("https://") for address in edition.addresses)
            for file in edition.files:
                algorithm, digits = file.digest
                assert file.size > 0 and len(digits) == {"sha256": 64, "md5": 32}[algorithm]
                md5 |= {edition.name} if algorithm == "md5" else set()
    assert md5 <= {"zip"}, f"editions without SHA-256: {md5}"

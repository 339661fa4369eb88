"""The key of the execution cache, and the reading of chapters."""

import json
import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import chapters
import execution_cache
import jupytext
import pytest
import yaml
from jupyter_cache import get_cache
from jupyter_cache.cache.main import JupyterCacheBase

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = [path for path in sorted((ROOT / "book").rglob("*.md")) if chapters.is_chapter(path)]


@pytest.fixture
def tree(tmp_path, monkeypatch):
    for name in [name for name in os.environ if name.startswith(("EQBOOK_", "JAX_"))]:
        monkeypatch.delenv(name)
    files = ("eqbook/a.py", "eqbook/data/sample.bin", "book/results/run.json", "benchmarks/results/case.json")
    for text, name in enumerate(files):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(text))
    return tmp_path


@pytest.mark.parametrize(
    "name",
    ["eqbook/a.py", "eqbook/data/sample.bin", "book/results/run.json", "eqbook/new.py", "benchmarks/results/case.json"],
)
def test_a_changed_file_changes_the_key(tree, name):
    before = execution_cache.execution_key(tree)
    assert execution_cache.execution_key(tree) == before
    (tree / name).write_text("changed")
    assert execution_cache.execution_key(tree) != before


def test_a_renamed_file_changes_the_key(tree):
    before = execution_cache.execution_key(tree)
    (tree / "eqbook" / "a.py").rename(tree / "eqbook" / "b.py")
    assert execution_cache.execution_key(tree) != before


def test_compiled_files_do_not_change_the_key(tree):
    before = execution_cache.execution_key(tree)
    (tree / "eqbook" / "__pycache__").mkdir()
    (tree / "eqbook" / "__pycache__" / "a.pyc").write_text("x")
    assert execution_cache.execution_key(tree) == before


@pytest.mark.parametrize("package", execution_cache.PACKAGES)
def test_a_changed_version_changes_the_key(tree, monkeypatch, package):
    before = execution_cache.execution_key(tree)
    original = execution_cache.version
    monkeypatch.setattr(execution_cache, "version", lambda name: "0.0" if name == package else original(name))
    assert execution_cache.execution_key(tree) != before


@pytest.mark.parametrize(
    "name",
    [
        *("EQBOOK_DATA_DIR", "EQBOOK_IMAGENET", "EQBOOK_PROFILE", "EQBOOK_RESULTS_DIR", "EQBOOK_SETTINGS"),
        *("JAX_DEFAULT_MATMUL_PRECISION", "JAX_ENABLE_X64", "JAX_PLATFORMS", "JAX_THREEFRY_PARTITIONABLE", "XLA_FLAGS"),
    ],
)
def test_a_changed_variable_changes_the_key(tree, monkeypatch, name):
    before = execution_cache.execution_key(tree)
    monkeypatch.setenv(name, "paper")
    assert execution_cache.execution_key(tree) != before


@pytest.mark.parametrize(
    "name",
    [
        *("EQBOOK_NO_CACHE", "EQBOOK_PAGES", "EQBOOK_STORE_DIR", "HOME"),
        *("JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"),
    ],
)
def test_variables_that_change_no_output_do_not_change_the_key(tree, monkeypatch, name):
    before = execution_cache.execution_key(tree)
    monkeypatch.setenv(name, str(tree))
    assert execution_cache.execution_key(tree) == before


def test_every_package_that_chapters_import_is_in_the_key_and_on_the_page_about_it():
    """Python's own modules have its version; those of the book have digests."""
    text = "\n".join(path.read_text() for path in CHAPTERS)
    code = "\n".join(re.findall(r"^```\{code-cell\}.*?\n(.*?)^```", text, re.S | re.M))
    imported = set(re.findall(r"^ *(?:import|from) (\w+)", code, re.M)) - set(sys.stdlib_module_names)
    keyed = {name.replace("-", "_") for name in execution_cache.PACKAGES}
    assert {"jax", "scipy", "mpmath"} <= {name.lower() for name in imported} <= keyed | {"eqbook", "benchmarks"}
    sentence = re.search("the version of (.*?) or Python", (ROOT / "book" / "how_to_read.md").read_text(), re.S)
    assert set(re.split(r",\s+", sentence[1])) == set(execution_cache.PACKAGES)


def test_saying_the_default_profile_does_not_change_the_key(tree, monkeypatch):
    before = execution_cache.execution_key(tree)
    monkeypatch.setenv("EQBOOK_PROFILE", "quick")
    assert execution_cache.execution_key(tree) == before


def test_a_paper_run_finds_itself_after_writing_its_results(tree, monkeypatch):
    monkeypatch.setenv("EQBOOK_PROFILE", "paper")
    before = execution_cache.execution_key(tree)
    (tree / "book" / "results" / "run.json").write_text("the run's own results")
    assert execution_cache.execution_key(tree) == before


@pytest.mark.parametrize("relative", [False, True], ids=["absolute", "relative"])
def test_the_results_in_use_are_in_the_key_and_no_others(tree, monkeypatch, relative):
    (tree / "book" / "experiments").mkdir()
    (tree / "mine").mkdir()
    monkeypatch.setenv("EQBOOK_RESULTS_DIR", "../../mine" if relative else str(tree / "mine"))
    before = execution_cache.execution_key(tree)
    (tree / "book" / "results" / "run.json").write_text("changed")
    assert execution_cache.execution_key(tree) == before
    (tree / "mine" / "run.json").write_text("new")
    assert execution_cache.execution_key(tree) != before


@pytest.mark.parametrize("relative", [False, True], ids=["absolute", "relative"])
def test_settings_from_a_file_are_in_the_key(tree, monkeypatch, relative):
    (tree / "book" / "experiments").mkdir()
    (tree / "mine.json").write_text('{"members": 3}')
    monkeypatch.setenv("EQBOOK_SETTINGS", "../../mine.json" if relative else str(tree / "mine.json"))
    before = execution_cache.execution_key(tree)
    (tree / "mine.json").write_text('{"members": 4}')
    assert execution_cache.execution_key(tree) != before
    monkeypatch.setenv("EQBOOK_SETTINGS", json.dumps({"members": [4] * 300}))
    assert execution_cache.execution_key(tree) != before


def test_quick_runs_on_the_cpu_and_a_set_variable_wins(tree, monkeypatch):
    assert execution_cache.chapter_environment(tree)["JAX_PLATFORMS"] == "cpu"
    monkeypatch.setenv("JAX_PLATFORMS", "cuda")
    assert execution_cache.chapter_environment(tree)["JAX_PLATFORMS"] == "cuda"
    monkeypatch.delenv("JAX_PLATFORMS")
    monkeypatch.setenv("EQBOOK_PROFILE", "paper")
    assert "JAX_PLATFORMS" not in execution_cache.chapter_environment(tree)


def test_old_keys_are_dropped(tree, monkeypatch):
    monkeypatch.setattr(os, "environ", dict(os.environ))
    kept = execution_cache.KEPT_KEYS
    for number in range(kept + 2):
        (tree / "eqbook" / "a.py").write_text(str(number))
        folder = execution_cache.prepare(tree)
        os.utime(folder, (number, number))
    folder = execution_cache.prepare(tree)
    assert len(list(folder.parent.iterdir())) == kept and folder.is_dir()


def test_many_may_prepare_one_cache_at_once(tree, monkeypatch):
    monkeypatch.setattr(os, "environ", dict(os.environ))
    for number in range(20):  # without a lock, about one in four fails
        (tree / "eqbook" / "a.py").write_text(str(number))
        with ThreadPoolExecutor(8) as pool:
            (folder,) = set(pool.map(execution_cache.prepare, [tree] * 8))
        assert get_cache(str(folder)).list_cache_records() == []


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_jupytext_and_the_build_give_a_chapter_the_same_key(path):
    extensions = yaml.safe_load((ROOT / "_config.yml").read_text())["parse"]["myst_enable_extensions"]
    hashed = JupyterCacheBase("unused").create_hashed_notebook
    ours = hashed(chapters.read_chapter(path, extensions))[1]
    assert ours == hashed(jupytext.read(path, fmt="md:myst"))[1]


def test_outputs_are_copied_without_the_metadata_of_the_run():
    notebook = jupytext.reads("```{code-cell}\n1\n```\n", fmt="md:myst")
    executed = jupytext.reads("```{code-cell}\n1\n```\n", fmt="md:myst")
    executed.cells[0].update(execution_count=1, outputs=[{"output_type": "stream", "name": "stdout", "text": "1"}])
    executed.cells[0].metadata["execution"] = {"iopub.execute_input": "now"}
    executed.metadata["language_info"] = {"name": "python"}
    copy = chapters.executed_copy(notebook, executed)
    assert copy.cells[0].outputs == executed.cells[0].outputs and "execution" not in copy.cells[0].metadata
    assert copy.metadata.language_info.name == "python" and notebook.cells[0].outputs == []

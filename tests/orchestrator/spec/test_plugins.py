"""Plug-ins that a spec names."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from models.mechanism import MECHANISMS
from orchestrator.spec import SpecError, canonical, from_canonical, read_spec

PLUGIN = '''
"""A mechanism of one's own."""
from __future__ import annotations

from typing import Literal

from models.mechanism import mechanism
from models.mechanisms.full_attention import FullAttention, FullAttentionConfig


class MineConfig(FullAttentionConfig):
    """Full attention under another name."""

    name: Literal["mine"] = "mine"  # type: ignore[assignment]
    strength: int = 1


@mechanism(MineConfig)
class Mine(FullAttention):
    """The same."""
'''

TEXT = """\
name: x
kind: frontier
workload: {name: associative_recall}
mechanisms:
  - {name: mine, strength: {values: [1, 2]}}
seeds: 1
plugins: [%s]
"""


@pytest.fixture(autouse=True)
def forget(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Modules and mechanisms of a test go with it."""
    MECHANISMS.names()
    monkeypatch.setattr(MECHANISMS, "_entries", dict(MECHANISMS._entries))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_a_file_beside_the_spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab" / "my_memory.py").write_text(PLUGIN)
    path = tmp_path / "lab" / "spec.yaml"
    path.write_text(TEXT % "my_memory.py")
    monkeypatch.chdir(tmp_path)
    spec = read_spec(Path("lab/spec.yaml"))
    assert [config.identity()["strength"] for config in spec.mechanism_configs()] == [1, 2]
    assert spec.plugins == (str(tmp_path / "lab" / "my_memory.py"),)
    assert sys.modules["my_memory"].Mine is MECHANISMS.implementation("mine")
    assert read_spec(path).plugins == spec.plugins


def test_an_importable_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "mylab"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "memories.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(tmp_path)
    spec = read_spec(TEXT % "mylab.memories")
    assert spec.plugins == ("mylab.memories",)
    assert from_canonical(json.loads(json.dumps(canonical(spec)))) == spec


def test_a_saved_spec_whose_plugin_is_gone(tmp_path: Path) -> None:
    (tmp_path / "fleeting.py").write_text(PLUGIN)
    (tmp_path / "spec.yaml").write_text(TEXT % "fleeting.py")
    tree = canonical(read_spec(tmp_path / "spec.yaml"))
    (tmp_path / "fleeting.py").unlink()
    with pytest.raises(SpecError, match=r"saved sweep x:1:1: there is no file fleeting\.py"):
        from_canonical(tree)


@pytest.mark.parametrize(
    ("plugin", "wrong", "cure"),
    [
        ("models.py", "plug-in models.py has the name of a package of slotsweep", "rename the file"),
        ("json.py", "plug-in json.py has the name of a module of Python", "rename the file"),
        ("numpy.py", "plug-in numpy.py has the name of another module, `numpy`", "rename the file"),
        ("pytest.py", "plug-in pytest.py has the name of another module, `pytest`", "rename the file"),
        ("my-memory.py", "my-memory.py cannot be a module", "rename it to letters, digits and underscores"),
        ("missing.py", "there is no file missing.py", "give its path relative to the spec"),
        ("broken.py", "plug-in broken.py fails to import: RuntimeError: no such luck (line 2)", "correct the plug-in"),
        ("unreadable.py", "plug-in unreadable.py fails to import: SyntaxError: ", "correct the plug-in"),
        (
            "twice.py",
            "plug-in twice.py fails to import: RegistrationError: mechanism `full_attention` is ",
            "correct the plug-in",
        ),
        (
            "models.mine",
            "plug-in `models.mine` has the name of a package of slotsweep",
            "rename the package that holds it",
        ),
        ("json", "plug-in `json` has the name of a module of Python", "rename the package that holds it"),
        ("not_installed", "there is no module `not_installed`", "install it, or give the path of its .py file"),
        ("no-name", "`no-name` is no module name", "write a dotted name, or a path that ends in .py"),
    ],
)
def test_a_plugin_that_is_refused(plugin: str, wrong: str, cure: str, tmp_path: Path) -> None:
    for name in ("models", "json", "numpy", "pytest", "my-memory"):
        (tmp_path / f"{name}.py").write_text(PLUGIN)
    (tmp_path / "broken.py").write_text('"""Broken."""\nraise RuntimeError("no such luck")\n')
    (tmp_path / "unreadable.py").write_text("def (:\n")
    (tmp_path / "twice.py").write_text(PLUGIN.replace('"mine"', '"full_attention"'))
    path = tmp_path / "spec.yaml"
    path.write_text(TEXT % plugin)
    with pytest.raises(SpecError) as caught:
        read_spec(path)
    [problem] = caught.value.problems  # no word about mechanisms that the plug-in may define
    assert (problem.place.line, problem.place.column) == (7, 11)
    assert problem.wrong.startswith(wrong)
    assert problem.hint == cure


def test_packages_of_the_working_directory_are_not_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("models", "tasks", "workers"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('imported from the working directory')\n")
    (tmp_path / "my_memory.py").write_text(PLUGIN)
    (tmp_path / "spec.yaml").write_text(TEXT % "my_memory.py")
    monkeypatch.chdir(tmp_path)
    assert read_spec("spec.yaml").trials == 2

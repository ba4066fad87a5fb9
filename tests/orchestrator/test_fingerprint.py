"""The code's fingerprint: layout and comments do not matter, what computes does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator import fingerprint as module
from orchestrator.fingerprint import fingerprint, module_hashes

CODE = '''
"""Docstring."""
from models import helper

def rule(x):
    """What it does."""
    return helper.twice(x) + 1  # why

LIMIT = Field(3, description="how many")
'''
SAME = """
from models import helper
def rule(x):
    return (
        helper.twice(x) + 1
    )


LIMIT = Field(3, description="the number")
"""


@pytest.fixture
def print_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A function from (module text, helper text) to the module's fingerprint, in a tree of its own."""

    def compute(text: str, helper: str = "def twice(x):\n    return 2 * x\n") -> str:
        (tmp_path / "models").mkdir(exist_ok=True)
        (tmp_path / "models" / "rule.py").write_text(text)
        (tmp_path / "models" / "helper.py").write_text(helper)
        monkeypatch.setattr(module, "ROOT", tmp_path)
        module._source.cache_clear()
        module._normalised.cache_clear()
        result = fingerprint(module_hashes(("models.rule",)))
        module._source.cache_clear()
        module._normalised.cache_clear()
        return result

    return compute


def test_comments_layout_docstrings_and_descriptions_do_not_matter(print_of) -> None:
    assert print_of(CODE) == print_of(SAME)


@pytest.mark.parametrize(("before", "after"), [("+ 1", "+ 2"), ("Field(3", "Field(4"), ("rule", "role")])
def test_what_computes_matters(print_of, before: str, after: str) -> None:
    assert print_of(CODE) != print_of(CODE.replace(before, after))


def test_what_is_imported_matters(print_of) -> None:
    assert print_of(CODE) != print_of(CODE, "def twice(x):\n    return x + x\n")
    assert print_of(CODE) == print_of(CODE, "def twice(x):  # doubled\n    return 2 * x\n")


def test_the_real_closure_covers_kernels_but_no_orchestration() -> None:
    dp_cache, recency = (module_hashes((f"models.mechanisms.{name}",)) for name in ("dp_cache", "recency"))
    assert fingerprint(dp_cache) != fingerprint(recency)
    assert {"models.mechanisms.dp_cache", "models.allocation", "models.kernel"} <= dp_cache.keys()
    assert {name.split(".")[0] for name in dp_cache} <= {"models", "tasks"}


def test_a_change_shows_in_its_module_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "rule.py").write_text(CODE)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    hashes = []
    for helper in ("def twice(x): return 2 * x", "def twice(x): return x + x"):
        (tmp_path / "models" / "helper.py").write_text(helper)
        module._source.cache_clear()
        module._normalised.cache_clear()
        hashes.append(module_hashes(("models.rule",)))
    module._source.cache_clear()
    module._normalised.cache_clear()
    before, after = hashes
    assert before.keys() == after.keys() == {"models.rule", "models.helper"}
    assert [name for name in before if before[name] != after[name]] == ["models.helper"]


def test_what_was_found_of_a_file_is_kept_until_the_file_changes(tmp_path: Path) -> None:
    """In another process: reading a module again costs no parsing, and an edit is seen."""
    code = (
        "import sys; from pathlib import Path; from orchestrator import fingerprint as f; "
        "parsed = []; real = f._normalise; "
        "f._normalise = lambda path: (parsed.append(path.name), real(path))[1]; "
        f"print(f._normalised(Path({str(tmp_path / 'rule.py')!r}))[0], len(parsed))"
    )
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(tmp_path / "compiled")

    def look() -> list[str]:
        command = [sys.executable, "-P", "-c", code]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split()

    (tmp_path / "rule.py").write_text("x = 1\n")
    first, again = look(), look()
    assert (first[0], first[1], again[1]) == (again[0], "1", "0")
    (tmp_path / "rule.py").write_text("x = 2\n")
    changed = look()
    assert changed[0] != first[0]
    assert changed[1] == "1"

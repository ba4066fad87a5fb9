"""Files that fields of a spec name: missing ones are mistakes, and what is read of a spec knows their content."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.plan import Plan
from orchestrator.spec import SpecError, canonical, from_canonical, read_spec

SPEC = """\
name: own-text
kind: training
workload: {name: text_file, path: a.txt}
mechanisms:
  - {name: transformer}
seeds: 1
"""


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "a.txt"
    path.write_text("one\n")
    return path


def digests(text: str) -> list[str]:
    return [cell.digest for cell in Plan(read_spec(text), lambda _: None).cells]


def test_a_file_that_is_not_there_is_a_mistake_at_its_place(text: Path) -> None:
    text.unlink()
    with pytest.raises(SpecError) as caught:
        read_spec(SPEC)
    [problem] = caught.value.problems
    assert (problem.place.line, problem.place.column) == (3, 35)
    assert problem.wrong == f"`path`: there is no file {text}"


def test_a_changed_file_makes_other_trials(text: Path) -> None:
    first = digests(SPEC)
    assert digests(SPEC) == first
    text.write_text("other\n")
    assert digests(SPEC) != first
    text.write_text("one\n")
    assert digests(SPEC) == first


def test_a_saved_spec_stays_with_the_content_that_it_was_read_with(
    text: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    spec = read_spec(SPEC)
    [submitted] = spec.workloads()
    saved = canonical(spec)
    text.write_text("other\n")
    [changed] = from_canonical(saved).workloads()
    text.unlink()
    [missing] = from_canonical(saved).workloads()
    assert submitted.identity() == changed.identity() == missing.identity()

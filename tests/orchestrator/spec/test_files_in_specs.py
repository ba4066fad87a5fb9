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


def paths(path: Path, *overrides: str) -> list[str]:
    return [config.flat()["path"] for config in read_spec(path, overrides).workloads()]


def test_paths_in_a_file_begin_at_its_folder(text: Path) -> None:
    folder = text.parent / "specs"
    folder.mkdir()
    for name in ("a.txt", "b.txt"):
        (folder / name).write_text("another\n")
    spec = folder / "spec.yaml"
    spec.write_text(SPEC)
    assert paths(spec) == [str(folder / "a.txt")]
    assert paths(spec, "workload.path=a.txt") == [str(text)]  # typed where the command is
    spec.write_text(SPEC.replace("a.txt", "{values: [b.txt, a.txt]}"))
    assert paths(spec) == [str(folder / "b.txt"), str(folder / "a.txt")]
    spec.write_text(SPEC.replace("{name: text_file, path: a.txt}", "[{name: text_file, path: ../a.txt}]"))
    assert paths(spec) == [str(folder / "../a.txt")]
    spec.write_text(SPEC.replace("path: a.txt", "path: a.txt, tokenizer: t.json"))
    with pytest.raises(SpecError, match=rf"spec\.yaml:3:53: `tokenizer`: there is no file {folder}/t\.json"):
        read_spec(spec)


def test_searched_paths_begin_there_too(text: Path) -> None:
    folder = text.parent / "specs"
    folder.mkdir()
    (folder / "a.txt").write_text("another\n")
    spec = folder / "spec.yaml"
    searched = "search: {workload.path: {choices: [a.txt]}}\nobjectives: {loss: minimize}\ntrials: 1\n"
    spec.write_text(SPEC.replace("training", "tuning").replace(", path: a.txt", "") + searched)
    options = read_spec(spec).options
    assert options is not None
    assert options.model_dump()["search"]["workload.path"]["choices"] == [str(folder / "a.txt")]

"""Suites: several specs under one name, and one clear error for each mistake in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.errors import RequestError
from orchestrator.requests import load_spec, load_specs
from orchestrator.spec import SpecError, Suite, read_suite
from tests.orchestrator.specs import SMALL, write_small


def suite(folder: Path, text: str) -> Path:
    path = folder / "suite.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_members_are_files_beside_the_suite_or_ready_made_specs(tmp_path: Path) -> None:
    write_small(tmp_path)
    path = suite(tmp_path, "name: both\ndescription: two sweeps\nsuite: [small.yaml, quick-start]\n")
    assert read_suite(path) == Suite("both", ("small.yaml", "quick-start"), "two sweeps")
    specs = load_specs(str(path), ["seeds=2"])
    assert {name: spec.name for name, spec in specs.items()} == {"small.yaml": "small", "quick-start": "quick-start"}
    assert all(spec.seeds == (0, 1) for spec in specs.values())


def test_a_spec_is_no_suite_and_a_suite_no_spec(tmp_path: Path) -> None:
    assert read_suite(write_small(tmp_path)) is None
    assert list(load_specs(str(tmp_path / "small.yaml"))) == [str(tmp_path / "small.yaml")]
    with pytest.raises(RequestError, match="is a suite of several specs"):
        load_spec(str(suite(tmp_path, "suite: [quick-start]")))


def test_every_mistake_is_told_with_its_place(tmp_path: Path) -> None:
    path = suite(tmp_path, "naem: x\nsuite:\n  - quick-start\n  - {name: x}\n  - quick-start\nseeds: 3\n")
    with pytest.raises(SpecError) as caught:
        read_suite(path)
    places = [(problem.place.line, problem.place.column) for problem in caught.value.problems]
    assert places == [(1, 1), (4, 5), (5, 5), (6, 1)]
    assert "did you mean `name`?" in str(caught.value)
    assert "is in `suite` already" in str(caught.value)


@pytest.mark.parametrize("text", ["suite: []", "suite: quick-start", "suite: {a: b}", "suite: null"])
def test_a_suite_needs_members(tmp_path: Path, text: str) -> None:
    with pytest.raises(SpecError, match="expected a list"):
        read_suite(suite(tmp_path, text))


def test_suites_of_suites_are_flattened_and_circles_refused(tmp_path: Path) -> None:
    write_small(tmp_path)
    (tmp_path / "inner.yaml").write_text("suite: [small.yaml, quick-start]", encoding="utf-8")
    assert list(load_specs(str(suite(tmp_path, "suite: [quick-start, inner.yaml]")))) == ["quick-start", "small.yaml"]
    (tmp_path / "inner.yaml").write_text("suite: [suite.yaml]", encoding="utf-8")
    with pytest.raises(RequestError, match="the suite names itself"):
        load_specs(str(tmp_path / "suite.yaml"))


def test_unknown_members_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="`quick-strat` is neither a spec file nor a ready-made spec"):
        load_specs(str(suite(tmp_path, "suite: [quick-strat]")))


def test_a_wrong_member_names_its_own_file(tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(SMALL.replace("seeds", "sedes"), encoding="utf-8")
    with pytest.raises(SpecError, match=r"(?s)small\.yaml:8:1.*did you mean `seeds`"):
        load_specs(str(suite(tmp_path, "suite: [small.yaml]")))


def test_a_suite_that_asks_has_ablations_and_limits(tmp_path: Path) -> None:
    write_small(tmp_path)
    text = "question: why?\nsuite: [small.yaml, quick-start]\nablations: [quick-start]\nlimits: [few, small]\n"
    asked = read_suite(suite(tmp_path, text))
    assert asked == Suite("suite", ("small.yaml", "quick-start"), "", "why?", ("quick-start",), ("few", "small"))
    with pytest.raises(SpecError) as caught:
        read_suite(suite(tmp_path, text.replace("ablations: [quick-start]", "ablations: [quick-strat]")))
    assert "`quick-strat` is not in `suite`" in str(caught.value)
    with pytest.raises(SpecError) as caught:
        read_suite(suite(tmp_path, text.replace("question: why?\n", "")))
    assert [problem.place.line for problem in caught.value.problems] == [2, 3]
    assert "is of a suite that asks something" in str(caught.value)

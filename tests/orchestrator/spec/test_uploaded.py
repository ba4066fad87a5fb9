"""Specs that come in a request: text whatever they look like, with no code and no files but those that are let in."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from orchestrator.spec import Problem, Spec, SpecError, Uploaded, read_spec_text

SPEC = """\
name: own-text
kind: training
workload: {name: text_file, path: %s}
mechanisms:
  - {name: transformer}
seeds: 1
"""

PLUGGED = """\
name: plugged
kind: frontier
workload: {name: associative_recall}
mechanisms:
  - {name: full_attention}
seeds: 1
plugins: [%s]
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    (folder / "inside").mkdir(parents=True)
    (folder / "inside" / "a.txt").write_text("one\n")
    (tmp_path / "secret.txt").write_text("two\n")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "inner.txt").symlink_to(folder / "inside" / "a.txt")
    return folder


def read(text: str, *folders: Path, overrides: tuple[str, ...] = (), plugins: dict[str, Path] | None = None) -> Spec:
    return read_spec_text(text, "mine.yaml", overrides, surroundings=Uploaded(plugins, folders))


def problem_of(text: str, *folders: Path, overrides: tuple[str, ...] = ()) -> Problem:
    with pytest.raises(SpecError) as caught:
        read(text, *folders, overrides=overrides)
    [problem] = caught.value.problems
    return problem


@pytest.mark.parametrize("text", ["/etc/hostname", "quick-start", "../a.yaml", "C:\\a.yaml", "a\0b"])
def test_text_is_never_a_path(text: str) -> None:
    with pytest.raises(SpecError) as caught:
        read(text)
    assert {problem.place.source.name for problem in caught.value.problems} == {"mine.yaml"}
    assert caught.value.problems[0].place.source.text == text


def test_a_byte_order_mark_is_dropped(data: Path) -> None:
    assert read("\ufeff" + SPEC % "inner.txt", data).name == "own-text"


@pytest.mark.parametrize("written", ["inside/a.txt", "inner.txt", "{data}/inside/a.txt", "inside/../inner.txt"])
def test_files_in_a_folder_that_is_let_in_may_be_named(data: Path, tmp_path: Path, written: str) -> None:
    [workload] = read(SPEC % written.format(data=data), tmp_path / "none", data).workloads()
    assert Path(str(workload.flat()["path"])).read_text() == "one\n"


@pytest.mark.parametrize(
    "written",
    [
        "link.txt",
        "../secret.txt",
        "inside/../../secret.txt",
        "{data}/../secret.txt",
        "/etc/hostname",
        "~/a.txt",
        "x" * 3000 + ".txt",
        "{{values: [inner.txt, ../secret.txt]}}",
    ],
)
def test_no_other_files_may(data: Path, written: str) -> None:
    text = SPEC % written.format(data=data)
    problem = problem_of(text, data)
    assert problem.place.line == 3
    assert problem.place.column >= 35
    assert "is not in a folder that this service reads" in problem.wrong
    assert problem.expected == f"a file in {data}"


def test_nul_is_no_text(data: Path) -> None:
    assert problem_of(SPEC % '"a\\0.txt"', data).wrong == "the character NUL is no text"


def test_no_folder_no_file(data: Path) -> None:
    assert problem_of(SPEC % (data / "inner.txt")).expected == "no file: this service reads none for those who upload"


def test_a_file_that_is_not_there_is_told_from_one_that_may_not_be_named(data: Path) -> None:
    assert problem_of(SPEC % "b.txt", data).wrong == f"`path`: there is no file {data / 'b.txt'}"


def test_overrides_name_files_by_the_same_rule(data: Path) -> None:
    [workload] = read(SPEC % "b.txt", data, overrides=("workload.path=inner.txt",)).workloads()
    assert workload.flat()["path"] == str(data / "inner.txt")
    problem = problem_of(SPEC % "inner.txt", data, overrides=("workload.path=../secret.txt",))
    assert problem.place.source.rank == 1


def test_no_code_where_none_is_let_in() -> None:
    for plugin in ("mine.py", "some_module"):
        problem = problem_of(PLUGGED % plugin)
        assert problem.wrong == "this service takes no plug-ins"
        assert (problem.place.line, problem.place.column) == (7, 11)


def test_files_of_code_are_those_that_came_along(tmp_path: Path) -> None:
    saved = tmp_path / "0123" / "uploaded_mine.py"
    saved.parent.mkdir()
    saved.write_text("VALUE = 1\n")
    (tmp_path / "other.py").write_text("raise SystemExit\n")
    assert read(PLUGGED % "lab/uploaded_mine.py", plugins={"lab/uploaded_mine.py": saved}).plugins == (str(saved),)
    with pytest.raises(SpecError, match=r"plug-in `\S+other\.py` did not come with the spec"):
        read(PLUGGED % (tmp_path / "other.py"), plugins={"lab/uploaded_mine.py": saved})


def test_modules_that_are_installed_may_be_named_where_code_is_let_in() -> None:
    assert read(PLUGGED % "ruamel.yaml", plugins={}).plugins == ("ruamel.yaml",)


LARGE = """\
name: large
kind: frontier
workload: {name: associative_recall, noise: {linspace: [0.1, 0.9, 1000]}}
mechanisms:
  - {name: full_attention}
  - {name: dp_cache, tau: {linspace: [0.1, 0.9, 1000]}, temperature: {linspace: [0.1, 0.9, 1000]}}
seeds: %s
"""


@pytest.mark.parametrize(
    ("seeds", "trials", "line"),
    [("1", "1,000,001,000", 6), ("{count: 1000000}", "1,000,001,000,000,000", 6), ("[1, 2]", "2,000,002,000", 6)],
)
def test_a_product_too_large_is_refused_before_it_is_looked_at(seeds: str, trials: str, line: int) -> None:
    began = time.process_time()
    with pytest.raises(SpecError) as caught:
        read_spec_text(LARGE % seeds, "large.yaml", surroundings=Uploaded(), most_trials=1_000_000)
    assert time.process_time() - began < 5
    [problem] = caught.value.problems
    assert problem.wrong == f"this spec makes {trials} trials"
    assert problem.expected == "at most 1,000,000"
    assert problem.place.line == line


@pytest.mark.parametrize("seeds", ["1000001", "{until: {metric: recall, half_width: 0.1, max: 1000}}"])
def test_seeds_are_counted_with_those_that_may_follow(seeds: str) -> None:
    text = PLUGGED.replace("plugins: [%s]\n", "").replace("seeds: 1", f"seeds: {seeds}")
    with pytest.raises(SpecError) as caught:
        read_spec_text(text, "many.yaml", surroundings=Uploaded(), most_trials=999)
    assert caught.value.problems[0].place.line == 6

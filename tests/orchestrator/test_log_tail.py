"""The end of a log is read backwards, and across a rotation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator import log_tail
from orchestrator.log_tail import last_entries
from orchestrator.logs import older_log


def lines(numbers: range, level: str = "info") -> str:
    return "".join(json.dumps({"level": level, "event": f"é{number}", "pad": "x" * 90}) + "\n" for number in numbers)


def events(path: Path, most: int, *levels: str) -> list[str]:
    return [entry["event"] for entry in last_entries(path, most, levels)]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """2,000 entries, of which the first 1,000 were rotated away, and a warning among each."""
    path = tmp_path / "sweep.jsonl"
    older_log(path).write_text(lines(range(999)) + lines(range(999, 1000), "warning"), encoding="utf-8")
    path.write_text(lines(range(1000, 1999)) + lines(range(1999, 2000), "error"), encoding="utf-8")
    return path


@pytest.mark.parametrize("most", [1, 7, 1000, 1001, 1900])
def test_the_last_entries_come_oldest_first(most: int, log: Path) -> None:
    assert events(log, most) == [f"é{number}" for number in range(2000 - most, 2000)]


def test_all_entries_come_where_there_are_fewer(log: Path) -> None:
    assert events(log, 5000) == [f"é{number}" for number in range(2000)]


def test_levels_are_chosen(log: Path) -> None:
    assert events(log, 10, "warning", "error") == ["é999", "é1999"]
    assert events(log, 10, "warning") == ["é999"]
    assert events(log, 10, "critical") == []


def test_a_word_in_an_entry_is_not_its_level(tmp_path: Path) -> None:
    path = tmp_path / "sweep.jsonl"
    path.write_text('{"level": "info", "event": "a", "said": "warning"}\n', encoding="utf-8")
    assert events(path, 10, "warning") == []


def test_torn_lines_and_missing_logs_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "sweep.jsonl"
    assert events(path, 10) == []
    path.write_text("", encoding="utf-8")
    assert events(path, 10) == []
    path.write_text(f'{{"event": "torn\n{lines(range(1))}\n{{"event": "to', encoding="utf-8")
    assert events(path, 10) == ["é0"]


def test_what_lies_far_back_is_left_out(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_tail, "MOST_READ_BYTES", log_tail.CHUNK_BYTES)
    assert events(log, 5000, "warning") == []
    assert events(log, 5000, "error") == ["é1999"]

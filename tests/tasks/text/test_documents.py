"""Files of text: what is read of them, what is held out, and what is said of those that are not as they should be."""

from __future__ import annotations

import gzip
import json
from fractions import Fraction
from pathlib import Path

import pytest

from tasks.corpora import CorpusError
from tasks.text.documents import PIECE_CHARACTERS, current_sha256, form_of, pieces

TWENTIETH = Fraction(1, 20)


def written(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    raw = content if isinstance(content, bytes) else content.encode()
    path.write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    return path


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_the_end_of_a_text_is_held_out_from_a_line_on(tmp_path: Path, name: str) -> None:
    lines = [f"line {number:04d}\n" for number in range(1000)]
    parts = list(pieces(written(tmp_path, name, "".join(lines)), TWENTIETH))
    assert [(part.held_out, part.ends) for part in parts] == [(False, True), (True, True)]
    assert parts[0].text == "".join(lines[:950])
    assert parts[1].text == "".join(lines[950:])


def test_a_long_text_comes_in_pieces_that_end_with_a_line(tmp_path: Path) -> None:
    text = "ä word and another\n" * 20_000
    parts = list(pieces(written(tmp_path, "a.txt", text), TWENTIETH))
    assert "".join(part.text for part in parts) == text
    assert len(parts) > 4
    assert all(part.text.endswith("\n") for part in parts)
    assert all(len(part.text) < PIECE_CHARACTERS + 20 for part in parts)
    held_out = sum(len(part.text.encode()) for part in parts if part.held_out)
    assert 0 <= len(text.encode()) / 20 - held_out < 20
    assert [part.ends for part in parts] == [
        part is parts[-1] or parts[index + 1].held_out != part.held_out for index, part in enumerate(parts)
    ]


def test_a_line_longer_than_what_is_held_out_is_cut_inside(tmp_path: Path) -> None:
    line = "ä" * 500
    for before, after in (("", ""), ("short\n", ""), ("", "\nend\n")):
        text = before + line + after
        parts = list(pieces(written(tmp_path, "a.txt", text), TWENTIETH))
        assert [(part.held_out, part.ends) for part in parts] == [(False, True), (True, True)]
        assert "".join(part.text for part in parts) == text
        assert len(parts[1].text.encode()) == pytest.approx(len(text.encode()) / 20, abs=2)
    [only] = pieces(written(tmp_path, "a.txt", ""), TWENTIETH)
    assert (only.text, only.held_out, only.ends) == ("", False, True)


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl"])
def test_a_mark_of_byte_order_is_no_text(tmp_path: Path, name: str) -> None:
    line = '{"text": "\ufeffa"}\n'
    path = written(tmp_path, name, b"\xef\xbb\xbf" + line.encode() * 20)
    first = next(pieces(path, TWENTIETH))
    assert first.text.startswith("\ufeffa" if name == "a.jsonl" else '{"text"')


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_every_twentieth_record_is_held_out(tmp_path: Path, name: str) -> None:
    content = "".join(json.dumps({"text": f"né {number}\n", "other": 1}) + "\n" for number in range(1, 101))
    parts = list(pieces(written(tmp_path, name, content), TWENTIETH))
    assert [part.text for part in parts] == [f"né {number}\n" for number in range(1, 101)]
    assert [part.text for part in parts if part.held_out] == [f"né {number}\n" for number in (20, 40, 60, 80, 100)]
    assert all(part.ends for part in parts)


def test_blank_lines_are_no_records(tmp_path: Path) -> None:
    path = written(tmp_path, "a.jsonl", '{"text": "a"}\n\n' * 60 + "\n \n" * 5)
    assert [part.held_out for part in pieces(path, TWENTIETH)] == ([False] * 19 + [True]) * 3


@pytest.mark.parametrize(("share", "held_out"), [("0.5", 50), ("0.3", 30), ("0.01", 1), ("0.07", 7)])
def test_any_share_of_records_is_held_out(tmp_path: Path, share: str, held_out: int) -> None:
    path = written(tmp_path, "a.jsonl", '{"text": "a"}\n' * 100)
    assert sum(part.held_out for part in pieces(path, Fraction(share))) == held_out


def test_contents_of_conversations_are_joined_and_blank_lines_left_out(tmp_path: Path) -> None:
    turns = [{"role": "user", "content": "who?"}, {"role": "assistant", "content": "me"}]
    path = written(tmp_path, "a.jsonl", json.dumps({"conversations": turns}) + "\n\n")
    assert [part.text for part in pieces(path, TWENTIETH)] == ["who?\nme"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"text": ', r"line 3: not JSON at character 10: Expecting value$"),
        (b"[" * 100_000, r"line 3: JSON that cannot be read: maximum recursion"),
        (b'{"text": "ab\\ud83d"}', r"line 3: the text has half a character, `.ud83d`, at character 3"),
        (b'{"body": "a"}', r'line 3: no "text" that is a string'),
        (b'{"text": 3}', r'line 3: no "text" that is a string'),
        (b'["a"]', r'line 3: no "text" that is a string'),
        (b'{"conversations": [{"role": "user"}]}', r'line 3: no "text" that is a string'),
        (b'{"conversations": "a"}', r'line 3: no "text" that is a string'),
        (b'{"text": "\xff"}', r"line 3: not UTF-8"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: bytes, message: str) -> None:
    path = written(tmp_path, "a.jsonl", b'{"text": "a"}\n\n' + line + b"\n")
    with pytest.raises(CorpusError, match=message):
        list(pieces(path, TWENTIETH))


@pytest.mark.parametrize("content", [b"no gzip at all", gzip.compress(b"a" * 9999)[:20]], ids=["none", "cut off"])
def test_a_broken_archive_is_one_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.txt.gz"
    path.write_bytes(content)
    with pytest.raises(CorpusError, match=r"cannot read .*a\.txt\.gz"):
        list(pieces(path, TWENTIETH))


def test_forms_go_by_the_end_of_the_name() -> None:
    assert [form_of(Path(name)) for name in ("a.txt", "a.jsonl.gz", "a.gz", "a.csv")] == [".txt", ".jsonl", None, None]


def test_a_changed_file_has_another_checksum(tmp_path: Path) -> None:
    path = written(tmp_path, "a.txt", "one")
    first = current_sha256(path)
    path.write_text("other")
    assert current_sha256(path) != first

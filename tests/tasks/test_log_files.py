"""A user's log from bytes to CSV: equal to the mechanisms on words, whatever the blocks; what is wrong is told."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import os
import random
import re
import sys
import threading
from collections.abc import Callable
from itertools import chain, pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from models.log_masks import MASKS, masker
from models.log_parsing import LogParserConfig
from models.mechanism import MECHANISMS
from models.mechanisms.dp_parser import reference_parse as dp_reference
from models.mechanisms.drain_parser import reference_parse as drain_reference
from tasks.logs import source
from tasks.logs.parse import ParsedLog, TemplateLog, parse_log
from tasks.logs.source import LogError, Source

REFERENCES: dict[str, Callable[..., Any]] = {"dp_parser": dp_reference, "drain_parser": drain_reference}

BITS = ("a", "b", "7", "-8", "x1", "1.2.3.4", "b=0xF", "/a/b", "<*>", "é", 'q"', ",", "<number>")
TEXTS = st.lists(
    st.lists(st.sampled_from([*BITS, " ", "\t", "  "]), max_size=9).map("".join), min_size=1, max_size=30
).map(lambda lines: "".join(f"{line}\n" for line in lines).encode())
PARSERS = st.sampled_from(
    [
        ("dp_parser", {"similarity": 0.5}),
        ("dp_parser", {"similarity": 0.7, "count_wildcards": False}),
        ("drain_parser", {"similarity": 0.4, "depth": 4}),
        ("drain_parser", {"similarity": 0.7, "depth": 6}),
        ("drain_parser", {"similarity": 0.7, "count_wildcards": True}),
    ]
)
MASKED = st.fixed_dictionaries({f"mask_{mask}": st.booleans() for mask in MASKS})


def config(name: str, **fields: Any) -> LogParserConfig:
    made = MECHANISMS.config_class(name).model_validate(fields)
    assert isinstance(made, LogParserConfig)
    return made


def table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def parsed(
    tmp_path: Path, text: bytes, fields: LogParserConfig | None = None, **options: Any
) -> tuple[ParsedLog, list[dict[str, str]], list[dict[str, str]]]:
    log = tmp_path / "x.log"
    log.write_bytes(text)
    result = parse_log(log, tmp_path, fields or config("drain_parser", mask_numbers=True), **options)
    assert result.files == (tmp_path / "templates.csv", tmp_path / "assignments.csv")
    return result, table(result.files[0]), table(result.files[1])


@settings(max_examples=200, deadline=None)
@given(text=TEXTS, parser=PARSERS, masked=MASKED, skip=st.integers(0, 2), cuts=st.sets(st.integers(1, 29), max_size=4))
@example(text=b"\n \n\t\n", parser=("dp_parser", {"similarity": 0.5}), masked={}, skip=0, cuts=set())
def test_bytes_become_what_words_become(
    text: bytes, parser: tuple[str, dict[str, Any]], masked: dict[str, bool], skip: int, cuts: set[int]
) -> None:
    """Read in blocks as they come; the plain loop has all words."""
    options = config(parser[0], **parser[1], **masked)
    lines = text.splitlines(keepends=True)
    words = tuple(tuple(word.decode() for word in line.split()[skip:]) for line in lines)
    templates, groups = REFERENCES[options.name](words, options)
    log = TemplateLog(options, skip)
    ends = [0, *sorted(cut for cut in cuts if cut < len(lines)), len(lines)]
    read = [
        log.read(np.frombuffer(b"".join(lines[begin:end]), dtype=np.uint8)).tolist() for begin, end in pairwise(ends)
    ]
    assert list(chain.from_iterable(read)) == groups
    assert [[word for word, _ in log.words(slot)] for slot in range(len(log.texts))] == templates
    assert log.counts.tolist() == [groups.count(slot) for slot in range(len(templates))]
    assert log.first == [groups.index(slot) + 1 for slot in range(len(templates))]


def test_templates_and_parameters_are_written(tmp_path: Path) -> None:
    """The third line widens the first template: parameters are those of templates as they are in the end."""
    text = b'user ann 7 in\nuser bob 9 in\nuser "b,ob" 9 out\nbye\n'
    result, templates, assignments = parsed(tmp_path, text, config("dp_parser", similarity=0.5, mask_numbers=True))
    assert (result.lines, result.templates, result.replaced, result.unmatched) == (4, 2, 0, 0)
    assert [tuple(row.values()) for row in templates] == [
        ("1", "user <*> <number> <*>", "3", "1"),
        ("2", "bye", "1", "4"),
    ]
    assert [tuple(row.values()) for row in assignments] == [
        ("1", "1", "ann 7 in"), ("2", "1", "bob 9 in"), ("3", "1", '"b,ob" 9 out'), ("4", "2", ""),
    ]  # fmt: skip
    assert sorted(path.name for path in tmp_path.iterdir()) == ["assignments.csv", "templates.csv", "x.log"]


def test_a_header_is_left_out_by_words_or_by_a_pattern(tmp_path: Path) -> None:
    text = b"10:00 host app: up 1\n10:01 host app: up 2\nodd\n"
    _, templates, _ = parsed(tmp_path, text, skip=3)
    assert [row["template"] for row in templates] == ["up <number>", ""]
    result, templates, assignments = parsed(tmp_path, text, pattern=re.compile(r"\S+ \S+ app: (?P<content>.*)"))
    assert (result.unmatched, [row["template"] for row in templates]) == (1, ["up <number>", "odd"])
    assert [row["parameters"] for row in assignments] == ["1", "2", ""]


def test_lines_end_and_words_part_in_many_ways(tmp_path: Path) -> None:
    """No newline at the end, one of Windows, tabs, a byte order mark."""
    result, templates, assignments = parsed(tmp_path, b"\xef\xbb\xbfa\tb 1\r\na b\x0b2\r\na b 3")
    assert (result.lines, [row["template"] for row in templates]) == (3, ["a b <number>"])
    assert [row["parameters"] for row in assignments] == ["1", "2", "3"]


def test_bytes_that_are_no_utf8_are_replaced_and_counted(tmp_path: Path) -> None:
    result, templates, _ = parsed(tmp_path, b"caf\xe9 1\ncaf\xc3\xa9 1\nplain 1\n", config("dp_parser", similarity=1.0))
    assert result.replaced == 1
    assert [row["template"] for row in templates] == ["caf� 1", "café 1", "plain 1"]


def test_blocks_do_not_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(0)
    lines = [" ".join(draw.choice(BITS) for _ in range(draw.randrange(60))) for _ in range(200)]
    text = "\n".join(lines).encode()
    _, templates, assignments = parsed(tmp_path, text)
    monkeypatch.setattr(source, "BLOCK_BYTES", 37)
    result, *again = parsed(tmp_path, text)
    assert again == [templates, assignments]
    assert result.templates == len(templates) > 64, "tables grew on the way"


def test_gzip_and_standard_input_give_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = b"up 1\nup 2\ndown now\n"
    _, *plain = parsed(tmp_path, text)
    _, *packed = parsed(tmp_path, gzip.compress(text))
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(text)))
    result = parse_log(Path("-"), tmp_path, config("drain_parser", mask_numbers=True))
    assert plain == packed == [table(path) for path in result.files]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "has no lines"),
        ("a\n".encode("utf-16"), "is UTF-16: `iconv"),
        (gzip.compress(b"a b c\n" * 100, mtime=0)[:-12], "begins as gzip and cannot be unpacked"),
        (b"\x1f\x8bnonsense", "begins as gzip and cannot be unpacked"),
        (b"a" * ((1 << 24) + 1), "has a line of more than 16 MiB: is it a log"),
        (bz2.compress(b"a\n"), "is packed by bzip2: unpack it"),
        (lzma.compress(b"a\n"), "is packed by xz: unpack it"),
        (b"PK\x03\x04rest", "is packed by zip: unpack it"),
        ("a b\n".encode("utf-16-le"), "is UTF-16, or no text: `iconv"),
    ],
    ids=["empty", "utf-16", "cut", "no gzip", "one line", "bzip2", "xz", "zip", "no mark"],
)
def test_what_is_no_log_is_told_and_leaves_nothing(tmp_path: Path, text: bytes, message: str) -> None:
    with pytest.raises(LogError, match=message) as caught:
        parsed(tmp_path, text)
    assert "x.log" in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["x.log"]
    with pytest.raises(LogError, match=r"no\.log: No such file"):
        parse_log(tmp_path / "no.log", tmp_path, config("dp_parser"))


def test_many_templates_are_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("tasks.logs.parse.MANY_TEMPLATES", 3)
    monkeypatch.setattr(source, "BLOCK_BYTES", 4)
    parsed(tmp_path, b"".join(b"%c%c\n" % (letter, letter) for letter in b"abcdefgh"))
    [record] = caplog.records
    assert "has more than 3 templates in its first 4 lines" in record.getMessage()


def test_a_format_meets_ends_of_lines_and_must_match_some(tmp_path: Path) -> None:
    pattern = re.compile(r"\d+ (?P<content>.*) end$")
    result, templates, _ = parsed(tmp_path, b"1 up end\r\n2 up end\r\nodd\r\n", pattern=pattern)
    assert (result.unmatched, [row["template"] for row in templates]) == (1, ["up", "odd"])
    with pytest.raises(LogError, match=r"x\.log: --format matches none of 2 lines; the first is `up`"):
        parsed(tmp_path, b"up\ndown\n", pattern=pattern)


def test_a_pipe_is_read_and_no_standard_input_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"up 1\nup 2\n",))
    writer.start()
    assert parse_log(pipe, tmp_path, config("drain_parser", mask_numbers=True)).lines == 2
    writer.join()
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(LogError, match="standard input is closed"):
        parse_log(Path("-"), tmp_path, config("drain_parser"))


@pytest.mark.parametrize("change", ["longer", "shorter"])
def test_a_log_that_changes_while_it_is_read(tmp_path: Path, change: str) -> None:
    """What came later is no part of it; what is gone is told."""
    log = tmp_path / "x.log"
    log.write_bytes(b"up 1\nup 2\n")
    with log.open("rb") as file, io.BytesIO() as kept, io.BytesIO() as target:
        reader, lines = TemplateLog(config("dp_parser"), 0), Source(file, "x.log")
        for block in lines.blocks():
            kept.write(reader.read(np.frombuffer(block, dtype=np.uint8)).astype(np.int32).tobytes())
        log.write_bytes(b"up 1\nup 2\nup 3\n" if change == "longer" else b"up 1\n")
        kept.seek(0)
        if change == "shorter":
            with pytest.raises(LogError, match=r"x\.log has become shorter"):
                reader.write_assignments(lines, kept, target)
        else:
            reader.write_assignments(lines, kept, target)
            assert target.getvalue() == b'line,template_id,parameters\n1,1,"1"\n2,1,"2"\n'


@pytest.mark.data
@pytest.mark.skipif("SLOTSWEEP_DATA" not in os.environ, reason="SLOTSWEEP_DATA names no folder of data sets")
@pytest.mark.parametrize("system", ["BGL", "HDFS", "Linux", "OpenSSH", "Thunderbird"])
@pytest.mark.parametrize("name", REFERENCES)
def test_loghub_becomes_what_the_plain_loop_makes_of_it(system: str, name: str) -> None:
    from tasks.workloads.loghub import read_rows

    options = config(name, similarity=0.7, mask_numbers=True, mask_addresses=True, mask_paths=True)
    text = "".join(f"{row['Content']}\n" for row in read_rows(system, corrected=False)).encode()
    words = tuple(tuple(word.decode() for word in line.split()) for line in text.splitlines())
    log = TemplateLog(options, 0)
    groups = log.read(np.frombuffer(text, dtype=np.uint8)).tolist()
    templates, expected = REFERENCES[name](words, options)
    assert groups == expected
    assert [[word for word, _ in log.words(slot)] for slot in range(len(log.texts))] == templates
    assert any("<number>" in word for template in templates for word in template)
    assert masker(options.masks)("7") == "<number>"

"""`slotsweep parse-log` as a user meets it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

LOG = "".join(f"10:0{n} app: user u{n} in from 10.0.0.{n}\n" for n in range(9)) + "10:09 app: bye\n"


def test_a_log_becomes_two_tables(slotsweep, tmp_path: Path) -> None:
    (tmp_path / "app.log").write_text(LOG)
    done = slotsweep("parse-log", "app.log", "--skip-fields", "2", "--out", "parsed", "--json")
    assert done.code == 0, done.err
    assert {name: done.json[name] for name in ("lines", "templates", "replaced", "unmatched")} == {
        "lines": 10, "templates": 2, "replaced": 0, "unmatched": 0,
    }  # fmt: skip
    assert done.json["lines_per_second"] == pytest.approx(10 / done.json["seconds"])
    assert (tmp_path / "parsed" / "templates.csv").read_text().splitlines()[1:] == [
        "1,user <*> in from <number>,9,1", "2,bye,1,10",
    ]  # fmt: skip
    assert (tmp_path / "parsed" / "assignments.csv").read_text().splitlines()[-2:] == ['9,1,"u8 10.0.0.8"', "10,2,"]
    (tmp_path / "wild.log").write_text("a b c d\na b c e\na b x f\n")
    for flag, templates in (("--count-wildcards", 1), ("--no-count-wildcards", 2)):
        wild = slotsweep("parse-log", "wild.log", "--similarity", "0.7", flag, "--json", "--out", "parsed")
        assert wild.json["templates"] == templates
    shown = slotsweep("parse-log", "app.log", "--parser", "dp_parser", "--mask", "none", "--similarity", "0.5")
    assert shown.out.startswith("10 lines, 2 templates in ")
    assert shown.out.splitlines()[1:] == ["templates.csv", "assignments.csv"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("no.log",), "no.log: No such file or directory"),
        (("app.log", "--parser", "drain"), "--parser drain: there are drain_parser and dp_parser"),
        (("app.log", "--mask", "numbers,dates"), "`dates` is none of addresses, paths, numbers, none"),
        (("app.log", "--parser", "dp_parser", "--depth", "4"), "--depth 4: dp_parser has no tree"),
        (("app.log", "--format", "("), "--format is no regular expression: missing )"),
        (("app.log", "--format", "(.*)"), "--format has no group (?P<content>...)"),
        (("app.log", "--out", "app.log"), "nothing can be written to app.log: "),
        (("app.log", "--out", "/proc"), "nothing can be written to /proc: "),
    ],
)
def test_mistakes_are_told_in_one_line(slotsweep, tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    (tmp_path / "app.log").write_text(LOG)
    done = slotsweep("parse-log", *arguments)
    assert (done.code, len(done.err.splitlines())) == (2, 1), done.err
    assert message in done.err


def test_it_loads_nothing_that_sweeps_need(tmp_path: Path) -> None:
    (tmp_path / "app.log").write_text(LOG)
    code = (
        "import sys, json; from orchestrator.cli.app import app; app(standalone_mode=False); "
        "print(json.dumps([name for name in ('torch', 'ray', 'optuna', 'mlflow', 'plotly') if name in sys.modules]))"
    )
    command = [sys.executable, "-P", "-c", code, "parse-log", "app.log"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=300)
    assert json.loads(done.stdout.splitlines()[-1]) == []

"""Log parsers are refused where streams have no words to read, before anything starts."""

from __future__ import annotations

import pytest

from orchestrator.spec import SpecError, read_spec

SPEC = """\
name: parsing
kind: frontier
workload: [{name: loghub}, {name: associative_recall}]
mechanisms: [{name: dp_parser}, {name: full_attention}]
seeds: 1
"""


def test_a_parser_beside_a_workload_without_words_is_refused_with_its_place() -> None:
    with pytest.raises(SpecError) as caught:
        read_spec(SPEC)
    assert ":4:14: `mechanisms.0`: dp_parser reads the words of log lines" in str(caught.value)
    assert "`associative_recall` has none" in str(caught.value)
    assert "a workload of logs: log_file, loghub" in str(caught.value)
    assert read_spec(SPEC.replace(", {name: associative_recall}", "")).trials == 2

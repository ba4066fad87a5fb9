"""Errors of YAML syntax in words that say where to look and what to write."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ruamel.yaml.error import MarkedYAMLError, StreamMark
from ruamel.yaml.events import CollectionStartEvent, SequenceStartEvent

from orchestrator.spec.problems import Place, Problems, Source

TAB_INDENT = re.compile(r" *\t\s*\S")

UNQUOTABLE = re.compile(r"found character '(.)' that cannot start any token")
UNKNOWN_ESCAPE = re.compile(r"found unknown escape character '(.*)'|expected escape sequence of")
BAD_ALIAS = re.compile(r"while scanning an (alias|anchor)")


def report_syntax(
    error: MarkedYAMLError, opened: Sequence[CollectionStartEvent], source: Source, problems: Problems
) -> None:
    """Report why the parser stopped. `opened` are the collections it had not yet seen the end of, outermost first."""
    mark: StreamMark = error.problem_mark or error.context_mark
    tabs = [number for number, line in enumerate(source.lines, 1) if TAB_INDENT.match(line)]
    if tabs and tabs[0] <= mark.line + 1:
        for number in tabs:
            column = source.line(number).index("\t") + 1
            problems.at(
                Place(source, number, column), "a tab indents this line", expected="spaces: YAML forbids tabs here"
            )
        return
    place, wrong, expected = _explain(error, mark, opened, source)
    problems.at(place, wrong, expected=expected)


def _explain(
    error: MarkedYAMLError, mark: StreamMark, opened: Sequence[CollectionStartEvent], source: Source
) -> tuple[Place, str, str]:
    problem, context = str(error.problem or ""), str(error.context or "")
    here = place_of(mark, source)
    if "quoted scalar" in context and ("end of stream" in problem or "document separator" in problem):
        quote = "double" if source.line(error.context_mark.line + 1)[error.context_mark.column] == '"' else "single"
        return place_of(error.context_mark, source), f"this {quote} quote is never closed", "a closing quote"
    if UNKNOWN_ESCAPE.search(problem):
        return here, "unknown escape in double quotes", r"one such as \n or \\; single quotes take \ as it is"
    if opened and opened[-1].flow_style:
        return _in_brackets(mark, "<stream end>" in problem, opened[-1], source)
    if match := UNQUOTABLE.search(problem):
        return here, f"a value cannot begin with `{match[1]}`", "quotes around it"
    if "mapping values are not allowed" in problem:
        return (
            here,
            "a second `:` where one value was expected",
            "one `key: value` a line, or quotes, or less indentation",
        )
    if "could not find expected ':'" in problem:
        return place_of(error.context_mark, source), "this line is no `key: value`", "a colon and a space after the key"
    if "expected <block end>" in problem and source.line(mark.line + 1)[: mark.column].strip():
        return (
            here,
            "there is more after the value has ended",
            "quotes around the whole of it; a quote inside '...' is written twice",
        )
    if "expected <block end>" in problem or "<document start>" in problem:
        return here, "this does not line up with what stands above", "the same indentation within one mapping or list"
    if match := BAD_ALIAS.search(context):
        return here, f"bad name of an {match[1]}", "letters and digits after `&` and `*`; or quotes around the value"
    return here, f"not YAML: {problem or context}", ""


def _in_brackets(
    mark: StreamMark, at_end: bool, opened: CollectionStartEvent, source: Source
) -> tuple[Place, str, str]:
    """The parser stopped inside brackets. If on a later line than they opened, they are taken as never closed."""
    opening, closing = ("[", "]") if isinstance(opened, SequenceStartEvent) else ("{", "}")
    if at_end or mark.line != opened.start_mark.line:
        return place_of(opened.start_mark, source), f"this `{opening}` is never closed", f"`{closing}`"
    return place_of(mark, source), f"unexpected text between `{opening}` and `{closing}`", f"`,` or `{closing}`"


def place_of(mark: StreamMark, source: Source) -> Place:
    """The parser's 0-based mark as a place."""
    return Place(source, mark.line + 1, mark.column + 1)

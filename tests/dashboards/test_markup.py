"""Text in Markdown is read as it was written."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from dashboards.markup import markdown_text

LINES = (
    "- no list",
    "+ nor this",
    "1. nor that",
    "12) here",
    "-",
    "---",
    "- - -",
    "===",
    "* * *",
    "# no heading",
    "> said",
)


def shown(markdown: str) -> list[tuple[str, str]]:
    """What a page shows: of each block its kind and its text."""
    tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(markdown)
    opened = [token.type for token in tokens if token.nesting == 1]
    texts = [
        "".join(child.content if child.type == "text" else f"[{child.type}]" for child in token.children or [])
        for token in tokens
        if token.type == "inline"
    ]
    return list(zip(opened, texts, strict=True))


@pytest.mark.parametrize("line", LINES)
def test_a_line_stays_a_line(line: str) -> None:
    assert shown(f"before\n\n{markdown_text(line)}") == [("paragraph_open", "before"), ("paragraph_open", line)]


def test_a_line_makes_no_heading_of_the_one_before() -> None:
    assert shown(f"before\n{markdown_text('---')}") == [("paragraph_open", "before[softbreak]---")]


@given(st.text(alphabet="-+=.)(1*_`#>|~[]!<&;\\ a\n", min_size=1, max_size=12))
@example("1.")
@example("    code")
def test_whatever_is_written_is_shown(text: str) -> None:
    wanted = text.replace("\n", " ").strip()
    assert [" ".join(found.split()) for _, found in shown(markdown_text(text))] == [
        *([" ".join(wanted.split())] if wanted else [])
    ]

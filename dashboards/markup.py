"""Text and tables in Markdown and LaTeX that mean nothing but themselves."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from dashboards.text import MISSING

LATEX_SPECIALS = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "{": r"\{",
        "}": r"\}",
        "$": r"\$",
        "&": r"\&",
        "#": r"\#",
        "%": r"\%",
        "_": r"\_",
        "^": r"\textasciicircum{}",
        "~": r"\textasciitilde{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        '"': r"\textquotedbl{}",
        MISSING: "--",
        "\n": " ",
    }
)
MARKDOWN_SPECIALS = str.maketrans(
    {**{char: f"\\{char}" for char in r"\`*_{}[]#|~"}, "&": "&amp;", "<": "&lt;", ">": "&gt;", "\n": " "}
)
"""As MLflow's pages read it too, in which a backslash before an angle bracket stays one."""

OPENING = re.compile(r"^(\d{0,9})([-+.)=])(?=[\s=-]|$)")
"""What makes a line a list, a rule, or the line before it a heading."""


def markdown_text(text: str) -> str:
    """`text` as one line that is read as it stands."""
    return OPENING.sub(r"\1\\\2", text.strip().translate(MARKDOWN_SPECIALS))


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A GitHub-flavoured table."""
    lines = [_markdown_row(header), f"|{'---|' * len(header)}", *map(_markdown_row, rows)]
    return "\n".join(lines)


def _markdown_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.translate(MARKDOWN_SPECIALS) for cell in cells)} |"


def latex_table(alignment: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A `tabular` with booktabs rules; `alignment` has a letter (l, r) for each column."""
    return "\n".join(
        [
            rf"\begin{{tabular}}{{{alignment}}}",
            r"\toprule",
            _latex_row(header),
            r"\midrule",
            *map(_latex_row, rows),
            r"\bottomrule",
            r"\end{tabular}",
        ]
    )


def _latex_row(cells: Iterable[str]) -> str:
    return " & ".join(cell.translate(LATEX_SPECIALS) for cell in cells) + r" \\"

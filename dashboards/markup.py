"""Tables in Markdown and LaTeX, whatever stands in their cells."""

from __future__ import annotations

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

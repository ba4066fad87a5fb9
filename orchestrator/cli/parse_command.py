"""The command that parses a log file of the user's own: parse-log."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestrator.cli.output import duration, print_json, say
from orchestrator.cli.spec_commands import AsJson

if TYPE_CHECKING:
    from models.log_parsing import LogParserConfig

PARSERS = ("drain_parser", "dp_parser")
NO_MASKS = "none"


def register(app: typer.Typer) -> None:
    """Add this command to `app`."""
    app.command("parse-log")(parse_log_command)


def parse_log_command(
    file: Annotated[Path, typer.Argument(help="the log, plain or gzip; `-` for standard input", metavar="FILE")],
    parser: Annotated[str, typer.Option(help=f"{' or '.join(PARSERS)}", metavar="NAME")] = "drain_parser",
    similarity: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="a line opens a template if it shares less of its words with all")
    ] = 0.5,
    depth: Annotated[
        int | None, typer.Option(min=3, max=100, help="levels of drain_parser's tree; 5 unless told")
    ] = None,
    count_wildcards: Annotated[
        bool | None,
        typer.Option(
            "--count-wildcards/--no-count-wildcards",
            help="whether a wildcard of a template is a shared word; by default it is for dp_parser alone",
        ),
    ] = None,
    mask: Annotated[
        str, typer.Option(help="what is masked first: some of addresses,paths,numbers, or none", metavar="KINDS")
    ] = "numbers",
    skip_fields: Annotated[
        int, typer.Option(min=0, help="words at the beginning of each line that are a header", metavar="N")
    ] = 0,
    line_format: Annotated[
        str | None,
        typer.Option("--format", help="how lines begin, with a group `(?P<content>...)` for the text", metavar="REGEX"),
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="folder for both files")] = Path(),
    as_json: AsJson = False,
) -> None:
    """Find the templates of a log: writes templates.csv, and each line's template and parameters to assignments.csv.

    The log may be longer than memory. Words are separated by blanks.
    """
    from orchestrator.errors import RequestError
    from tasks.logs.parse import parse_log
    from tasks.logs.source import LogError

    config = _config(parser, similarity, depth, mask, count_wildcards)
    pattern = _pattern(line_format)
    try:
        out.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=out).close()
    except OSError as error:
        raise RequestError(f"nothing can be written to {out}: {error.strerror}") from error
    try:
        parsed = parse_log(file, out, config, skip_fields, pattern)
    except LogError as error:
        raise RequestError(str(error)) from error
    if parsed.replaced:
        say(f"{parsed.replaced:,} lines have bytes that are no UTF-8; U+FFFD stands for them")
    if parsed.unmatched:
        say(f"{parsed.unmatched:,} lines do not match --format and were taken whole")
    if as_json:
        print_json(
            {
                "lines": parsed.lines,
                "templates": parsed.templates,
                "replaced": parsed.replaced,
                "unmatched": parsed.unmatched,
                "seconds": parsed.seconds,
                "lines_per_second": parsed.lines_per_second,
                "files": [str(path) for path in parsed.files],
            }
        )
        return
    typer.echo(
        f"{parsed.lines:,} lines, {parsed.templates:,} templates in {duration(parsed.seconds)}: "
        f"{parsed.lines_per_second:,.0f} lines/s, {parsed.lines / parsed.parse_seconds:,.0f} by parsing alone"
    )
    for path in parsed.files:
        typer.echo(path)


def _config(
    parser: str, similarity: float, depth: int | None, mask: str, count_wildcards: bool | None
) -> LogParserConfig:
    """The parser's options. Raises RequestError for names that are none, and a depth where there is no tree."""
    from models.log_masks import MASKS
    from models.log_parsing import LogParserConfig
    from models.mechanism import MECHANISMS
    from orchestrator.errors import RequestError

    if parser not in PARSERS:
        raise RequestError(f"--parser {parser}: there are {' and '.join(PARSERS)}")
    kinds = [] if mask.strip() in ("", NO_MASKS) else [kind.strip() for kind in mask.split(",")]
    unknown = [kind for kind in kinds if kind not in MASKS]
    if unknown:
        raise RequestError(f"--mask {mask}: `{unknown[0]}` is none of {', '.join(MASKS)}, {NO_MASKS}")
    fields: dict[str, Any] = {f"mask_{kind}": True for kind in kinds}
    if parser == "drain_parser":
        fields["depth"] = 5 if depth is None else depth
    elif depth is not None:
        raise RequestError(f"--depth {depth}: {parser} has no tree; leave it out, or take --parser drain_parser")
    if count_wildcards is not None:
        fields["count_wildcards"] = count_wildcards
    config = MECHANISMS.config_class(parser).model_validate({"similarity": similarity, **fields})
    assert isinstance(config, LogParserConfig)
    return config


def _pattern(line_format: str | None) -> re.Pattern[str] | None:
    """The compiled --format. Raises RequestError if it is no regular expression, or has no group `content`."""
    from orchestrator.errors import RequestError

    if line_format is None:
        return None
    try:
        pattern = re.compile(line_format)
    except re.error as error:
        raise RequestError(f"--format is no regular expression: {error}") from error
    if "content" not in pattern.groupindex:
        raise RequestError("--format has no group (?P<content>...), which says what of a line is parsed")
    return pattern

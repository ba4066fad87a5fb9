"""The command that captures attention of a user's own model for `npz_stream`: capture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orchestrator.cli.output import print_json, say
from orchestrator.cli.spec_commands import AsJson


def register(app: typer.Typer) -> None:
    """Add this command to `app`."""
    app.command("capture")(capture_command)


def capture_command(
    model: Annotated[str, typer.Argument(help="folder of a Hugging Face causal model, or its name on the Hub")],
    text: Annotated[Path, typer.Option(help="what the model reads, in UTF-8", metavar="FILE")],
    layer: Annotated[int, typer.Option(min=0, help="which layer, from 0")],
    head: Annotated[int, typer.Option(min=0, help="which head of queries, from 0")],
    out: Annotated[Path, typer.Option("--out", "-o", help="the .npz to write", metavar="FILE")],
    tokens: Annotated[
        int | None,
        typer.Option(min=2, help="read so many tokens of the text, from its front; by default 2,048, or all it has"),
    ] = None,
    queries: Annotated[int, typer.Option(min=1, help="keep the queries of so many tokens, the last")] = 64,
    as_json: AsJson = False,
) -> None:
    """Capture keys, values and queries of one head of a causal model: what the workload npz_stream reads.

    Needs the library transformers: pip install 'slotsweep[capture]'.
    """
    from orchestrator.errors import RequestError
    from tasks.capture import CaptureError, capture_file

    if out.suffix != ".npz":
        raise RequestError(f"`{out}` is no .npz, which `npz_stream` reads")
    try:
        arrays = capture_file(model, text, out, layer=layer, head=head, tokens=tokens, queries=queries)
    except CaptureError as error:
        raise RequestError(str(error)) from error
    shapes = {name: list(array.shape) for name, array in arrays.items()}
    if as_json:
        print_json({"file": str(out), "shapes": shapes})
        return
    (length, width), asked = shapes["keys"], shapes["queries"][0]
    say(f"{out}: {length:,} keys of width {width}, {asked} queries. workload: {{name: npz_stream, path: {out}}}")

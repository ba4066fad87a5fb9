"""The command that reruns one trial: trial."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.output import print_json, print_rich, say
from orchestrator.cli.spec_commands import AsJson
from orchestrator.exit_codes import ALL_DONE, DISAGREED, TRIALS_FAILED

if TYPE_CHECKING:
    from orchestrator.rerun import Rerun
    from tasks.replay import Asked, Replay, Written

SHOWN = 40
METRICS = ("recall", "recall_all", "slots", "bytes", "loss", "bits")
"""Metrics that are shown first."""


def register(app: typer.Typer) -> None:
    """Add this command to `app`."""
    app.command()(trial)


def trial(
    key: Annotated[str, typer.Argument(help="the trial's key (its beginning is enough)", metavar="KEY")],
    episode: Annotated[int, typer.Option(min=0, help="which of its streams to show step by step")] = 0,
    lines: Annotated[int, typer.Option(min=0, help="tokens and queries to show; 0: all")] = SHOWN,
    as_json: AsJson = False,
) -> None:
    """Run one trial again, here; say whether the same comes back, and show what its memory did token by token.

    Nothing is stored. Keys are in `slotsweep results SWEEP --format csv`.
    """
    from orchestrator.client import refuse_server
    from orchestrator.requests import existing_store
    from orchestrator.rerun import rerun
    from orchestrator.settings import Settings

    settings = Settings.read()
    refuse_server(settings, "slotsweep trial")
    found = rerun(existing_store(settings), settings, key, episode)
    if as_json:
        print_json(found.as_json())
    else:
        _print(found, lines)
    if found.metrics is None:
        raise typer.Exit(TRIALS_FAILED)
    raise typer.Exit(DISAGREED if found.differs else ALL_DONE)


def _print(found: Rerun, lines: int) -> None:
    from rich.table import Table

    from tasks.cells import looks_ahead, marked
    from tasks.comparing import compared_metrics

    stored = found.trial
    cell = stored.cell
    for name, config in (("workload", cell.workload), ("mechanism", cell.mechanism)):
        typer.echo(f"{name:<10} {', '.join(f'{field}={value}' for field, value in config.items())}")
    typer.echo(
        f"{'trial':<10} {stored.key}, seed {stored.seed}, {cell.episodes} episodes, {cell.dtype}, {stored.state}"
    )
    if found.metrics is None:
        typer.echo(f"failed: {found.reason}\n{found.message}")
        return
    table = Table("metric", "stored", "now", box=None, pad_edge=False)
    before = stored.metrics or {}
    for name in sorted(compared_metrics(found.metrics), key=lambda one: (one not in METRICS, one)):
        table.add_row(name, _number(before.get(name)), _number(found.metrics[name]))
    print_rich(table, "")
    typer.echo(_verdict(found))
    if looks_ahead([{"metrics.leaks_future": found.metrics.get("leaks_future")}], cell.mechanism):
        typer.echo(
            f"{marked(cell.mechanism['name'], leaks=True)}: its outputs depend on later tokens; where every position "
            "is scored its losses are no scores of predictions"
        )
    if found.replay is None:
        say("its mechanism reads no stream of keys and values: there are no decisions to show")
    else:
        _print_replay(found.replay, found.episode, lines or max(len(found.replay.steps), len(found.replay.asked)))


def _verdict(found: Rerun) -> str:
    edited = "; the code was edited since" if found.edited else ""
    if found.differs is None:
        return f"nothing is stored to compare with{edited}"
    if not found.differs:
        return f"the same came back{edited}"
    return f"came back otherwise: {', '.join(found.differs)}{edited}"


def _print_replay(replay: Replay, episode: int, lines: int) -> None:
    from rich.table import Table

    typer.echo(f"\nepisode {episode}, {replay.tokens} tokens")
    if replay.steps:
        table = Table("token", "item", "value", "nearest slot", "cosine", "what became of it", "slots", box=None)
        for step in replay.steps[:lines]:
            nearest, cosine = ("", "") if step.nearest is None else _nearest(step)
            table.add_row(
                *map(str, (step.token, step.item, step.value)), nearest, cosine, _became(step), str(step.slots)
            )
        print_rich(table)
        _tell_more(len(replay.steps) - lines, "tokens")
    else:
        typer.echo("its state is no list of slots: only its answers can be shown")
    table = Table("after", "query", "item", "class", "answer", "counts for recall", box=None)
    for one in replay.asked[:lines]:
        table.add_row(
            *map(str, (one.end, one.query, one.item, one.answer)), _answer(one), "yes" if one.counted else "no"
        )
    print_rich("", table)
    _tell_more(len(replay.asked) - lines, "queries")


def _tell_more(count: int, what: str) -> None:
    if count > 0:
        typer.echo(f"{count} more {what}: --lines 0 shows all")


def _nearest(step: Written) -> tuple[str, str]:
    assert step.nearest is not None
    token = "a centre" if step.nearest.token is None else f"of token {step.nearest.token}"
    return token, f"{step.nearest.cosine:.4f}"


def _became(step: Written) -> str:
    kept = "opens a slot" if step.opened else "opens none"
    gone = f", in place of token {', '.join(map(str, step.dropped))}" if step.dropped else ""
    return kept + gone


def _answer(one: Asked) -> str:
    if one.right is None:
        return "none: the memory is empty"
    if one.right in (0.0, 1.0):
        return "right" if one.right else "wrong"
    return f"right with probability {one.right:.3f}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"

"""Commands about specs: init, validate, plan, schema, list. They start neither Ray nor MLflow."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from orchestrator.cli.output import duration, print_json, print_rich, say, size
from orchestrator.cli.price_options import On, Price, rates

if TYPE_CHECKING:
    from orchestrator.cluster.node_types import Rates
    from orchestrator.costing import PlanCost
    from orchestrator.estimate import Cost, Estimate
    from orchestrator.plan import Plan
    from orchestrator.plan_summary import PlanSummary
    from tasks.kinds.tuning import TuningConfig

EXPLANATIONS_SHOWN = 20

SpecName = Annotated[str, typer.Argument(help="a spec file, or the name of a ready-made spec", metavar="SPEC")]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="override a field, e.g. --set workload.items=128 (repeatable); seeds=3: of a list the first 3",
        metavar="PATH=VALUE",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="print JSON")]


def register(app: typer.Typer) -> None:
    """Add these commands to `app`."""
    for command in (init, validate, plan, schema):
        app.command()(command)
    app.command("list")(list_things)


def init(
    path: Annotated[Path, typer.Argument(help="file to write")] = Path("sweep.yaml"),
    kind: Annotated[str, typer.Option(help="job type")] = "frontier",
    force: Annotated[bool, typer.Option("--force", help="overwrite the file if it exists")] = False,
) -> None:
    """Write a commented starter spec."""
    from orchestrator.errors import RequestError
    from orchestrator.spec import starter_spec

    if path.exists() and not force:
        raise RequestError(f"{path} exists already: choose another name, or --force to overwrite it")
    path.write_text(starter_spec(kind), encoding="utf-8")
    say(f"wrote {path}; next: slotsweep plan {path}, then slotsweep run {path}")


def validate(spec: SpecName, overrides: Overrides = None, as_json: AsJson = False) -> None:
    """Check a spec, or every spec of a suite; every error is shown at once, with its place and its cure."""
    from orchestrator.doubts import doubts
    from orchestrator.leaking import leaks
    from orchestrator.plan import Plan
    from orchestrator.requests import load_specs

    with _telling_json(as_json):
        plans = {name: Plan(read) for name, read in load_specs(spec, overrides or ()).items()}
    trials = sum(plan.trial_count for plan in plans.values())
    studies: Counter[int] = Counter()
    for count, options in map(_studies, plans.values()):
        if options:
            studies[options.trials] += count
    proposals = sum(count * each for each, count in studies.items())
    if as_json:
        about = {"studies": studies.total(), "proposals": proposals} if studies else {}
        print_json({"valid": True, "errors": [], "trials": trials, **about})
        return
    parts = [f"{len(plans)} sweeps"] if len(plans) > 1 else []
    parts += [f"{count} {'study' if count == 1 else 'studies'} of {each} proposals" for each, count in studies.items()]
    most = "at most " if any(plan.grows for plan in plans.values()) else ""
    typer.echo(f"{spec}: ok, {', '.join([*parts, f'{most}{trials} trials'])}")
    for sentence in dict.fromkeys(
        sentence for plan in plans.values() for sentence in (*_exhausted(plan), *leaks(plan), *doubts(plan))
    ):
        say(sentence)


def _studies(plan: Plan) -> tuple[int, TuningConfig | None]:
    """How many studies a plan has, and what its spec asks of each; none where it does not tune."""
    from orchestrator.tuner.studies import studies_of
    from tasks.kinds.tuning import TuningConfig

    options = plan.spec.options
    return (len(studies_of(plan.spec)), options) if isinstance(options, TuningConfig) else (0, None)


def _exhausted(plan: Plan) -> Iterator[str]:
    """Studies that have tried every combination before they have made all their proposals."""
    from orchestrator.spec.tuning import EXHAUSTIVE
    from orchestrator.tuner.studies import studies_of
    from tasks.search import every_combination

    _, options = _studies(plan)
    for study in studies_of(plan.spec) if options else ():
        if options is None or study.sampler.name not in EXHAUSTIVE:
            continue
        count = sum(1 for _ in every_combination(study.parameters) or ())
        if count < options.trials:
            told = "is 1 combination" if count == 1 else f"are {count:,} combinations"
            yield (f"{study.group}: there {told}, so that {study.sampler.name} makes no more proposals than that")


@contextmanager
def _telling_json(as_json: bool) -> Iterator[None]:
    """What is wrong with a spec is printed as JSON if `as_json`, else raised."""
    from orchestrator.exit_codes import WRONG_REQUEST
    from orchestrator.spec import SpecError

    try:
        yield
    except SpecError as error:
        if not as_json:
            raise
        print_json({"valid": False, "errors": error.as_json()})
        raise typer.Exit(WRONG_REQUEST) from error


def plan(
    spec: SpecName,
    overrides: Overrides = None,
    explain: Annotated[bool, typer.Option("--explain", help="say why trials are computed rather than reused")] = False,
    on: On = None,
    price: Price = None,
    as_json: AsJson = False,
) -> None:
    """Show what a spec, or each spec of a suite, would run: trials, batches, devices, and what it may cost."""
    from orchestrator.client import open_client
    from orchestrator.requests import spec_files
    from orchestrator.settings import Settings

    with _telling_json(as_json):
        files = spec_files(spec, overrides or ())
        prices = rates(on, price)
        described = open_client(Settings.read()).describe(files, explained=explain)
    costs = _costs(described, prices)
    if as_json:
        trees = [{**one.as_json(), **_cost_as_json(cost)} for one, cost in zip(described, costs, strict=True)]
        print_json(trees[0] if len(trees) == 1 else _suite_as_json([one.name for one in files], described, trees))
        return
    for summary, cost in zip(described, costs, strict=True):
        _print_plan(summary, cost)
    if len(described) > 1:
        totals = _totals(described)
        known = (
            "how many of them reused is unknown" if totals["reused"] is None else f"{totals['reused']} of them reused"
        )
        typer.echo(f"{spec}: {len(described)} sweeps, {totals['trials']} trials, {known}")


def _suite_as_json(names: list[str], summaries: list[PlanSummary], trees: list[dict[str, Any]]) -> dict[str, Any]:
    """Totals, and the plan of each sweep. Trials that several sweeps share are counted in each."""
    return {**_totals(summaries), "sweeps": dict(zip(names, trees, strict=True))}


def _costs(summaries: list[PlanSummary], prices: Rates | None) -> list[PlanCost | None]:
    """What each plan costs; None where no prices were given."""
    if prices is None:
        return [None] * len(summaries)
    from orchestrator.costing import plan_cost

    return [plan_cost(one.estimate, prices) for one in summaries]


def _cost_as_json(cost: PlanCost | None) -> dict[str, Any]:
    return {} if cost is None else {"cost": cost.as_json()}


def _totals(summaries: list[PlanSummary]) -> dict[str, int | None]:
    """Sums over sweeps; None where a number of one is unknown."""
    counts = {name: [getattr(one, name) for one in summaries] for name in ("trials", "unique", "reused", "batches")}
    return {name: None if None in numbers else sum(numbers) for name, numbers in counts.items()}


def _print_plan(summary: PlanSummary, cost: PlanCost | None) -> None:
    devices = ", ".join(f"{count} on {device}" for device, count in summary.devices.items())
    typer.echo(f"{summary.name} ({summary.kind})")
    product = f"{summary.cells} cells x {summary.seeds} seeds"
    if summary.at_first is not None:
        product = f"at most, {summary.at_first} at first, others as results tell"
    typer.echo(f"  trials    {summary.trials}: {product}; {devices}")
    typer.echo(f"  unique    {summary.unique}")
    if summary.untold:
        devices = " and ".join(summary.untold)
        typer.echo(
            f"  reused    unknown: the cluster has not told what machine measures times on {devices}; `slotsweep run` "
            "and `submit` ask it"
        )
    else:
        typer.echo(f"  reused    {summary.reused}, already done in this store")
    typer.echo(f"  batches   {summary.batches}{' at first' if summary.at_first is not None else ''}")
    _print_estimate(summary.estimate)
    if cost is not None:
        _print_cost(cost)
    for sentence in summary.absent:
        typer.echo(f"  data      {sentence}")
    for sentence in (*summary.leaks, *summary.doubts):
        typer.echo(f"  warning   {sentence}")
    if summary.explanations is not None:
        _print_explanations(summary.explanations)


def _print_estimate(estimate: Estimate) -> None:
    """What a plan takes; where it asks for several device classes, what each takes as well."""
    parts = estimate.by_device if len(estimate.by_device) > 1 else {}
    basis = "" if parts else f" ({estimate.basis.removeprefix('unknown: ')})"
    typer.echo(f"  time      {_time(estimate)}{basis}")
    for device, cost in parts.items():
        typer.echo(f"    {device:<7} {_time(cost)} ({cost.basis.removeprefix('unknown: ')})")
    typer.echo(f"  workers   {_count(estimate.workers)}, {estimate.workers_basis}")
    typer.echo(f"  memory    {_memory(estimate)}")
    for device, cost in parts.items():
        typer.echo(f"    {device:<7} {_memory(cost)}")
    typer.echo(f"  disk      about {size(estimate.disk_bytes)} ({estimate.disk_basis})")
    for device, cost in parts.items():
        typer.echo(f"    {device:<7} about {size(cost.disk_bytes)}")


def _print_cost(cost: PlanCost) -> None:
    """What a plan costs, its interval, and how it comes about."""
    priced = ", ".join(f"{price:.3g} an hour on {device}" for device, price in cost.prices.items())
    if cost.cost is None or cost.low_cost is None or cost.high_cost is None or cost.worker_hours is None:
        typer.echo(f"  cost      unknown, as the time is; a worker costs {priced} ({cost.basis})")
        return
    typer.echo(
        f"  cost      {cost.cost:.2g}, {cost.low_cost:.2g} to {cost.high_cost:.2g}: {cost.worker_hours:.2g} worker "
        f"hours, if they compute as those did that were measured; a worker costs {priced} ({cost.basis})"
    )


def _time(cost: Cost) -> str:
    """How long it takes, with its interval, and on how many workers."""
    hours, low, high = cost.hours, cost.low_hours, cost.high_hours
    workers = f"on {cost.workers} workers" if cost.workers != 1 else "on one worker"
    if hours is None or low is None or high is None:
        return "unknown" if cost.workers is None else f"unknown {workers}"
    return f"{duration(3600 * hours)}, {duration(3600 * low)} to {duration(3600 * high)}, {workers}"


def _count(workers: int | None) -> str:
    return "unknown" if workers is None else str(workers)


def _memory(cost: Cost) -> str:
    """What all workers take, with its interval, and what they take of devices."""
    if cost.memory_bytes is None or cost.low_memory_bytes is None or cost.high_memory_bytes is None:
        return "unknown"
    own = "" if cost.device_memory_bytes is None else f", and {size(cost.device_memory_bytes)} of devices"
    return f"{size(cost.memory_bytes)}, {size(cost.low_memory_bytes)} to {size(cost.high_memory_bytes)}{own}"


def _print_explanations(explanations: list[dict[str, Any]]) -> None:
    if not explanations:
        typer.echo("every trial is reused")
        return
    from orchestrator.explain import shortened

    rows = [
        (str(each["trials"]), str(each["cells"]), shortened(each["mechanisms"]), each["text"])
        for each in explanations[:EXPLANATIONS_SHOWN]
    ]
    header = ("trials", "cells", "mechanisms", "why they are not reused")
    trials, cells, mechanisms, _ = (max(map(len, column)) for column in zip(header, *rows, strict=True))
    for row in (header, *rows):
        typer.echo(f"  {row[0]:>{trials}}  {row[1]:>{cells}}  {row[2]:<{mechanisms}}  {row[3]}")
    hidden = explanations[EXPLANATIONS_SHOWN:]
    if hidden:
        typer.echo(f"  {sum(each['trials'] for each in hidden)} more trials for {len(hidden)} more reasons: see --json")


def schema() -> None:
    """Print the JSON Schema of a spec, for editors."""
    from orchestrator.spec import json_schema

    typer.echo(json.dumps(json_schema(), indent=2, ensure_ascii=False))


def list_things(
    what: Annotated[Literal["mechanisms", "workloads", "kinds", "specs"], typer.Argument(help="what to list")],
    as_json: AsJson = False,
) -> None:
    """List what can stand in a spec, or the ready-made specs."""
    entries = _specs() if what == "specs" else _implementations(what)
    if as_json:
        print_json(entries)
        return
    from rich.table import Table

    for entry in entries:
        table = Table.grid(padding=(0, 2))
        for field in entry.get("fields", ()):
            table.add_row(f"    {field['name']}", field["default"], field["description"])
        print_rich(f"{entry['name']}  {entry['summary']}", table)


def _specs() -> list[dict[str, Any]]:
    from orchestrator.requests import ready_made_specs

    return [
        {"name": name, "path": str(path), "summary": path.read_text(encoding="utf-8").splitlines()[0].lstrip("# ")}
        for name, path in ready_made_specs().items()
    ]


def _implementations(what: str) -> list[dict[str, Any]]:
    from models.mechanism import MECHANISMS
    from tasks.kind import KINDS
    from tasks.workload import WORKLOADS

    registries: dict[str, Any] = {"mechanisms": MECHANISMS, "workloads": WORKLOADS, "kinds": KINDS}
    return [
        {
            "name": name,
            "summary": (config.__doc__ or "").strip().splitlines()[0],
            "fields": [
                {
                    "name": field_name,
                    "default": "required"
                    if field.is_required()
                    else json.dumps(field.get_default(call_default_factory=True)),
                    "description": field.description or "",
                }
                for field_name, field in config.model_fields.items()
                if field_name != "name"
            ],
        }
        for name, config, _ in registries[what]
    ]

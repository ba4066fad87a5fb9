"""slotsweep from Python, for notebooks: the same plan, run and results as on the command line.

    from orchestrator.api import plan, results, run

    plan("sweep.yaml").trials
    sweep = run("sweep.yaml", overrides=["seeds=3"])
    results(sweep.id).groupby("mechanism.name")["metrics.recall"].mean()

Settings come from the environment, as for the command (`SLOTSWEEP_HOME`, `RAY_ADDRESS`, ...). What a command would
tell in one line is raised as that error: SpecError, RequestError, StoreError, ExecutorError.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from orchestrator.caps import UNCAPPED, Caps
from orchestrator.lacking import refuse_lacking
from orchestrator.machines import planned
from orchestrator.plan_summary import PlanSummary, describe
from orchestrator.preflight import check_before_submitting
from orchestrator.requests import existing_store, find_sweep, load_spec
from orchestrator.results import result_rows
from orchestrator.settings import Settings

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Sweep:
    """A sweep after `run`: its id, its state, how many trials are done, failed and reused, and its report."""

    id: str
    state: str
    trials: int
    done: int
    failed: int
    reused: int
    report: Path | None


def plan(spec: str | Path, *, overrides: Sequence[str] = ()) -> PlanSummary:
    """What `spec` (a file, or the name of a ready-made spec) would run, and what it may cost. Starts nothing."""
    settings = Settings.read()
    return describe(planned(load_spec(str(spec), overrides), settings, ask=False), settings)


def run(
    spec: str | Path,
    *,
    overrides: Sequence[str] = (),
    use_cache: bool = True,
    executor: Literal["ray", "inline"] = "ray",
    wait: float = 0.0,
    caps: Caps = UNCAPPED,
) -> Sweep:
    """Submit `spec` and run it until every trial is done or failed. `inline` computes in this process, without Ray.

    wait: minutes to wait for workers that the sweep needs and nobody offers yet
    caps: what it may take of its workers before it is paused
    """
    from orchestrator.owner import Owner
    from orchestrator.runner import execute, submit_plans
    from orchestrator.scheduler import StopRequest
    from orchestrator.store.store import Store

    settings = Settings.read()
    if executor == "inline":
        settings = replace(settings, ray_address=None)  # this machine is the fleet
    read = load_spec(str(spec), overrides)
    made = planned(replace(read, policy=replace(read.policy, wait=wait, caps=caps)), settings)
    check_before_submitting(made, settings)
    refuse_lacking(made, settings, use_cache=use_cache)
    store = Store.open(settings.database_url)
    owner = Owner(store).begin()
    try:
        [submitted] = submit_plans(store, [made], use_cache=use_cache, owner=owner.id)
        [outcome] = execute(
            settings,
            store,
            [submitted.sweep],
            executor=executor,
            on_progress=lambda _: None,
            stop=StopRequest(),
            owner=owner,
        )
    finally:
        owner.end()
    row = outcome.sweep
    report = None if outcome.drawn is None else outcome.drawn.path
    return Sweep(row.id, row.state, row.trials, row.counts.done, row.counts.failed, row.reused, report)


def results(sweep: str = "last") -> pandas.DataFrame:
    """A row per trial, with dotted columns, of the sweep whose id begins with `sweep`; `last` is the newest."""
    import pandas

    store = existing_store(Settings.read())
    return pandas.DataFrame(result_rows(store, find_sweep(store, sweep)))

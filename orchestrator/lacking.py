"""Plans whose data are not to be had: found out before anything runs, so that the others can."""

from __future__ import annotations

from collections.abc import Mapping

from orchestrator.errors import RequestError
from orchestrator.plan import Plan
from orchestrator.settings import Settings


def lacking_data(plan: Plan) -> str | None:
    """Why the workloads of `plan` cannot be loaded, or None: then their data are here now, fetched if need be."""
    from tasks.corpora import CorpusError
    from workers.batch import load_workload

    for group in plan.groups:
        try:
            load_workload(group.workload.identity())
        except CorpusError as error:
            return str(error)
        except Exception as error:  # of a plug-in
            return f"`{group.workload.name}` cannot be loaded: {type(error).__name__}: {error}"
    return None


def absent_data(plan: Plan) -> tuple[str, ...]:
    """What is to be said of public data that `plan` reads and that are not on this machine. Reads and fetches none."""
    from tasks.workload import WORKLOADS

    read = (
        name for group in plan.groups for name in WORKLOADS.implementation(group.workload.name).corpora(group.workload)
    )
    names = tuple(dict.fromkeys(read))
    if not names:
        return ()
    from tasks.catalogue import CORPORA
    from tasks.corpora import absence

    return tuple(said for name in names if (said := absence(CORPORA[name])) is not None)


def refuse_lacking(plan: Plan, settings: Settings, *, use_cache: bool) -> None:
    """Raise RequestError if `plan` has something to compute, and its data cannot be had."""
    reason = lacking_data(plan)
    if reason is not None and not (use_cache and _is_done(plan, settings)):
        raise RequestError(reason)


def _is_done(plan: Plan, settings: Settings) -> bool:
    """Whether the results of every trial that `plan` may ask for are there."""
    from orchestrator.plan_summary import describe

    summary = describe(plan, settings)
    return summary.reused == summary.unique and summary.at_first is None and not plan.kind.proposes


def part_lacking(plans: Mapping[str, Plan]) -> tuple[dict[str, Plan], dict[str, str]]:
    """Of several `plans` by name, those whose data are here, and why the others' are not."""
    reasons = {name: reason for name, plan in plans.items() if (reason := lacking_data(plan)) is not None}
    return {name: plan for name, plan in plans.items() if name not in reasons}, reasons

"""Plans whose data are not to be had: found out before anything runs, so that the others can."""

from __future__ import annotations

from collections.abc import Mapping

from orchestrator.plan import Plan


def lacking_data(plan: Plan) -> str | None:
    """Why the data of `plan` cannot be had, or None: then they are here now, fetched if need be."""
    from tasks.corpora import CorpusError
    from workers.batch import load_workload

    for group in plan.groups:
        try:
            load_workload(group.workload.identity())
        except CorpusError as error:
            return str(error)
    return None


def absent_data(plan: Plan) -> tuple[str, ...]:
    """What is to be said of public data that `plan` reads and that are not on this machine. Reads and fetches none."""
    from tasks.catalogue import CORPORA
    from tasks.corpora import absence
    from tasks.workload import WORKLOADS

    read = (
        name for group in plan.groups for name in WORKLOADS.implementation(group.workload.name).corpora(group.workload)
    )
    return tuple(said for name in dict.fromkeys(read) if (said := absence(CORPORA[name])) is not None)


def part_lacking(plans: Mapping[str, Plan]) -> tuple[dict[str, Plan], dict[str, str]]:
    """Of several `plans` by name, those whose data are here, and why the others' are not."""
    reasons = {name: reason for name, plan in plans.items() if (reason := lacking_data(plan)) is not None}
    return {name: plan for name, plan in plans.items() if name not in reasons}, reasons

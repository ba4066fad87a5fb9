"""Taking specs in: planned, checked and queued, for whoever asks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from orchestrator.caps import UNCAPPED, Caps
from orchestrator.client.base import Submission
from orchestrator.lacking import part_lacking, refuse_lacking
from orchestrator.machines import planned
from orchestrator.preflight import check_before_submitting

if TYPE_CHECKING:
    from orchestrator.plan import Plan
    from orchestrator.settings import Settings
    from orchestrator.spec import Spec
    from orchestrator.store.store import Store


def submit_checked(
    settings: Settings,
    specs: Mapping[str, Spec],
    *,
    use_cache: bool = True,
    wait: float = 0.0,
    caps: Caps = UNCAPPED,
    check_data: bool = True,
    user: str | None = None,
    key: str | None = None,
    owner_in: Callable[[Store], str | None] | None = None,
    store: Store | None = None,
) -> Submission:
    """Queue `specs`, by name, for `user`; all of them if none is refused.

    wait: minutes that trials may wait for workers. caps: what each may take of them. check_data: a spec whose data
    cannot be had is refused; of several it is left out. key: as `Store.submit_all`'s; owner_in: tells its owner. store:
    that of `settings`, where it is open already. Raises RequestError, ExecutorError or StoreError, with nothing queued.
    """
    caps.check()
    plans = {
        name: planned(replace(spec, policy=replace(spec.policy, wait=wait, caps=caps)), settings)
        for name, spec in specs.items()
    }
    for plan in plans.values():
        check_before_submitting(plan, settings)
    left_out: dict[str, str] = {}
    if check_data:
        plans, left_out = _with_data(plans, settings, use_cache)
    from orchestrator.runner import submit_plans
    from orchestrator.store.store import Store

    store = store or Store.open(settings.database_url)
    owner = None if owner_in is None else owner_in(store)
    found = submit_plans(store, list(plans.values()), use_cache=use_cache, user=user, key=key, owner=owner)
    return Submission(dict(zip(plans, found, strict=True)), left_out)


def _with_data(plans: dict[str, Plan], settings: Settings, use_cache: bool) -> tuple[dict[str, Plan], dict[str, str]]:
    """Those of several plans whose data are here, and why the others' are not; one alone is refused."""
    if len(plans) > 1:
        return part_lacking(plans)
    for plan in plans.values():
        refuse_lacking(plan, settings, use_cache=use_cache)
    return plans, {}

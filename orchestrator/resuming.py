"""Resuming a sweep whose spec file was edited: added cells are added, a changed meaning is refused with a diff."""

from __future__ import annotations

import difflib
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from models.config import canonical_json
from orchestrator.errors import RequestError
from orchestrator.machines import planned
from orchestrator.pinned import pinned_spec
from orchestrator.plan import Plan, TrialAsked, code_fingerprint
from orchestrator.settings import Settings
from orchestrator.spec import Spec, canonical, read_spec
from orchestrator.spec.spec import Policy
from orchestrator.store.records import CellRow, SweepRow
from orchestrator.store.store import Store
from orchestrator.tuner.warm_start import take_the_same

Meaning = tuple[str, int]
"""A trial without the code that computes it: (cell, seed)."""


def follow_edits(store: Store, sweep: SweepRow, settings: Settings) -> int:
    """Add to `sweep` what its spec file asks for beyond what was submitted; the number of trials added.

    What it measures times on stays the machine that it was; for a device class that is new, `settings` tell it.

    Raises RequestError, with a diff of the two texts, if the file no longer asks for something that the sweep has, or
    if what is new would be computed by other code than the rest.
    """
    if sweep.spec_path is None or not Path(sweep.spec_path).exists():
        return 0
    spec = read_spec(Path(sweep.spec_path), tuple(sweep.spec["overrides"]))
    if spec.text == sweep.spec_text:
        return 0
    before = Policy.saved(sweep.spec.get("policy", {}))  # what was given with the command is not in the file
    spec = replace(spec, policy=replace(spec.policy, wait=before.wait, caps=before.caps))
    machines = {str(cell.device): cell.machine for cell in store.cells(sweep.id).values()}
    machine_of = planned(spec, settings).machine_of
    plan = Plan(spec, lambda device: machines.get(device) or machine_of(device))
    if spec.name != sweep.name:
        raise RequestError(
            f"{sweep.spec_path} now describes another sweep, `{spec.name}` instead of `{sweep.name}`: "
            f"`slotsweep run` it, or `slotsweep resume {sweep.id} --as-submitted`"
        )
    if plan.kind.proposes:
        _take_up_more_proposals(store, sweep, spec)
        return 0
    wanted = {_meaning(cell, seed): (cell, seed, key) for cell, seed, key in plan.trials()}
    present = {_meaning(cell, seed) for cell, seed, _ in store.asked(sweep.id)}
    gone = present - wanted.keys() - _to_come(plan)
    if gone:
        _refuse(sweep, spec, f"{len(gone)} of the sweep's {len(present)} trials are no longer in it")
    added = [trial for meaning, trial in wanted.items() if meaning not in present]
    _refuse_other_code(sweep, added, store)
    store.extend(sweep.id, _changes(spec), added, plan.code())
    return len(added)


def _changes(spec: Spec) -> dict[str, Any]:
    """What becomes other in the row of a sweep whose spec was edited."""
    return {
        "spec": canonical(spec),
        "spec_text": spec.text,
        "priority": spec.policy.priority,
        "infrastructure_retries": spec.policy.infrastructure_retries,
        "code_retries": spec.policy.code_retries,
    }


def _take_up_more_proposals(store: Store, sweep: SweepRow, spec: Spec) -> None:
    """Let a sweep that tunes make more proposals; anything else would give what it has proposed another meaning."""
    pinned = pinned_spec(store, sweep)
    spec = take_the_same(spec, pinned.taken)
    before, after = canonical(pinned), canonical(spec)
    more = after["options"]["trials"] >= before["options"]["trials"]
    if _meant(before) != _meant(after) or not more:
        _refuse(sweep, spec, "more `trials` are the only change that leaves the meaning of its proposals")
    store.extend(sweep.id, _changes(spec), [])


def _meant(saved: dict[str, Any]) -> dict[str, Any]:
    """What gives a saved spec's proposals their meaning."""
    free = dict.fromkeys(("text", "description", "policy"))
    return {**saved, **free, "options": {**saved["options"], "trials": None}}


def _refuse(sweep: SweepRow, spec: Spec, why: str) -> NoReturn:
    raise RequestError(
        f"{sweep.spec_path} was edited after it was submitted, and {why}:\n{_diff(sweep, spec.text)}\n"
        f"`slotsweep run {sweep.spec_path}` starts a new sweep (what is unchanged is reused); "
        f"`slotsweep resume {sweep.id} --as-submitted` goes on with the old one"
    )


def _to_come(plan: Plan) -> set[Meaning]:
    """Trials that may follow from the results of those that a plan lists: further seeds."""
    if plan.spec.until is None:
        return set()
    first = plan.spec.seeds[0]
    seeds = range(first, first + plan.spec.until.rule.most)
    return {_meaning(cell, seed) for cell in plan.cells for seed in seeds}


def _meaning(cell: CellRow, seed: int) -> Meaning:
    tree = [cell.workload, cell.mechanism, cell.episodes, cell.dtype, cell.device, cell.machine]
    return canonical_json(tree), seed


def _refuse_other_code(sweep: SweepRow, added: list[TrialAsked], store: Store) -> None:
    """The sweep's workers run the code that was pinned; new trials carry the fingerprint of the code as it is now."""
    if not added:
        return
    for cell in store.cells(sweep.id).values():
        if cell.fingerprint != code_fingerprint(sweep.kind, cell.workload["name"], cell.mechanism["name"], cell.device):
            raise RequestError(
                f"the code was edited after sweep {sweep.id} was submitted, so that new cells would not compare with "
                f"its old ones: `slotsweep run {sweep.spec_path}` starts a new sweep"
            )


def _diff(sweep: SweepRow, text: str) -> str:
    lines = difflib.unified_diff(
        sweep.spec_text.splitlines(), text.splitlines(), "as submitted", str(sweep.spec_path), lineterm="", n=1
    )
    return "\n".join(f"  {line}" for line in lines)

"""A process that reads specs, plans and submits them for the service: orders on stdin, answers on stdout, line by line.

It keeps slow and large plans, and code that users bring, away from the process that answers. A planner that has loaded
code of a user's takes no other order.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from functools import cache
from typing import Any, BinaryIO

from orchestrator.errors import ExecutorError, PreparationError, RequestError, StoreError
from orchestrator.plan import Plan
from orchestrator.service.orders import LONGEST_TEXT, MOST_PROBLEMS, Answer, Order, Refusal, SpecOrder
from orchestrator.settings import Settings
from orchestrator.spec import Problem, Spec, SpecError, Uploaded, read_spec_text
from orchestrator.spec.document import compose
from orchestrator.spec.nodes import MapNode
from orchestrator.spec.problems import Place, Problems, Source
from orchestrator.store.store import Store

NICENESS = 5
"""Whoever asks how a sweep stands is answered before others' sweeps are planned."""

MEMORY_BYTES = 4 * 2**30
"""Memory that a planner may take."""


def main() -> None:
    """Carry out orders until stdin ends. The one argument: most seconds an order may take."""
    seconds = int(float(sys.argv[1])) + 10
    os.nice(NICENESS)
    _limit_memory()
    answers = _take_stdout()
    for line in sys.stdin.buffer:
        signal.alarm(seconds)  # ends this process, should the service that would do so be gone
        answers.write(answer(line).model_dump_json().encode() + b"\n")
        answers.flush()
        signal.alarm(0)


def _limit_memory() -> None:
    with suppress(ValueError, OSError):  # some systems have no such limit
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, hard))


def _take_stdout() -> BinaryIO:
    """What answers are written to. Whatever else is printed goes to stderr, by code of users' as well."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return answers


def answer(line: bytes) -> Answer:
    """Carry out one order."""
    order = Order.model_validate_json(line)
    try:
        return Answer(given=TASKS[order.task](order))
    except SpecError as error:
        return _refused_spec(error)
    except (RequestError, PreparationError) as error:
        return _refused(400, str(error))
    except (StoreError, ExecutorError) as error:
        return _refused(503, str(error))
    except MemoryError:
        return _refused(422, "planning this takes more memory than the service gives to it: ask for less")
    except RecursionError:
        return _refused(422, "this is nested too deeply to be planned")
    except Exception as error:
        if any(spec.plugins for spec in order.specs):
            return _refused(
                422, f"code of a plug-in failed while the spec was planned: {type(error).__name__}: {error}"
            )
        raise


def _refused(status: int, message: str, problems: tuple[dict[str, Any], ...] = ()) -> Answer:
    return Answer(refusal=Refusal(status=status, message=message, problems=problems))


def _refused_spec(error: SpecError) -> Answer:
    found = tuple({**one, "text": one["text"][:LONGEST_TEXT]} for one in error.as_json()[:MOST_PROBLEMS])
    count = len(error.problems)
    more = f", the first {MOST_PROBLEMS} of which are listed" if count > MOST_PROBLEMS else ""
    return _refused(422, f"{count} problem{'s' if count != 1 else ''} in the spec{more}", found)


def _describe(order: Order) -> list[dict[str, Any]]:
    """A `PlanSummary` of each spec."""
    from orchestrator.machines import planned
    from orchestrator.plan_summary import describe

    settings = Settings.read()
    plans = [planned(spec, settings, ask=False) for spec in _specs(order).values()]
    return [asdict(describe(plan, settings, explained=order.explained)) for plan in plans]


def _submit(order: Order) -> dict[str, Any]:
    """What was submitted, and why the rest was not, by the names of specs."""
    from orchestrator.intake import submit_checked

    settings = Settings.read()
    submission = submit_checked(
        settings,
        _specs(order),
        use_cache=order.use_cache,
        wait=order.wait,
        caps=order.caps,
        check_data=order.check_data,
        user=order.user,
        key=order.key,
        store=_store(settings.database_url),
    )
    submitted = {name: asdict(one) for name, one in submission.submitted.items()}
    return {"submitted": submitted, "left_out": dict(submission.left_out)}


@cache
def _store(url: str) -> Store:
    return Store.open(url)


TASKS: dict[str, Callable[[Order], Any]] = {"describe": _describe, "submit": _submit}


def _specs(order: Order) -> dict[str, Spec]:
    """The order's specs by name. Raises SpecError for the first that is wrong, or too large."""
    specs = {}
    for one in order.specs:
        spec = read_spec_text(
            one.text,
            one.name,
            one.overrides,
            surroundings=_surroundings(one, order),
            most_trials=order.most_trials,
        )
        _refuse_growth(spec, one, order.most_trials)
        specs[one.name] = spec
    return specs


def _surroundings(one: SpecOrder, order: Order) -> Uploaded:
    """Where a spec of `order` stands."""
    here = Uploaded(one.plugins, order.folders)
    return here if one.barred is None else replace(here, barred=one.barred)


def _refuse_growth(spec: Spec, order: SpecOrder, most: int) -> None:
    """Raise SpecError if more than `most` trials may follow from results."""
    trials = Plan(spec, lambda _: None).trial_count
    if trials > most:
        source = Source(order.name, spec.text)
        tree = compose(source, Problems())
        key = tree.key("trials") or tree.key("seeds") if isinstance(tree, MapNode) else None
        place = Place(source) if key is None else key.at
        raise SpecError([Problem(place, f"this spec makes up to {trials:,} trials", f"at most {most:,}")])


if __name__ == "__main__":
    main()

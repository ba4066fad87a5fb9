"""The page of one sweep: what it is, how far it is, what failed, and where to read more."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from markupsafe import Markup

from dashboards.pages.frame import Link, Live, Visitor, headline, page, part
from dashboards.pages.sweeps import SweepLine

MOST_GROUPS = 12
"""Groups of similar failures that are shown."""

VARIES = re.compile(r"0x[0-9a-fA-F]+|\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
"""What may differ between messages that say the same."""

ActionName = Literal["pause", "resume", "cancel", "retry"]

LABELS: Mapping[str, str] = {"pause": "Pause", "resume": "Resume", "cancel": "Cancel …", "retry": "Retry failed"}
"""What the buttons say."""


@dataclass(frozen=True)
class Failure:
    """Trials that failed alike. first: the number of the first of them; log: the last lines printed in its batch."""

    reason: str
    message: str
    trials: int
    first: int
    messages: int = 1
    log: str = ""

    @property
    def headline(self) -> str:
        """What its message says in one line."""
        return headline(self.message)


@dataclass(frozen=True)
class Fact:
    """Something that is so: a name and what is to be said."""

    name: str
    text: str


@dataclass(frozen=True)
class Drawing:
    """What is drawn beside the page.

    html   None while the first one is being drawn; error: why there is none
    as_of  since when it may be out of date (ISO 8601 in UTC); None: it shows what is so now
    """

    html: str | None
    error: str | None
    version: str
    live: Live
    as_of: str | None = None

    @property
    def markup(self) -> Markup:
        """What was drawn: our own templates made it, so it is not escaped again."""
        return Markup(self.html or "")


@dataclass(frozen=True)
class SweepState:
    """What changes while a sweep runs. actions: what whoever looks may do now; more: kinds of failures not shown."""

    line: SweepLine
    facts: tuple[Fact, ...]
    failures: tuple[Failure, ...]
    more: int
    actions: tuple[ActionName, ...]
    live: Live


@dataclass(frozen=True)
class SweepView:
    """Everything on a sweep's page. links: where to read more; command: opens MLflow's pages if nobody serves them."""

    state: SweepState
    description: str
    spec: str
    plan: tuple[Fact, ...]
    chart: Drawing
    links: tuple[Link, ...]
    command: str


def sweep_page(view: SweepView, visitor: Visitor) -> str:
    """The page of `view`."""
    return page("sweep.html.j2", visitor, "sweeps", view=view, state=view.state, labels=LABELS)


def state_part(state: SweepState, visitor: Visitor) -> str:
    """What changes while it runs, alone."""
    return part("sweep_state.html.j2", state=state, visitor=visitor, labels=LABELS)


def drawing_part(drawing: Drawing) -> str:
    """A drawing alone."""
    return part("drawing.html.j2", drawing=drawing)


def cancel_page(line: SweepLine, visitor: Visitor) -> str:
    """The page that asks whether a sweep shall really be cancelled."""
    return page("cancel.html.j2", visitor, "sweeps", line=line)


def grouped(failures: Iterable[Failure]) -> list[Failure]:
    """`failures` with those put together that have the same reason and messages alike but for numbers.

    The first of a group speaks for it; groups with most trials come first.
    """
    groups: dict[tuple[str, str], Failure] = {}
    for one in failures:
        key = one.reason, VARIES.sub("#", one.message)
        known = groups.get(key)
        groups[key] = (
            one
            if known is None
            else replace(known, trials=known.trials + one.trials, messages=known.messages + one.messages)
        )
    return sorted(groups.values(), key=lambda group: -group.trials)

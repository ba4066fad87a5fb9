"""The list of sweeps: one line a sweep, and how far it is."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from dashboards.pages.frame import Live, Visitor, page, part
from dashboards.text import duration, plural

SIGNS = {"queued": "◌", "running": "●", "paused": "‖", "done": "✓", "failed": "✗", "cancelled": "⊘"}
"""A sign beside each state, so that colour says nothing alone."""


@dataclass(frozen=True)
class Progress:
    """A sweep's trials. running: those handed out now."""

    total: int
    done: int
    failed: int
    running: int
    reused: int

    @property
    def words(self) -> str:
        """How far it is."""
        text = f"{self.done:,} of {plural(self.total, 'trial')} done"
        return f"{text}, {self.failed:,} failed" if self.failed else text

    @property
    def finished(self) -> int:
        """Trials that need no more work."""
        return self.done + self.failed

    def percent(self, trials: int) -> float:
        """`trials` as a share of all, in percent."""
        return round(100 * trials / self.total, 2) if self.total else 0.0


@dataclass(frozen=True)
class SweepLine:
    """A sweep at a glance. Times are ISO 8601 in UTC.

    user          None: it was submitted without the service
    seconds_left  until it ends, where that can be told
    waiting       why nothing of it can be handed out; growth: how far it is with what follows from results
    """

    id: str
    name: str
    kind: str
    user: str | None
    state: str
    progress: Progress
    created: str
    seconds_left: float | None = None
    waiting: str | None = None
    growth: str | None = None

    @property
    def sign(self) -> str:
        """The sign of its state."""
        return SIGNS.get(self.state, "?")

    @property
    def expects(self) -> str:
        """When it will have ended, or why that cannot be told."""
        if self.waiting and self.state == "paused":
            return self.waiting
        if self.waiting:
            return f"waits: {self.waiting}"
        if self.seconds_left is not None:
            return f"{duration(self.seconds_left)} left"
        return {"queued": "waits for its turn", "running": "not known yet"}.get(self.state, "")


@dataclass(frozen=True)
class Filters:
    """Which sweeps are listed: in a state, of a user, with words in their name; empty: whatever it is."""

    state: str = ""
    user: str = ""
    words: str = ""

    def query(self, number: int = 1) -> str:
        """As the query of an address, for the page `number`."""
        given = {"state": self.state, "user": self.user, "q": self.words, "page": number if number > 1 else ""}
        return urlencode({name: item for name, item in given.items() if item})

    def address(self, path: str, number: int = 1) -> str:
        """`path` with these filters, for the page `number`."""
        query = self.query(number)
        return f"{path}?{query}" if query else path


@dataclass(frozen=True)
class SweepsView:
    """A page of the list: `number` of `pages`, with `total` sweeps on all of them."""

    lines: tuple[SweepLine, ...]
    filters: Filters
    number: int
    pages: int
    total: int
    live: Live


def sweeps_page(view: SweepsView, visitor: Visitor) -> str:
    """The page of `view`."""
    mine = Filters(user=visitor.user).address("/")
    return page("sweeps.html.j2", visitor, "sweeps", view=view, states=list(SIGNS), mine=mine)


def sweeps_part(view: SweepsView) -> str:
    """Its table alone."""
    return part("sweeps_part.html.j2", view=view)

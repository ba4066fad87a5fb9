"""The store: every question slotsweep asks its database, and every change it makes, each in one transaction.

Contract (held by tests on every backend):
- `submit` links a sweep to one trial row a key: a finished or pending row of the same key is shared, never doubled.
- `claim` leases pending trials to one attempt; a trial is leased to at most one attempt at a time.
- `accept` takes an attempt's results once, only while it holds its lease; late or repeated ones change nothing.
- `grow` adds what follows from results once, whoever comes to decide it.
- `lose` and `expire` give a dead attempt's trials back, or fail them when their retries are spent.
- An outcome and the notice that the tracker must hear of it are written in the same transaction, and so are the end of
  a sweep or the quarantine of a worker and the event that webhooks tell of.
- `take_duty` gives a duty to one living process at a time, `own_sweep` a sweep to one orchestrator.
- `submit_all` takes sweeps in, all of them or none, and the same request once; others write meanwhile.
- No secret is stored, only what tells whether a secret is the right one.
"""

from __future__ import annotations

from sqlalchemy import Engine

from orchestrator.store.access import Access
from orchestrator.store.browsing import Browsing
from orchestrator.store.conducting import Conducting
from orchestrator.store.controlling import Controlling
from orchestrator.store.engine import ensure_schema, open_engine
from orchestrator.store.executing import Executing
from orchestrator.store.growing import Growing
from orchestrator.store.listing import Listing
from orchestrator.store.measuring import Measuring
from orchestrator.store.notifying import Notifying
from orchestrator.store.owning import Owning
from orchestrator.store.reporting import Reporting
from orchestrator.store.rostering import Rostering
from orchestrator.store.serving import Serving
from orchestrator.store.submitting import Submitting


class Store(
    Submitting,
    Growing,
    Controlling,
    Conducting,
    Listing,
    Browsing,
    Executing,
    Reporting,
    Rostering,
    Notifying,
    Access,
    Serving,
    Owning,
    Measuring,
):
    """One database. Methods open their own connections; a store may be used from several threads and processes."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    @classmethod
    def open(cls, url: str) -> Store:
        """Open the database at `url`, creating its tables if it is empty. Raises StoreError if it cannot be used."""
        store = cls(open_engine(url))
        try:
            ensure_schema(store.engine)
        except BaseException:
            store.close()
            raise
        return store

    def close(self) -> None:
        """Give back every connection."""
        self.engine.dispose()

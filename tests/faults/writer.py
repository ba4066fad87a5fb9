"""One of many processes that write to one store: submits small sweeps, leases and finishes them, until told to end.

    python writer.py URL NAME SECONDS

Prints how many results it stored. Calls the store without patience: any "database is locked" ends it with an error.
"""

from __future__ import annotations

import sys
import time

from orchestrator.store.contract import cell, new_sweep, result, trials_of
from orchestrator.store.states import SweepState
from orchestrator.store.store import Store

TRIALS = 50


def main(url: str, name: str, seconds: float) -> None:
    """Write for `seconds`."""
    store = Store.open(url)
    store.register_worker(name, "machine", {"cpu_model": "x"}, executor="inline", device="cpu", pid=1)
    orchestrator = store.register_orchestrator()
    until, written, sweeps = time.monotonic() + seconds, 0, 0
    while time.monotonic() < until:
        asked = [(cell("shared by all writers"), seed, f"{name}:{sweeps}:{seed}") for seed in range(TRIALS)]
        sweep = store.submit(new_sweep(), asked).sweep
        sweeps += 1
        store.set_sweep_state(sweep, SweepState.RUNNING)
        lease = store.claim(sweep, trials_of(store, sweep), name, 60, orchestrator)
        assert lease is not None
        store.renew([lease.attempt], 60)
        store.expire()
        written += store.accept(lease.attempt, name, [result(trial) for trial in lease.trials]).done
        assert store.set_sweep_state(sweep, SweepState.DONE)
        store.delivered([notice.id for notice in store.notices(sweep, 2 * TRIALS)])
    print(written)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))

"""Item cache with time-to-live eviction: the working set."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from models.allocation import LEAST_RECENT, NEW, Records, Rule, close, count_hit, match, open_slot
from models.allocation_memory import AllocationMemory, NoveltyConfig
from models.allocation_reference import reference_match
from models.config import MOST
from models.item_hits import HITS
from models.kernel import kernel
from models.mechanism import Slots, Trace, mechanism
from models.reference import arrivals, unit_keys
from models.stream import Floats, Ints, Stream


class ItemTTLConfig(NoveltyConfig):
    """One slot an item of the working set: items used by the last `window` tokens (Denning, CACM 11(5), 1968).

    The classical memory whose size adapts: what `adaptive_dp_cache` must be measured against.
    """

    name: Literal["item_ttl"] = "item_ttl"
    window: int = Field(ge=1, le=MOST, description="tokens that a slot stays after its last use, that use included")


@mechanism(ItemTTLConfig)
class ItemTTL(AllocationMemory[ItemTTLConfig]):
    """Write O(m d), read O(m d), m at most `window`. Nothing ties. A slot notes its last use.

    A token whose key is within `tau` of a stored one uses the nearest slot, and the slot's value stays. After each
    token the slot that no token has used for `window` tokens leaves.
    """

    batch_over: ClassVar[tuple[str, ...]] = ("window", "tau", "similarity")
    policy: ClassVar[int] = LEAST_RECENT
    metadata_bytes: ClassVar[int] = 4
    counts_hits: ClassVar[bool] = True
    own_metrics: ClassVar[tuple[str, ...]] = (HITS,)

    def slot_cap(self, config: ItemTTLConfig) -> int:
        """A token uses one slot, so the last `window` tokens use no more than that."""
        return config.window

    def allocate(
        self, rows: Floats, first: int, now: int, values: Ints, which: slice, slots: Slots, records: Records
    ) -> None:
        allocate_expiring(rows, first, now, values, self.rule_of(which), slots, records)

    @classmethod
    def reference(
        cls, stream: Stream, config: ItemTTLConfig, rng: np.random.Generator, dtype: str = "float32"
    ) -> Trace:
        keys = unit_keys(stream, dtype)
        trace = Trace()
        last_use: dict[int, int] = {}  # token that opened a slot -> token that used it last
        for t, phase_ends in arrivals(stream):
            opened = list(last_use)
            slot = reference_match(keys[t], keys[opened], config.tau, trace)
            last_use[t if slot is None else opened[slot]] = t
            last_use = {token: use for token, use in last_use.items() if t - use < config.window}
            trace.count(len(last_use))
            if phase_ends:
                trace.record(last_use, stream)
        return trace


@kernel
def allocate_expiring(
    rows: Floats, first: int, now: int, stream_values: Ints, rule: Rule, slots: Slots, records: Records
) -> None:
    """Feed a block of tokens, as `allocate` does, to C memories whose slots live for `rule.cap` [C] tokens."""
    for c in range(len(slots.counts)):
        tokens, values, count = slots.tokens[c], slots.values[c], slots.counts[c]
        score, last, tally = records.score[c], records.last[c], records.tally[c]
        for r in range(len(rows)):
            t, time = first + r, now + r
            count_hit(c, t, tokens, count, records)
            slot = match(rows[r], tokens, count, rule.tau[c])
            if slot == NEW:
                open_slot(count, t, stream_values[t], float(time), time, tokens, values, score, last, tally)
                count += 1
            else:
                last[slot] = time
            for stale in range(count):
                if time - last[stale] == rule.cap[c]:  # one at most, as a token uses one slot
                    close(stale, count, tokens, values, score, last, tally)
                    count -= 1
                    break
            slots.held[c] += count
            slots.peak[c] = max(slots.peak[c], count)
        slots.counts[c] = count

"""Triton kernels for memories that are updated token by token: one program a stream and config, its slots in registers.

Slots lie in no order: a freed place is filled by the last slot. What must go by age goes by token, as the oldest slot
has the lowest. This module imports triton; ask `models.devices.fused.usable` first.
"""
# mypy: disable-error-code="untyped-decorator, no-untyped-def, no-untyped-call, import-not-found, import-untyped"

from __future__ import annotations

import triton
import triton.language as tl

LEAST_USED = tl.constexpr(0)
LEAST_RECENT = tl.constexpr(1)
LEAST_FREQUENT = tl.constexpr(2)
EXPIRING = tl.constexpr(3)
ADAPTIVE = tl.constexpr(4)
NO_TOKEN = tl.constexpr(2**31 - 1)


@triton.jit
def mark(place):
    """Write 1 to `place` [1], which shows that kernels run."""
    tl.store(place, 1)


@triton.jit
def _oldest(tokens, among):
    """Lowest of the `tokens` [W] where `among` holds."""
    return tl.min(tl.where(among, tokens, NO_TOKEN), axis=0)


@triton.jit
def _fill(column, gap, last):
    """`column` [W] with the entry at `last` also at `gap`; both are masks of one place."""
    return tl.where(gap, tl.sum(tl.where(last, column, tl.zeros_like(column)), axis=0), column)


@triton.jit(do_not_specialize=["first", "block"])
def allocate(
    rows, row_stride, stream_stride, stream_values, length, first, block,
    tau_c, cap_c, fading_c, eta_c, beta_c, m0_c, near_one, cap_tie,
    tokens_s, values_s, last_s, score_s, counts_s, rate_s, held,
    configs, policy: tl.constexpr, keep_last: tl.constexpr, bounded: tl.constexpr, width: tl.constexpr,
):  # fmt: skip
    """Feed a block of tokens, with 32-bit cosines `rows` [B, block, n], to memories of `width` places [B, C, width].

    held [B, C, block]: slots in use after each token. The rule is that of `models.devices.allocation`.
    """
    program = tl.program_id(0)
    stream, config = (program // configs).to(tl.int64), program % configs
    places = tl.arange(0, width)
    state = program.to(tl.int64) * width + places
    tokens, values = tl.load(tokens_s + state), tl.load(values_s + state)
    last, score = tl.load(last_s + state), tl.load(score_s + state)
    count, rate = tl.load(counts_s + program), tl.load(rate_s + program)
    tau, cap, fading = tl.load(tau_c + config), tl.load(cap_c + config), tl.load(fading_c + config)
    eta, beta, m0 = tl.load(eta_c + config), tl.load(beta_c + config), tl.load(m0_c + config)
    for r in range(block):
        t = first + r
        in_use = places < count
        cosines = tl.load(rows + stream * stream_stride + r * row_stride + tokens, mask=in_use, other=float("-inf"))
        value = tl.load(stream_values + stream * length + t).to(tl.int32)
        highest = tl.max(cosines, axis=0)
        novelty = tl.where(highest > near_one, 0.0, 1.0 - highest)
        merges = novelty <= tau
        nearest = _oldest(tokens, in_use & (cosines >= tl.minimum(highest, near_one)))
        hit = in_use & (tokens == tl.where(merges, nearest, NO_TOKEN))
        opened = tl.where(merges, 0, tl.minimum(cap, 1))
        entered = places == tl.where(opened > 0, count, width)
        if bounded:
            if policy == LEAST_FREQUENT:
                score = tl.where(hit, score + 1.0, tl.where(entered, 1.0, score))
            elif (policy == LEAST_USED) | (policy == ADAPTIVE):
                raised = tl.log(1.0 + tl.exp(score + (t - last) * fading))
                score = tl.where(hit, raised, tl.where(entered, 0.0, score))
            last = tl.where(hit | entered, t, last)
        values = tl.where(entered | hit if keep_last else entered, value, values)
        tokens = tl.where(entered, t, tokens)
        count += opened
        if bounded:
            limit = cap
            if policy == ADAPTIVE:
                rate = (1.0 - eta) * rate + eta * opened
                limit = tl.maximum(1, tl.floor(m0 + beta * rate + cap_tie).to(tl.int32))
            elif policy == EXPIRING:
                expired = (places < count) & (t - last == cap)
                limit = count - tl.max(expired.to(tl.int32), axis=0)
            while count > limit:
                candidates = places < count
                if policy == EXPIRING:
                    candidates = candidates & (t - last == cap)
                elif (policy == LEAST_USED) | (policy == ADAPTIVE):
                    usage = tl.where(candidates, score + (t - last) * fading, float("inf"))
                    candidates = candidates & (usage <= tl.min(usage, axis=0))
                else:
                    candidates = candidates & (tokens != t)  # room is made before the newcomer enters
                    if policy == LEAST_FREQUENT:
                        uses = tl.where(candidates, score, float("inf"))
                        candidates = candidates & (uses <= tl.min(uses, axis=0))
                    ages = tl.where(candidates, last, NO_TOKEN)
                    candidates = candidates & (ages <= tl.min(ages, axis=0))
                gap, end = (places < count) & (tokens == _oldest(tokens, candidates)), places == count - 1
                values, last, score = _fill(values, gap, end), _fill(last, gap, end), _fill(score, gap, end)
                tokens = _fill(tokens, gap, end)
                count -= 1
        tl.store(held + program.to(tl.int64) * block + r, count)
    tl.store(tokens_s + state, tokens)
    tl.store(values_s + state, values)
    tl.store(last_s + state, last)
    tl.store(score_s + state, score)
    tl.store(counts_s + program, count)
    tl.store(rate_s + program, rate)


@triton.jit(do_not_specialize=["first", "block"])
def evict_unattended(
    rows, row_stride, stream_stride, first, block, budget_c, protected_c, temperature, tie,
    tokens_s, score_s, configs, summed: tl.constexpr, width: tl.constexpr,
):  # fmt: skip
    """Offer a block of tokens, with cosines `rows` [B, block, n], to memories of `width` places [B, C, width].

    The slot leaves that has drawn least attention in all (`summed`; ties are fractions), or that the newest token is
    least like (ties are absolute); the newest `protected` stay.
    """
    program = tl.program_id(0)
    stream, config = (program // configs).to(tl.int64), program % configs
    places = tl.arange(0, width)
    state = program.to(tl.int64) * width + places
    tokens, score = tl.load(tokens_s + state), tl.load(score_s + state)
    budget, protected = tl.load(budget_c + config), tl.load(protected_c + config)
    count = tl.minimum(first, budget)
    for r in range(block):
        t = first + r
        tokens = tl.where(places == count, t, tokens)
        score = tl.where(places == count, 0.0, score)
        count += 1
        in_use = places < count
        cosines = tl.load(rows + stream * stream_stride + r * row_stride + tokens, mask=in_use, other=float("-inf"))
        if summed:
            weights = tl.exp((cosines - tl.max(cosines, axis=0)) / temperature)
            score += weights / tl.sum(weights, axis=0)
        else:
            score = cosines
        if count > budget:
            candidates = in_use & (tokens <= t - protected)
            least = tl.min(tl.where(candidates, score, float("inf")), axis=0)
            border = least * (1.0 + tie) if summed else least + tie
            gap = in_use & (tokens == _oldest(tokens, candidates & (score <= border)))
            end = places == count - 1
            score = _fill(score, gap, end)
            tokens = _fill(tokens, gap, end)
            count -= 1
    tl.store(tokens_s + state, tokens)
    tl.store(score_s + state, score)

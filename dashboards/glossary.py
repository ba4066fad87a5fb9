"""What the words of a report mean: metrics, terms, and the mechanisms that took part."""

from __future__ import annotations

import inspect
from collections.abc import Iterable

METRICS = {
    "recall": "Share of right answers to the queries that the workload asks: one stored item per episode, or every "
    "item where the stream is a recording. On streams of an attention layer the right answer is the class of the token "
    "with the layer's largest logit, while memories read by cosines. Averaged over the episodes of a trial.",
    "recall_all": "Share of right answers when every stored item is asked for: on average the same as recall where the "
    "one item is drawn at random, with less noise.",
    "recall_credited": "recall, with an empty memory credited with chance instead of a wrong answer.",
    "abstained": "Share of queries that met an empty memory.",
    "chance": "Recall of an answer drawn at random; in figures of recall the dashed line.",
    "slots": "Entries a memory holds at the end of the stream, as counted, not as asked for.",
    "slots_peak": "The most entries held after any token.",
    "slots_mean": "Entries held, averaged over tokens.",
    "slots_phase_end": "Entries held, averaged over the ends of phases.",
    "bytes": "Size of what is stored at the end: keys, values and what the policy keeps for each slot. This is the "
    "size that is comparable across mechanisms.",
    "bytes_peak": "The same at the moment when most entries are held.",
    "bytes_metadata": "The part of bytes that the policy keeps beside keys and values.",
    "hits": "Share of tokens whose item a cache holds when they come. An item's first token is never a hit. "
    "Counted on CPUs only.",
    "attention_error": "On streams of an attention layer: distance of a query's output from full attention's, over the "
    "length of that; mean over queries.",
    "top1_agreement": "On streams of an attention layer: share of queries whose heaviest token is that of full "
    "attention.",
    "tokens": "Tokens in a stream.",
    "items": "Distinct items in a stream.",
    "build_us_per_token": "Microseconds to write one token, in a batch that may share work between mechanisms.",
    "read_us_per_query": "Microseconds to answer one query, in a batch that may share work between mechanisms.",
    "lines_per_second": "Log lines that a parser took a second, its masks and the numbering of words included.",
}

TERMS = {
    "cell": "A workload and a mechanism with all their settings. Intervals are over the seeds of a cell.",
    "n": "Seeds behind a number. Mechanisms share seeds, and with them streams.",
}

FRONTIER_TERMS = {
    "frontier": "The best recall reachable at or under each size: a staircase through the points that no other point "
    "of the same curve beats. Filled marks are on it, hollow marks are not.",
    "band": "On each step of a staircase, the interval of the point that sets it. It holds point by point, not for "
    "the whole staircase at once; bands that overlap do not show that two mechanisms are equal.",
    "hypervolume": "Share of the unit square that a frontier covers when size is divided by the reference size: 1 is "
    "perfect recall at no size, 0 is no better than holding the whole stream.",
    "area": "Mean height of the staircase over the logarithm of size, over the stated range. Below a curve's smallest "
    "size the height is 0: that memory does not exist there.",
}

UNKNOWN = "No description: this mechanism is not installed here."


def term_definitions(*, frontier: bool) -> dict[str, str]:
    """Terms of every report, and those of a frontier where there is one."""
    return TERMS | FRONTIER_TERMS if frontier else TERMS


def metric_definitions(names: Iterable[str]) -> dict[str, str]:
    """Definitions of those of `names` that have one, in the order of METRICS."""
    wanted = set(names)
    return {name: text for name, text in METRICS.items() if name in wanted}


def mechanism_definitions(names: Iterable[str]) -> dict[str, str]:
    """The first paragraph of each mechanism's own documentation, in the order of `names`."""
    from models.mechanism import MECHANISMS

    return {
        name: _first_paragraph(MECHANISMS.config_class(name)) if name in MECHANISMS else UNKNOWN
        for name in dict.fromkeys(names)
    }


def documented(names: Iterable[str]) -> list[str]:
    """Those of `names` that are names of mechanisms installed here."""
    from models.mechanism import MECHANISMS

    return [name for name in names if name in MECHANISMS]


def _first_paragraph(documented: type) -> str:
    return " ".join((inspect.getdoc(documented) or UNKNOWN).split("\n\n")[0].split())

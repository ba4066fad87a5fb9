"""Training: sequence models side by side, each over many seeds, with what they cost and how their losses fall."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from models.leaks import leaks_future
from tasks.cells import LEAKS, Row
from tasks.comparisons import compare_all, every_pair
from tasks.difference_table import difference_table, power_sentence, superior
from tasks.kind import NOTHING_ASKED, Asked, Kind, KindConfig, kind
from tasks.labels import ANY, POSITIVE, SHARE, NamedCell, by_workload, legible, named_cells
from tasks.proportions import wilson_interval
from tasks.search import Direction
from tasks.state_sections import state_section
from tasks.statistics import deviation
from tasks.summary import Chart, Grid, Section, Summary, Value

SCORES = {
    "recall": ("recall", SHARE),
    "score": ("score", SHARE),
    "bits_per_byte": ("bits per byte", ANY),
    "loss": ("loss, nats", ANY),
}
"""What models are compared by, the first that a workload measures; with the heading, and bounds."""

LOWER = ("bits_per_byte", "loss")
"""Of these scores lower ones are better."""

OTHERS = {"loss": "loss, nats", "perplexity": "perplexity", "answerable": "answerable"}

OTHER_TESTS = re.compile(r"metrics\.recall_(\d+)_(ids|pairs)")
"""Columns of recall on sequences that are not as those that were trained on."""

SOLVED = 0.9
"""Recall from which a seed counts as one that has found the rule."""

MARGINS = {"recall": 0.01, "score": 0.01, "bits_per_byte": 0.02, "loss": 0.02}
"""Means that differ by less are called equal, where an equivalence test shows it."""


class TrainingConfig(KindConfig):
    """Sequence models trained on token ids: scores over seeds, sizes, costs, learning curves."""

    name: Literal["training"] = "training"


@kind(TrainingConfig)
class Training(Kind):
    """Every model trains on the same sequences with the same seeds, so that differences are paired."""

    sequences = True

    starter = """\
name: my-models            # names the sweep, here and in MLflow
kind: training             # sequence models side by side: scores over seeds, sizes, costs, learning curves

# What makes the sequences. `slotsweep list workloads` shows all workloads and their fields.
workload: {name: token_recall, pairs: 4, length: 128}

# Every model sees the same sequences, seed by seed.
mechanisms:
  - {name: transformer, steps: 200}
  - {name: triple_latent, steps: 200}

seeds: 3                   # each trains a model of its own
episodes: 2048             # sequences that a trained model is tested on
"""

    @classmethod
    def summarise(cls, rows: Sequence[Row], asked: Asked = NOTHING_ASKED) -> Summary:
        from tasks.frontier import summarise

        sections: list[Section] = []
        groups = by_workload(rows, asked.until)
        for number, title, cells in groups:
            metric = next((name for name in SCORES if any(cell.values(name) for cell in cells)), None)
            if metric is None:
                continue
            sections += [
                _scores(number, title, cells, metric, f"{title}: " if len(groups) > 1 else ""),
                *state_section(number, title, cells),
                *_longer(number, title, cells),
                _seeds(number, title, cells, metric),
                *_differences(number, title, cells, metric),
                *_curves(number, title, cells, metric),
            ]
        summary = summarise(rows, asked.until)
        asking = tuple(panel for panel in summary.panels if panel.asks)
        warnings = (*summary.warnings, *_silent(named_cells(rows, asked.until)))
        return replace(summary, panels=asking, sections=tuple(sections), warnings=warnings)


def _silent(cells: Sequence[NamedCell]) -> Iterator[str]:
    """A sentence on each mechanism that was found to look at later tokens, and does not say so of itself."""
    found = [cell.cell.mechanism for cell in cells if LEAKS in cell.label and not leaks_future(cell.cell.mechanism)]
    for name in dict.fromkeys(str(mechanism["name"]) for mechanism in found):
        yield (
            f"outputs of {name} depend on later tokens, as was measured, though its config does not say so "
            "(`leaks_future`): results are marked"
        )


def _scores(number: int, title: str, cells: Sequence[NamedCell], metric: str, where: str) -> Section:
    """What each model reaches, and what it takes. `where` leads the sentence that says which is best."""
    heading, bounds = SCORES[metric]
    others = {
        name: text for name, text in OTHERS.items() if name != metric and any(cell.values(name) for cell in cells)
    }
    columns = (
        "model",
        heading,
        *others.values(),
        "parameters",
        "bytes",
        "steps",
        "training, s",
        "tokens a second",
        "n",
    )
    rows = tuple(
        (
            cell.label,
            cell.mean(metric, bounds),
            *(cell.mean(name) for name in others),
            _only(cell, "parameters"),
            _only(cell, "bytes"),
            _trained(cell),
            cell.mean("training_seconds", POSITIVE),
            cell.mean("training_tokens_per_second", POSITIVE),
            len(cell.values(metric)),
        )
        for cell in cells
    )
    text = (where + _found(cells, metric), *_remarks(cells, metric))
    return Section(f"models-{number}", f"Models: {title}", text, Grid(columns, rows), finding=True)


def _found(cells: Sequence[NamedCell], metric: str) -> str:
    """The best of those that do not look ahead, and the first of the spec if it has results."""
    known = [cell for cell in cells if cell.values(metric)]
    fair = [cell for cell in known if LEAKS not in cell.label] or known
    word, choose = ("Lowest", min) if metric in LOWER else ("Highest", max)
    best = choose(fair, key=lambda cell: cell.average(metric))
    said = f"{word} {SCORES[metric][0]}: {_told(best, metric)}."
    if cells[0] is best or cells[0] is not known[0]:
        return said
    return f"{said} The first of the spec: {_told(cells[0], metric)}."


def _told(cell: NamedCell, metric: str) -> str:
    """A cell's score in words, with its interval and its worst seed."""
    _, bounds = SCORES[metric]
    values, interval = list(cell.values(metric).values()), cell.mean(metric, bounds)
    if interval is None or interval.low is None or interval.high is None:
        return f"{cell.label} with {values[0]:.3f} (one seed)"
    worst = max(values) if metric in LOWER else min(values)
    return (
        f"{cell.label} with {interval.mean:.3f} [{interval.low:.3f}, {interval.high:.3f}], "
        f"worst of {len(values)} seeds {worst:.3f}"
    )


def _remarks(cells: Sequence[NamedCell], metric: str) -> Iterator[str]:
    yield (
        "Means over seeds with 95% intervals, after the last step of training. Bytes are those of parameters and of "
        "the state after a sequence of full length; steps are those of training, and the sequences read at each. "
        "Seconds and tokens a second are of training on the machines below, of one that was interrupted of all its "
        "parts: the `wall_seconds` of its trial are of the last part alone."
    )
    if len({_trained(cell) for cell in cells} - {None}) > 1:
        yield (
            "These models did not all train for as many steps with as many sequences each (see `steps`): what differs "
            "between them may be due to that."
        )
    if any(LEAKS in cell.label for cell in cells):
        yield (
            "Outputs of the models that are marked so depend on later tokens. Where every position is scored their "
            "losses are no scores of predictions, and not comparable with those of the others."
        )
    unigram = [value for cell in cells for value in cell.values("unigram_bits").values()]
    if metric == "bits_per_byte" and unigram:
        yield (
            f"Bytes drawn by their frequency in the training text alone would cost {unigram[0]:.3f} bits each: a model "
            "above that has not yet learned more than the frequencies."
        )


def _trained(cell: NamedCell) -> str | None:
    """How long a model trained: `500 x 32`, steps and the sequences of each."""
    fields = cell.cell.mechanism
    return f"{fields['steps']:,} x {fields['batch']:,}" if {"steps", "batch"} <= fields.keys() else None


def _only(cell: NamedCell, metric: str) -> Value:
    """A number that is the same for every seed."""
    return next(iter(cell.values(metric).values()), None)


def _longer(number: int, title: str, cells: Sequence[NamedCell]) -> Iterator[Section]:
    """Recall of longer sequences, and of more pairs, than any that was trained on."""
    names = {name for cell in cells for row in cell.done.values() for name in row}
    tested = sorted(
        (found[2] == "ids", int(found[1]), found[2]) for name in names if (found := OTHER_TESTS.fullmatch(name))
    )
    metrics = [f"recall_{count}_{what}" for _, count, what in tested]
    if metrics:
        columns = ("model", "recall", *(f"{count} {what}" for _, count, what in tested), "n")
        rows = tuple(
            (cell.label, *(cell.mean(metric, SHARE) for metric in ("recall", *metrics)), len(cell.values("recall")))
            for cell in cells
            if any(cell.values(metric) for metric in metrics)
        )
        text = ("Recall of the same models on sequences of more ids, or of more pairs, than any that they trained on.",)
        yield Section(f"longer-{number}", f"Beyond the training: {title}", text, Grid(columns, rows), leading=True)


def _seeds(number: int, title: str, cells: Sequence[NamedCell], metric: str) -> Section:
    """How the score is distributed over seeds; of recall also who found the rule, and who answers always the same."""
    heading, bounds = SCORES[metric]
    asks = any(cell.values("commonest") for cell in cells)
    text = [f"{heading[0].upper()}{heading[1:]} of single seeds."]
    columns = ["model", heading, "sd", "least", "median", "most"]
    if asks:
        columns += [f"recall of {SOLVED:g} or more", "always one answer", "best constant"]
        text.append(
            "A model that always gives one answer is right as often as that answer is asked for: its recall tells of "
            "the test set, and not of the model. `best constant` is the recall of the best such answer."
        )
    rows = tuple(_distribution(cell, metric, bounds, asks) for cell in cells)
    return Section(f"seeds-{number}", f"Seeds: {title}", tuple(text), Grid((*columns, "n"), rows), leading=True)


def _distribution(cell: NamedCell, metric: str, bounds: tuple[float, float], asks: bool) -> tuple[Value, ...]:
    values = np.array(list(cell.values(metric).values()))
    count = len(values)
    numbers: list[Value] = [None] * 4
    if count:
        sd = deviation(values) if count > 1 else None
        numbers = [sd, float(values.min()), float(np.median(values)), float(values.max())]
    if asks:
        constant = np.array(list(cell.values("commonest").values())) == 1.0
        shares = [
            wilson_interval(int(held.sum()), count, "seeds") if len(held) else None
            for held in (values >= SOLVED, constant)
        ]
        numbers += [*shares, cell.mean("constant", SHARE)]
    return cell.label, cell.mean(metric, bounds), *numbers, count


def _differences(number: int, title: str, cells: Sequence[NamedCell], metric: str) -> Iterator[Section]:
    """Every model with every one before it, or, where that would be very many, with the first."""
    samples = {cell.label: cell.values(metric) for cell in cells}
    pairs = every_pair(list(samples))
    if not any(samples.values()) or not pairs:
        return
    better: Direction = "minimize" if metric in LOWER else "maximize"
    compared = compare_all(samples, pairs, MARGINS[metric], None, better)
    heading, _ = SCORES[metric]
    text = (
        f"{heading[0].upper()}{heading[1:]} of the first model of a row less that of the second, paired by seed; "
        f"p-values adjusted for {len(compared)} comparison{'' if len(compared) == 1 else 's'}. {superior(better)}",
        *power_sentence(compared),
    )
    yield Section(f"differences-{number}", f"Differences: {title}", text, difference_table(compared, pairs))


def _curves(number: int, title: str, cells: Sequence[NamedCell], metric: str) -> Iterator[Section]:
    """How losses fall in training, and scores where they were taken on the way."""
    shown = legible(cells)
    names = {"training_loss": "training loss, nats", f"evaluated_{metric}": SCORES[metric][0]}
    charts = [
        Chart("step" if all(cell.steps(name) for cell in having) else "point of the training", text, lines)
        for name, text in names.items()
        if (having := [cell for cell in shown if cell.series(name) is not None])
        and (lines := tuple(line for cell in having if (line := cell.line(name))))
    ]
    if charts:
        text = "Means over seeds in the course of the training, with 95% intervals, at steps that all seeds noted."
        yield Section(f"training-{number}", f"Training: {title}", (text,), None, tuple(charts))

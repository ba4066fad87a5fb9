"""What a report of trained models says: scores, seeds that answer always the same, marks, charts."""

from __future__ import annotations

from typing import Any

import numpy as np

from models.mechanism import MECHANISMS
from tasks.kind import KINDS
from tasks.kinds.training import Training
from tasks.summary import Interval, Section, Summary

CURVE = [4.0, 3.0, 2.5]


def rows(name: str, scores: list[dict[str, float]], workload: dict[str, Any] | None = None, **fields: Any) -> list[Any]:
    """Rows of one model, one a seed, with these metrics."""
    mechanism: Any = MECHANISMS.config_class(name)(**fields)
    shared = {f"workload.{key}": value for key, value in (workload or {"name": "token_recall", "length": 16}).items()}
    shared |= {f"mechanism.{key}": value for key, value in mechanism.identity().items()}
    always = {"parameters": 100.0, "bytes": 500.0, "training_seconds": 2.0, "training_tokens_per_second": 1000.0}
    always["leaks_future"] = float(mechanism.leaks_future)
    return [
        {"state": "done", "seed": seed, "episodes": 2048, "series.training_loss": CURVE, **shared}
        | {f"metrics.{key}": value for key, value in (always | metrics).items()}
        for seed, metrics in enumerate(scores)
    ]


def recall(value: float, commonest: float = 0.3) -> dict[str, float]:
    return {"recall": value, "loss": 2.0 - value, "chance": 0.125, "constant": 0.14, "commonest": commonest}


def table(summary: Summary, name: str) -> list[dict[str, Any]]:
    [section] = [part for part in summary.sections if part.name == name]
    assert section.table is not None
    return [dict(zip(section.table.columns, row, strict=True)) for row in section.table.rows]


def section(summary: Summary, name: str) -> Section:
    return next(part for part in summary.sections if part.name == name)


def test_seeds_that_found_the_rule_and_seeds_that_say_nothing_are_counted() -> None:
    lottery = [recall(1.0), recall(0.134, 1.0), recall(0.12, 1.0), recall(0.2)]
    summary = KINDS.implementation("training").summarise(rows("triple_memory", lottery) + rows("transformer", lottery))
    first, second = table(summary, "seeds-1")
    assert (first["model"], second["model"]) == ("triple_memory", "transformer")
    assert (first["least"], first["most"], first["n"]) == (0.12, 1.0, 4)
    assert first["median"] == np.median([1.0, 0.134, 0.12, 0.2])
    assert first["recall of 0.9 or more"].mean == 0.25
    assert first["always one answer"].mean == 0.5
    assert first["always one answer"].method.startswith("Wilson")
    assert first["best constant"].mean == 0.14
    [models, _] = table(summary, "models-1")
    assert models["parameters"] == 100.0
    assert models["loss, nats"].n == 4


def test_what_was_found_is_said_first_and_the_first_of_the_spec_beside_it() -> None:
    first, best = rows("triple_memory", [recall(0.1), recall(0.2)]), rows("transformer", [recall(0.9), recall(0.7)])
    [said, *_] = section(Training.summarise(first + best), "models-1").text
    assert said.startswith("Highest recall: transformer with 0.800 [")
    assert "worst of 2 seeds 0.700. The first of the spec: triple_memory with 0.150 [" in said
    failed = [row | {"state": "failed"} for row in first]
    [said, *_] = section(Training.summarise(failed + best), "models-1").text
    assert "The first of the spec" not in said
    several = best + rows("transformer", [recall(0.5)], {"name": "token_recall", "length": 32})
    summary = Training.summarise(several)
    assert section(summary, "models-2").text[0] == "length 32: Highest recall: transformer with 0.500 (one seed)."


def test_recall_beyond_the_training_has_a_table() -> None:
    longer = [{**recall(0.9), "recall_256_ids": 0.5, "recall_1024_ids": 0.25, "recall_5_pairs": 0.75}]
    [found] = table(Training.summarise(rows("transformer", longer) + rows("triple_latent", [recall(0.1)])), "longer-1")
    assert list(found) == ["model", "recall", "5 pairs", "256 ids", "1024 ids", "n"]
    assert found["1024 ids"].mean == 0.25


def test_text_is_scored_in_bits_beside_what_frequencies_give() -> None:
    text = {"name": "wikitext2", "length": 128}
    bits = [{"bits_per_byte": b, "loss": b / 1.44, "perplexity": 2.0**b, "unigram_bits": 4.6} for b in (5.0, 5.2, 5.1)]
    summary = Training.summarise(rows("transformer", bits, text) + rows("triple_latent", bits[::-1], text))
    found = table(summary, "models-1")
    assert isinstance(found[0]["bits per byte"], Interval)
    assert found[0]["perplexity"].mean == np.mean([2.0**5.0, 2.0**5.2, 2.0**5.1])
    assert "4.600 bits" in " ".join(section(summary, "models-1").text)
    assert "always one answer" not in table(summary, "seeds-1")[0]
    assert not summary.panels, "text has no frontier of recall"


def test_models_that_look_ahead_are_marked_in_every_table_and_chart() -> None:
    text = {"name": "wikitext2", "length": 128}
    bits = [{"bits_per_byte": b, "loss": b} for b in (1.0, 1.1, 1.2)]
    both = [rows("triple_hybrid", bits, text, convolution=one) for one in ("two_sided", "causal")]
    summary = Training.summarise([*both[0], *both[1]])
    named = [row["model"] for name in ("models-1", "seeds-1") for row in table(summary, name)]
    named += [line.label for line in section(summary, "training-1").charts[0].lines]
    assert named == ["triple_hybrid two_sided (leaks future)", "triple_hybrid causal"] * 3
    assert "no scores of predictions" in " ".join(section(summary, "models-1").text)
    assert "(leaks future)" in str(table(summary, "differences-1"))
    honest = Training.summarise(both[1])
    assert "no scores of predictions" not in " ".join(section(honest, "models-1").text)


def test_what_is_measured_counts_and_not_what_a_model_says_of_itself() -> None:
    text = {"name": "wikitext2", "length": 128}
    summary = Training.summarise(rows("triple_latent", [{"bits_per_byte": 1.0, "leaks_future": 1.0}], text))
    assert [row["model"] for row in table(summary, "models-1")] == ["triple_latent (leaks future)"]
    assert "outputs of triple_latent depend on later tokens, as was measured" in " ".join(summary.warnings)
    said = rows("triple_hybrid", [{"bits_per_byte": 1.0}], text, convolution="two_sided")
    assert "as was measured" not in " ".join(Training.summarise(said).warnings)


def test_times_and_rates_of_few_seeds_are_not_negative() -> None:
    times = [recall(0.5) | {"training_seconds": t, "training_tokens_per_second": 1 / t} for t in (1.0, 9.0)]
    [model] = table(Training.summarise(rows("transformer", times)), "models-1")
    assert model["training, s"].low == model["tokens a second"].low == 0.0


def test_differences_are_paired_by_seed() -> None:
    better = [recall(0.5), recall(0.6), recall(0.7)]
    worse = [recall(0.4), recall(0.5), recall(0.6)]
    summary = Training.summarise(rows("triple_memory", better) + rows("transformer", worse))
    [found] = table(summary, "differences-1")
    assert (found["mechanism"], found["less"]) == ("transformer", "triple_memory")
    assert abs(found["difference"].mean + 0.1) < 1e-12


def test_recall_against_bytes_is_a_frontier() -> None:
    summary = Training.summarise(rows("triple_memory", [recall(0.5)]) + rows("transformer", [recall(0.4)]))
    assert len(summary.panels) == 1
    assert [curve.label for curve in summary.panels[0].curves] == ["triple_memory", "transformer"]


def test_nothing_finished_is_no_error() -> None:
    pending = [{**row, "state": "failed", "metrics.recall": None} for row in rows("transformer", [recall(0.4)])]
    for row in pending:
        for key in [key for key in row if key.startswith(("metrics.", "series."))]:
            row[key] = None
    summary = Training.summarise(pending)
    assert summary.warnings


def noted(name: str, steps: list[list[float]], losses: list[list[float]]) -> list[Any]:
    """Rows of a model whose seeds noted losses at steps of their own."""
    found = rows(name, [recall(0.5) for _ in steps])
    for row, at, values in zip(found, steps, losses, strict=True):
        row |= {"series.training_step": at, "series.training_loss": values}
    return found


def test_curves_stand_at_the_steps_that_every_seed_noted() -> None:
    summary = Training.summarise(noted("transformer", [[1, 50, 100], [1, 50, 70, 100]], [[4, 3, 2], [4, 1, 7, 0]]))
    [chart] = section(summary, "training-1").charts
    assert chart.x_label == "step"
    assert (chart.lines[0].x, chart.lines[0].y) == ((1.0, 50.0, 100.0), (4.0, 2.0, 1.0))


def test_curves_without_steps_are_counted_by_points() -> None:
    summary = Training.summarise(rows("transformer", [recall(0.5)]))
    [chart] = section(summary, "training-1").charts
    assert (chart.x_label, chart.lines[0].x) == ("point of the training", (1.0, 2.0, 3.0))


def test_of_bits_the_lower_is_superior_and_the_text_says_so() -> None:
    text = {"name": "wikitext2", "length": 128}
    worse, better = ([{"bits_per_byte": b, "loss": b} for b in bits] for bits in ((5.0, 5.2, 5.1), (4.0, 4.1, 4.2)))
    summary = Training.summarise(rows("transformer", worse, text) + rows("triple_latent", better, text))
    [found] = table(summary, "differences-1")
    assert (found["mechanism"], found["superior"].mean) == ("triple_latent", 1.0)
    assert "below, for lower is better" in " ".join(section(summary, "differences-1").text)
    by_recall = Training.summarise(rows("transformer", [recall(0.1)]) + rows("triple_latent", [recall(0.9)]))
    assert table(by_recall, "differences-1")[0]["superior"].mean == 1.0
    assert "is above" in " ".join(section(by_recall, "differences-1").text)


def test_the_table_tells_how_long_each_model_trained() -> None:
    both = [rows("transformer", [recall(0.5)], steps=steps, batch=8) for steps in (100, 2000)]
    summary = Training.summarise([*both[0], *both[1]])
    assert [row["steps"] for row in table(summary, "models-1")] == ["100 x 8", "2,000 x 8"]
    assert "did not all train" in " ".join(section(summary, "models-1").text)
    assert "did not all train" not in " ".join(section(Training.summarise(both[0]), "models-1").text)


def test_where_nothing_has_slots_the_report_has_no_axis_of_slots() -> None:
    summary = Training.summarise(rows("triple_memory", [recall(0.995)] * 2) + rows("transformer", [recall(0.4)] * 2))
    assert summary.axes == summary.panels[0].axes == ("bytes",)

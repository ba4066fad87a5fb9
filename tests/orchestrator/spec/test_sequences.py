"""Sequence models stand beside workloads of token ids, and are warned of where they look ahead."""

from __future__ import annotations

import pytest

from orchestrator.doubts import doubts
from orchestrator.plan import Plan, trains_together
from orchestrator.spec import SpecError, read_spec
from tasks.devices import classes_for

SPEC = """\
name: models
kind: training
workload: {name: token_recall}
mechanisms: [{name: transformer, steps: 2}, {name: triple_hybrid, steps: 2}]
seeds: 2
"""


def refused(text: str) -> str:
    with pytest.raises(SpecError) as caught:
        read_spec(text)
    return str(caught.value)


def test_a_memory_of_streams_is_refused_beside_token_ids_and_the_other_way_round() -> None:
    text = refused(SPEC.replace("{name: triple_hybrid, steps: 2}", "{name: dp_cache}"))
    assert ":4:45: `mechanisms.1`: dp_cache reads streams of keys and values" in text
    assert "`token_recall` makes token ids" in text
    text = refused(SPEC.replace("token_recall", "associative_recall"))
    assert ":4:14: `mechanisms.0`: transformer reads token ids, and `associative_recall` makes streams" in text


def test_a_job_type_that_trains_nothing_is_refused_with_those_that_do() -> None:
    text = refused(SPEC.replace("kind: training", "kind: adaptive"))
    assert ":3:11: `token_recall` makes token ids" in text
    assert "`kind: training`" in text


def test_metrics_are_those_of_workload_and_model() -> None:
    until = SPEC.replace("seeds: 2", "seeds: {until: {metric: METRIC, half_width: 0.1, max: 5}}")
    assert read_spec(until.replace("METRIC", "recall")).until is not None
    assert "slots" in refused(until.replace("METRIC", "slots"))
    assert "is a time" in refused(until.replace("METRIC", "training_seconds"))
    assert "bits_per_byte" in refused(until.replace("METRIC", "bits_per_byte"))


def test_looking_ahead_is_noticed() -> None:
    assert Plan(read_spec(SPEC)).leaking == ()
    spec = read_spec(SPEC.replace("triple_hybrid,", "triple_hybrid, convolution: two_sided,"))
    assert Plan(spec).leaking == ("triple_hybrid",)


def test_searched_values_that_look_ahead_are_noticed() -> None:
    tuned = """\
name: tuned
kind: tuning
workload: {name: token_recall, pairs: 4, length: 64}
mechanisms: [{name: triple_hybrid, steps: 1}, {name: unimatrix, steps: 1}]
search:
  mechanism.learning_rate: {low: 0.001, high: 0.01, log: true}
objectives: {loss: minimize}
trials: 2
seeds: 2
held_out: 0
"""
    assert (Plan(read_spec(tuned)).leaking, Plan(read_spec(tuned)).may_leak) == ((), ())
    always = Plan(read_spec(tuned.replace("triple_hybrid,", "triple_hybrid, convolution: two_sided,")))
    assert (always.leaking, always.may_leak) == (("triple_hybrid",), ())
    some = "search:\n  triple_hybrid.convolution: {choices: [two_sided, causal]}\n"
    some += "  unimatrix.depth_state: {choices: [reset, carried]}\n  unimatrix.layers: {low: 1, high: 3}\n"
    searched = Plan(read_spec(tuned.replace("search:\n", some)))
    assert (searched.leaking, searched.may_leak) == ((), ("triple_hybrid", "unimatrix"))


@pytest.mark.parametrize(("device", "together"), [("cpu", False), ("any", False), ("cuda", True), ("mps", True)])
def test_seeds_train_together_on_accelerators_alone(device: str, together: bool) -> None:
    plan = Plan(read_spec(f"{SPEC}device: {device}\n"))
    assert [trains_together(cell) for cell in plan.cells] == [together] * 2


def test_first_sequences_are_as_long_as_a_workload_can_make_them() -> None:
    spec = SPEC.replace("{name: transformer,", "{name: transformer, growing_steps: 1, first_length: FIRST,")
    for first, why in (
        ("15", "15 ids (`first_length`), where token_recall needs 16 ids or more"),
        ("129", "129 ids (`first_length`), where token_recall has 128"),
        ("{values: [20, 200]}", "200 ids (`first_length`), where token_recall has 128"),
    ):
        text = refused(spec.replace("FIRST", first))
        assert f":4:66: `mechanisms.0`: first training sequences of {why}" in text
        assert "expected a whole number from 16 to 128" in text
    assert read_spec(spec.replace("FIRST", "{values: [16, 128]}")).cells == 3
    both = "[{name: mqar, pairs: {values: [4, 10]}}, {name: token_recall, length: {values: [50, 60]}}]"
    text = refused(spec.replace("{name: token_recall}", both).replace("FIRST", "39"))
    assert "39 ids (`first_length`), where mqar needs 40 ids or more" in text
    assert "expected a whole number from 40 to 50" in text


def test_pairs_that_do_not_fit_are_refused_at_their_place() -> None:
    text = refused(SPEC.replace("{name: token_recall}", "{name: token_recall, pairs: 8, length: {values: [40, 20]}}"))
    assert ":3:11: `workload`: 8 pairs need a `length` of 28 or more (at length = 20)" in text


MIXED = """\
name: mixed
kind: training
workload: {name: mqar, pairs: 2, length: 16, vocabulary: 32}
mechanisms: [{name: transformer, steps: 2}, {name: dp_cache}]
seeds: 2
"""


def test_what_makes_both_is_read_by_models_and_by_memories() -> None:
    assert len(Plan(read_spec(MIXED)).cells) == 2
    frontier = MIXED.replace("kind: training", "kind: frontier")
    text = refused(frontier)
    assert ":4:14: `mechanisms.0`: transformer is a sequence model, which is trained: not for `kind: frontier`" in text
    assert "`kind: training`" in text
    assert len(Plan(read_spec(frontier.replace("{name: transformer, steps: 2}, ", ""))).cells) == 1


def test_memories_that_are_trained_on_streams_are_refused_where_these_differ() -> None:
    text = refused(MIXED.replace("{name: dp_cache}", "{name: mlp_gate, budget: 8}"))
    assert ":4:45: `mechanisms.1`: mlp_gate trains on streams that ask at the same tokens, unlike `mqar`'s" in text


def test_streams_of_mqar_are_read_by_cpus_and_its_ids_by_any_device() -> None:
    spec = read_spec(f"{MIXED}device: any\n")
    [workload] = spec.workloads()
    able = [classes_for("any", "training", one, "float32", workload) for one in spec.mechanism_configs()]
    assert able == [{"cpu", "cuda", "mps"}, {"cpu"}]


def test_untrained_places_are_doubted_where_longer_sequences_are_tested() -> None:
    longer = MIXED.replace("length: 16", "length: 16, most_length: 64").replace(", {name: dp_cache}", "")
    [doubt] = doubts(Plan(read_spec(longer)))
    assert "`positions: learned` for places up to 16, and tests on up to 64 ids" in doubt
    assert not doubts(Plan(read_spec(longer.replace("steps: 2", "steps: 2, positions: none"))))

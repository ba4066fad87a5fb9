"""Training of sequence models: every trial gets what it would get alone, goes on after interruptions, fails alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tasks.saved_training
import tasks.training
from models.config import canonical_json
from models.mechanism import MECHANISMS
from models.mechanisms.transformer import TransformerConfig
from models.mechanisms.triple_hybrid import TripleHybridConfig
from models.mechanisms.triple_latent import TripleLatent, TripleLatentConfig
from models.mechanisms.unimatrix import UniMatrixConfig
from models.sequence.triple_models import TripleModel
from tasks.evaluate import TIMING_METRICS, Outcome
from tasks.training import TRAINED_METRICS, Lane, LaneTraining, TrainingRun, train
from tasks.workloads.token_recall import TokenRecall, TokenRecallConfig

WORKLOAD = TokenRecall(TokenRecallConfig(pairs=2, length=16))
SMALL: dict[str, Any] = {"width": 16, "layers": 1, "heads": 2, "steps": 6, "batch": 4}


def lane(seed: int, **fields: Any) -> Lane:
    return Lane(TransformerConfig(**{**SMALL, **fields}), seed)


def run(*lanes: Lane, device: Any = "cpu", **options: Any) -> list[Outcome]:
    return train(TrainingRun(device, WORKLOAD, 32, "float32", **options), lanes)


def numbers(outcome: Outcome) -> dict[str, float]:
    """Metrics that are no times."""
    assert outcome.metrics is not None, outcome.message
    return {name: value for name, value in outcome.metrics.items() if name not in TIMING_METRICS}


def test_trials_measure_what_they_say() -> None:
    [outcome] = run(lane(7))
    assert set(numbers(outcome)) == {*TRAINED_METRICS, *TokenRecall.own_metrics}
    assert outcome.metrics is not None
    assert outcome.metrics["leaks_future"] == 0.0
    assert len(outcome.series["training_loss"]) == 6
    assert outcome.metrics["training_loss"] == outcome.series["training_loss"][-1]
    # 2 layers of keys and values [16 tokens, 16 numbers] in 32 bits
    assert outcome.metrics["bytes_state"] == 2 * 16 * 16 * 4
    assert outcome.metrics["bytes"] == 4 * outcome.metrics["parameters"] + outcome.metrics["bytes_state"]


def test_what_sees_later_tokens_is_trained_and_has_no_state() -> None:
    for config in (
        TripleHybridConfig(**SMALL, convolution="two_sided"),
        UniMatrixConfig(**{**SMALL, "layers": 2}, depth_state="carried"),
    ):
        [outcome] = run(Lane(config, 7))
        assert set(numbers(outcome)) == {*TRAINED_METRICS, *TokenRecall.own_metrics} - {"bytes", "bytes_state"}
        assert outcome.metrics is not None
        assert outcome.metrics["leaks_future"] == 1.0


def test_training_learns() -> None:
    [outcome] = run(lane(7, steps=60, learning_rate=3e-3, batch=32))
    assert outcome.series["training_loss"][0] > 4.0
    assert outcome.series["training_loss"][-1] < 2.5


def test_a_seed_gives_the_same_whatever_trains_beside_it() -> None:
    lanes = [lane(7), lane(8), lane(7, learning_rate=1e-2), lane(7, width=8)]
    together = run(*lanes)
    alone = [run(one)[0] for one in lanes]
    assert [numbers(one) for one in together] == [numbers(one) for one in alone]
    assert len({one.series["training_loss"][-1] for one in together}) == 4


@pytest.mark.parametrize("name", sorted(name for name, _, made in MECHANISMS if made.reads_ids))
def test_lanes_that_train_as_one_learn_what_each_learns_alone(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    config: Any = MECHANISMS.config_class(name)
    small = {field: value for field, value in SMALL.items() if field in config.model_fields}
    lanes = [Lane(config(**small), 7), Lane(config(**small), 8), Lane(config(**small, learning_rate=1e-2), 9)]
    alone = run(*lanes)
    sizes: list[int] = []
    plain = tasks.training.LaneTraining.results

    def noted(training: Any) -> list[Outcome]:
        sizes.append(len(training.lanes))
        return plain(training)

    monkeypatch.setattr(tasks.training.LaneTraining, "results", noted)
    as_one = tasks.training.TrainingRun("cpu", WORKLOAD, 32, "float32", None, None).outcomes(lanes)
    assert sizes == [3]
    for one, other in zip(as_one, alone, strict=True):
        assert np.allclose(one.series["training_loss"], other.series["training_loss"], atol=2e-5)
        assert abs(numbers(one)["loss"] - numbers(other)["loss"]) < 2e-4


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 4])
def test_however_few_steps_there_are_and_however_little_time(steps: int) -> None:
    lanes = [lane(1, steps=steps), lane(2, steps=steps)]
    together = tasks.training.TrainingRun("cpu", WORKLOAD, 32, "float32", None, None).together(lanes)
    assert [one.metrics is not None for one in together] == [True, True]
    late = tasks.training.TrainingRun("cpu", WORKLOAD, 32, "float32", 0.0, None).together(lanes)
    assert [one.reason for one in late] == (["timeout"] * 2 if steps else [None] * 2)


def test_curves_say_at_which_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    [outcome] = run(lane(7, steps=6))
    assert outcome.series["training_step"] == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    monkeypatch.setattr(tasks.training, "POINTS", 3)
    [outcome] = run(lane(7, steps=9))
    assert outcome.series["training_step"] == [1.0, 5.0, 9.0]
    assert len(outcome.series["training_loss"]) == 3


@pytest.mark.parametrize("name", sorted(name for name, _, made in MECHANISMS if made.reads_ids))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_model_can_be_warmed_up(name: str, dtype: str) -> None:
    tasks.training.warm_up(MECHANISMS.config_class(name)(first_length=4, growing_steps=3), dtype)  # type: ignore[arg-type, call-arg]


@pytest.mark.parametrize("worth", [True, False])
def test_lanes_train_as_one_where_a_few_steps_of_that_are_quicker(monkeypatch: pytest.MonkeyPatch, worth: bool) -> None:
    sizes: list[int] = []
    kept = tasks.training.TrainingRun.outcomes
    seconds = {1: 1.0, 3: 2.0 if worth else 3.5}
    monkeypatch.setattr(tasks.training.TrainingRun, "_seconds", lambda _, lanes: seconds[len(lanes)])
    monkeypatch.setattr(
        tasks.training.TrainingRun, "outcomes", lambda run, lanes: sizes.append(len(lanes)) or kept(run, lanes)
    )
    outcomes = tasks.training.TrainingRun("cpu", WORKLOAD, 32, "float32", None, None).together(
        [lane(1), lane(2), lane(3)]
    )
    assert sizes == ([3] if worth else [1, 1, 1])
    assert all(one.metrics for one in outcomes)


def test_measuring_steps_changes_no_result() -> None:
    run = tasks.training.TrainingRun("cpu", WORKLOAD, 32, "float32", None, None)
    assert run._seconds([lane(7), lane(8)]) > 0
    assert numbers(run.outcomes([lane(7)])[0]) == numbers(run.outcomes([lane(7)])[0])


def test_scores_on_the_way_are_those_of_shorter_trainings() -> None:
    [whole] = run(lane(7, evaluations=3))
    assert whole.series["evaluated_step"] == [2.0, 4.0, 6.0]
    for step, loss in zip((2, 4, 6), whole.series["evaluated_loss"], strict=True):
        assert numbers(run(lane(7, steps=step))[0])["loss"] == loss


def test_there_are_no_more_evaluations_than_steps() -> None:
    [outcome] = run(lane(7, steps=3, evaluations=20))
    assert outcome.series["evaluated_step"] == [1.0, 2.0, 3.0]
    assert len(outcome.series["evaluated_loss"]) == 3
    [outcome] = run(lane(7, steps=0, evaluations=20))
    assert "evaluated_step" not in outcome.series


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("name", ["unimatrix", "sparse_pointer"])
def test_what_is_carried_from_pass_to_pass_needs_two_of_them(name: str, layers: int) -> None:
    config: Any = MECHANISMS.config_class(name)
    fields = {**SMALL, "layers": layers, "depth_state": "carried"}
    [outcome] = run(Lane(config(**fields), 7))
    assert outcome.metrics is not None, outcome.message
    assert outcome.metrics["leaks_future"] == (layers > 1)
    assert ("bytes_state" in outcome.metrics) == (layers == 1)


class Killed(BaseException):
    """The worker is killed."""


def test_an_interrupted_training_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = lane(7, steps=12, evaluations=3)
    [undisturbed] = run(one)
    monkeypatch.setattr(tasks.saved_training, "EVERY", 0.0)
    step, taken = tasks.training.LaneTraining.step, [0]

    def dies(training: Any, batch: Any) -> Any:
        taken[0] += 1
        if taken[0] == 8:
            raise Killed
        return step(training, batch)

    monkeypatch.setattr(tasks.training.LaneTraining, "step", dies)
    with pytest.raises(Killed):
        run(one, saved=tmp_path)
    assert len(list(tmp_path.glob("*.pt"))) == 1
    taken[0] = 100
    [resumed] = run(one, saved=tmp_path)
    assert taken[0] - 100 == 12 - 7
    assert numbers(resumed) == numbers(undisturbed)
    assert resumed.series == undisturbed.series
    assert not tmp_path.exists()


def test_half_a_file_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks.saved_training, "EVERY", 0.0)
    one = lane(7)
    workload = canonical_json(WORKLOAD.config.identity())
    saved = tasks.saved_training.SavedTraining.of(tmp_path, workload, [one], "float32")
    assert saved.path is not None
    saved.path.write_bytes(b"PK half")
    assert numbers(run(one, saved=tmp_path)[0]) == numbers(run(one)[0])


def test_what_does_not_fit_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a version in which the model was another, or of a device with other generators."""
    monkeypatch.setattr(tasks.saved_training, "EVERY", 0.0)
    one = lane(7)
    training = LaneTraining(TrainingRun("cpu", WORKLOAD, 32, "float32", None, tmp_path), [one])
    training.advance(3, training._save)
    assert training.saved.path is not None
    state = torch.load(training.saved.path, weights_only=True)
    for part, wrong in (("noise", [torch.zeros(16, dtype=torch.uint8)]), ("optimiser", {"flat": torch.zeros(3)})):
        tmp_path.mkdir(exist_ok=True)
        torch.save(state | {part: wrong}, training.saved.path)
        assert numbers(run(one, saved=tmp_path)[0]) == numbers(run(one)[0])
    assert not tmp_path.exists()


def test_a_folder_that_cannot_be_written_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks.saved_training, "EVERY", 0.0)
    (tmp_path / "file").write_text("no folder")
    assert numbers(run(lane(7), saved=tmp_path / "file" / "below")[0]) == numbers(run(lane(7))[0])


def test_trainings_of_other_trials_are_not_taken_up() -> None:
    names = {
        tasks.saved_training.SavedTraining.of(Path("x"), workload, lanes, dtype).path
        for workload in ("a", "b")
        for lanes in ([lane(7)], [lane(8)], [lane(7), lane(8)], [lane(7, steps=7)])
        for dtype in ("float32", "float64")
    }
    assert len(names) == 16


def test_a_training_that_takes_too_long_fails_alone() -> None:
    slow, quick = run(lane(7, steps=100_000), lane(7, steps=0), timeout=0.2)
    assert slow.reason == "timeout"
    assert quick.metrics is not None


def test_a_training_that_diverges_fails_alone() -> None:
    wild, tame = run(lane(7, learning_rate=10.0, steps=50, weight_decay=10.0), lane(7))
    assert wild.reason == "not_a_number" or wild.metrics is not None
    assert tame.metrics is not None
    [broken] = run(lane(7, learning_rate=10.0, steps=80, weight_decay=10.0))
    assert broken.reason == "not_a_number", broken.metrics


def test_lengths_and_rates_grow_as_asked() -> None:
    config = TransformerConfig(first_length=32, growing_steps=150, warm_up=50)
    lengths = [config.length_at(step, 128) for step in range(500)]
    assert (lengths[0], lengths[49], lengths[99], lengths[149], lengths[499]) == (32, 64, 96, 128, 128)
    assert config.rate_share(0) == pytest.approx(1 / 50)
    assert config.rate_share(49) == config.rate_share(400) == 1.0
    assert TransformerConfig().rate_share(0) == 1.0
    [outcome] = run(lane(7, first_length=10, growing_steps=4, warm_up=3))
    assert outcome.metrics is not None
    with pytest.raises(ValueError, match="come together"):
        TransformerConfig(first_length=32)


@pytest.mark.parametrize("name", sorted(name for name, _, made in MECHANISMS if made.reads_ids))
def test_mixed_precision_is_close(name: str) -> None:
    config: Any = MECHANISMS.config_class(name)
    small = {field: value for field, value in SMALL.items() if field in config.model_fields}
    [mixed], [plain] = run(Lane(config(**small, precision="bfloat16"), 7)), run(Lane(config(**small), 7))
    assert abs(numbers(mixed)["loss"] - numbers(plain)["loss"]) < 0.05
    assert numbers(mixed)["loss"] != numbers(plain)["loss"]


def test_double_precision() -> None:
    [double], [single] = train(TrainingRun("cpu", WORKLOAD, 32, "float64"), [lane(7)]), run(lane(7))
    assert abs(numbers(double)["loss"] - numbers(single)["loss"]) < 1e-4
    assert numbers(double)["bytes"] == 2 * numbers(single)["bytes"]


class Peeking(TripleModel):
    """Adds a little of the id after each."""

    def embed(self, ids: Any) -> Any:
        later = torch.cat([ids[:, :, 1:], ids[:, :, -1:]], 2)
        return self.placed(self.tokens(ids) + 1e-3 * self.tokens(later))


class Restless(TripleModel):
    """Reads one by one without taking positions in."""

    def embed_next(self, ids: Any, state: Any) -> Any:
        return self.tokens(ids)


class Single(Peeking):
    """Knows 32 bits alone."""

    def embed(self, ids: Any) -> Any:
        return super().embed(ids) @ torch.eye(16)


def trained_as(monkeypatch: pytest.MonkeyPatch, model: type[TripleModel]) -> Outcome:
    """The outcome of a model that says nothing of what it does."""
    monkeypatch.setattr(TripleLatent, "build", staticmethod(model))
    [outcome] = run(Lane(TripleLatentConfig(**SMALL), 7))
    return outcome


@pytest.mark.parametrize("model", [Peeking, Single])
def test_models_that_look_ahead_and_do_not_say_so_are_found_out(
    monkeypatch: pytest.MonkeyPatch, model: type[TripleModel]
) -> None:
    outcome = trained_as(monkeypatch, model)
    assert outcome.metrics is not None, outcome.message
    assert outcome.metrics["leaks_future"] == 1.0
    assert "bytes_state" not in outcome.metrics


def test_models_whose_steps_compute_something_else_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = trained_as(monkeypatch, Restless)
    assert outcome.reason == "user_error"
    assert "`triple_latent` read token by token gives other logits" in outcome.message


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", sorted(name for name, _, made in MECHANISMS if made.reads_ids))
def test_what_is_measured_of_registered_models_is_what_they_say(name: str, precision: str) -> None:
    config: Any = MECHANISMS.config_class(name)
    small = {field: value for field, value in SMALL.items() if field in config.model_fields}
    training = LaneTraining(
        TrainingRun("cpu", TokenRecall(TokenRecallConfig(length=70)), 8, "float32"),
        [Lane(config(**{**small, "layers": 2, "precision": precision}), 7)],
    )
    training.advance(2)
    assert training.sizes()["leaks_future"] == 0.0


def test_a_look_ahead_fainter_than_single_precision_is_seen() -> None:
    config = UniMatrixConfig(**{**SMALL, "layers": 2, "steps": 0}, depth_state="carried")
    [outcome] = run(Lane(config, 7))
    assert outcome.metrics is not None
    assert outcome.metrics["leaks_future"] == 1.0


def test_attention_drops_as_much_as_the_rest_unless_told() -> None:
    fields: list[dict[str, Any]] = [{}, {"dropout": 0.0}, {"dropout": 0.3, "attention_dropout": 0.2}]
    assert [TransformerConfig(**one).attention_dropout for one in fields] == [0.1, 0.0, 0.2]
    with pytest.raises(ValueError, match="1 validation error"):
        TransformerConfig(dropout=5.0)


def test_recall_is_also_tested_on_more_pairs_than_were_trained_on() -> None:
    workload = TokenRecall(TokenRecallConfig(pairs=2, most_pairs=4, length=16))
    [outcome] = train(TrainingRun("cpu", workload, 64, "float32"), [lane(7)])
    more = {name for name in numbers(outcome) if name.endswith("_pairs")}
    assert more == {"recall_3_pairs", "recall_4_pairs"}
    with pytest.raises(ValueError, match="must be above `pairs` 4"):
        TokenRecallConfig(most_pairs=4)
    with pytest.raises(ValueError, match="4 pairs need a `length` of 16 or more"):
        TokenRecallConfig(pairs=2, most_pairs=4, length=15)


@pytest.mark.parametrize("positions", ["learned", "none"])
def test_models_are_also_tested_on_longer_sequences_than_they_were_trained_on(positions: str) -> None:
    """What is kept is told after a sequence of the length that was trained on."""
    workload = TokenRecall(TokenRecallConfig(pairs=2, length=16, most_length=70))
    longer, alone = (
        train(TrainingRun("cpu", one, 64, "float32"), [lane(7, positions=positions)])[0] for one in (workload, WORKLOAD)
    )
    assert {name for name in numbers(longer) if name.endswith("_ids")} == {"recall_32_ids", "recall_64_ids"}
    assert numbers(longer)["bytes_state"] == numbers(alone)["bytes_state"]
    places = {"learned": 64 - 16, "none": 0}[positions]
    assert numbers(longer)["parameters"] - numbers(alone)["parameters"] == places * 16

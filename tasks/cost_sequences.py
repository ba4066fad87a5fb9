"""What sequence models cost: time of a forward pass and of a training step, and the numbers that training keeps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import repeat as repeated
from typing import TYPE_CHECKING, Any

from models.devices.device import full_precision, require, synchronise
from tasks.clock import Clock
from tasks.cost import Measured, undisturbed
from tasks.evaluate import Outcome
from tasks.seeds import generator
from tasks.sequences import TokenBatch
from tasks.training import Lane, LaneTraining, TrainingRun, stacked, without_denormals

if TYPE_CHECKING:
    from torch import Tensor

FORWARD, TRAIN = "forward_us_per_token", "train_us_per_token"

SECONDS = 0.02
"""A measurement takes at least so long: quicker passes and steps are repeated within one."""


def measure_sequences(run: TrainingRun, lanes: Sequence[Lane]) -> list[Outcome]:
    """Outcomes of the trials of `lanes`, each repeated as `run` has episodes, in random order, after an untimed round.

    Metrics are medians over repeats, with the interquartile range as `*_iqr`:
    forward_us_per_token  microseconds a token to compute logits where the workload scores them, in evaluation
    train_us_per_token    the same of a training step: forward, backward, and the optimiser
    kept_bytes            numbers that a forward pass of training keeps for its backward pass
    waited                share of the measured time in which other work had the processor; it is counted nowhere else
    and `tokens` (of a sequence), `sequences` (of a batch), `parameters`, `bytes`, `bytes_state`, `leaks_future`,
    `forward_flops` (of a sequence with logits at every token, as arXiv 2606.05175 counts them, where it does).
    """
    require(run.device)
    with full_precision(), without_denormals():
        trials = [_Trial(run, lane) for lane in lanes]
        for repeat in range(-1, run.episodes):
            for index in generator(lanes[0].seed, "order", repeat + 1).permutation(len(trials)):
                trials[index].guard(trials[index].run, repeat >= 0)
        for trial in trials:
            trial.guard(trial.weigh)
    return [trial.outcome() for trial in trials]


class _Trial(Measured):
    """One model."""

    def __init__(self, run: TrainingRun, lane: Lane) -> None:
        super().__init__(lane.config, run.timeout)
        self._run, self._lane = run, lane
        self._training: LaneTraining | None = None

    def run(self, timed: bool) -> None:
        """A forward pass and a training step."""
        if self._training is None:
            self._training = LaneTraining(self._run, [self._lane])
            self._batches = self._draw()
        tokens = self._lane.config.batch * self._run.workload.length
        with Clock() as clock:
            forward = self._seconds(self._forward, clock)
            train = self._seconds(self._step, clock)
        if timed:
            self.times[FORWARD].append(forward / tokens)
            self.times[TRAIN].append(train / tokens)
            self.sizes["waited"].append(clock.waited / clock.elapsed)

    def _draw(self) -> Iterator[TokenBatch]:
        sizes = repeated((self._lane.config.batch, self._run.workload.length))
        return (stacked([batch]) for batch in self._run.workload.training(self._lane.seed, sizes))

    def _seconds(self, call: Any, clock: Clock) -> float:
        """Seconds of one `call`, of which as many are made as fill SECONDS."""
        total, calls = 0.0, 0
        while total < SECONDS:
            batch = next(self._batches)
            synchronise(self._run.device)
            with undisturbed():
                clock.start()
                call(batch)
                synchronise(self._run.device)
                total += clock.stop()
            calls += 1
        return total / calls

    def _forward(self, batch: TokenBatch) -> None:
        assert self._training is not None
        self._training.reader(0).logits(batch.ids[0], batch.at)

    def _step(self, batch: TokenBatch) -> None:
        assert self._training is not None
        self._training.model.train()
        self._training.step(batch)

    def weigh(self) -> None:
        """Note sizes, which are the same every time."""
        from models.sequence.flops import forward_flops

        assert self._training is not None
        workload, config = self._run.workload, self._lane.config
        sizes: dict[str, float] = {
            "tokens": workload.length,
            "sequences": config.batch,
            **self._training.sizes(),
            "kept_bytes": self._kept(),
        }
        with suppress(TypeError):  # the paper counts none for this model
            sizes["forward_flops"] = forward_flops(config, workload.vocabulary, workload.length)
        for name, size in sizes.items():
            self.sizes[name].append(float(size))

    def _kept(self) -> int:
        """Bytes of all tensors, parameters left out, that a training step holds when its backward pass begins."""
        from torch.autograd.graph import saved_tensors_hooks

        assert self._training is not None
        training, kept = self._training, dict[int, int]()
        own = {parameter.untyped_storage().data_ptr() for parameter in training.model.parameters()}

        def keep(tensor: Tensor) -> Tensor:
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in own:
                kept[storage.data_ptr()] = storage.nbytes()
            return tensor

        with saved_tensors_hooks(keep, lambda tensor: tensor):
            self._step(next(self._batches))
        return sum(kept.values())

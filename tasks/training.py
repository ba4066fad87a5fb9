"""Training sequence models on sequences of ids, many as one where that is quicker; each trial has its own metrics.

A lane is one config with one seed. Lanes of one shape, which differ in their seed and learning rate alone, can train as
one model; what each learns is the same up to rounding.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from models.config import canonical_json
from models.devices.device import DeviceClass, full_precision, out_of_memory, release_memory, require, synchronise
from models.mechanism import MECHANISMS
from models.sequence.config import SequenceConfig
from models.sequence.mechanism import AnySequenceMechanism
from tasks.evaluate import Outcome, checked, failure
from tasks.lane_reader import LaneReader
from tasks.saved_training import SavedTraining
from tasks.seeds import generator
from tasks.sequences import SequenceWorkload, TokenBatch
from tasks.training_checks import check_steps, looks_ahead

if TYPE_CHECKING:
    from torch import Tensor, dtype

    from models.sequence.adamw import LaneAdamW
    from models.sequence.lanes import Lanes
    from models.sequence.model import SequenceModel

TRAINED_METRICS = ("parameters", "bytes", "bytes_state", "training_loss", "leaks_future")
"""What trained sequence models measure beside the workload's own metrics.

parameters    numbers that are learned
bytes         of parameters and state
bytes_state   of the state after a sequence of full length, read token by token; models that leak future have neither
training_loss of the last step, in nats
leaks_future  1 where outputs depend on later tokens, so that losses are no scores of predictions: as is measured after
              the training, whatever the model says of itself
"""

POINTS = 100
"""Most points of a training curve."""

ON_THE_WAY = 512
"""Most sequences that a model is evaluated on before its training ends: enough for a curve, a fourth of the time."""

WIDEST_WARMED = 1024
"""Width up to which a model is small enough to be built once more before it is trained."""

TRIED_STEPS = 2
"""Steps that are timed to tell whether lanes train quicker together."""


@dataclass(frozen=True)
class Lane:
    """One trial: a model and its seed."""

    config: SequenceConfig
    seed: int

    @property
    def name(self) -> str:
        """What no other lane of the workload is called."""
        return canonical_json([self.config.identity(), self.seed])


def train(run: TrainingRun, lanes: Sequence[Lane]) -> list[Outcome]:
    """Outcomes of the trials of `lanes`, trained and evaluated as `run` says.

    On a CPU lanes train one by one, for there the cores are shared out among workers; elsewhere together, unless a few
    steps show that to be slower, and in halves where memory is too small. A lane that diverges, raises, or takes too
    long fails alone.
    """
    require(run.device)
    outcomes: dict[int, Outcome] = {}
    with full_precision(), without_denormals():
        for places in _packs(lanes):
            pack = [lanes[place] for place in places]
            alone = run.device == "cpu"
            results = [one for lane in pack for one in run.outcomes([lane])] if alone else run.together(pack)
            outcomes.update(zip(places, results, strict=True))
    return [outcomes[place] for place in range(len(lanes))]


@contextmanager
def without_denormals() -> Iterator[None]:
    """Let this thread, and those that it starts, take numbers below 1e-38 for 0.

    Where the last position alone is scored, gradients fall with the distance from it until they are denormal, on which
    arithmetic is many times slower: a step of a triple-latent model took 3.5 times as long.
    """
    import torch

    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


def _packs(lanes: Sequence[Lane]) -> list[list[int]]:
    """Places of lanes of one shape."""
    packs: dict[tuple[Any, ...], list[int]] = {}
    for place, lane in enumerate(lanes):
        key = (lane.config.name, MECHANISMS.implementation(lane.config.name).group_key(lane.config))
        packs.setdefault(key, []).append(place)
    return list(packs.values())


@dataclass(frozen=True)
class TrainingRun:
    """How the trials of a workload are trained.

    episodes  sequences that each is evaluated on
    timeout   most seconds a trial may train, None: any
    saved     a folder in which long trainings leave where they are from time to time, to go on after an interruption;
              of nothing but trainings by the same code on the same device with as many episodes. None: they do not
    """

    device: DeviceClass
    workload: SequenceWorkload[Any]
    episodes: int
    dtype: str
    timeout: float | None = None
    saved: Path | None = None

    def together(self, lanes: Sequence[Lane]) -> list[Outcome]:
        """Outcomes of lanes of one shape, as one model if a few steps of it cost less than of one lane at a time."""
        worth_trying = len(lanes) > 1 and lanes[0].config.steps > TRIED_STEPS
        if worth_trying and self._seconds(lanes) >= len(lanes) * self._seconds(lanes[:1]):
            return [outcome for lane in lanes for outcome in self.outcomes([lane])]
        return self.outcomes(lanes)

    def _seconds(self, lanes: Sequence[Lane]) -> float:
        """Seconds that steps of `lanes` as one take; no end where memory is too small for it."""
        try:
            trial = LaneTraining(replace(self, timeout=None), lanes)
            trial.advance(1)
            began = time.perf_counter()
            trial.advance(1 + TRIED_STEPS)
        except Exception as error:
            if not out_of_memory(error):
                return 0.0  # the run itself will meet it, and say so
            release_memory(self.device)
            return float("inf")
        return time.perf_counter() - began

    def outcomes(self, lanes: Sequence[Lane]) -> list[Outcome]:
        """Outcomes of lanes of one shape, trained as one; in halves where that fails, so that each fails alone."""
        began = time.perf_counter()
        try:
            results = LaneTraining.resumed(self, lanes).results()
        except Exception as error:
            if len(lanes) == 1:
                return [failure(error)]
            release_memory(self.device)
            half = len(lanes) // 2
            return self.outcomes(lanes[:half]) + self.outcomes(lanes[half:])
        each = (time.perf_counter() - began) / len(lanes)
        return [Outcome(one.metrics, one.reason, one.message, one.series, each) for one in results]


class LaneTraining:
    """Lanes of one shape on their way."""

    def __init__(self, run: TrainingRun, lanes: Sequence[Lane]) -> None:
        from models.sequence.adamw import LaneAdamW

        self.run, self.lanes, self.config = run, lanes, lanes[0].config
        self.workload = run.workload
        self.noise, self.model = self._build(lanes)
        self.optimiser: LaneAdamW = LaneAdamW(
            self.model, [lane.config.learning_rate for lane in lanes], self.config.weight_decay
        )
        self.saved = SavedTraining.of(run.saved, canonical_json(run.workload.config.identity()), lanes, run.dtype)
        self.done = 0
        self.seconds = 0.0
        self.tokens = 0
        self.curve: list[Any] = []
        self.evaluated: list[list[dict[str, float]]] = []
        self._noted = {round(step) for step in np.linspace(0, max(self.config.steps - 1, 0), POINTS).tolist()}
        steps, times = self.config.steps, self.config.evaluations
        self._stops = sorted({round(steps * number / times) for number in range(1, times + 1)} - {0}) or [0]
        self._batches: Iterator[TokenBatch] | None = None

    def _build(self, lanes: Sequence[Lane]) -> tuple[Lanes, SequenceModel]:
        from models.sequence.lanes import Lanes

        seeds = [(_torch_seed(lane.seed, "init"), _torch_seed(lane.seed, "mechanism")) for lane in lanes]
        noise = Lanes(seeds, self.run.device)
        return noise, self._module(noise)

    def _module(self, noise: Lanes) -> SequenceModel:
        implementation = cast("type[AnySequenceMechanism]", MECHANISMS.implementation(self.config.name))
        longest = type(self.workload).tested(self.workload.config)
        model = implementation.build(self.config, noise, self.workload.vocabulary, longest)
        return model.to(_torch_type(self.run.dtype))

    # --- steps ---

    def results(self) -> list[Outcome]:
        """What comes of the lanes: trained to the end, evaluated on the way."""
        for stop in self._stops[len(self.evaluated) :]:
            self.advance(stop, self._save)
            episodes = self.run.episodes if stop == self._stops[-1] else min(self.run.episodes, ON_THE_WAY)
            self.evaluated.append([self._evaluate(place, episodes) for place in range(len(self.lanes))])
        sizes = self.sizes()
        outcomes = [self._outcome(place, sizes) for place in range(len(self.lanes))]
        self.saved.forget()
        return outcomes

    def advance(self, stop: int, after: Callable[[], None] = lambda: None) -> None:
        """Train until `stop` steps are done. Raises TimeoutError where that takes too long."""
        self.model.train()
        batches = self._rest()
        before, began = self.seconds, time.perf_counter()
        while self.done < stop:
            loss = self.step(next(batches))
            if self.done in self._noted:
                self.curve.append(loss.detach())
            self.done += 1
            self.seconds = before + time.perf_counter() - began
            if self.run.timeout is not None and self.seconds > self.run.timeout * len(self.lanes):
                raise TimeoutError(f"training took more than {self.run.timeout:g} s")
            after()
        synchronise(self.run.device)
        self.seconds = before + time.perf_counter() - began

    def step(self, batch: TokenBatch) -> Tensor:
        """One step; the loss of each lane [S] before it."""
        import torch

        ids, targets, at = self._tensors(batch)
        with self._autocast():
            logits = self.model(ids, at)
        losses = torch.nn.functional.cross_entropy(
            logits.flatten(0, 2).to(self.optimiser.flat.dtype), targets.flatten(), reduction="none"
        ).view(len(self.lanes), -1)
        loss = losses.sum(1) / (targets.flatten(1) >= 0).sum(1)
        torch.autograd.backward(loss.sum())
        self.optimiser.step(self.config.rate_share(self.done))
        self.tokens += ids[0].numel()
        return loss

    def _rest(self) -> Iterator[TokenBatch]:
        """Batches of all lanes, [S, B, T], from the step that is next."""
        if self._batches is None:
            length = self.workload.length
            sizes = [(self.config.batch, self.config.length_at(step, length)) for step in range(self.config.steps)]
            each = [self.workload.training(lane.seed, sizes) for lane in self.lanes]
            self._batches = (stacked(batches) for batches in zip(*each, strict=True))
            for _ in range(self.done):
                next(self._batches)
        return self._batches

    def _tensors(self, batch: TokenBatch) -> tuple[Tensor, Tensor, Tensor | None]:
        import torch

        place = self.run.device
        at = None if batch.at is None else torch.from_numpy(batch.at).to(place)
        return torch.from_numpy(batch.ids).to(place), torch.from_numpy(batch.targets).to(place), at

    def _autocast(self) -> AbstractContextManager[Any]:
        import torch

        if self.config.precision == "float32":
            return nullcontext()
        return torch.autocast(self.run.device, torch.bfloat16)

    # --- results ---

    def _evaluate(self, place: int, episodes: int) -> dict[str, float]:
        """Metrics of one lane as it is, on the first `episodes` sequences."""
        return self.workload.evaluate(self.reader(place), self.lanes[place].seed, episodes)

    def reader(self, place: int) -> LaneReader:
        """One lane by itself, as it is."""
        return LaneReader(self._alone(place), self.run.device, self.workload.length, self._autocast)

    def _alone(self, place: int) -> SequenceModel:
        """A model of one lane, with its parameters."""
        from models.sequence.lanes import Lanes

        if len(self.lanes) == 1:
            return self.model
        return self._filled(self._module(Lanes([(0, 0)], self.run.device)), place)

    def _doubled(self) -> SequenceModel:
        """The first lane's model in 64 bits, on the CPU: other devices may know 32 alone."""
        from models.sequence.lanes import Lanes

        return self._filled(self._module(Lanes([(0, 0)])).double(), 0).eval()

    def _filled(self, model: SequenceModel, place: int) -> SequenceModel:
        for own, shared in zip(model.parameters(), self.model.parameters(), strict=True):
            own.data.copy_(shared.data[place : place + 1])
        return model

    def sizes(self) -> dict[str, float]:
        """Parameters of a lane, whether it looks ahead, and bytes, as the model of the first lane is now.

        What depends on later tokens cannot read one by one, and has no state. Raises ValueError where a model reads
        otherwise one by one than whole.
        """
        from models.sequence.model import parameters_per_lane

        count, reader, vocabulary = parameters_per_lane(self.model), self.reader(0), self.workload.vocabulary
        ahead = looks_ahead(reader, self._doubled, vocabulary)
        told = {"parameters": float(count), "leaks_future": float(ahead)}
        if ahead or self.config.leaks_future:
            return told
        check_steps(reader, self._doubled, vocabulary, self.config.name)
        state = reader.state_bytes(vocabulary)
        held = count * self.optimiser.flat.element_size() + state
        return {**told, "bytes": float(held), "bytes_state": float(state)}

    def _outcome(self, place: int, sizes: dict[str, float]) -> Outcome:
        losses = [float(loss[place]) for loss in self.curve]
        metrics = self.evaluated[-1][place] | {
            **sizes,
            "training_seconds": self.seconds / len(self.lanes),
        }
        if losses:
            metrics |= {"training_loss": losses[-1], "training_tokens_per_second": self.tokens / self.seconds}
        noted = sorted(self._noted)[: len(losses)]
        series = {"training_step": [float(step + 1) for step in noted], "training_loss": losses}
        if len(self._stops) > 1:
            series["evaluated_step"] = list(map(float, self._stops))
            for name in self.evaluated[-1][place]:
                series[f"evaluated_{name}"] = [every[place][name] for every in self.evaluated]
        return checked(metrics, series)

    # --- going on after an interruption ---

    def _save(self) -> None:
        self.saved.save(
            self.seconds,
            lambda: {
                "done": self.done,
                "seconds": self.seconds,
                "tokens": self.tokens,
                "curve": self.curve,
                "evaluated": self.evaluated,
                "noise": self.noise.state(),
                "optimiser": self.optimiser.state(),
            },
        )

    @classmethod
    def resumed(cls, run: TrainingRun, lanes: Sequence[Lane]) -> LaneTraining:
        """The training from where it was saved last, or from its beginning."""
        training = cls(run, lanes)
        try:
            training._resume()
        except Exception:  # what was saved does not fit: it is of another version, or damaged
            return cls(run, lanes)
        return training

    def _resume(self) -> None:
        state = self.saved.load()
        if state is not None:
            self.noise.resume(state["noise"])
            self.optimiser.resume(state["optimiser"])
            for name in ("done", "seconds", "tokens", "curve", "evaluated"):
                setattr(self, name, state[name])


def warm_up(config: SequenceConfig, dtype: str) -> None:
    """Train and read once on a few ids on a CPU: what has to be compiled or loaded then is. Raises what they raise."""
    from tasks.workloads.random_tokens import RandomTokens, RandomTokensConfig

    if config.width > WIDEST_WARMED:
        return
    workload = RandomTokens(RandomTokensConfig(vocabulary=8, length=8))
    small = config.model_copy(
        update={"steps": 1, "batch": 1, "warm_up": 0, "first_length": None, "growing_steps": 0, "layers": 1}
    )
    with without_denormals():
        training = LaneTraining(TrainingRun("cpu", workload, 1, dtype), [Lane(small, 0)])
        [batch] = workload.training(0, [(1, 8)])
        for at in (None, np.array([7])):
            training.model.train()
            training.step(stacked([TokenBatch(batch.ids, batch.targets if at is None else batch.targets[:, at], at)]))
            training.reader(0).logits(batch.ids, at)
        training.sizes()


def stacked(batches: Sequence[TokenBatch]) -> TokenBatch:
    """Batches of several lanes as one, [S, B, ...]."""
    return TokenBatch(
        np.stack([batch.ids for batch in batches]), np.stack([batch.targets for batch in batches]), batches[0].at
    )


def _torch_seed(seed: int, name: str) -> int:
    """A seed for torch's generators: the child `name` of a trial's seed."""
    return int(generator(seed, name).integers(2**63))


def _torch_type(name: str) -> dtype:
    import torch

    return torch.float64 if name == "float64" else torch.float32

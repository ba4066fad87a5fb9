"""The agreement probe: whether a device decides as the float64 references do, asked once when a worker joins.

Each kind of mechanism that the sweep uses reads a few fixed streams on the worker's device. The slots in use and the
answers must be those of the mechanism's `reference` wherever that decides by more than the tolerance. A worker that
fails is not used.

One decision within the tolerance leaves its whole stream out, for what follows depends on it. So the probe promises
little for `h2o` at low temperatures, whose shares of attention underflow towards ties, and nothing for a kind that
`Agreement.not_compared` names.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import numpy as np

from models.config import MechanismConfig
from models.devices.device import AGREED, DeviceClass
from models.devices.form import supports
from models.mechanism import MECHANISMS, Trace, stream_reader
from models.reference_reading import Answer, answers_by_rule, reference_answers
from models.stream import Phase, Stream, unit
from tasks.evaluate import Outcome, evaluate
from tasks.seeds import generator
from tasks.workload import Workload

CPU_TOLERANCE = 1e-6
"""The margin beyond which kernels on a CPU follow their references; see `models.mechanism.Trace`."""

DEVICE_TOLERANCE = AGREED / 0.05
"""The same on an accelerator: of softmax shares at the default temperature; cosines are closer."""

SECONDS = 0.6
"""How much of the processor references may take. Streams and kinds that do not fit in are left out, but for one stream
of each mechanism's first kind. By the clock a busy machine would compare nothing, and let a wrong device pass."""

ROUNDING = 1e-9
"""Means of the same numbers differ by no more."""

SEEDS = (0, 1, 2, 3)
TOKENS, ITEMS, CLASSES, WIDTH = 48, 12, 4, 8


@dataclass(frozen=True)
class Agreement:
    """What a probe found.

    ok             whether the device agrees
    device         its class
    tolerance      the margin beyond which decisions must be the same
    kinds          kinds of mechanism probed
    left_out       second kinds there was no time for, and kinds whose trials or reference fail by themselves
    compared       numbers compared: slots in use, and recall
    not_compared   names of kinds of which no number was compared: trained, left out, or with a decision that is too
                   close to call in each stream. The device's agreement says nothing about them
    undecided      answers, and whole streams, with a decision that is too close to call
    disagreements  what differs: the mechanism, and by how much
    seconds        the probe took
    """

    ok: bool
    device: DeviceClass
    tolerance: float
    kinds: int
    left_out: int
    compared: int
    not_compared: tuple[str, ...]
    undecided: int
    disagreements: tuple[str, ...]
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """Plain data, for the store."""
        lists = {"disagreements": list(self.disagreements), "not_compared": list(self.not_compared)}
        return asdict(self) | lists


class ProbeStreams(Workload[Any]):
    """The fixed streams: noisy copies of a few items in two phases; half of the queries are of no item."""

    def stream(self, seed: int, episode: int) -> Stream:
        rng = generator(seed, "agreement", episode)
        base = unit(rng.standard_normal((ITEMS, WIDTH)))
        labels = rng.integers(CLASSES, size=ITEMS)
        items = rng.integers(ITEMS, size=TOKENS)
        keys = base[items] + 0.45 * rng.standard_normal((TOKENS, WIDTH)) / np.sqrt(WIDTH)
        values = np.where(rng.random(TOKENS) < 0.2, rng.integers(CLASSES, size=TOKENS), labels[items])
        queries = np.concatenate([base, unit(rng.standard_normal((ITEMS, WIDTH)))])
        asked = np.arange(2 * ITEMS) % ITEMS
        phases = tuple(
            Phase(end, queries, labels[asked], asked, np.arange(len(queries))) for end in (TOKENS // 3, TOKENS)
        )
        lines = tuple(("item", str(item % 5), f"x{item // 5}", f"n{t}") for t, item in enumerate(items.tolist()))
        return Stream(unit(keys), values, items, phases, CLASSES, 1.0 / CLASSES, lines)

    @classmethod
    def tokens(cls, config: Any) -> int:
        return TOKENS


@dataclass(frozen=True)
class Expectation:
    """What a reference did with a stream, and what it answers at each phase end (None: by a rule of its own)."""

    stream: Stream
    trace: Trace
    answers: list[list[Answer]] | None


@dataclass
class Tally:
    """What was compared so far, what was too close to call, and what differed."""

    compared: int = 0
    undecided: int = 0
    disagreements: list[str] = field(default_factory=list)

    def note(self, config: MechanismConfig, metric: str, found: float, right: float, slack: float) -> None:
        """Compare one number, which may be off by `slack` and by rounding."""
        self.compared += 1
        if abs(found - right) > slack + ROUNDING:
            allowed = f" (up to {slack:.3g} more or less would do)" if slack else ""
            self.disagreements.append(f"{config.name}: {metric} is {found:.6g}, its reference has {right:.6g}{allowed}")


def probe(
    mechanisms: Iterable[MechanismConfig], device: DeviceClass, dtype: str, stand_in: DeviceClass | None = None
) -> Agreement:
    """Compare `device` with the references of those of `mechanisms` that run on it and are not trained.

    stand_in: computes in place of the device, by the same code, on a machine that lacks it
    """
    began = time.monotonic()
    tolerance = CPU_TOLERANCE if device == "cpu" else DEVICE_TOLERANCE
    able = [config for config in mechanisms if supports(config, device)]
    kinds = one_of_each_kind(able)
    expected = _expectations(kinds, dtype)
    run = evaluate_on_cpu if device == "cpu" else partial(evaluate_on_device, stand_in or device)
    outcomes = run([config for config, _ in expected], dtype)
    trained = [config for config in able if MECHANISMS.implementation(config.name).trained]
    tally, failed = Tally(), 0
    heard: set[int] = set()
    for (config, expectations), found in zip(expected, zip(*outcomes, strict=True), strict=True):
        if _fails_by_itself(config, found, device, dtype):
            failed += 1
            continue
        before = tally.compared
        for expectation, outcome in zip(expectations, found, strict=False):  # time may have ended before all streams
            compare(config, expectation, outcome, tolerance, tally)
        if tally.compared > before:
            heard.add(id(config))
    return Agreement(
        ok=not tally.disagreements,
        device=device,
        tolerance=tolerance,
        kinds=len(expected) - failed,
        left_out=len(kinds) - len(expected) + failed,
        compared=tally.compared,
        not_compared=tuple(dict.fromkeys(config.name for config in (*kinds, *trained) if id(config) not in heard)),
        undecided=tally.undecided,
        disagreements=tuple(tally.disagreements),
        seconds=time.monotonic() - began,
    )


def one_of_each_kind(mechanisms: Iterable[MechanismConfig]) -> list[MechanismConfig]:
    """The first config of each kind, untrained ones only: a kind runs in the same kernels.

    The first kind of each mechanism comes before the second of any.
    """
    kinds: dict[str, dict[tuple[Any, ...], MechanismConfig]] = {}
    for config in mechanisms:
        implementation = MECHANISMS.implementation(config.name)
        if not implementation.trained:
            kinds.setdefault(config.name, {}).setdefault(implementation.group_key(config), config)
    ranked = [(rank, config) for same in kinds.values() for rank, config in enumerate(same.values())]
    return [config for _, config in sorted(ranked, key=lambda pair: pair[0])]


def _expectations(kinds: Sequence[MechanismConfig], dtype: str) -> list[tuple[MechanismConfig, list[Expectation]]]:
    """What the references of `kinds` do with the streams, as far as time allows; without those that fail.

    All kinds meet a stream before any meets the next.
    """
    expected: list[tuple[MechanismConfig, list[Expectation]]] = [(config, []) for config in kinds]
    firsts = {id(config) for config in {config.name: config for config in reversed(kinds)}.values()}
    failed: set[int] = set()
    deadline = time.thread_time() + SECONDS
    for number, seed in enumerate(SEEDS):
        stream = ProbeStreams(None).stream(seed, 0)
        for config, found in expected:
            always = number == 0 and id(config) in firsts
            if id(config) in failed or (not always and time.thread_time() > deadline):
                continue
            try:
                found.append(_expect(config, stream, seed, dtype))
            except Exception:  # a plug-in's reference may be no more than a stub
                failed.add(id(config))
    return [(config, found) for config, found in expected if found and id(config) not in failed]


def _expect(config: MechanismConfig, stream: Stream, seed: int, dtype: str) -> Expectation:
    draws = generator(seed, "mechanism", 0)
    trace = stream_reader(config.name).reference(stream, config, draws, dtype)
    if len(_counts(trace)) != len(stream.phases):
        raise ValueError("the reference does not say what it held")
    if answers_by_rule(config) and not (trace.scores or trace.query_features):
        return Expectation(stream, trace, None)
    numbers = range(len(stream.phases))
    return Expectation(stream, trace, [reference_answers(stream, config, trace, n, dtype) for n in numbers])


def _counts(trace: Trace) -> list[int]:
    """Slots held at each phase end."""
    return [len(held) for held in trace.tokens or trace.states]


def evaluate_on_cpu(configs: Sequence[MechanismConfig], dtype: str) -> list[list[Outcome]]:
    """Outcomes of `configs` by the kernels of the CPU: one list a stream."""
    return [evaluate(ProbeStreams(None), configs, seed, 1, dtype) for seed in SEEDS]


def evaluate_on_device(device: DeviceClass, configs: Sequence[MechanismConfig], dtype: str) -> list[list[Outcome]]:
    """Outcomes of `configs` by the code of accelerators, on `device`: one list a stream."""
    from tasks.evaluate_device import evaluate_on

    return evaluate_on(device, ProbeStreams(None), configs, SEEDS, 1, dtype)


def _fails_by_itself(config: MechanismConfig, found: Sequence[Outcome], device: DeviceClass, dtype: str) -> bool:
    """Whether trials of `config` fail on a CPU, too: that is not the device's fault, and the trials will say so."""
    if all(outcome.metrics is not None for outcome in found):
        return False
    return device == "cpu" or any(row[0].metrics is None for row in evaluate_on_cpu([config], dtype))


def compare(config: MechanismConfig, expected: Expectation, outcome: Outcome, tolerance: float, tally: Tally) -> None:
    """Add to `tally` what one trial made of a stream, beside what the reference did."""
    if outcome.metrics is None:
        tally.disagreements.append(f"{config.name} fails: {outcome.message.splitlines()[-1]}")
        return
    if expected.trace.margin <= tolerance:
        tally.undecided += 1
        return
    for name, right in _slots(expected).items():
        tally.note(config, name, outcome.metrics[name], right, 0.0)
    if expected.answers is not None:
        right, undecided = _recall(expected, tolerance)
        tally.undecided += undecided
        share = 1.0 / sum(map(len, expected.answers))
        tally.note(config, "recall_all", outcome.metrics["recall_all"], right, undecided * share)


def _slots(expected: Expectation) -> dict[str, float]:
    trace, counts = expected.trace, _counts(expected.trace)
    return {
        "slots": counts[-1],
        "slots_peak": trace.peak,
        "slots_mean": trace.held / expected.stream.phases[-1].end,
        "slots_phase_end": sum(counts) / len(counts),
    }


def _recall(expected: Expectation, tolerance: float) -> tuple[float, int]:
    """Recall over all queries (phases ask equally many), and how many of the answers are too close to call."""
    assert expected.answers is not None
    right = undecided = total = 0
    for phase, answers in zip(expected.stream.phases, expected.answers, strict=True):
        for (answer, gap), wanted in zip(answers, phase.answers.tolist(), strict=True):
            right += answer == wanted
            undecided += gap <= tolerance
            total += 1
    return right / total, undecided

"""The study in memory: what it proposes, and that a process that takes it over proposes the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from orchestrator.tuner.live import Asked, Known, LiveStudy, Stored, Told
from orchestrator.tuner.samplers import default_batch, seed_of_batch, sized
from tasks.kinds.tuning import Levels, SamplerOptions
from tasks.search import Goal, Parameter, Params, every_combination
from tests.quiet import warnings_fail

TAU = Parameter("mechanism.tau", "float", 0.05, 0.95)
DECAY = Parameter("mechanism.decay", "float", 1e-4, 1.0, log=True)
CAP = Parameter("mechanism.cap", "int", 1, 64)
LOG_CAP = Parameter("mechanism.log_cap", "int", 1, 1000, log=True)
NOISE = Parameter("workload.noise", "float", -0.3, 0.3, step=0.1)
ITEMS = Parameter("workload.items", "int", 8, 33, step=8)
KEEP = Parameter("mechanism.keep", "categorical", choices=("first", "last", None))
ETA = Parameter("mechanism.eta", "float", 0.0, 1.0, step=0.25, when=(("mechanism.keep", ("last", None)),))

SMOOTH = (TAU, DECAY)
MIXED = (TAU, DECAY, CAP, LOG_CAP, NOISE, KEEP)
CONDITIONAL = (KEEP, TAU, ETA)
STEPPED = (NOISE, ITEMS, KEEP, ETA)
ONE, TWO = Goal({"recall": "maximize"}), Goal({"recall": "maximize", "bytes": "minimize"})

SAMPLERS = [
    SamplerOptions(name="tpe", startup=4),
    SamplerOptions(name="nsga2", population=4),
    SamplerOptions(name="nsga3", population=4),
    SamplerOptions(name="gp", startup=2),
    SamplerOptions(name="cmaes", population=4),
    SamplerOptions(name="qmc"),
    SamplerOptions(name="random"),
    SamplerOptions(name="grid"),
    SamplerOptions(name="brute_force"),
]


def spaces(options: SamplerOptions) -> list[tuple[Parameter, ...]]:
    if options.name in ("grid", "brute_force"):
        return [STEPPED]
    return [SMOOTH, MIXED] if options.name == "cmaes" else [MIXED, CONDITIONAL]


def goals(options: SamplerOptions) -> list[Goal]:
    return [ONE] if options.name == "cmaes" else [ONE, TWO]


CASES = [
    pytest.param(options, space, goal, id=f"{options.name}-{len(space)}-{len(goal.objectives)}")
    for options in SAMPLERS
    for space in spaces(options)
    for goal in goals(options)
]


def result(asked: Asked, goal: Goal) -> Told:
    """A made-up result: some fail, and there is a constraint that some violate."""
    if asked.number % 7 == 5:
        return Told()
    weights = {name: 1 + index for index, name in enumerate(asked.params)}
    numbers = [
        weights[name] * (len(str(value)) if isinstance(value, str) or value is None else value)
        for name, value in asked.params.items()
    ]
    values = [-sum((number - 0.4) ** 2 for number in numbers), sum(numbers)]
    return Told(values[: len(goal.objectives)], {"slots at_most": sum(numbers) % 2 - 1.2})


def essence(proposals: list[Asked]) -> list[Any]:
    """All of them but the state of CMA-ES, which has an array that is not filled before it is needed."""
    return [
        (
            one.number,
            one.params,
            one.attributes["study"],
            [(key, None if ":optimizer:" in key else value) for key, value in one.attributes["proposal"].items()],
        )
        for one in proposals
    ]


@dataclass
class Driver:
    """Asks batch after batch, each while the one before is under way, and keeps what a store would."""

    study: LiveStudy
    goal: Goal
    size: int
    stored: list[Stored] = field(default_factory=list)
    under_way: list[Asked] = field(default_factory=list)

    def take_up(self, stored: list[Stored]) -> None:
        """Go on from what another driver stored, as it comes out of JSON."""
        self.stored = [
            Stored(json.loads(json.dumps(one.params)), json.loads(json.dumps(one.attributes)), one.told)
            for one in stored
        ]
        self.study.restore(self.stored)
        self.under_way = [
            Asked(number, one.params, one.attributes) for number, one in enumerate(self.stored) if one.told is None
        ]

    def step(self, batch: int) -> list[Asked]:
        asked = self.study.ask(self.size, batch)
        for one in self.under_way:
            told = result(one, self.goal)
            self.study.tell(one.number, told)
            self.stored[one.number] = Stored(one.params, one.attributes, told)
        self.under_way = asked
        self.stored += [Stored(one.params, one.attributes) for one in asked]
        return asked


def make(options: SamplerOptions, space: tuple[Parameter, ...], goal: Goal, seed: int = 3) -> LiveStudy:
    study = LiveStudy(space, goal, options, seed)
    first = next(every_combination(STEPPED) or iter(())) if space is STEPPED else {"mechanism.tau": 0.25}
    study.warm_start([Known(dict(first), [0.5] * len(goal.objectives), {"slots at_most": -1.0})])
    study.enqueue([dict(list(first.items())[:1])])
    return study


@pytest.mark.parametrize(("options", "space", "goal"), CASES)
def test_a_study_taken_over_at_any_batch_proposes_what_the_undisturbed_one_would(
    options: SamplerOptions, space: tuple[Parameter, ...], goal: Goal
) -> None:
    slow = options.name == "gp"
    batches = 4 if slow else 9
    undisturbed = Driver(make(options, space, goal), goal, 2 if slow else 5)
    history, proposed = [], []
    for batch in range(batches):
        history.append(list(undisturbed.stored))
        proposed.append(undisturbed.step(batch))
    assert options.name in ("random", "qmc", "grid", "brute_force") or proposed[-1] != proposed[0]
    for killed in (3,) if slow else range(batches):
        other = Driver(make(options, space, goal), goal, undisturbed.size)
        other.take_up(history[killed])
        for batch in range(killed, batches):
            assert essence(other.step(batch)) == essence(proposed[batch]), (
                f"killed before batch {killed}, differs at {batch}"
            )


@pytest.mark.parametrize(("options", "space", "goal"), CASES)
def test_every_value_is_one_that_a_config_holds_and_inactive_parameters_are_absent(
    options: SamplerOptions, space: tuple[Parameter, ...], goal: Goal
) -> None:
    driver = Driver(make(options, space, goal), goal, 2 if options.name == "gp" else 6)
    proposals = [one for batch in range(4) for one in driver.step(batch)]
    assert [one.number for one in proposals] == list(range(4 * driver.size))
    for one in proposals:
        assert list(one.params) == [each.name for each in space if each.is_active(one.params)]
        for parameter in space:
            if (value := one.params.get(parameter.name)) is None:
                continue
            grid = parameter.grid()
            if grid is not None:
                assert value in grid
            else:
                assert parameter.low <= value <= parameter.high
                assert value == parameter.number(value)
            assert isinstance(value, {"float": float, "int": int, "categorical": str}[parameter.kind])


@pytest.mark.parametrize("options", SAMPLERS, ids=lambda options: options.name)
def test_one_base_seed_gives_distinct_reproducible_proposals(options: SamplerOptions) -> None:
    """Scenario 21: batches that four workers share differ, and follow from the seed alone."""
    space, goal = spaces(options)[0], goals(options)[0]

    def proposals(seed: int) -> list[Params]:
        driver = Driver(LiveStudy(space, goal, options, seed), goal, 3)
        return [one.params for batch in range(3) for one in driver.step(batch)]

    made = proposals(1)
    assert len({tuple(one.items()) for one in made}) == len(made) == 9
    assert proposals(1) == made
    assert proposals(2) != made


@pytest.mark.parametrize("name", ["grid", "brute_force"])
def test_finite_samplers_propose_every_combination_once_and_then_no_more(name: str) -> None:
    options = SamplerOptions.model_validate({"name": name})
    study = LiveStudy(STEPPED, ONE, options, 5)
    every = list(every_combination(STEPPED) or ())
    study.enqueue([every[7]])
    driver = Driver(study, ONE, 40)
    proposals: list[Params] = []
    batch = 0
    while made := driver.step(batch):
        proposals += [one.params for one in made]
        batch += 1
    assert proposals[0] == every[7]
    assert sorted(map(repr, proposals)) == sorted(map(repr, every))
    assert proposals != every


def test_grid_that_is_endless_or_too_large_is_refused() -> None:
    with pytest.raises(ValueError, match="needs a `step` or `choices`"):
        LiveStudy((TAU,), ONE, SamplerOptions(name="grid"), 0)
    wide = tuple(Parameter(f"mechanism.{name}", "int", 1, 2000) for name in "ab")
    with pytest.raises(ValueError, match="1,000,000 combinations"):
        LiveStudy(wide, ONE, SamplerOptions(name="brute_force"), 0)


def test_known_points_come_first_and_what_they_leave_open_is_proposed() -> None:
    study = LiveStudy(CONDITIONAL, ONE, SamplerOptions(name="random"), 0)
    study.enqueue([{"mechanism.tau": 0.4, "mechanism.keep": "first"}, {"mechanism.eta": 0.25, "mechanism.keep": None}])
    first, second, third = study.ask(3, 0)
    assert first.params == {"mechanism.keep": "first", "mechanism.tau": 0.4}
    assert second.params["mechanism.eta"] == 0.25
    assert 0.05 <= second.params["mechanism.tau"] <= 0.95
    assert third.params["mechanism.tau"] not in (0.4, second.params["mechanism.tau"])


@pytest.mark.parametrize(
    ("point", "reason"),
    [
        ({"mechanism.tua": 0.4}, "`mechanism.tua` is not searched"),
        ({"mechanism.tau": 0.99}, "`mechanism.tau` cannot be 0.99"),
        ({"mechanism.eta": 0.3}, "`mechanism.eta` cannot be 0.3"),
        ({"mechanism.keep": "all"}, "`mechanism.keep` cannot be 'all'"),
    ],
)
def test_known_points_outside_the_search_are_refused(point: Params, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        LiveStudy(CONDITIONAL, ONE, SamplerOptions(name="tpe"), 0).enqueue([point])


@pytest.mark.parametrize("name", ["nsga2", "gp"])
def test_known_results_that_fit_are_learned_from(name: str) -> None:
    """With the best results near 0.3, proposals crowd there from the first batch on."""
    options = SamplerOptions.model_validate({"name": name} | ({"population": 5} if name == "nsga2" else {}))
    study = LiveStudy((TAU, DECAY), ONE, options, 4)
    known = [
        Known({"mechanism.tau": round(0.05 + 0.045 * i, 3), "mechanism.decay": 0.5}, [-((0.045 * i - 0.25) ** 2)])
        for i in range(20)
    ]
    outside = Known({"mechanism.tau": 0.99, "mechanism.decay": 0.5}, [1.0])
    partial = Known({"mechanism.tau": 0.5}, [1.0])
    assert study.warm_start([*known, outside, partial]) == 20
    count = 4 if name == "gp" else 40
    proposals = study.ask(count, 0)
    assert [one.number for one in proposals] == list(range(count))
    near = sum(abs(one.params["mechanism.tau"] - 0.3) < 0.15 for one in proposals)
    assert near >= 0.55 * count  # at random a third


@pytest.mark.parametrize("name", ["tpe", "nsga2", "cmaes"])
def test_what_violates_constraints_is_left(name: str) -> None:
    """Recall rises with tau, but only tau ≤ 0.3 is feasible: late proposals are there, not at the top."""
    options = SamplerOptions.model_validate({"name": name} | ({} if name == "tpe" else {"population": 10}))
    study = LiveStudy((TAU, DECAY), ONE, options, 11)
    made: list[Asked] = []
    for batch in range(20):
        made = [*made, *study.ask(10, batch)][-40:]
        for one in made[-10:]:
            tau = one.params["mechanism.tau"]
            study.tell(one.number, Told([tau], {"slots at_most": tau - 0.3}))
    assert sum(0.15 < one.params["mechanism.tau"] < 0.35 for one in made) >= 16  # at random 9


def bare_tpe(seed: int, told: list[tuple[Params, float]], space: tuple[Parameter, ...], count: int) -> list[Params]:
    """What Optuna's own sampler proposes."""
    import optuna

    from orchestrator.tuner.samplers import distribution_of

    distributions = {one.name: distribution_of(one) for one in space}
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
    for params, value in told:
        study.add_trial(optuna.create_trial(params=params, distributions=distributions, value=value))
    return [study.ask(distributions).params for _ in range(count)]


def test_proposals_are_those_of_optunas_own_sampler() -> None:
    options = SamplerOptions(name="tpe")
    study = LiveStudy((TAU, DECAY, KEEP), ONE, options, 8)
    told = []
    for one in study.ask(30, 0):
        value = -abs(one.params["mechanism.tau"] - 0.5)
        study.tell(one.number, Told([value]))
        told.append((one.params, value))
    ours = [one.params for one in study.ask(12, 1)]
    theirs = bare_tpe(seed_of_batch(options, 8, 1), told, (TAU, DECAY, KEEP), 12)
    for mine, other in zip(ours, theirs, strict=True):
        assert mine["mechanism.keep"] == other["mechanism.keep"]
        assert mine["mechanism.tau"] == pytest.approx(other["mechanism.tau"], rel=1e-9)
        assert mine["mechanism.decay"] == pytest.approx(other["mechanism.decay"], rel=1e-9)


def test_known_results_are_to_tpe_as_its_own() -> None:
    options = SamplerOptions(name="tpe")
    known = [({"mechanism.tau": 0.1 + 0.05 * index, "mechanism.decay": 0.5}, float(index % 7)) for index in range(15)]
    study = LiveStudy(SMOOTH, ONE, options, 8)
    assert study.warm_start([Known(params, [value]) for params, value in known]) == 15
    ours = [one.params["mechanism.tau"] for one in study.ask(5, 0)]
    theirs = [one["mechanism.tau"] for one in bare_tpe(seed_of_batch(options, 8, 0), known, SMOOTH, 5)]
    assert ours == pytest.approx(theirs, rel=1e-9)


def levels(name: str) -> Levels:
    return Levels.model_validate(
        {"name": name, "field": "mechanism.steps", "levels": [100, 300, 900], "percentile": 25, "reduction": 3}
    )


@pytest.mark.parametrize("direction", [1.0, -1.0])
def test_halving_promotes_the_best_of_a_batch_whatever_their_order(direction: float) -> None:
    goal = Goal({"loss": "minimize"} if direction > 0 else {"recall": "maximize"})
    study = LiveStudy((TAU,), goal, SamplerOptions(name="random"), 2, pruner=levels("successive_halving"))
    first = [one.number for one in study.ask(9, 0)]
    values = dict(
        zip(first, (direction * value for value in (8.0, 7.4, 4.6, 5.5, 8.1, 8.2, 9.0, 6.0, 7.0)), strict=True)
    )
    assert set(first) - study.stopped(0, values) == {2, 3, 7}, "a third of nine, the best"
    assert {2, 3, 7} - study.stopped(1, {2: direction * 3.0, 3: direction * 2.0, 7: direction * 5.0}) == {3}
    second = [one.number for one in study.ask(3, 1)]
    later = dict(zip(second, (direction * value for value in (5.0, 9.5, 4.7)), strict=True))
    assert set(second) - study.stopped(0, later) == {9, 11}, "of twelve by now the best four: 4.6, 4.7, 5.0, 5.5"


def test_brackets_of_hyperband_halve_apart_and_begin_at_their_own_level() -> None:
    study = LiveStudy((TAU,), ONE, SamplerOptions(name="random"), 2, pruner=levels("hyperband"))
    numbers = [one.number for one in study.ask(60, 0)]
    kept = set(numbers) - study.stopped(0, {number: float(number) for number in numbers})
    by_bracket: dict[int, list[int]] = {}
    for number in numbers:
        by_bracket.setdefault(study._bracket(study._storage.get_trial(number)), []).append(number)
    assert by_bracket.keys() == {0, 1, 2}
    assert kept.issuperset(by_bracket[1] + by_bracket[2]), "they have no rung at the first level"
    of_first = by_bracket[0]
    assert kept & set(of_first) == set(sorted(of_first, reverse=True)[: len(of_first) // 3])


@pytest.mark.parametrize("name", ["median", "percentile", "successive_halving", "hyperband"])
def test_pruners_over_levels_stop_the_poor_and_are_restored(name: str) -> None:
    def course(study: LiveStudy, members: list[Asked]) -> dict[int, dict[int, float]]:
        reached: dict[int, dict[int, float]] = {}
        for one in members:
            reached[one.number] = {}
            for level in range(3):
                reached[one.number][level] = one.params["mechanism.tau"] + 0.01 * level
                if level < 2 and study.stopped(level, {one.number: reached[one.number][level]}):
                    study.tell(one.number, Told(stopped=True))
                    break
            else:
                study.tell(one.number, Told([one.params["mechanism.tau"]]), {2: reached[one.number][2]})
        return reached

    def make() -> LiveStudy:
        return LiveStudy((TAU,), ONE, SamplerOptions(name="tpe"), 2, pruner=levels(name))

    study = make()
    asked, reached = [], {}
    for batch in range(4):
        made = study.ask(10, batch)
        asked += made
        reached |= course(study, made)
    stopped = [number for number, values in reached.items() if len(values) < 3]
    assert 5 <= len(stopped) < 40
    best = max(asked, key=lambda one: one.params["mechanism.tau"]).number
    assert best not in stopped

    def told(one: Asked) -> Told:
        return Told(stopped=True) if one.number in stopped else Told([one.params["mechanism.tau"]])

    other = make()
    other.restore([Stored(one.params, one.attributes, told(one), reached[one.number]) for one in asked])
    following, again = study.ask(10, 4), other.ask(10, 4)
    assert following == again
    assert course(study, following) == course(other, again)


@pytest.fixture(autouse=True)
def no_warnings(capsys: pytest.CaptureFixture[str]) -> Iterator[None]:
    """Optuna says nothing, neither as a warning nor as a line."""
    with warnings_fail():
        yield
    assert capsys.readouterr() == ("", "")


def test_batches_have_the_size_of_generations() -> None:
    def size(name: str, **options: int) -> int:
        return default_batch(sized(SamplerOptions.model_validate({"name": name} | options), 500), MIXED, 500)

    assert [size(name) for name in ("tpe", "gp", "nsga2", "cmaes", "random", "grid")] == [20, 5, 50, 8, 100, 100]
    assert size("nsga3", population=12) == size("cmaes", population=12) == 12

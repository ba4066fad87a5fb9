"""Checks across the options of a tuning spec: goal, samplers, pruner, known points, seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence

from models.config import Config
from orchestrator.spec.aims import check_metric
from orchestrator.spec.entries import Placed
from orchestrator.spec.hints import did_you_mean, one_of
from orchestrator.spec.nodes import ListNode, MapNode, Node, quoted, to_python
from orchestrator.spec.problems import Problems
from orchestrator.spec.schema import LAST_SEED, SpecFields
from orchestrator.spec.searching import Search, some_values
from orchestrator.spec.seeds import seeds_of
from orchestrator.spec.validation import validate
from tasks.kinds.tuning import TuningConfig, Wilcoxon
from tasks.search import Parameter, full_name

MOST_STUDIES = 10_000
LARGEST_GRID = 100_000

EXHAUSTIVE = ("grid", "brute_force")


def check_tuning(
    tree: MapNode, search: Search, workloads: Sequence[Placed], mechanisms: Sequence[Placed], problems: Problems
) -> None:
    """Report options that do not go together, with each other or with the rest of the spec."""
    checks = _Checks(tree, search, problems)
    checks.goal([one.entry.config_class for one in workloads])
    checks.samplers()
    checks.pruner()
    checks.points()
    checks.seeds()
    checks.device()
    checks.studies(workloads, mechanisms)


class _Checks:
    """Each method one check; what is already known to be wrong takes part in none."""

    def __init__(self, tree: MapNode, search: Search, problems: Problems) -> None:
        self._tree = tree
        self._search = search
        self._problems = problems
        given = {
            key.text: to_python(value)
            for key, value in tree.entries
            if key.text in TuningConfig.model_fields and key.text not in ("name", "search") and problems.clean(value)
        }
        found = {one.name: to_python(one.node) for one in search.dimensions}
        stand_ins = {"objectives": {"recall": "maximize"}, "trials": 1_000_000}
        self._options = validate(
            TuningConfig, {**stand_ins, **given, "search": found or {"mechanism.x": {"choices": [0]}}}
        )
        self._seeds = self._read_seeds()

    def _read_seeds(self) -> tuple[int, ...] | None:
        node = self._node("seeds")
        if node is None:
            return None
        fields = {"name": "x", "kind": "tuning", "workload": None, "mechanisms": None, "seeds": to_python(node)}
        seeds, until = seeds_of(validate(SpecFields, fields).seeds)
        return seeds if until is None else None

    def _node(self, key: str) -> Node | None:
        """What is written under `key`, unless something is wrong with it."""
        node = self._tree.get(key)
        return node if node is not None and self._problems.clean(node) else None

    def _studies(self) -> list[tuple[type[Config], tuple[Parameter, ...]]]:
        """Each searched mechanism with the parameters of its studies, for every workload; none if not all is right."""
        if not self._search.complete:
            return []
        pairs = [
            (mechanism, self._search.parameters(workload, mechanism)) for workload, mechanism in self._search.pairs()
        ]
        return [(mechanism, parameters) for mechanism, parameters in pairs if parameters]

    def goal(self, workloads: Sequence[type[Config]]) -> None:
        searched = self._search.searched_mechanisms() or self._search.mechanisms
        for option in ("objectives", "constraints"):
            node = self._tree.get(option)
            if isinstance(node, MapNode) and not self._problems.spoiled(node):
                for key, _ in node.entries:
                    check_metric(key.text, key.at, workloads, searched, self._problems)

    def samplers(self) -> None:
        node = self._node("sampler")
        if node is None:
            return
        nodes = node.items if isinstance(node, ListNode) else (node,)
        for index, (place, sampler) in enumerate(zip(nodes, self._options.samplers, strict=True)):
            if sampler in self._options.samplers[:index]:
                self._problems.add(place, f"sampler {sampler.name} is there already", expected="each once")
            elif sampler.name == "cmaes":
                self._cmaes(place)
        exhaustive = [
            (place, one.name)
            for place, one in zip(nodes, self._options.samplers, strict=True)
            if one.name in EXHAUSTIVE
        ]
        if exhaustive:
            self._finite(*exhaustive[0])

    def _cmaes(self, place: Node) -> None:
        """What Optuna's CmaEsSampler refuses or leaves to chance."""
        instead = "one that can: tpe, gp or nsga2"
        if len(self._options.objectives) > 1:
            self._problems.add(
                place, "sampler cmaes takes one objective", expected="one that takes several: tpe, nsga2"
            )
        for mechanism, parameters in self._studies():
            numbers = [one for one in parameters if one.kind != "categorical"]
            if any(one.when for one in parameters):
                self._problems.add(place, "sampler cmaes has no use for dimensions with `when`", expected=instead)
                return
            if not numbers:
                name = mechanism.model_fields["name"].default
                wrong = f"sampler cmaes needs a dimension that takes numbers, and {name} has none"
                self._problems.add(place, wrong, expected=instead)
                return

    def _finite(self, place: Node, sampler: str) -> None:
        """Whether every combination can be listed."""
        studies = self._studies()
        endless = {one.name for _, parameters in studies for one in parameters if one.size is None}
        for one in self._search.dimensions:
            if {full_name(one.name, str(m.model_fields["name"].default)) for m, _ in studies} & endless:
                wrong = f"sampler {sampler} tries every value, and {quoted(one.name)} has no end of them"
                self._problems.at(one.node.at, wrong, expected="a `step`, or `choices`")
        largest = max((math.prod(one.size or 1 for one in parameters) for _, parameters in studies), default=0)
        if not endless and largest > LARGEST_GRID:
            wrong = f"sampler {sampler} would list {largest} combinations"
            self._problems.add(place, wrong, expected=f"at most {LARGEST_GRID}: larger steps, or another sampler")

    def pruner(self) -> None:
        node = self._node("pruner")
        stops = self._options.stops
        if node is None or stops is None:
            return
        if isinstance(stops, Wilcoxon):
            if self._seeds is not None and stops.first >= len(self._seeds):
                wrong = f"pruner wilcoxon gives every proposal {stops.first} seeds, and there are {len(self._seeds)}"
                expected = f"more than {stops.first} seeds, or `pruner: none`"
                self._problems.add((isinstance(node, MapNode) and node.get("first")) or node, wrong, expected=expected)
            return
        if len(self._options.objectives) > 1:
            wrong = f"pruner {stops.name} goes by one objective, and there are {len(self._options.objectives)}"
            self._problems.add(node, wrong, expected="one objective, or `pruner: none`")

    def points(self) -> None:
        node, trials = self._node("enqueue"), self._node("trials")
        if not isinstance(node, ListNode):
            return
        if trials is not None and len(node.items) > self._options.trials:
            wrong = f"{len(node.items)} points are enqueued, and a study makes {self._options.trials} proposals"
            self._problems.add(trials, wrong, expected=f"`trials` of {len(node.items)} or more")
        studies = self._studies()
        for point in node.items if studies else ():
            assert isinstance(point, MapNode)
            self._point(point, studies)

    def _point(self, point: MapNode, studies: Sequence[tuple[type[Config], tuple[Parameter, ...]]]) -> None:
        """Check the names in a point, their values, and that some study has all of them."""
        if not point.entries:
            self._problems.add(
                point, "this point is empty", expected="{NAME.FIELD: value}, of fields that are searched"
            )
            return
        found: list[set[int]] = []
        for key, value in point.entries:
            having = {
                number: one
                for number, (mechanism, parameters) in enumerate(studies)
                for one in parameters
                if one.name == full_name(key.text, str(mechanism.model_fields["name"].default))
            }
            if not having:
                names = self._search.names
                hint = did_you_mean(key.text, names)
                self._problems.at(key.at, f"{quoted(key.text)} is not searched", expected=one_of(names), hint=hint)
                return
            wrong = [one for one in having.values() if not one.takes(to_python(value))]
            if wrong:
                self._problems.add(value, f"{quoted(key.text)} is never this", expected=some_values(wrong[0]))
            found.append(set(having))
        if not set.intersection(*found):
            self._problems.add(
                point, "no study has all of these", expected="fields of one mechanism, and of the workload"
            )

    def seeds(self) -> None:
        node = self._node("held_out")
        held_out = self._options.held_out
        if self._seeds is not None and max(self._seeds) + held_out > LAST_SEED:
            wrong = f"the last of {held_out} seeds held out, which follow the largest, is above 2**63 - 1"
            self._problems.add(node or self._tree.get("seeds") or self._tree, wrong, expected="smaller seeds")
        if node is None or held_out or not self._search.complete:
            return
        searched = self._search.searched_mechanisms()
        for config_class in self._search.mechanisms:
            if config_class not in searched:
                name = config_class.model_fields["name"].default
                wrong = f"nothing of {name} is searched, so it is evaluated on seeds held out, of which there are none"
                self._problems.add(node, wrong, expected="1 or more")
                return

    def device(self) -> None:
        node = self._node("device")
        if isinstance(node, ListNode):
            wrong = "a study runs on one class of device"
            self._problems.add(node, wrong, expected="one of `cpu`, `cuda`, `mps`, or `any`")

    def studies(self, workloads: Sequence[Placed], mechanisms: Sequence[Placed]) -> None:
        searched = self._search.searched_mechanisms()
        combinations = [
            sum(len(one.entry) for one in workloads),
            sum(len(one.entry) for one in mechanisms if one.entry.config_class in searched),
        ]
        count = math.prod(combinations) * len(self._options.samplers) * self._options.repeats
        if count > MOST_STUDIES:
            wrong = f"this spec makes {count} studies"
            self._problems.at(self._tree.at, wrong, expected=f"at most {MOST_STUDIES}: fewer axes, samplers or repeats")

"""What a spec searches: every dimension checked where it stands against the fields that it names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from models.config import Config
from orchestrator.spec.entries import MECHANISM, WORKLOAD, Absence, Elsewhere, Family, FieldsElsewhere, entry_nodes
from orchestrator.spec.expectations import Expectation
from orchestrator.spec.hints import did_you_mean, nearest, one_of
from orchestrator.spec.nodes import ListNode, MapNode, Node, ScalarNode, quoted, shown, to_python
from orchestrator.spec.problems import Problems
from orchestrator.spec.validation import check_field, validate
from tasks.kinds.tuning import TuningConfig
from tasks.search import Choices, Dimension, Parameter, Params, full_name, parameters_of, split


@dataclass(frozen=True)
class Sought:
    """A dimension where it stands: the key that names it, `dp_cache.tau`, and what is under it."""

    key: ScalarNode
    node: MapNode
    dimension: Dimension

    @property
    def name(self) -> str:
        """As written."""
        return self.key.text

    @property
    def owner(self) -> str:
        """`workload`, `mechanism` or the name of a mechanism."""
        return self.name.partition(".")[0]

    @property
    def field(self) -> str:
        """What comes after the first dot."""
        return self.name.partition(".")[2]

    @property
    def unconditional(self) -> Dimension:
        """The same, searched always."""
        return self.dimension.model_copy(update={"when": None})

    def values(self) -> list[Node]:
        """The nodes of its choices, or of both ends of its range."""
        choices = self.node.get("choices")
        found = choices.items if isinstance(choices, ListNode) else (self.node.get("low"), self.node.get("high"))
        return [node for node in found if node is not None]


class Search:
    """The dimensions of a spec, as far as they are right, and the workloads and mechanisms that they bear on.

    Making one reports what is wrong with dimensions beside the entries of the spec.
    """

    def __init__(self, tree: MapNode, problems: Problems, *, all_known: bool) -> None:
        self._problems = problems
        self.workloads, workloads_known = _classes(tree, WORKLOAD, "workload")
        self.mechanisms, mechanisms_known = _classes(tree, MECHANISM, "mechanisms")
        self._all_known = all_known and workloads_known and mechanisms_known
        node = tree.get("search")
        self._written = list(node.entries) if isinstance(node, MapNode) else []
        self.dimensions = list(self._sound())
        for check in (self._is_placed, self._fits, self._is_alone, self._condition_holds, self._ends):
            self.dimensions = [one for one in self.dimensions if check(one)]

    @property
    def complete(self) -> bool:
        """Whether every dimension and every name of an entry is right, so that studies are known."""
        return self._all_known and 0 < len(self._written) == len(self.dimensions)

    @property
    def names(self) -> list[str]:
        """Every dimension, as it is written, right or wrong."""
        return [key.text for key, _ in self._written]

    def pairs(self) -> Iterator[tuple[type[Config], type[Config]]]:
        """Every pair of a workload and a mechanism of the spec."""
        return ((workload, mechanism) for workload in self.workloads for mechanism in self.mechanisms)

    def parameters(self, workload: type[Config], mechanism: type[Config]) -> tuple[Parameter, ...]:
        """What a study of the two searches, as far as it is right."""
        return parameters_of({one.name: one.dimension for one in self.dimensions}, workload, mechanism)

    def searched_mechanisms(self) -> list[type[Config]]:
        """The mechanisms with a dimension: their own, or one of the workload."""
        for_all = any(one.owner == "workload" for one in self.dimensions)
        return [one for one in self.mechanisms if for_all or any(self.bears_on(d, one) for d in self.dimensions)]

    def elsewhere(self, family: Family) -> FieldsElsewhere:
        """The fields of entries of a family that are searched, each with the first value that it may have."""
        known = self.workloads if family is WORKLOAD else self.mechanisms
        found: dict[str, dict[str, Elsewhere]] = {}
        for config_class in known:
            point = self._first_point(family, config_class)
            for key, _ in self._written:
                owner, _, field = key.text.partition(".")
                name = _name(config_class)
                owners = ("workload",) if family is WORKLOAD else ("mechanism", name)
                if owner in owners and field in config_class.model_fields and field != "name":
                    value = Absence.UNKNOWN if point is None else point.get(field, Absence.ALLOWED)
                    found.setdefault(name, {})[field] = Elsewhere(f"searched as `{key.text}`", value)
        return found

    def _first_point(self, family: Family, config_class: type[Config]) -> Params | None:
        """Fields that the first values of a study's parameters set; None where not all of them are right."""
        if not self.complete or not self.workloads or not self.mechanisms:
            return None
        pair = (config_class, self.mechanisms[0]) if family is WORKLOAD else (self.workloads[0], config_class)
        point: Params = {}
        for one in self.parameters(*pair):
            if one.is_active(point):
                point[one.name] = one.some_values[0]
        workload, mechanism = split(point)
        return workload if family is WORKLOAD else mechanism

    # --- checks, each of one dimension ---

    def _sound(self) -> Iterator[Sought]:
        """Those dimensions that are right by themselves."""
        for key, value in self._written:
            if isinstance(value, MapNode) and self._problems.clean(value):
                tree = {"search": {key.text: to_python(value)}, "objectives": {"recall": "maximize"}, "trials": 1}
                yield Sought(key, value, validate(TuningConfig, tree).search[key.text])

    def _classes_of(self, one: Sought) -> list[type[Config]]:
        """Config classes with a field that the dimension searches."""
        if one.owner == "workload":
            return self.workloads
        return [config_class for config_class in self.mechanisms if self.bears_on(one, config_class)]

    def bears_on(self, one: Sought, mechanism: type[Config]) -> bool:
        return one.owner in ("mechanism", _name(mechanism))

    def _is_placed(self, one: Sought) -> bool:
        """Whether entries of the spec have the field; else it is reported, unless that cannot be known."""
        classes = self._classes_of(one)
        owners = ["workload", "mechanism", *map(_name, self.mechanisms)]
        if not one.field or one.owner not in owners:
            if self._all_known:
                self._report_owner(one, owners)
            return False
        before = len(self._problems)
        for config_class in classes:
            fields = sorted(set(config_class.model_fields) - {"name"})
            if one.field == "name":
                wrong = "names are not searched: each workload and each mechanism has studies of its own"
                self._problems.at(one.key.at, wrong, expected=one_of(fields))
                break
            if one.field not in fields:
                hint = did_you_mean(one.field, fields)
                having = [c for c in self.mechanisms if one.owner == "mechanism" and one.field in c.model_fields]
                if having:
                    hint = f"name those that have it: {', '.join(f'{_name(c)}.{one.field}' for c in having)}"
                wrong = f"`{_name(config_class)}` has no field {quoted(one.field)}"
                self._problems.at(one.key.at, wrong, expected=one_of(fields), hint=hint)
        return bool(classes) and len(self._problems) == before

    def _report_owner(self, one: Sought, owners: Sequence[str]) -> None:
        """Report a dimension that no entry has; with the ways to write it where the field itself is known."""
        field = one.name.rpartition(".")[2]
        having = [_name(config_class) for config_class in self.mechanisms if field in config_class.model_fields]
        having += ["workload"] if any(field in config_class.model_fields for config_class in self.workloads) else []
        near = nearest(one.owner, owners) if one.field else None
        hint = did_you_mean(one.owner, owners) if near else ""
        if having and not near:
            hint = f"write {' or '.join(f'{name}.{field}' for name in having)}"
        what = f"{quoted(one.owner)} is no entry of this spec" if one.field else "whose field is this?"
        expected = f"workload.FIELD, mechanism.FIELD, or the field of one mechanism: {', '.join(owners[2:])}"
        self._problems.at(one.key.at, f"{quoted(one.name)}: {what}", expected=expected, hint=hint)

    def _fits(self, one: Sought) -> bool:
        """Whether the field takes every choice, or both ends, and whole steps where it takes whole numbers."""
        for config_class in self._classes_of(one):
            expectation, name = Expectation(config_class, (one.field,)), _name(config_class)
            if not isinstance(one.dimension, Choices) and not expectation.numeric():
                wrong = f"{quoted(one.name)}: `{one.field}` of {name} takes no numbers"
                self._problems.add(one.node, wrong, expected="{choices: [...]}, each " + str(expectation))
                return False
            for node in filter(self._problems.clean, one.values()):
                check_field(config_class, one.field, node, self._problems, {"name": name})
            step = one.node.get("step")
            whole = expectation.whole() and isinstance(step, ScalarNode) and step.value is not None
            if step is not None and whole and not float(to_python(step)).is_integer() and self._problems.clean(step):
                self._problems.add(step, f"this step {shown(step)}", expected=f"a whole number, as `{one.field}` takes")
        return self._problems.clean(one.node)

    def _is_alone(self, one: Sought) -> bool:
        """Whether no dimension before it searches the same field of the same mechanism."""
        for other in self.dimensions[: self.dimensions.index(one)]:
            for config_class in self.mechanisms:
                name = _name(config_class)
                if self.bears_on(one, config_class) and full_name(one.name, name) == full_name(other.name, name):
                    wrong = f"{quoted(one.name)}: {name} is searched there as `{other.name}` already"
                    self._problems.at(one.key.at, wrong, expected="each field once")
                    return False
        return True

    def _condition_holds(self, one: Sought) -> bool:
        """Whether `when` names other dimensions of the same studies, and values that these can have."""
        node = one.node.get("when")
        if not isinstance(node, MapNode):
            return True
        before = len(self._problems)
        for workload, mechanism in self.pairs():
            if one.owner == "workload" or self.bears_on(one, mechanism):
                for key, value in node.entries:
                    self._check_condition(one, key, value, workload, mechanism)
            if len(self._problems) > before:
                return False
        return True

    def _check_condition(
        self, one: Sought, key: ScalarNode, value: Node, workload: type[Config], mechanism: type[Config]
    ) -> None:
        name = full_name(key.text, _name(mechanism))
        other = self._named(name, mechanism)
        if other is None:
            if key.text not in self.names or self.complete:
                of = f" for {_name(mechanism)}" if key.text in self.names else ""
                wrong = f"`when` of {quoted(one.name)} names {quoted(key.text)}, which is not searched{of}"
                names = [known for known in self.names if known != one.name]
                expected = one_of(names) if names else "another dimension of `search`"
                self._problems.at(key.at, wrong, expected=expected, hint=did_you_mean(key.text, names))
            return
        [parameter] = parameters_of({other.name: other.unconditional}, workload, mechanism)
        if parameter.size is None:
            wrong = f"{quoted(key.text)} takes any number in its range, and hardly ever this one"
            self._problems.at(key.at, wrong, expected="a dimension with `choices`, a `step` or whole numbers")
            return
        for item in value.items if isinstance(value, ListNode) else (value,):
            if not parameter.takes(to_python(item)):
                self._problems.add(item, f"{quoted(key.text)} is never this", expected=some_values(parameter))

    def _ends(self, one: Sought) -> bool:
        """Whether its condition does not, by way of others, wait for itself."""
        reached: list[Sought] = []
        ahead = [one]
        while ahead:
            found = [other for other in self._conditions_of(ahead.pop()) if other not in reached]
            reached += found
            ahead += found
        if one in reached:
            node = one.node.key("when")
            assert node is not None
            wrong = f"the condition of {quoted(one.name)} goes in a circle"
            self._problems.at(node.at, wrong, expected="a dimension that is searched always, to begin with")
        return one not in reached

    def _conditions_of(self, one: Sought) -> list[Sought]:
        """The dimensions, right ones, that a condition names in some study."""
        names = {
            (full_name(path, _name(mechanism)), mechanism)
            for path in one.dimension.when or {}
            for mechanism in self.mechanisms
        }
        return [
            other
            for other in self.dimensions
            if any(self._named(name, mechanism) is other for name, mechanism in names)
        ]

    def _named(self, name: str, mechanism: type[Config]) -> Sought | None:
        """The dimension, if it is right, of a parameter in studies of a mechanism."""
        for one in self.dimensions:
            bears = one.owner == "workload" or self.bears_on(one, mechanism)
            if bears and full_name(one.name, _name(mechanism)) == name:
                return one
        return None


def _classes(tree: MapNode, family: Family, key: str) -> tuple[list[type[Config]], bool]:
    """The config classes of the entries under `key`, each once, and whether every entry's is known."""
    node = tree.get(key)
    nodes = (entry_nodes(key, node) or []) if node is not None else []
    names = [item.get("name") if isinstance(item, MapNode) else None for _, item in nodes]
    known = [
        name.value
        for name in names
        if isinstance(name, ScalarNode) and isinstance(name.value, str) and name.value in family.registry
    ]
    return [family.registry.config_class(name) for name in dict.fromkeys(known)], bool(nodes) and len(known) == len(
        nodes
    )


def _name(config_class: type[Config]) -> str:
    return str(config_class.model_fields["name"].default)


def some_values(parameter: Parameter) -> str:
    """The values of a parameter, in words."""
    if parameter.kind == "categorical":
        return one_of(f"`{'null' if value is None else str(value)}`" for value in parameter.choices)
    step = f" in steps of {parameter.step:g}" if parameter.step else ""
    return f"a number from {parameter.low:g} to {parameter.high:g}{step}"

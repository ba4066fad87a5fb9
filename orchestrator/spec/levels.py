"""Fields that stand outside their entries; among them what makes trials longer, checked where a pruner names it."""

from __future__ import annotations

from models.config import Config
from orchestrator.spec.entries import MECHANISM, WORKLOAD, Absence, Elsewhere, FieldsElsewhere
from orchestrator.spec.expectations import Expectation
from orchestrator.spec.hints import did_you_mean, one_of
from orchestrator.spec.nodes import ListNode, MapNode, Node, quoted, to_python
from orchestrator.spec.problems import Problems
from orchestrator.spec.searching import Search
from orchestrator.spec.validation import check_field, validate
from tasks.kinds.tuning import Levels
from tasks.search import full_name


def fields_elsewhere(tree: MapNode, search: Search, problems: Problems) -> tuple[FieldsElsewhere, FieldsElsewhere]:
    """The fields of workloads, and of mechanisms, that are searched or set by a pruner."""
    mechanisms = dict(search.elsewhere(MECHANISM))
    for name, fields in _fields_of_levels(tree, search, problems).items():
        mechanisms[name] = {**fields, **mechanisms.get(name, {})}
    return search.elsewhere(WORKLOAD), mechanisms


def _fields_of_levels(tree: MapNode, search: Search, problems: Problems) -> FieldsElsewhere:
    """The field of every mechanism that is searched that a pruner over levels sets, at its last level.

    Reports a field that these do not have, or that is searched, and levels that it does not take.
    """
    node = tree.get("pruner")
    if not isinstance(node, MapNode) or not problems.clean(node) or node.get("levels") is None:
        return {}
    levels = validate(Levels, to_python(node))
    owner, _, field = levels.field.partition(".")
    place, written = node.get("field"), node.get("levels")
    assert place is not None
    assert isinstance(written, ListNode)
    searched = {str(one.model_fields["name"].default): one for one in search.searched_mechanisms()}
    if owner != "mechanism" and list(searched) != [owner]:
        expected = "a field of every mechanism that is searched: mechanism.FIELD"
        problems.add(place, f"{quoted(levels.field)} is no such field", expected=expected)
        return {}
    found = {}
    for name, config_class in searched.items():
        if not _takes_numbers(name, config_class, field, place, problems):
            return {}
        for one in search.dimensions:
            if search.bears_on(one, config_class) and full_name(one.name, name) == f"mechanism.{field}":
                wrong = f"{quoted(levels.field)} is searched as `{one.name}`"
                problems.add(place, wrong, expected="a field that is not searched")
                return {}
        for level in filter(problems.clean, written.items):
            check_field(config_class, field, level, problems, {"name": name})
        last = levels.levels[-1]
        value = (int(last) if last.is_integer() else last) if problems.clean(written) else Absence.UNKNOWN
        found[name] = {field: Elsewhere("set by `pruner`", value)}
    return found


def _takes_numbers(name: str, config_class: type[Config], field: str, place: Node, problems: Problems) -> bool:
    """Whether the mechanism has the field, and it takes numbers; else it is reported."""
    fields = sorted(set(config_class.model_fields) - {"name"})
    if field not in fields:
        hint = did_you_mean(field, fields)
        problems.add(place, f"`{name}` has no field {quoted(field)}", expected=one_of(fields), hint=hint)
        return False
    if not Expectation(config_class, (field,)).numeric():
        problems.add(place, f"`{field}` of {name} takes no numbers", expected="a field that does")
        return False
    return True

"""One entry under `workload` or `mechanisms`: a name, fields, and axes on any of them."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, cast

from pydantic import ValidationError

from models.config import Config, round_numbers
from models.mechanism import MECHANISMS
from models.registry import Registry
from orchestrator.spec.axes import Axis, is_axis, read_points, report_repeats
from orchestrator.spec.expectations import Expectation
from orchestrator.spec.hints import did_you_mean, nearest, one_of
from orchestrator.spec.nodes import Atom, ListNode, MapNode, Node, ScalarNode, quoted, shown, to_python
from orchestrator.spec.problems import Problems
from orchestrator.spec.validation import check_field, errors_of, message_of, validate
from tasks.corpora import CorpusError
from tasks.kind import KINDS
from tasks.sequences import SequenceWorkload
from tasks.workload import LONGEST_STREAM, WORKLOADS, WorkloadConfig

MOST_CONFIGS = 1_000_000
"""Configs one entry may stand for."""


@dataclass(frozen=True)
class Entry:
    """Configs of one workload or mechanism: fixed fields, and axes whose product is taken."""

    config_class: type[Config]
    fixed: dict[str, Any]
    axes: tuple[Axis, ...] = ()

    def __len__(self) -> int:
        return math.prod(len(axis.values) for axis in self.axes)

    def values(self, field: str) -> tuple[Any, ...]:
        """Every value that `field` is given; none where it is left out."""
        fixed = (self.fixed[field],) if field in self.fixed else ()
        return next((axis.values for axis in self.axes if axis.field == field), fixed)

    def combinations(self) -> Iterator[dict[str, Any]]:
        """The fields of every config, the first axis slowest."""
        fields = [axis.field for axis in self.axes]
        for values in itertools.product(*(axis.values for axis in self.axes)):
            yield {**self.fixed, **dict(zip(fields, values, strict=True))}

    def configs(self) -> Iterator[Config]:
        """Every config, made as it is asked for."""
        return (validate(self.config_class, fields) for fields in self.combinations())


@dataclass(frozen=True)
class Family:
    """What entries under one key of a spec are."""

    noun: str
    registry: Registry[Any]


WORKLOAD = Family("workload", WORKLOADS)
MECHANISM = Family("mechanism", MECHANISMS)


@dataclass(frozen=True)
class Placed:
    """An entry, where it stands, the path to it, and the fields that it has from elsewhere."""

    entry: Entry
    node: MapNode
    path: str
    elsewhere: tuple[str, ...] = ()


class Absence(Enum):
    """Why a field that stands outside its entry has no value."""

    ALLOWED = "it may be absent"
    UNKNOWN = "there was a problem with it"


@dataclass(frozen=True)
class Elsewhere:
    """A field that stands outside its entry.

    what    what becomes of it, for messages: "searched as `dp_cache.tau`"
    value   one that it may have; an Absence: it may be absent, or nothing is known of it after a problem there
    """

    what: str
    value: Atom | Absence


FieldsElsewhere = Mapping[str, Mapping[str, Elsewhere]]
"""By the name of the workload or mechanism, and by field."""


def entry_nodes(key: str, node: Node) -> list[tuple[str, Node]] | None:
    """The entries under `workload` or `mechanisms`, each with its path; None where `node` is no list of them."""
    if isinstance(node, ListNode):
        return [(f"{key}.{index}", item) for index, item in enumerate(node.items)]
    return [(key, node)] if key == "workload" else None


def read_entry(
    family: Family,
    node: Node,
    path: str,
    problems: Problems,
    elsewhere: FieldsElsewhere,
    *,
    all_known: bool,
) -> Placed | None:
    """Read the entry at `path`. Nothing where a problem leaves no entry; unknown names pass if not `all_known`.

    Of fields `elsewhere` the entry has the value that is known, and must not write them.
    """
    if problems.spoiled(node):
        return None
    if not isinstance(node, MapNode):
        example = (
            f"{{name: {node.text}}}" if isinstance(node, ScalarNode) and node.text in family.registry else "{name: ...}"
        )
        problems.add(node, f"`{path}` {shown(node)}", expected=f"a mapping such as {example}")
        return None
    name = _read_name(family, node, path, problems, all_known)
    if name is None:
        return None
    return _Reader(family.registry.config_class(name), node, path, problems, elsewhere.get(name, {})).read()


def _read_name(family: Family, node: MapNode, path: str, problems: Problems, all_known: bool) -> str | None:
    value = node.get("name")
    if isinstance(value, ScalarNode) and isinstance(value.value, str) and value.value in family.registry:
        return value.value
    names = family.registry.names()
    if value is None:
        near = next((key for key, _ in node.entries if nearest(key.text, ["name"])), None)
        hint = f"did you mean `name` for {quoted(near.text)}?" if near else ""
        problems.at(node.at, f"`{path}` has no `name`", expected=f"`name`: {one_of(names)}", hint=hint)
    elif not isinstance(value, ScalarNode) or not isinstance(value.value, str):
        expected = f"one {family.noun} an entry: {one_of(names)}"
        problems.add(value, f"`name` {shown(value)}", expected=expected)
    elif all_known:
        wrong = f"unknown {family.noun} {quoted(value.text)}"
        problems.add(value, wrong, expected=one_of(names), hint=did_you_mean(value.text, names))
    return None


class _Reader:
    """Reads the fields of one entry, each on its own, then all of them together."""

    def __init__(
        self,
        config_class: type[Config],
        node: MapNode,
        path: str,
        problems: Problems,
        elsewhere: Mapping[str, Elsewhere],
    ) -> None:
        self._class = config_class
        self._name = str(config_class.model_fields["name"].default)
        self._node = node
        self._path = path
        self._problems = problems
        self._fixed: dict[str, Any] = {"name": self._name}
        self._axes: list[Axis] = []
        self._elsewhere = elsewhere
        self._meant: set[str] = set()  # fields that misspelt keys probably stand for

    def read(self) -> Placed | None:
        before = len(self._problems)
        for key, value in self._node.entries:
            if key.text not in self._class.model_fields:
                self._unknown(key)
            elif key.text in self._elsewhere:
                wrong = f"`{key.text}` is {self._elsewhere[key.text].what}"
                self._problems.at(key.at, wrong, expected="no value here, or that left out")
            elif key.text != "name":
                self._field(key.text, value)
        for field, place in self._elsewhere.items():
            self._take(field, place)
        entry = Entry(self._class, self._fixed, tuple(self._axes))
        unknown = any(place.value is Absence.UNKNOWN for place in self._elsewhere.values())
        if unknown or len(self._problems) > before or not self._problems.clean(self._node):
            self._check_what_is_there(entry)
            return None
        if len(entry) > MOST_CONFIGS:
            wrong = f"the axes of `{self._path}` make {len(entry)} configurations"
            self._problems.add(self._node, wrong, expected=f"at most {MOST_CONFIGS}")
            return None
        entry = replace(entry, fixed=self._class.pinned(self._fixed))
        return Placed(entry, self._node, self._path, tuple(field for field in self._elsewhere if field in self._fixed))

    def _take(self, field: str, place: Elsewhere) -> None:
        """Let a field that stands elsewhere have the value that it may have there."""
        if place.value is Absence.UNKNOWN:
            self._meant.add(field)
        elif place.value is not Absence.ALLOWED:
            self._fixed[field] = place.value

    def _unknown(self, key: ScalarNode) -> None:
        fields = sorted(set(self._class.model_fields) - {"name"})
        head, _, rest = key.text.partition(":")
        hint = (
            f"write a space after the colon: {head}: {rest}"
            if rest and head in fields
            else did_you_mean(key.text, fields)
        )
        self._meant.add(head if rest else nearest(key.text, fields) or "")
        self._problems.at(key.at, f"`{self._name}` has no field {quoted(key.text)}", expected=one_of(fields), hint=hint)

    def _field(self, field: str, value: Node) -> None:
        expectation = Expectation(self._class, (field,))
        if not self._problems.clean(value):
            self._meant.add(field)
        elif isinstance(value, MapNode) and is_axis(value, expectation):
            self._axis(field, value, expectation)
        else:
            self._fixed[field] = round_numbers(to_python(value))
            check_field(self._class, field, value, self._problems, {"name": self._name})

    def _axis(self, field: str, value: MapNode, expectation: Expectation) -> None:
        self._meant.add(field)
        before = len(self._problems)
        points = read_points(field, value, expectation, self._problems)
        listed = value.get("values") is not None
        for point in points:
            if self._problems.clean(point):
                check_field(self._class, field, point, self._problems, {"name": self._name})
            if not listed and len(self._problems) > before:
                break  # its neighbours are wrong for the same reason
        if listed or len(self._problems) == before:
            report_repeats(points, self._problems, generated=not listed)
        if points and len(self._problems) == before:
            self._axes.append(Axis(field, tuple(round_numbers(to_python(point)) for point in points)))

    def _check_what_is_there(self, entry: Entry) -> None:
        """After a problem with a field: report missing fields too, and what the config says of its raw data."""
        for error in errors_of(self._class, next(entry.combinations())):
            if error["type"] == "missing" and error["loc"][0] not in self._meant:
                _report_missing(Placed(entry, self._node, self._path), str(error["loc"][0]), self._problems)
            elif not error["loc"]:
                self._problems.at(self._node.at, f"`{self._path}`: {message_of(error)}")


def check_products(placed: Sequence[Placed], problems: Problems) -> None:
    """Check fields against each other in every config, and that no config comes twice. One problem an entry at most."""
    seen: dict[bytes, str] = {}
    classes = [one.entry.config_class for one in placed]
    for one in placed:
        alone = classes.count(one.entry.config_class) == 1
        for fields in one.entry.combinations():
            try:
                config = validate(one.entry.config_class, fields)
            except ValidationError as error:
                _report_combination(one, fields, error, problems)
                break
            if alone:
                continue  # its axes have distinct values
            digest = hashlib.blake2b(repr(vars(config)).encode(), digest_size=16).digest()
            other = seen.setdefault(digest, one.path)
            if other != one.path:
                wrong = f"`{one.path}` repeats a configuration of `{other}`{_at(one, fields)}"
                problems.add(one.node, wrong, expected="every configuration once")
                break


def check_lines(workloads: Sequence[Placed], mechanisms: Sequence[Placed], problems: Problems) -> None:
    """Report mechanisms that read log lines where a workload has none."""
    names = [one.entry.fixed["name"] for one in workloads]
    without = [name for name in names if name in WORKLOADS and not WORKLOADS.implementation(name).has_lines]
    for one in mechanisms if without else ():
        name = one.entry.fixed["name"]
        if name in MECHANISMS and MECHANISMS.implementation(name).reads_lines:
            wrong = f"`{one.path}`: {name} reads the words of log lines, and `{without[0]}` has none"
            having = [known for known, _, implementation in WORKLOADS if implementation.has_lines]
            problems.add(one.node, wrong, expected=f"a workload of logs: {', '.join(having)}")


def check_long(kind: str | None, workloads: Sequence[Placed], mechanisms: Sequence[Placed], problems: Problems) -> None:
    """Report mechanisms, and a job type, that cannot read streams in chunks, where a workload makes such ones."""
    long = [one for one in workloads if _is_long(one)]
    if not long:
        return
    wrong = f"`{long[0].entry.fixed['name']}` has streams of more than {LONGEST_STREAM:,} tokens, read in chunks"
    if kind and KINDS.implementation(kind).measures_time:
        able = [f"`kind: {known}`" for known, _, one in KINDS if not one.measures_time]
        problems.add(long[0].node, f"{wrong}: not for `kind: {kind}`", expected=f"`events`, or {one_of(able)}")
    for one in mechanisms:
        name = one.entry.fixed["name"]
        if name in MECHANISMS and not MECHANISMS.implementation(name).reads_long:
            able = [known for known, _, made in MECHANISMS if made.reads_long]
            expected = f"`events: {LONGEST_STREAM}` or fewer, or a mechanism that reads chunks: {', '.join(able)}"
            problems.add(one.node, f"`{one.path}`: {name} holds or compares all tokens; {wrong}", expected=expected)


def _is_long(workload: Placed) -> bool:
    """Whether a config that is right makes streams that are read in chunks."""
    name = workload.entry.fixed["name"]
    if name not in WORKLOADS or not WORKLOADS.implementation(name).may_be_long:
        return False
    implementation = WORKLOADS.implementation(name)
    with suppress(ValidationError, CorpusError):
        return any(implementation.is_long(cast("WorkloadConfig", config)) for config in workload.entry.configs())
    return False


def check_reading(
    kind: str | None, workloads: Sequence[Placed], mechanisms: Sequence[Placed], problems: Problems
) -> None:
    """Report mechanisms that cannot read what a workload makes, and a job type that has no use for it."""
    made = {name: WORKLOADS.implementation(name) for one in workloads if (name := one.entry.fixed["name"]) in WORKLOADS}
    trains = kind is None or KINDS.implementation(kind).sequences
    for one in workloads:
        name = one.entry.fixed["name"]
        if not trains and name in made and not made[name].makes_streams:
            wrong = f"`{name}` makes token ids, which sequence models are trained on: not for `kind: {kind}`"
            problems.add(one.node, wrong, expected=_kinds_that_train())
    for one in mechanisms:
        name = one.entry.fixed["name"]
        if name not in MECHANISMS:
            continue
        reads_ids = MECHANISMS.implementation(name).reads_ids
        other = [known for known, of in made.items() if not (of.makes_ids if reads_ids else of.makes_streams)]
        if other:
            wants, makes = ("token ids", "streams") if reads_ids else ("streams of keys and values", "token ids")
            fitting = [known for known, _, of in MECHANISMS if of.reads_ids != reads_ids]
            wrong = f"`{one.path}`: {name} reads {wants}, and `{other[0]}` makes {makes}"
            problems.add(one.node, wrong, expected=f"a mechanism that reads {makes}: {', '.join(fitting)}")
        elif reads_ids and not trains and any(of.makes_streams for of in made.values()):
            wrong = f"`{one.path}`: {name} is a sequence model, which is trained: not for `kind: {kind}`"
            problems.add(one.node, wrong, expected=_kinds_that_train())
        elif not reads_ids and MECHANISMS.implementation(name).trained:
            uneven = [known for known, of in made.items() if not of.alike]
            if uneven:
                wrong = f"`{one.path}`: {name} trains on streams that ask at the same tokens, unlike `{uneven[0]}`'s"
                problems.add(one.node, wrong, expected="a mechanism that is not trained, or one that reads token ids")


def _kinds_that_train() -> str:
    """Job types of sequence models, in words. Loads all job types."""
    return one_of([f"`kind: {known}`" for known, _, implementation in KINDS if implementation.sequences])


def check_lengths(workloads: Sequence[Placed], mechanisms: Sequence[Placed], problems: Problems) -> None:
    """Report models whose first training sequences are shorter, or longer, than a workload's can be."""
    first = [(one, set(one.entry.values("first_length")) - {None}) for one in mechanisms]
    if not any(lengths for _, lengths in first):
        return
    known = [found for one in workloads if not one.elsewhere for found in _lengths(one)]
    if not known:
        return
    least, needing = max((low, name) for (low, _), name in known)
    most, lacking = min((high, name) for (_, high), name in known)
    for one, lengths in first:
        for length in sorted(lengths):
            if not least <= length <= most:
                where = f"{needing} needs {least} ids or more" if length < least else f"{lacking} has {most}"
                problems.add(
                    one.node.get("first_length") or one.node,
                    f"`{one.path}`: first training sequences of {length} ids (`first_length`), where {where}",
                    expected=f"a whole number from {least} to {most}",
                )
                break


def _lengths(workload: Placed) -> Iterator[tuple[tuple[int, int], str]]:
    """The lengths of each config that is right, with its name, if it makes token ids."""
    name = workload.entry.fixed["name"]
    if name not in WORKLOADS or not WORKLOADS.implementation(name).makes_ids:
        return
    implementation = cast("type[SequenceWorkload[Any]]", WORKLOADS.implementation(name))
    with suppress(ValidationError):
        for config in workload.entry.configs():
            yield implementation.lengths(config), name


def _report_combination(one: Placed, fields: dict[str, Any], failure: ValidationError, problems: Problems) -> None:
    for error in failure.errors(include_url=False):
        field = str(error["loc"][0]) if error["loc"] else ""
        if error["type"] == "missing":
            _report_missing(one, field, problems)
        else:
            wrong = f"`{one.path}`: {message_of(error)}{_at(one, fields)}"
            problems.add(one.node.get(field) or one.node, wrong)


def _report_missing(one: Placed, field: str, problems: Problems) -> None:
    expected = f"`{field}`: {Expectation(one.entry.config_class, (field,))}"
    problems.at(one.node.at, f"`{one.path}` ({one.entry.fixed['name']}) has no `{field}`", expected=expected)


def _at(one: Placed, fields: dict[str, Any]) -> str:
    """Which combination, for entries with axes or with fields that stand elsewhere."""
    names = [*(axis.field for axis in one.entry.axes), *one.elsewhere]
    words = ", ".join(f"{name} = {fields[name]}" for name in names)
    return f" (at {words})" if words else ""

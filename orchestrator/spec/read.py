"""The whole reading of a spec: text, overrides, checks, and every problem at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from models.plugins import PluginError, load_plugin
from orchestrator.spec.aims import check_until
from orchestrator.spec.axes import FORMS
from orchestrator.spec.document import compose
from orchestrator.spec.entries import (
    MECHANISM,
    WORKLOAD,
    Family,
    FieldsElsewhere,
    Placed,
    check_lengths,
    check_lines,
    check_long,
    check_products,
    check_reading,
    entry_nodes,
    read_entry,
)
from orchestrator.spec.files import load
from orchestrator.spec.foreign import RENAMED_KEYS, TOP_KEYS, TUNING_KEYS
from orchestrator.spec.hints import did_you_mean, nearest, one_of
from orchestrator.spec.levels import fields_elsewhere
from orchestrator.spec.located import Located
from orchestrator.spec.nodes import ListNode, MapNode, Node, ScalarNode, quoted, shown, to_python
from orchestrator.spec.options import all_option_names, kinds_with, option_names, options_of
from orchestrator.spec.overrides import apply_overrides
from orchestrator.spec.problems import Problems, Source
from orchestrator.spec.schema import SpecFields, StopAfter
from orchestrator.spec.searching import Search
from orchestrator.spec.seeds import seeds_of
from orchestrator.spec.shapes import check_tuning_option
from orchestrator.spec.size import check_size
from orchestrator.spec.spec import Policy, Spec
from orchestrator.spec.surroundings import Beside, Surroundings
from orchestrator.spec.tuning import check_tuning
from orchestrator.spec.validation import check_field, validate
from tasks.kind import KINDS, KindConfig
from tasks.kinds.tuning import TuningConfig

TEXT_NAME = "<text>"

BYTE_ORDER_MARK = "\ufeff"

EXAMPLES = {
    "name": "`name: my-sweep`",
    "kind": "`kind: frontier`",
    "workload": "`workload: {name: ...}`",
    "mechanisms": "`mechanisms: [{name: ...}, ...]`",
    "seeds": "`seeds: 10`",
    "search": "`search: {mechanism.FIELD: {low: 0.1, high: 0.9}}`",
    "objectives": "`objectives: {recall: maximize}`",
    "trials": "`trials: 100`",
}
"""How to write the keys that a spec must have."""


def read_spec(source: Path | str, overrides: Sequence[str] = ()) -> Spec:
    """Read and check the spec in the file `source`, with `overrides` ("path=value") put on top.

    A `str` that has a line break or begins with `{` is the text of a spec, not a path.
    Plug-ins that the spec names are imported. Raises SpecError, which holds every problem.
    """
    path = _as_path(source)
    if path is None:
        return _read(Source(TEXT_NAME, str(source)), overrides, Beside(Path()))
    return replace(_read(load(path), overrides, Beside(path.parent)), path=str(path.absolute()))


def read_spec_text(
    text: str,
    name: str,
    overrides: Sequence[str] = (),
    *,
    surroundings: Surroundings,
    most_trials: int | None = None,
) -> Spec:
    """Read and check the spec that `text` is, whatever it looks like; errors call it `name`.

    Plug-ins that the spec names are imported, where its `surroundings` let it name them. A product of axes and seeds
    of more than `most_trials` is refused, before it is looked at. Raises SpecError.
    """
    return _read(Source(name, text.removeprefix(BYTE_ORDER_MARK)), overrides, surroundings, most_trials)


def _read(source: Source, overrides: Sequence[str], surroundings: Surroundings, most_trials: int | None = None) -> Spec:
    problems = Problems()
    tree = apply_overrides(compose(source, problems), overrides, problems)
    if tree is None:
        problems.raise_if_any()
    return _Reader(tree, surroundings, problems, most_trials).read(source.text, tuple(overrides))


def _as_path(source: Path | str) -> Path | None:
    if isinstance(source, Path):
        return source
    is_text = "\n" in source or source.lstrip().startswith("{") or not source.strip()
    return None if is_text else Path(source)


class _Reader:
    """Reads one tree."""

    def __init__(
        self, tree: Node | None, surroundings: Surroundings, problems: Problems, most_trials: int | None
    ) -> None:
        assert tree is not None
        self._most_trials = most_trials
        self._surroundings = surroundings
        self._problems = problems
        if not isinstance(tree, MapNode):
            problems.add(tree, f"the spec {shown(tree)}", expected="`key: value` lines, with a space after the colon")
            problems.raise_if_any()
        assert isinstance(tree, MapNode)
        self._tree = tree
        self._kind = _known_kind(tree)
        self._options = KINDS.config_class(self._kind) if self._kind else KindConfig
        self._tunes = issubclass(self._options, TuningConfig)

    def read(self, text: str, overrides: tuple[str, ...]) -> Spec:
        """The spec, or SpecError."""
        self._check_keys()
        for field, node in self._own_fields():
            self._check_own(field, node)
        for field, node in self._option_fields():
            self._check_option(field, node)
        self._check_accelerator()
        plugins, loaded = self._load_plugins()
        self._tree = Located(self._surroundings, self._problems).tree(self._tree)
        search = Search(self._tree, self._problems, all_known=loaded) if self._tunes else None
        elsewhere = fields_elsewhere(self._tree, search, self._problems) if search else ({}, {})
        workloads = self._read_family(WORKLOAD, "workload", elsewhere[0], all_known=loaded)
        mechanisms = self._read_family(MECHANISM, "mechanisms", elsewhere[1], all_known=loaded)
        if self._most_trials is not None:
            check_size(self._tree, workloads, mechanisms, self._most_trials, self._problems)
        for entries in (workloads, mechanisms) if search is None or search.names else ():
            check_products(entries, self._problems)
        check_lines(workloads, mechanisms, self._problems)
        check_long(self._kind, workloads, mechanisms, self._problems)
        check_reading(self._kind, workloads, mechanisms, self._problems)
        check_lengths(workloads, mechanisms, self._problems)
        check_until(
            self._tree,
            self._kind,
            [one.entry.config_class for one in workloads],
            [one.entry.config_class for one in mechanisms],
            self._problems,
        )
        if search is not None:
            check_tuning(self._tree, search, workloads, mechanisms, self._problems)
        self._problems.raise_if_any()
        given = {field: to_python(node) for field, node in self._own_fields()}
        fields = validate(SpecFields, {**given, "workload": None, "mechanisms": None})
        seeds, until = seeds_of(fields.seeds)
        return Spec(
            name=fields.name,
            kind=fields.kind,
            workload_entries=tuple(one.entry for one in workloads),
            mechanism_entries=tuple(one.entry for one in mechanisms),
            seeds=seeds,
            device=tuple(fields.device) if isinstance(fields.device, list) else fields.device,
            dtype=fields.dtype,
            episodes=fields.episodes,
            description=fields.description,
            plugins=plugins,
            policy=_policy(fields),
            text=text,
            overrides=overrides,
            options=options_of(fields.kind, {field: to_python(node) for field, node in self._option_fields()}),
            until=until,
        )

    def _own_fields(self) -> list[tuple[str, Node]]:
        """Known keys that every spec has at the top, but for workload and mechanisms."""
        names = set(SpecFields.model_fields) - {"workload", "mechanisms"}
        return [(key.text, value) for key, value in self._tree.entries if key.text in names]

    def _option_fields(self) -> list[tuple[str, Node]]:
        """Known keys of the spec's job type."""
        names = option_names(self._options)
        return [(key.text, value) for key, value in self._tree.entries if key.text in names]

    def _check_keys(self) -> None:
        """Report unknown keys, and required ones that are missing and not just misspelt."""
        options = option_names(self._options)
        fields = [*SpecFields.model_fields, *options]
        known = {*fields, *([] if self._kind else all_option_names())}
        meant = {self._report_key(key, fields) for key, _ in self._tree.entries if key.text not in known}
        required = [name for name in SpecFields.model_fields if SpecFields.model_fields[name].is_required()]
        required += [name for name in options if self._options.model_fields[name].is_required()]
        for field in required:
            if self._tree.get(field) is None and field not in meant:
                expected = EXAMPLES.get(field, f"`{field}: ...`")
                self._problems.at(self._tree.at, f"the spec has no `{field}`", expected=expected)

    def _report_key(self, key: ScalarNode, fields: list[str]) -> str | None:
        """Report a key that does not belong here; the one that is probably meant."""
        near, hint = self._meant_by(key.text, fields)
        wrong = f"unknown key {quoted(key.text)}"
        if kinds := kinds_with(key.text):
            wrong = f"`{key.text}` belongs to {' and '.join(f'`kind: {name}`' for name in kinds)}"
        self._problems.at(key.at, wrong, expected=one_of(fields), hint=hint)
        return near

    def _meant_by(self, key: str, fields: list[str]) -> tuple[str | None, str]:
        """The key that is probably meant by one that does not belong here, and the words that say so."""
        if self._tunes and key in TUNING_KEYS:
            return TUNING_KEYS[key]
        if key in TOP_KEYS:
            return None, TOP_KEYS[key]
        if near := RENAMED_KEYS.get(key):
            return near, f"did you mean `{near}`?"
        if kinds_with(key):
            return None, ""
        if near := nearest(key, fields):
            return near, f"did you mean `{near}`?"
        other = nearest(key, all_option_names())
        if other is None:
            return None, ""
        kinds = " and ".join(f"`kind: {name}`" for name in kinds_with(other))
        return (
            None,
            f"did you mean `{other}`?" if self._kind is None else f"did you mean `{other}`? It belongs to {kinds}",
        )

    def _check_own(self, field: str, node: Node) -> None:
        if not self._problems.clean(node):
            return
        if field == "kind" and isinstance(node, ScalarNode) and isinstance(node.value, str) and node.value not in KINDS:
            self._report_kind(node, node.value)
            return
        if field == "seeds" and isinstance(node, MapNode) and set(FORMS) & set(node.keys()):
            self._problems.add(
                node,
                "`seeds` takes no axis",
                expected="a count, {count: 10, base: 7}, a list of seeds, or {until: ...}",
            )
            return
        check_field(SpecFields, field, node, self._problems, {})
        if isinstance(node, ListNode):
            self._check_distinct(field, node)

    def _check_accelerator(self) -> None:
        """Report a model of GPU where no trial asks for a GPU."""
        model, node = self._tree.get("accelerator"), self._tree.get("device")
        if model is None or to_python(model) is None or (node is not None and not self._problems.clean(node)):
            return
        asked = "any" if node is None else to_python(node)
        devices = [asked] if isinstance(asked, str) else asked
        if not {"cuda", "mps"}.intersection(devices):
            self._problems.at(
                next(key.at for key, _ in self._tree.entries if key.text == "accelerator"),
                f"`accelerator` names a model of GPU, and `device: {', '.join(devices)}` asks for none",
                expected="`device: cuda` or `device: mps` beside it",
                hint="leave `accelerator` out, or name the device",
            )

    def _check_option(self, field: str, node: Node) -> None:
        if self._tunes:
            check_tuning_option(field, node, self._problems)
        elif self._problems.clean(node):
            check_field(self._options, field, node, self._problems, {"name": self._kind})

    def _report_kind(self, node: Node, name: str) -> None:
        known = KINDS.names()
        expected = f"an available kind: {', '.join(known)}"
        self._problems.add(node, f"unknown kind {quoted(name)}", expected=expected, hint=did_you_mean(name, known))

    def _check_distinct(self, field: str, node: ListNode) -> None:
        seen = set()
        for item in node.items:
            if not isinstance(item, ScalarNode) or not self._problems.clean(item):
                continue
            value = item.value
            if value in seen:
                self._problems.add(item, f"{quoted(str(value))} is in `{field}` already", expected="each once")
            seen.add(value)

    def _load_plugins(self) -> tuple[tuple[str, ...], bool]:
        """The plug-ins as they are named from anywhere, and whether all of them loaded."""
        node = self._tree.get("plugins")
        if node is None:
            return (), True
        if not isinstance(node, ListNode) or not self._problems.clean(node):
            return (), False
        for family in (WORKLOAD, MECHANISM):
            family.registry.names()  # ours come first, so that a plug-in that takes one of their names is at fault
        plugins = []
        for item in node.items:
            try:
                plugins.append(self._surroundings.plugin(str(to_python(item))))
                load_plugin(plugins[-1])
            except PluginError as error:
                self._problems.add(item, error.reason, hint=error.cure)
        return tuple(plugins), self._problems.clean(node)

    def _read_family(self, family: Family, field: str, elsewhere: FieldsElsewhere, *, all_known: bool) -> list[Placed]:
        node = self._tree.get(field)
        if node is None:
            return []
        nodes = entry_nodes(field, node)
        if nodes is None:
            hint = "put `- ` before each entry" if isinstance(node, MapNode) else ""
            if _begins_with_dash(node):
                hint = "write a space after each `-`"
            self._problems.add(node, f"`{field}` {shown(node)}", expected=f"a list: {EXAMPLES[field]}", hint=hint)
            return []
        if not nodes:
            self._problems.add(node, f"`{field}` is an empty list", expected=f"at least one entry: {EXAMPLES[field]}")
        read = [read_entry(family, item, path, self._problems, elsewhere, all_known=all_known) for path, item in nodes]
        return [placed for placed in read if placed is not None]


def _begins_with_dash(node: Node) -> bool:
    """Whether a list was meant, but its dashes were read as text."""
    text = (
        node.keys()[0]
        if isinstance(node, MapNode) and node.entries
        else node.text
        if isinstance(node, ScalarNode)
        else ""
    )
    return text.startswith("-")


def _known_kind(tree: MapNode) -> str | None:
    """The spec's job type, if there is such a one."""
    node = tree.get("kind")
    known = isinstance(node, ScalarNode) and isinstance(node.value, str) and node.value in KINDS
    return node.text if known and isinstance(node, ScalarNode) else None


def _policy(fields: SpecFields) -> Policy:
    reaction = fields.on_failure
    stop_after = reaction.stop_after if isinstance(reaction, StopAfter) else {"continue": None, "stop": 1}[reaction]
    return Policy(
        priority=fields.priority,
        stop_after=stop_after,
        timeout=fields.timeout,
        infrastructure_retries=fields.retries.infrastructure,
        code_retries=fields.retries.code,
        accelerator=fields.accelerator,
    )

"""The whole reading of a spec: text, overrides, checks, and every problem at once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from models.plugins import PluginError, load_plugin
from orchestrator.spec.axes import FORMS
from orchestrator.spec.document import compose
from orchestrator.spec.entries import MECHANISM, WORKLOAD, Family, Placed, check_lines, check_products, read_entry
from orchestrator.spec.files import load
from orchestrator.spec.foreign import DISTANT_KINDS, RENAMED_KEYS, TOP_KEYS
from orchestrator.spec.hints import did_you_mean, nearest, one_of
from orchestrator.spec.nodes import ListNode, MapNode, Node, ScalarNode, quoted, shown, to_python
from orchestrator.spec.overrides import apply_overrides
from orchestrator.spec.problems import Problems, Source
from orchestrator.spec.schema import SeedRange, SpecFields, StopAfter
from orchestrator.spec.spec import Policy, Spec
from orchestrator.spec.validation import check_field, validate
from tasks.kind import KINDS

TEXT_NAME = "<text>"

EXAMPLES = {
    "name": "`name: my-sweep`",
    "kind": "`kind: frontier`",
    "workload": "`workload: {name: ...}`",
    "mechanisms": "`mechanisms: [{name: ...}, ...]`",
    "seeds": "`seeds: 10`",
}
"""How to write the keys that every spec has."""


def read_spec(source: Path | str, overrides: Sequence[str] = ()) -> Spec:
    """Read and check the spec in the file `source`, with `overrides` ("path=value") put on top.

    A `str` that has a line break or begins with `{` is the text of a spec, not a path.
    Plug-ins that the spec names are imported. Raises SpecError, which holds every problem.
    """
    path = _as_path(source)
    loaded = Source(TEXT_NAME, str(source)) if path is None else load(path)
    problems = Problems()
    tree = apply_overrides(compose(loaded, problems), overrides, problems)
    if tree is None:
        problems.raise_if_any()
    reader = _Reader(tree, path.parent if path is not None else Path(), problems)
    return reader.read(loaded.text, tuple(overrides), None if path is None else str(path.absolute()))


def _as_path(source: Path | str) -> Path | None:
    if isinstance(source, Path):
        return source
    is_text = "\n" in source or source.lstrip().startswith("{") or not source.strip()
    return None if is_text else Path(source)


class _Reader:
    """Reads one tree."""

    def __init__(self, tree: Node | None, folder: Path, problems: Problems) -> None:
        assert tree is not None
        self._folder = folder
        self._problems = problems
        if not isinstance(tree, MapNode):
            problems.add(tree, f"the spec {shown(tree)}", expected="`key: value` lines, with a space after the colon")
            problems.raise_if_any()
        assert isinstance(tree, MapNode)
        self._tree = tree

    def read(self, text: str, overrides: tuple[str, ...], path: str | None) -> Spec:
        """The spec, or SpecError."""
        self._check_keys()
        for field, node in self._own_fields():
            self._check_own(field, node)
        for family in (WORKLOAD, MECHANISM):
            family.registry.names()  # ours come first, so that a plug-in that takes one of their names is at fault
        plugins, loaded = self._load_plugins()
        workloads = self._read_family(WORKLOAD, "workload", all_known=loaded)
        mechanisms = self._read_family(MECHANISM, "mechanisms", all_known=loaded)
        for entries in (workloads, mechanisms):
            check_products(entries, self._problems)
        check_lines(workloads, mechanisms, self._problems)
        self._problems.raise_if_any()
        given = {field: to_python(node) for field, node in self._own_fields()}
        fields = validate(SpecFields, {**given, "workload": None, "mechanisms": None})
        return Spec(
            name=fields.name,
            kind=fields.kind,
            workload_entries=tuple(one.entry for one in workloads),
            mechanism_entries=tuple(one.entry for one in mechanisms),
            seeds=_seeds(fields.seeds),
            device=tuple(fields.device) if isinstance(fields.device, list) else fields.device,
            dtype=fields.dtype,
            episodes=fields.episodes,
            description=fields.description,
            plugins=plugins,
            policy=_policy(fields),
            text=text,
            overrides=overrides,
            path=path,
        )

    def _own_fields(self) -> list[tuple[str, Node]]:
        """Known keys at the top, but for workload and mechanisms."""
        return [
            (key.text, value)
            for key, value in self._tree.entries
            if key.text in SpecFields.model_fields and key.text not in ("workload", "mechanisms")
        ]

    def _check_keys(self) -> None:
        """Report unknown keys, and required ones that are missing and not just misspelt."""
        fields = list(SpecFields.model_fields)
        meant = set()
        for key, _ in self._tree.entries:
            if key.text not in fields:
                foreign = key.text in TOP_KEYS
                near = None if foreign else RENAMED_KEYS.get(key.text) or nearest(key.text, fields)
                hint = TOP_KEYS[key.text] if foreign else f"did you mean `{near}`?" if near else ""
                meant.add(near)
                self._problems.at(key.at, f"unknown key {quoted(key.text)}", expected=one_of(fields), hint=hint)
        for field, info in SpecFields.model_fields.items():
            if info.is_required() and self._tree.get(field) is None and field not in meant:
                self._problems.at(self._tree.at, f"the spec has no `{field}`", expected=EXAMPLES[field])

    def _check_own(self, field: str, node: Node) -> None:
        if not self._problems.clean(node):
            return
        if field == "kind" and isinstance(node, ScalarNode) and isinstance(node.value, str) and node.value not in KINDS:
            self._report_kind(node, node.value)
            return
        if field == "seeds" and isinstance(node, MapNode) and (words := {"until", *FORMS} & set(node.keys())):
            wrong = "`seeds` takes no axis"
            if "until" in words:
                wrong = "`until` is not available in this version"
            self._problems.add(node, wrong, expected="a count, {count: 10, base: 7}, or a list of seeds")
            return
        check_field(SpecFields, field, node, self._problems, {})
        if isinstance(node, ListNode):
            self._check_distinct(field, node)

    def _report_kind(self, node: Node, name: str) -> None:
        known = KINDS.names()
        distant = name in DISTANT_KINDS
        wrong = f"kind `{name}` is not available in this version" if distant else f"unknown kind {quoted(name)}"
        hint = "" if distant else did_you_mean(name, known)
        self._problems.add(node, wrong, expected=f"an available kind: {', '.join(known)}", hint=hint)

    def _check_distinct(self, field: str, node: ListNode) -> None:
        seen = set()
        for item in filter(self._problems.clean, node.items):
            value = to_python(item)
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
        plugins = []
        for item in node.items:
            written = str(to_python(item))
            plugin = str((self._folder / written).resolve()) if written.endswith(".py") else written
            plugins.append(plugin)
            try:
                load_plugin(plugin)
            except PluginError as error:
                self._problems.add(item, error.reason, hint=error.cure)
        return tuple(plugins), self._problems.clean(node)

    def _read_family(self, family: Family, field: str, *, all_known: bool) -> list[Placed]:
        node = self._tree.get(field)
        if node is None:
            return []
        if field == "workload" and not isinstance(node, ListNode):
            nodes = [(field, node)]
        elif isinstance(node, ListNode):
            nodes = [(f"{field}.{index}", item) for index, item in enumerate(node.items)]
        else:
            hint = "put `- ` before each entry" if isinstance(node, MapNode) else ""
            if _begins_with_dash(node):
                hint = "write a space after each `-`"
            self._problems.add(node, f"`{field}` {shown(node)}", expected=f"a list: {EXAMPLES[field]}", hint=hint)
            return []
        if not nodes:
            self._problems.add(node, f"`{field}` is an empty list", expected=f"at least one entry: {EXAMPLES[field]}")
        read = [read_entry(family, item, path, self._problems, all_known=all_known) for path, item in nodes]
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


def _seeds(seeds: int | SeedRange | list[int]) -> tuple[int, ...]:
    if isinstance(seeds, list):
        return tuple(seeds)
    count, base = (seeds, 0) if isinstance(seeds, int) else (seeds.count, seeds.base)
    return tuple(range(base, base + count))


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

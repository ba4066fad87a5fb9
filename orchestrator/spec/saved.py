"""A spec as JSON, saved with its sweep, from which it is rebuilt without its file."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from models.config import round_numbers
from models.plugins import PluginError, load_plugin
from orchestrator.spec.axes import Axis
from orchestrator.spec.entries import MECHANISM, WORKLOAD, Entry, Family
from orchestrator.spec.options import options_of
from orchestrator.spec.problems import Place, Problem, Source, SpecError
from orchestrator.spec.schema import Device, DTypeName, SeedValue
from orchestrator.spec.spec import Policy, Spec, Taken
from orchestrator.spec.validation import errors_of
from tasks.kind import KINDS, KindConfig
from tasks.sequential import SeedsUntil


class _Saved(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class SavedAxis(_Saved):
    """One axis, its values written out."""

    field: str
    values: list[Any]


class SavedEntry(_Saved):
    """One entry. Axes are a list because their order is the order of the sweep."""

    fixed: dict[str, Any]
    axes: list[SavedAxis]


class SavedSpec(_Saved):
    """A whole spec."""

    name: str
    kind: str
    description: str | None
    workload: list[SavedEntry]
    mechanisms: list[SavedEntry]
    seeds: list[SeedValue]
    episodes: int | None
    device: Device
    dtype: DTypeName
    plugins: list[str]
    policy: Policy = Policy()
    text: str
    overrides: list[str]
    path: str | None
    options: dict[str, Any] | None = Field(None, description="of the job type, all but its name")
    until: SeedsUntil | None = None
    taken: Taken | None = None


def canonical(spec: Spec) -> dict[str, Any]:
    """`spec` as a JSON tree; `from_canonical` gives an equal spec back."""
    saved = SavedSpec(
        name=spec.name,
        kind=spec.kind,
        description=spec.description,
        workload=[_save(entry) for entry in spec.workload_entries],
        mechanisms=[_save(entry) for entry in spec.mechanism_entries],
        seeds=list(spec.seeds),
        episodes=spec.episodes,
        device=list(spec.device) if isinstance(spec.device, tuple) else spec.device,
        dtype=spec.dtype,
        plugins=list(spec.plugins),
        policy=spec.policy,
        text=spec.text,
        overrides=list(spec.overrides),
        path=spec.path,
        options=None if spec.options is None else spec.options.model_dump(mode="json", exclude={"name"}),
        until=spec.until,
        taken=spec.taken,
    )
    return saved.model_dump(mode="json")


def from_canonical(tree: dict[str, Any], *, load_plugins: bool = True) -> Spec:
    """The spec that `canonical` saved. Loads its plug-ins, unless not to.

    Raises pydantic's ValidationError if `tree` was not made by `canonical`, SpecError if a plug-in, workload,
    mechanism or job type is not to be found here.
    """
    saved = SavedSpec.model_validate(tree)
    for plugin in saved.plugins if load_plugins else ():
        try:
            load_plugin(plugin)
        except PluginError as error:
            raise _unusable(saved, error.reason, error.cure) from error
    return Spec(
        name=saved.name,
        kind=saved.kind,
        workload_entries=tuple(_rebuild(WORKLOAD, entry, saved) for entry in saved.workload),
        mechanism_entries=tuple(_rebuild(MECHANISM, entry, saved) for entry in saved.mechanisms),
        seeds=tuple(saved.seeds),
        device=tuple(saved.device) if isinstance(saved.device, list) else saved.device,
        dtype=saved.dtype,
        episodes=saved.episodes,
        description=saved.description,
        plugins=tuple(saved.plugins),
        policy=saved.policy,
        text=saved.text,
        overrides=tuple(saved.overrides),
        path=saved.path,
        options=_options(saved),
        until=saved.until,
        taken=saved.taken,
    )


def _options(saved: SavedSpec) -> KindConfig | None:
    if saved.options is None:
        return None
    if saved.kind not in KINDS:
        raise _unusable(saved, f"kind `{saved.kind}` is not installed here", "install what defines it")
    return options_of(saved.kind, saved.options)


def _save(entry: Entry) -> SavedEntry:
    axes = [SavedAxis(field=axis.field, values=list(axis.values)) for axis in entry.axes]
    return SavedEntry(fixed=entry.fixed, axes=axes)


def _rebuild(family: Family, entry: SavedEntry, saved: SavedSpec) -> Entry:
    name = entry.fixed["name"]
    if name not in family.registry:
        raise _unusable(saved, f"{family.noun} `{name}` is not installed here", "install what defines it")
    axes = tuple(Axis(axis.field, tuple(round_numbers(axis.values))) for axis in entry.axes)
    rebuilt = Entry(family.registry.config_class(name), entry.fixed, axes)
    wrong = errors_of(rebuilt.config_class, next(rebuilt.combinations(), entry.fixed))
    gone = [".".join(map(str, error["loc"])) for error in wrong if error["type"] == "extra_forbidden"]
    if gone:
        message = f"{family.noun} `{name}` has no `{gone[0]}` in this version of slotsweep"
        raise _unusable(saved, message, "submit its spec again without it; `slotsweep results` reads what was measured")
    return rebuilt


def _unusable(saved: SavedSpec, wrong: str, cure: str) -> SpecError:
    return SpecError([Problem(Place(Source(f"saved sweep {saved.name}", "")), wrong, hint=cure)])

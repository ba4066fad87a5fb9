"""Turning what a user names (a file, a sweep's id, a ready-made spec) into a spec or a sweep."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.errors import NotThereError, RequestError, StoreError
from orchestrator.spec import Spec, read_spec, read_suite

if TYPE_CHECKING:
    from orchestrator.settings import Settings
    from orchestrator.store.records import SweepRow
    from orchestrator.store.status import SweepStatus
    from orchestrator.store.store import Store


@dataclass(frozen=True)
class SpecFile:
    """A spec on the user's machine: what they call it, its file, and the overrides ("path=value") on top of it."""

    name: str
    path: Path
    overrides: tuple[str, ...] = ()


def ready_made_specs() -> dict[str, Path]:
    """The specs that come with slotsweep, by name (their path without `.yaml`)."""
    folder = Path(str(files("tasks") / "specs"))
    return {str(path.relative_to(folder).with_suffix("")): path for path in sorted(folder.rglob("*.yaml"))}


def is_spec(name: str) -> bool:
    """Whether `name` is a file, or looks like one that is missing, or names a ready-made spec."""
    return Path(name).exists() or name.endswith((".yaml", ".yml")) or name in ready_made_specs()


def load_spec(name: str, overrides: Sequence[str] = ()) -> Spec:
    """The spec in file `name`, or the ready-made spec of that name. Raises SpecError or RequestError."""
    path = spec_path(name)
    if read_suite(path) is not None:
        raise RequestError(f"`{name}` is a suite of several specs; expected one spec")
    return read_spec(path, overrides)


def load_specs(name: str, overrides: Sequence[str] = ()) -> dict[str, Spec]:
    """The specs of the suite that `name` names, by name, or the one spec that it names; `overrides` hold for each.

    Raises SpecError or RequestError.
    """
    return {one.name: read_spec(one.path, one.overrides) for one in spec_files(name, overrides)}


def spec_files(name: str, overrides: Sequence[str] = ()) -> list[SpecFile]:
    """The files of the suite that `name` names, or the one file; `overrides` hold for each.

    A suite may name suites; a spec that is named several times is taken once. Raises SpecError or RequestError.
    """
    members: dict[Path, SpecFile] = {}
    for member, path in _members(name, spec_path(name), ()):
        members.setdefault(path.resolve(), SpecFile(member, path, tuple(overrides)))
    return list(members.values())


def member_files(suite: Path, member: str) -> list[SpecFile]:
    """The files behind what the suite in file `suite` calls `member`."""
    return spec_files(str(_member_path(suite, member)))


def _members(name: str, path: Path, inside: tuple[Path, ...]) -> Iterator[tuple[str, Path]]:
    """Names and files of the specs behind `path`, which stands in the suites `inside`."""
    suite = read_suite(path)
    if suite is None:
        yield name, path
        return
    if path in inside:
        raise RequestError(f"{path}: the suite names itself, through {', '.join(map(str, inside))}")
    for member in suite.members:
        yield from _members(member, _member_path(path, member), (*inside, path))


def _member_path(suite: Path, member: str) -> Path:
    beside = suite.parent / member
    return beside if beside.is_file() else spec_path(member)


def spec_path(name: str) -> Path:
    """The file that `name` means: a file, or the ready-made spec of that name. Raises RequestError."""
    path = Path(name)
    if path.exists() or name.endswith((".yaml", ".yml")):
        return path
    ready = ready_made_specs()
    if name not in ready:
        raise RequestError(
            f"`{name}` is neither a spec file nor a ready-made spec; ready-made: {', '.join(ready) or 'none'}"
        )
    return ready[name]


def existing_store(settings: Settings) -> Store:
    """The store, for a command that has nothing to do in an empty one. Raises RequestError if there is none."""
    from orchestrator.store.store import Store

    file = settings.database_file
    if file is not None and not file.exists():
        raise RequestError(f"there is no sweep yet (no database at {file}): `slotsweep run SPEC` makes one")
    return Store.open(settings.database_url)


def find_sweep(store: Store, name: str) -> SweepRow:
    """The sweep whose id begins with `name`; `last` is the newest. Raises NotThereError if there is none."""
    if name == "last":
        return store.sweep(find_status(store, name).id)
    try:
        return store.sweep(name)
    except StoreError as error:
        raise NotThereError(str(error)) from error


def find_status(store: Store, name: str, user: str | None = None) -> SweepStatus:
    """As `find_sweep`, at a glance; `last` is the newest of `user` (None: of all)."""
    if name != "last":
        return store.status(name)
    newest = store.statuses(user=user, limit=1)
    if not newest:
        whose = "there is" if user is None else "you have submitted"
        raise NotThereError(f"{whose} no sweep yet: `slotsweep run SPEC` makes one")
    return newest[0]

"""Where a spec stands: beside files on this machine, or in a request that came with what it may name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from models.config import Config
from models.plugins import PluginError
from orchestrator.spec.nodes import quoted


class NotHereError(Exception):
    """A spec names something that it may not name from where it stands; `expected` is what it may."""

    def __init__(self, wrong: str, expected: str) -> None:
        super().__init__(wrong)
        self.wrong = wrong
        self.expected = expected


class Surroundings(Protocol):
    """What the names of plug-ins and files in a spec mean."""

    def plugin(self, written: str) -> str:
        """The plug-in as it is named from anywhere. Raises PluginError where the spec may not name it."""

    def located(self, config_class: type[Config], name: str, value: Any, *, override: bool) -> Any:
        """The value of a field, with an absolute path if it is the path of a file. Raises NotHereError.

        override: whether it was not written in the spec but put on top of it
        """


@dataclass(frozen=True)
class Beside:
    """A spec in `folder`, or typed by whoever works there: it may name what they may read."""

    folder: Path

    def plugin(self, written: str) -> str:
        return str((self.folder / written).resolve()) if written.endswith(".py") else written

    def located(self, config_class: type[Config], name: str, value: Any, *, override: bool) -> Any:
        return value if override else config_class.located(name, value, self.folder)


@dataclass(frozen=True)
class Uploaded:
    """A spec that came in a request.

    plugins  the files that came with it, by the name that it gives them; None: it may bring no code, nor name any
    folders  files that its fields name must lie in one of these; relative paths are looked for in each
    barred   where it may bring no code: why not, and what is expected
    """

    plugins: Mapping[str, Path] | None = None
    folders: tuple[Path, ...] = ()
    barred: tuple[str, str] = ("this service takes no plug-ins", "leave `plugins` out, or have it started with them")

    def plugin(self, written: str) -> str:
        if self.plugins is None:
            raise PluginError(*self.barred)
        if not written.endswith(".py"):
            return written
        if written not in self.plugins:
            raise PluginError(f"the file of plug-in `{written}` did not come with the spec", "send it along")
        return str(self.plugins[written])

    def located(self, config_class: type[Config], name: str, value: Any, *, override: bool) -> Any:
        if not _is_path(config_class, name, value):
            return value
        candidates = [Path(config_class.located(name, value, folder)) for folder in self.folders]
        within = [path for path in candidates if self._holds(path)]
        if not within:
            folders = ", ".join(map(str, self.folders))
            expected = f"a file in {folders}" if folders else "no file: this service reads none for those who upload"
            raise NotHereError(f"the file {quoted(value)} is not in a folder that this service reads", expected)
        return str(next((path for path in within if path.is_file()), within[0]))

    def _holds(self, path: Path) -> bool:
        """Whether a file, wherever links lead to, lies in one of the folders, or would if it were there."""
        try:
            real = path.resolve()
            real.is_file()  # raises OSError for a name that no file can have
            return any(real.is_relative_to(folder.resolve()) for folder in self.folders)
        except (OSError, ValueError, RuntimeError):
            return False


def _is_path(config_class: type[Config], name: str, value: Any) -> bool:
    """Whether the field names a file, and `value` is no word in its place."""
    nowhere = Path("/nowhere")
    names_files = config_class.located(name, "x", nowhere) != "x"
    return names_files and isinstance(value, str) and Path(config_class.located(name, value, nowhere)).is_absolute()

"""Plug-in modules: mechanisms and workloads of one's own, registered by importing the module that defines them."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType

OUR_PACKAGES = frozenset({"orchestrator", "workers", "models", "tasks", "dashboards"})


class PluginError(ValueError):
    """A plug-in cannot be loaded; `cure` says what to do about it."""

    def __init__(self, reason: str, cure: str) -> None:
        super().__init__(f"{reason}; {cure}")
        self.reason = reason
        self.cure = cure


def load_plugin(plugin: str) -> ModuleType:
    """Import `plugin`, a dotted module name or the path of a `.py` file, once in this process.

    A file becomes a top-level module named after it, so that what it defines can be pickled by name; it never takes
    the place of another module. Raises PluginError.
    """
    return _load_file(Path(plugin)) if plugin.endswith(".py") else _load_module(plugin)


def _load_module(name: str) -> ModuleType:
    top = name.partition(".")[0]
    if top in OUR_PACKAGES or top in sys.stdlib_module_names:
        raise PluginError(f"plug-in `{name}` has the name of {_owner(top)}", "rename the package that holds it")
    if not all(part.isidentifier() for part in name.split(".")):
        raise PluginError(f"`{name}` is no module name", "write a dotted name, or a path that ends in .py")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise PluginError(f"there is no module `{name}`", "install it, or give the path of its .py file") from error
        raise _broken(name, error) from error
    except (Exception, SystemExit) as error:
        raise _broken(name, error) from error


def _load_file(path: Path) -> ModuleType:
    path = path.resolve()
    name = path.stem
    if not path.is_file():
        raise PluginError(f"there is no file {path.name}", "give its path relative to the spec")
    if not name.isidentifier():
        raise PluginError(f"{path.name} cannot be a module", "rename it to letters, digits and underscores")
    if name in OUR_PACKAGES or name in sys.stdlib_module_names:
        raise PluginError(f"plug-in {path.name} has the name of {_owner(name)}", "rename the file")
    loaded = sys.modules.get(name)
    if loaded is not None and _file_of(loaded) == path:
        return loaded
    if loaded is not None or _installed(name, path):
        raise PluginError(f"plug-in {path.name} has the name of another module, `{name}`", "rename the file")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise _broken(path.name, error, path) from error
    return module


def _owner(name: str) -> str:
    return "a package of slotsweep" if name in OUR_PACKAGES else "a module of Python"


def _file_of(module: ModuleType) -> Path | None:
    file = getattr(module, "__file__", None)
    return None if file is None else Path(file).resolve()


def _installed(name: str, path: Path) -> bool:
    """Whether `import name` would find something other than the file at `path`."""
    found = importlib.util.find_spec(name)
    return found is not None and (found.origin is None or Path(found.origin).resolve() != path)


def _broken(name: str, error: BaseException, path: Path | None = None) -> PluginError:
    """Name the error, and the line of the plug-in at which it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    line = next((frame.lineno for frame in reversed(frames) if path is not None and Path(frame.filename) == path), None)
    if isinstance(error, SyntaxError):
        line = error.lineno
    where = f" (line {line})" if line is not None else ""
    message = " ".join(str(error).split())
    return PluginError(
        f"plug-in {name} fails to import: {type(error).__name__}: {message}{where}", "correct the plug-in"
    )

"""Named implementations behind one seam: found by scanning a package, extended by entry points and plug-in modules."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from functools import cache
from importlib.metadata import entry_points
from typing import Generic, TypeVar

from models.config import Config

T = TypeVar("T")

_installed = cache(entry_points)  # it opens a file of every installed package, and every registry asks


class RegistrationError(ValueError):
    """Two implementations claim one name, or an implementation has no name."""


class Registry(Generic[T]):
    """Maps the `name` default of a config class to the config class and its implementation."""

    def __init__(self, noun: str, package: str, entry_point_group: str) -> None:
        self.noun = noun
        self._package = package
        self._group = entry_point_group
        self._entries: dict[str, tuple[type[Config], type[T]]] = {}
        self._scanned = False

    def register(self, config_class: type[Config]) -> Callable[[type[T]], type[T]]:
        """Class decorator: `config_class` names the options of the decorated implementation."""
        name = config_class.model_fields["name"].default
        if not isinstance(name, str):
            raise RegistrationError(f"{config_class.__name__} needs `name: Literal[...] = ...` with a default")

        def add(implementation: type[T]) -> type[T]:
            taken = self._entries.get(name)
            if taken is not None and taken[1].__module__ != implementation.__module__:
                raise RegistrationError(
                    f"{self.noun} `{name}` is defined by {taken[1].__module__} and again by {implementation.__module__}"
                )
            self._entries[name] = (config_class, implementation)
            return implementation

        return add

    def names(self) -> list[str]:
        """All known names, sorted."""
        self._scan()
        return sorted(self._entries)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._find(name) is not None

    def __iter__(self) -> Iterator[tuple[str, type[Config], type[T]]]:
        for name in self.names():
            yield name, *self._entries[name]

    def config_class(self, name: str) -> type[Config]:
        """The config class of `name`; KeyError if unknown."""
        return self._get(name)[0]

    def implementation(self, name: str) -> type[T]:
        """The implementation of `name`; KeyError if unknown."""
        return self._get(name)[1]

    def _get(self, name: str) -> tuple[type[Config], type[T]]:
        entry = self._find(name)
        if entry is None:
            raise KeyError(name)
        return entry

    def _find(self, name: str) -> tuple[type[Config], type[T]] | None:
        """Our implementations live in modules of their names: one of them is had without loading all the others."""
        if name not in self._entries and not self._scanned:
            package = importlib.import_module(self._package)
            if any(module.name == name for module in pkgutil.iter_modules(package.__path__)):
                importlib.import_module(f"{self._package}.{name}")
            if name not in self._entries:
                self._scan()
        return self._entries.get(name)

    def _scan(self) -> None:
        if self._scanned:
            return
        package = importlib.import_module(self._package)
        for module in pkgutil.iter_modules(package.__path__, f"{self._package}."):
            importlib.import_module(module.name)
        for entry_point in _installed().select(group=self._group):
            entry_point.load()
        self._scanned = True

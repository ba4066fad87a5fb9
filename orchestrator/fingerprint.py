"""Fingerprint of the code that computes a trial: comments, layout, docstrings and field descriptions do not matter.

Normalising a module takes milliseconds, and a plan covers dozens, so what was found of a file is kept beside Python's
own compiled files, and holds until the file changes. A folder that cannot be written keeps nothing.
"""

from __future__ import annotations

import ast
import atexit
import hashlib
import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

from orchestrator.siblings import ROOT

COMPUTING_PACKAGES = ("models", "tasks")
DESCRIPTIVE = frozenset({"description", "title", "examples"})


def fingerprint(hashes: Mapping[str, str]) -> str:
    """The fingerprint of code whose modules have these `hashes`, as `module_hashes` gives them."""
    text = "".join(f"{name}:{hashes[name]};" for name in sorted(hashes))
    return hashlib.sha256(text.encode()).hexdigest()


def module_hashes(modules: tuple[str, ...]) -> dict[str, str]:
    """Hash of the normalised source of each of `modules`, and of each module of ours that they import, by name."""
    closure: dict[str, str] = {}
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        if name not in closure:
            source = _source(name)
            if source is None:
                continue
            closure[name], imported = _normalised(source)
            waiting += imported
    return closure


@cache
def _source(module: str) -> Path | None:
    """The file of `module`; None for what is not a module of source code (a class imported by name, say)."""
    if module.split(".", maxsplit=1)[0] in COMPUTING_PACKAGES:
        place = ROOT.joinpath(*module.split("."))
        candidates = [place.with_suffix(".py"), place / "__init__.py"]
        return next((path for path in candidates if path.exists()), None)
    origin = getattr(sys.modules.get(module), "__file__", None)
    return Path(origin) if origin is not None else None


Normalised = tuple[str, tuple[str, ...]]
"""Hash of a file's normalised syntax tree, and the modules of ours that it imports."""


@cache
def _normalised(path: Path) -> Normalised:
    """What `path` is made of: as it was kept, if the file is the same."""
    status = path.stat()
    state = [status.st_mtime_ns, status.st_size]
    kept = _kept().get(str(path))
    if kept is not None and kept[0] == state:
        return kept[1], tuple(kept[2])
    digest, imported = _normalise(path)
    if not _fresh and not sys.dont_write_bytecode:
        atexit.register(_keep)
    _fresh[str(path)] = [state, digest, list(imported)]
    return digest, imported


_fresh: dict[str, list[Any]] = {}
"""What this process found, and shall be kept."""


def _place() -> Path:
    """Where it is kept. Another version of this file normalises in another way, and another Python parses so."""
    compiled = Path(cache_from_source(__file__))
    return compiled.with_name(f"{compiled.stem}-{Path(__file__).stat().st_mtime_ns}.json")


@cache
def _kept() -> dict[str, list[Any]]:
    try:
        kept: dict[str, list[Any]] = json.loads(_place().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return kept


def _keep() -> None:
    place = _place()
    part = place.with_suffix(f".{os.getpid()}")
    with suppress(OSError):
        part.write_text(json.dumps(_kept() | _fresh), encoding="utf-8")
        part.replace(place)


def _normalise(path: Path) -> Normalised:
    tree = ast.parse(path.read_bytes(), str(path))
    imported: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            imported += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        _strip(node)
    ours = tuple(sorted({name for name in imported if name.split(".")[0] in COMPUTING_PACKAGES}))
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest(), ours


def _strip(node: ast.AST) -> None:
    """Remove what does not compute: docstrings and descriptive keywords of field definitions."""
    body = getattr(node, "body", None)
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and body:
        node.body = [s for s in node.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Field":
        node.keywords = [keyword for keyword in node.keywords if keyword.arg not in DESCRIPTIVE]

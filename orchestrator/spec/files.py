"""From a path to the text of a spec."""

from __future__ import annotations

import codecs
import errno
from pathlib import Path

from orchestrator.spec.problems import Place, Problem, Source, SpecError

LARGEST = 1_000_000
"""Bytes of the largest file read as a spec."""

FOREIGN_BOMS = {codecs.BOM_UTF16_LE: "UTF-16", codecs.BOM_UTF16_BE: "UTF-16"}


def load(path: Path) -> Source:
    """The text of the file at `path`, which must be UTF-8 (a byte-order mark is dropped). Raises SpecError."""
    name = str(path)
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise _unreadable(name, *_why(error)) from error
    if len(data) > LARGEST:
        raise _unreadable(name, f"the file has more than {LARGEST} bytes", "a spec, which fits on a page")
    for mark, encoding in FOREIGN_BOMS.items():
        if data.startswith(mark):
            raise _unreadable(name, f"the file is {encoding}", "UTF-8: save it as such")
    try:
        return Source(name, data.removeprefix(codecs.BOM_UTF8).decode("utf-8"))
    except UnicodeDecodeError as error:
        source = Source(name, error.object.decode("utf-8", "replace"))
        index = len(error.object[: error.start].decode("utf-8"))
        wrong = f"byte 0x{error.object[error.start]:02x} is not UTF-8"
        raise SpecError([Problem(Place.of_index(source, index), wrong, "UTF-8: save the file as such")]) from error


def _why(error: OSError) -> tuple[str, str]:
    if error.errno == errno.EISDIR:
        return "this is a directory", "a YAML file"
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return "there is no such file", "the path of a YAML file; `slotsweep init` writes one"
    return f"the file cannot be read: {error.strerror}", "a file you may read"


def _unreadable(name: str, wrong: str, expected: str) -> SpecError:
    return SpecError([Problem(Place(Source(name, "")), wrong, expected)])

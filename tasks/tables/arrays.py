"""Arrays in .npz and .npy files: none is read before its head fits what is there, and what is wrong is told by name."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np

from tasks.tables.columns import TableError

ONE_ARRAY = ""
"""Name of the array of a .npy, which has none."""


def shapes_in(path: str) -> dict[str, tuple[int, ...]]:
    """Shape of each array in the file at `path`, from its head alone. Raises TableError."""
    found = {}
    for name, content, size in _members(path):
        with _told(path, name):
            found[name] = _shape(content, size)
    return found


def arrays_in(path: str, wanted: Collection[str]) -> dict[str, np.ndarray]:
    """Those of the arrays in the file at `path` that are `wanted` and there. Raises TableError."""
    found = {}
    for name, content, size in _members(path):
        if name in wanted:
            with _told(path, name):
                _shape(content, size)
                content.seek(0)
                found[name] = np.lib.format.read_array(content, allow_pickle=False)
    return found


def _members(path: str) -> Iterator[tuple[str, IO[bytes], int]]:
    """Name, content and bytes of each array. What is no array is passed over."""
    with _told(path, ONE_ARRAY):
        if path.endswith(".npy"):
            with Path(path).open("rb") as file:
                yield ONE_ARRAY, file, Path(path).stat().st_size
            return
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                name = member.filename.removesuffix(".npy")
                if name != member.filename:
                    with _told(path, name), archive.open(member) as content:
                        yield name, content, member.file_size


def _shape(content: IO[bytes], size: int) -> tuple[int, ...]:
    """Shape that a head tells. Raises ValueError where what follows, of `size` bytes with the head, is not of it."""
    version = np.lib.format.read_magic(content)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, form = read(content)
    said, there = math.prod(shape) * form.itemsize, size - content.tell()
    if said != there and not form.hasobject:
        raise ValueError(f"its head says {form} {shape}, {said:,} bytes, and {there:,} follow")
    return shape


@contextmanager
def _told(path: str, name: str) -> Iterator[None]:
    """Damaged bytes make zipfile, zlib and numpy raise errors of a dozen kinds: all of them are told as one."""
    try:
        yield
    except TableError:
        raise
    except Exception as error:
        what = f"`{name}` in {path}" if name else path
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
        raise TableError(f"cannot read {what}: {reason}") from error

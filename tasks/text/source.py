"""A file of the user's in a config: it must be there, and its checksum stands for its content."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from tasks.text.documents import SUFFIXES, current_sha256, form_of

BYTES = "bytes"
"""In place of the path of a tokenizer."""

Sha256 = Annotated[
    str | None,
    Field(
        pattern="^[0-9a-f]{64}$",
        description="SHA-256 of that file; filled in: a changed file makes other trials. Give it to insist on one file",
    ),
]


def identified(data: Any, *fields: tuple[str, str]) -> Any:
    """Raw fields of a config with absolute paths and their checksums, for each of `fields`: (path, checksum)."""
    if not isinstance(data, dict):
        return data
    filled = dict(data)
    for field, checksum in fields:
        given = data.get(field)
        if isinstance(given, str) and given != BYTES:
            path = absolute(given)
            filled[field] = str(path)
            if data.get(checksum) is None and path.is_file():
                filled[checksum] = _readable_sha256(path)
    return filled


def check_unchanged(path: str | None, sha256: str | None) -> None:
    """Raise ValueError unless the file is the one that `sha256` stands for."""
    if path is not None and path != BYTES and sha256 is not None and (found := _readable_sha256(Path(path))) != sha256:
        raise ValueError(f"{path} is another file than was meant: its SHA-256 is {found}, expected {sha256}")


def absolute(path: str) -> Path:
    """`path` from the root on; `~` is the home folder."""
    return Path(path).expanduser().absolute()


def _readable_sha256(path: Path) -> str:
    try:
        return current_sha256(path)
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from error


def _existing(path: str) -> str:
    if not absolute(path).is_file():
        raise ValueError(f"there is no file {absolute(path)}")
    return path


def _text_file(path: str) -> str:
    if form_of(Path(path)) is None:
        raise ValueError(f"{path} is none of {', '.join(f'{one}, {one}.gz' for one in SUFFIXES)}")
    return _existing(path)


def _tokenizer(path: str) -> str:
    return path if path == BYTES else _existing(path)


TextPath = Annotated[
    str,
    AfterValidator(_text_file),
    Field(description='file of UTF-8 text: .txt, or .jsonl with a "text" in every line; .gz may follow'),
]

TokenizerPath = Annotated[
    str,
    AfterValidator(_tokenizer),
    Field(description="`bytes`, or a tokenizer.json of the `tokenizers` library whose pieces are bytes"),
]

"""A file of the user's in a config: it must be there when it is named, and its checksum stands for its content.

Once the checksum is known, as in what is kept of a trial, a config needs the file no more; whoever reads it checks it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field, ValidationInfo, model_validator

from tasks.corpora import CorpusError
from tasks.text.documents import SUFFIXES, current_sha256, form_of
from tasks.workload import WorkloadConfig

BYTES = "bytes"
"""In place of the path of a tokenizer."""

HEX_DIGITS = re.compile("[0-9a-fA-F]{64}")


def _sha256(text: str) -> str:
    """`text` as checksums are written here. Raises ValueError where it is none."""
    if not HEX_DIGITS.fullmatch(text):
        raise ValueError(f"`{text}` is no SHA-256, which has 64 hex digits, 0 to 9 and a to f")
    return text.lower()


Sha256 = Annotated[
    Annotated[str, AfterValidator(_sha256), Field(json_schema_extra={"pattern": f"^{HEX_DIGITS.pattern}$"})] | None,
    Field(
        description="SHA-256 of that file; filled in: a changed file makes other trials. Give it to insist on one file",
    ),
]


def identified(data: Any, *fields: str) -> Any:
    """Raw fields of a config with absolute paths, and the checksums of files that are there, for each of `fields`.

    The checksum of `path` is `path_sha256`.
    """
    if not isinstance(data, dict):
        return data
    filled = dict(data)
    for field in fields:
        given = data.get(field)
        if isinstance(given, str) and given != BYTES:
            path = Path(given).expanduser().absolute()
            filled[field] = str(path)
            if data.get(checksum_of(field)) is None and path.is_file():
                filled[checksum_of(field)] = _readable_sha256(path)
    return filled


def located(value: Any, folder: Path) -> Any:
    """The path of a file as a spec that lies in `folder` has it, from anywhere."""
    if not isinstance(value, str) or value == BYTES:
        return value
    return str((folder / Path(value).expanduser()).absolute())


class FilesConfig(WorkloadConfig):
    """Options that name files, in the fields `files`; the checksum of each stands in the field before it."""

    files: ClassVar[tuple[str, ...]] = ("path",)

    @model_validator(mode="before")
    @classmethod
    def _identify(cls, data: Any) -> Any:
        return identified(data, *cls.files)

    @classmethod
    def located(cls, field: str, value: Any, folder: Path) -> Any:
        return located(value, folder) if field in cls.files else value

    @classmethod
    def pinned(cls, fields: dict[str, Any]) -> dict[str, Any]:
        pinned: dict[str, Any] = identified(fields, *cls.files)
        return pinned


def checksum_of(field: str) -> str:
    """The field that holds the checksum of a file; it must stand before it in the config."""
    return f"{field}_sha256"


def unchanged(path: str, sha256: str | None) -> Path:
    """The file at `path`. Raises CorpusError unless it is still the one that `sha256` stands for."""
    try:
        found = current_sha256(Path(path))
    except OSError as error:
        raise CorpusError(f"cannot read {path}: {error.strerror}; put it back, or name another one") from error
    if found != sha256:
        raise CorpusError(
            f"{path} is another file than was meant: its SHA-256 is {found}, expected {sha256}; put that one back, or "
            "run the spec again for this one"
        )
    return Path(path)


def _readable_sha256(path: Path) -> str:
    try:
        return current_sha256(path)
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from error


def known(path: str, info: ValidationInfo) -> str:
    """`path`, unless nothing is known of its file: then it is not there."""
    checksum = checksum_of(str(info.field_name))
    if path != BYTES and info.data.get(checksum, "is wrong itself") is None:
        raise ValueError(f"there is no file {path}")
    return path


def _text_file(path: str) -> str:
    if form_of(Path(path)) is None:
        raise ValueError(f"{path} is none of {', '.join(f'{one}, {one}.gz' for one in SUFFIXES)}")
    return path


TextPath = Annotated[
    str,
    AfterValidator(_text_file),
    AfterValidator(known),
    Field(description='UTF-8 text: .txt, or .jsonl with a "text" in every line; .gz may follow'),
]

TokenizerPath = Annotated[
    str,
    AfterValidator(known),
    Field(description="`bytes`, or a tokenizer.json of the `tokenizers` library whose pieces are bytes"),
]

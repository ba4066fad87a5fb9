"""Unpacking what a service sends: plain files into one folder, whatever the archive says."""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import Path

from orchestrator.errors import ServiceError

PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,199}")
MOST_BYTES = 2**30
MOST_FILES = 10_000


def unpack_files(archive: bytes, folder: Path) -> None:
    """Write the files of a zip into `folder`, which is made if missing.

    Raises ServiceError for an archive that is broken, too large, or names anything but files of that folder.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as packed:
            infos = packed.infolist()
            _check(infos)
            folder.mkdir(parents=True, exist_ok=True)
            for info in infos:
                (folder / info.filename).write_bytes(packed.read(info))
    # An encrypted file is a RuntimeError to zipfile, an unknown way of packing a NotImplementedError.
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
        raise ServiceError(f"the service sent an archive that cannot be read: {error}") from error


def _check(infos: list[zipfile.ZipInfo]) -> None:
    for info in infos:
        if not PLAIN_NAME.fullmatch(info.filename):
            raise ServiceError(f"the service sent an archive with {info.filename!r} in it, which is no plain file")
    if sum(info.file_size for info in infos) > MOST_BYTES or len(infos) > MOST_FILES:
        raise ServiceError(f"the service sent an archive of more than {MOST_BYTES:,} bytes or {MOST_FILES:,} files")

"""Public data sets by name: found on this machine or fetched once from their canonical address, and always checked.

Files are looked for in the folder that SLOTSWEEP_DATA names, then in the cache (`data/` under SLOTSWEEP_HOME, by
default ./.slotsweep), and only then fetched into the cache. `NAME.gz` there serves as well as `NAME`. No file is used
before the SHA-256 of its content has been verified. Where nobody publishes one, that of the first use is written down
in the cache (SHA256SUMS beside the files) and holds ever after. What is very large is fetched only on request.
"""

from __future__ import annotations

import gzip
import hashlib
import logging
import os
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from io import BufferedReader, TextIOWrapper
from pathlib import Path

from tasks.catalogue import Archive, Corpus, Files
from tasks.download import SLOWEST_BYTES_PER_SECOND, DownloadError, copy_within, download, file_sha256

LOCK_SECONDS = 1800.0
SUMS = "SHA256SUMS"

log = logging.getLogger(__name__)


class CorpusError(RuntimeError):
    """A data set cannot be had, or is not what it should be; the message says the cure."""


def corpus_files(corpus: Corpus) -> dict[str, Path]:
    """Verified paths of the files of `corpus`, by name; `open_text` reads them. Raises CorpusError."""
    given = os.environ.get("SLOTSWEEP_DATA")
    if given:
        paths = _find(corpus, Path(given) / corpus.folder)
        if paths is not None:
            _check_given(corpus, paths)
            return paths
    if not _intact(corpus):
        if (reason := _unasked(corpus)) is not None:
            raise CorpusError(_cure(corpus, reason))
        _fetch(corpus)
    paths = _find(corpus, _cache(corpus))
    assert paths is not None
    return paths


def _unasked(corpus: Corpus) -> str | None:
    """Why a data set that is not here is not fetched either; None: it is."""
    if not corpus.on_request or corpus.name in os.environ.get("SLOTSWEEP_FETCH", "").split(","):
        return None
    size = f"{corpus.limit_bytes / 1e9:.1f} GB"
    return f"with up to {size} it is fetched only where SLOTSWEEP_FETCH={corpus.name} asks for it"


def absence(corpus: Corpus) -> str | None:
    """What is to be said of a data set that is not here; None if it is. Reads and fetches nothing."""
    if folder_at_hand(corpus) is not None:
        return None
    if (reason := _unasked(corpus)) is not None:
        return f"{corpus.name} is not here: {reason}"
    return f"{corpus.name} is not here: it will be fetched from {_addresses(corpus)}"


def folder_at_hand(corpus: Corpus) -> Path | None:
    """The folder here that has all files of `corpus`, not verified; None where they would be fetched."""
    given = os.environ.get("SLOTSWEEP_DATA")
    folders = [*([Path(given) / corpus.folder] if given else []), _cache(corpus)]
    return next((folder for folder in folders if _find(corpus, folder) is not None), None)


def open_content(path: Path) -> gzip.GzipFile | BufferedReader:
    """The content of a file of a corpus, unpacked if the file is kept as `.gz`."""
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")


def open_text(path: Path, encoding: str = "utf-8") -> TextIOWrapper:
    """The same as text, with line ends as they are, as the csv module wants it."""
    return TextIOWrapper(open_content(path), encoding=encoding, newline="")


def data_cache() -> Path:
    """The folder in which fetched data sets are kept."""
    return Path(os.environ.get("SLOTSWEEP_HOME") or ".slotsweep").absolute() / "data"


def _cache(corpus: Corpus) -> Path:
    return data_cache() / corpus.folder


def _find(corpus: Corpus, folder: Path) -> dict[str, Path] | None:
    """The path of every file of `corpus` in `folder`, or None if one is missing."""
    paths = {}
    for name in corpus.files:
        candidates = [path for path in (folder / name, folder / f"{name}.gz") if path.is_file()]
        if not candidates:
            return None
        paths[name] = candidates[0]
    return paths


def _content_sha256(path: Path) -> str:
    if path.suffix != ".gz":
        return file_sha256(path)
    digest = hashlib.sha256()
    try:
        with open_content(path) as content:
            while chunk := content.read(1 << 20):
                digest.update(chunk)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise CorpusError(f"{path} cannot be unpacked: {error}") from error
    return digest.hexdigest()


def _expected(corpus: Corpus, name: str) -> str | None:
    """The checksum that `name` must have: the published one, else the one of its first use, else None."""
    return corpus.files[name] or _first_uses(corpus).get(name)


def _first_uses(corpus: Corpus) -> dict[str, str]:
    sums = _cache(corpus) / SUMS
    if not sums.is_file():
        return {}
    lines = (line.split(maxsplit=1) for line in sums.read_text(encoding="utf-8").splitlines())
    return {name: sha256 for sha256, name in lines}


def _note_first_use(corpus: Corpus, name: str, sha256: str) -> None:
    """Write down the checksum of a file for which none is published. Harmless if another process does the same."""
    sums = _cache(corpus) / SUMS
    try:
        sums.parent.mkdir(parents=True, exist_ok=True)
        with sums.open("a", encoding="utf-8") as file:
            file.write(f"{sha256}  {name}\n")
    except OSError as error:
        raise CorpusError(f"cannot note the checksum of {name} in {sums}: {error}; set SLOTSWEEP_HOME") from error
    log.warning(
        "no checksum of %s is published: the content used now, SHA-256 %s, is expected from now on (kept in %s)",
        name,
        sha256,
        sums,
    )


def _intact(corpus: Corpus) -> bool:
    """Whether the cache holds every file as it must be."""
    paths = _find(corpus, _cache(corpus))
    return paths is not None and not any(_others(corpus, paths))


def _check_given(corpus: Corpus, paths: dict[str, Path]) -> None:
    """A file the user put there is never replaced behind their back, and never used if it is another one."""
    for name, found, expected in _others(corpus, paths):
        raise CorpusError(
            f"{paths[name]} is not the file of {corpus.name}: its SHA-256 is {found}, expected {expected}"
            f"{_whence(corpus, name)}. Take it from {_addresses(corpus)}, or move it away to have it fetched"
        )


def _others(corpus: Corpus, paths: Mapping[str, Path]) -> Iterator[tuple[str, str, str]]:
    """Files that are not those of `corpus`: (name, SHA-256 found, SHA-256 expected).

    Where none is expected yet, the one that is found is from now on.
    """
    for name, path in paths.items():
        found, expected = _content_sha256(path), _expected(corpus, name)
        if expected is None:
            _note_first_use(corpus, name, found)
        elif found != expected:
            yield name, found, expected


def _whence(corpus: Corpus, name: str) -> str:
    """Where an expected checksum comes from, if not from this program."""
    if corpus.files[name] is not None:
        return ""
    return f" as when first used (if the new one is meant, remove its line from {_cache(corpus) / SUMS})"


def _fetch(corpus: Corpus) -> None:
    """Put the files of `corpus` into the cache. Of several processes one fetches, and the others wait for it."""
    from filelock import FileLock, Timeout

    folder = _cache(corpus)
    patience = LOCK_SECONDS + corpus.limit_bytes / SLOWEST_BYTES_PER_SECOND
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.with_name(f".{folder.name}.lock"), timeout=patience):
            if not _intact(corpus):
                with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as scratch:
                    _fetch_into(corpus, folder, Path(scratch))
    except Timeout as error:
        raise CorpusError(_cure(corpus, f"another process has been fetching it for {patience:.0f} s")) from error
    except (DownloadError, zipfile.BadZipFile, KeyError, EOFError, zlib.error, OSError) as error:
        raise CorpusError(_cure(corpus, str(error))) from error


def _fetch_into(corpus: Corpus, folder: Path, scratch: Path) -> None:
    parts = {name: scratch / name for name in corpus.files}
    if isinstance(corpus.source, Archive):
        _fetch_archive(corpus.source, corpus.limit_bytes, parts, scratch / "archive.zip")
    else:
        _fetch_files(corpus.source, corpus.limit_bytes, parts, scratch / "packed")
    for name, found, expected in _others(corpus, parts):
        raise DownloadError(
            f"{name} has another SHA-256 than {expected}, namely {found}{_whence(corpus, name)}: "
            "it was altered on the way or by its publisher"
        )
    for name, part in parts.items():
        part.replace(folder / name)


def _fetch_archive(source: Archive, limit_bytes: int, parts: dict[str, Path], archive: Path) -> None:
    download(source.url, archive, source.sha256, limit_bytes)
    with zipfile.ZipFile(archive) as members:
        for name, part in parts.items():
            with members.open(source.prefix + name) as content, part.open("wb") as target:
                shutil.copyfileobj(content, target)


def _fetch_files(source: Files, limit_bytes: int, parts: dict[str, Path], packed: Path) -> None:
    for name, part in parts.items():
        url = source.url + source.paths[name]
        if url.endswith(".gz"):
            download(url, packed, None, limit_bytes)
            with gzip.open(packed) as content, part.open("wb") as target:
                copy_within(content.read1, target, limit_bytes)
        else:
            download(url, part, None, limit_bytes)


def _addresses(corpus: Corpus) -> str:
    return " and ".join(corpus.source.addresses)


def _cure(corpus: Corpus, reason: str) -> str:
    get = "unpack that archive and" if isinstance(corpus.source, Archive) else "get that and"
    return (
        f"cannot fetch {corpus.name} from {_addresses(corpus)}: {reason}. Without network: {get} "
        f"put {' and '.join(corpus.files)} into FOLDER/{corpus.folder}/ and set SLOTSWEEP_DATA=FOLDER, "
        f"or put them into {_cache(corpus)}/ (terms: {corpus.terms})"
    )

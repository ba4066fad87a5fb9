"""Public data sets by name: found on this machine or fetched once from their canonical address, and always checked.

Files are looked for in the folder that SLOTSWEEP_DATA names, then in the cache (`data/` under SLOTSWEEP_HOME, by
default ./.slotsweep), and only then fetched into the cache. No file is used before its SHA-256 has been verified.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from tasks.download import DownloadError, download, file_sha256

LOCK_SECONDS = 1800.0


class CorpusError(RuntimeError):
    """A data set cannot be had, or is not what it should be; the message says the cure."""


@dataclass(frozen=True)
class Corpus:
    """A data set as its publisher serves it: one zip archive, of which some members are used.

    sha256       of the archive at `url`
    limit_bytes  size beyond which the archive is refused
    folder       where the files lie, below a data folder
    prefix       the same, inside the archive
    files        file name -> SHA-256
    terms        what a user must know before using it
    """

    name: str
    url: str
    sha256: str
    limit_bytes: int
    folder: str
    prefix: str
    files: dict[str, str]
    terms: str


_MOVIELENS_TERMS = (
    "research use, no commercial use without permission, cite Harper & Konstan 2015 (doi:10.1145/2827872)"
)

CORPORA = {
    corpus.name: corpus
    for corpus in (
        Corpus(
            name="ml-latest-small",
            url="https://files.grouplens.org/datasets/movielens/ml-latest-small.zip",
            sha256="696d65a3dfceac7c45750ad32df2c259311949efec81f0f144fdfb91ebc9e436",
            limit_bytes=16 << 20,
            folder="movielens/ml-latest-small",
            prefix="ml-latest-small/",
            files={
                "ratings.csv": "aa289ca83157595d0df6aea1be6a4ded676ddc4385472e8313a8ed9805352646",
                "movies.csv": "5a5f32dd9bb3797b8e728a1b98958789d2b13f294a69fdfbc5727f8a9611aa07",
            },
            terms=_MOVIELENS_TERMS,
        ),
        Corpus(
            name="ml-100k",
            url="https://files.grouplens.org/datasets/movielens/ml-100k.zip",
            sha256="50d2a982c66986937beb9ffb3aa76efe955bf3d5c6b761f4e3a7cd717c6a3229",
            limit_bytes=64 << 20,
            folder="movielens/ml-100k",
            prefix="ml-100k/",
            files={
                "u.data": "06416e597f82b7342361e41163890c81036900f418ad91315590814211dca490",
                "u.item": "553841ebc7de3a0fd0d6b62a204ea30c1e651aacfb2814c7a6584ac52f2c5701",
            },
            terms=f"{_MOVIELENS_TERMS}, no redistribution",
        ),
    )
}


def corpus_files(corpus: Corpus) -> dict[str, Path]:
    """Verified paths of the files of `corpus`, by name. Raises CorpusError where they cannot be had."""
    given = os.environ.get("SLOTSWEEP_DATA")
    if given:
        folder = Path(given) / corpus.folder
        if all((folder / name).is_file() for name in corpus.files):
            _check_given(corpus, folder)
            return _paths(corpus, folder)
    folder = data_cache() / corpus.folder
    if not _intact(corpus, folder):
        _fetch(corpus, folder)
    return _paths(corpus, folder)


def data_cache() -> Path:
    """The folder in which fetched data sets are kept."""
    return Path(os.environ.get("SLOTSWEEP_HOME") or ".slotsweep").absolute() / "data"


def _paths(corpus: Corpus, folder: Path) -> dict[str, Path]:
    return {name: folder / name for name in corpus.files}


def _intact(corpus: Corpus, folder: Path) -> bool:
    return all(
        (folder / name).is_file() and file_sha256(folder / name) == sha256 for name, sha256 in corpus.files.items()
    )


def _check_given(corpus: Corpus, folder: Path) -> None:
    """A file the user put there is never replaced behind their back, and never used if it is another one."""
    for name, sha256 in corpus.files.items():
        found = file_sha256(folder / name)
        if found != sha256:
            raise CorpusError(
                f"{folder / name} is not the file of {corpus.name}: its SHA-256 is {found}, expected {sha256}. "
                f"Take it from {corpus.url}, or move it away to have it fetched"
            )


def _fetch(corpus: Corpus, folder: Path) -> None:
    """Put the files of `corpus` into `folder`. Of several processes one fetches, and the others wait for it."""
    from filelock import FileLock, Timeout

    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.with_name(f".{folder.name}.lock"), timeout=LOCK_SECONDS):
            if not _intact(corpus, folder):
                _fetch_alone(corpus, folder)
    except Timeout as error:
        raise CorpusError(_cure(corpus, f"another process has been fetching it for {LOCK_SECONDS:.0f} s")) from error
    except (DownloadError, zipfile.BadZipFile, OSError) as error:
        raise CorpusError(_cure(corpus, str(error))) from error


def _fetch_alone(corpus: Corpus, folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as scratch:
        archive = Path(scratch) / "archive.zip"
        download(corpus.url, archive, corpus.sha256, corpus.limit_bytes)
        with zipfile.ZipFile(archive) as members:
            for name, sha256 in corpus.files.items():
                part = Path(scratch) / name
                with members.open(corpus.prefix + name) as source, part.open("wb") as target:
                    shutil.copyfileobj(source, target)
                if file_sha256(part) != sha256:
                    raise DownloadError(f"{name} in the archive has another SHA-256 than {sha256}")
                part.replace(folder / name)


def _cure(corpus: Corpus, reason: str) -> str:
    return (
        f"cannot fetch {corpus.name} from {corpus.url}: {reason}. Without network: unpack that archive so that "
        f"{' and '.join(corpus.files)} lie in FOLDER/{corpus.folder}/ and set SLOTSWEEP_DATA=FOLDER, "
        f"or put them into {data_cache() / corpus.folder}/ (terms: {corpus.terms})"
    )

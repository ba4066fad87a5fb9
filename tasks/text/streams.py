"""Token ids of a text, made once: kept on disk under what they are made of, and read from there as they are needed."""

from __future__ import annotations

import hashlib
import logging
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby
from pathlib import Path

import numpy as np

from models.config import canonical_json
from models.stream import Ints
from tasks.corpora import LOCK_SECONDS, CorpusError, data_cache
from tasks.text.documents import Piece, pieces
from tasks.text.vocabulary import Vocabulary

log = logging.getLogger(__name__)

Width = type[np.uint16] | type[np.uint32]

FORMAT = 2
"""Of what is kept: a number that whoever changes how text becomes ids must raise."""

LARGE_BYTES = 64 << 20
"""Size of a file from which on people are told that it is being encoded."""

BATCH_CHARACTERS = 1 << 22
"""Text that is encoded in one call: a tokenizer uses several threads for it."""


@dataclass(frozen=True)
class TokenStreams:
    """Two streams of ids, of which one is for evaluation alone: [N] and [M], in a width of integers of their own."""

    training: np.ndarray
    held_out: np.ndarray


def marked(vocabulary: Vocabulary, documents: Sequence[Ints]) -> Ints:
    """One stream of `documents`, each followed by the mark of its end."""
    ends = [part for document in documents for part in (document, [vocabulary.end])]
    return np.concatenate([np.array(vocabulary.front, dtype=np.int64), *ends]).astype(np.int64)


def kept_streams(path: Path, share: Fraction, vocabulary: Vocabulary, made_of: Sequence[str]) -> TokenStreams:
    """The streams of the text at `path`, of which `share` is held out; from the cache where they are in there.

    made_of: checksums of the text and of the tokenizer
    """
    from filelock import FileLock, Timeout

    key = hashlib.sha256(canonical_json([FORMAT, *made_of, str(share)]).encode()).hexdigest()[:32]
    folder = data_cache() / "tokens" / key
    width: Width = np.uint16 if vocabulary.size <= 1 << 16 else np.uint32
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.with_name(f".{key}.lock"), timeout=LOCK_SECONDS):
            if not folder.is_dir():
                if path.stat().st_size > LARGE_BYTES:
                    log.warning("encoding %s, which takes a while, once: its ids are kept in %s", path, folder)
                with tempfile.TemporaryDirectory(prefix=f".{key}-", dir=folder.parent) as scratch:
                    whole = Path(scratch) / key
                    whole.mkdir()
                    _write(pieces(path, share), vocabulary, width, whole)
                    whole.rename(folder)
        return TokenStreams(*(_mapped(folder / name, width) for name in ("training", "held_out")))
    except Timeout as error:
        raise CorpusError(f"another process has been encoding {path} for {LOCK_SECONDS:.0f} s") from error
    except OSError as error:
        raise CorpusError(f"cannot keep the token ids of {path} in {folder}: {error}; set SLOTSWEEP_HOME") from error


def _write(text: Iterator[Piece], vocabulary: Vocabulary, width: Width, folder: Path) -> None:
    """Both streams into `folder`, as they come."""
    with (folder / "training").open("wb") as training, (folder / "held_out").open("wb") as held_out:
        for file in (training, held_out):
            file.write(np.array(vocabulary.front, dtype=width).tobytes())
        for batch in _batches(text):
            for piece, ids in zip(batch, vocabulary.encode([piece.text for piece in batch]), strict=True):
                ended = np.append(ids, vocabulary.end) if piece.ends else ids
                (held_out if piece.held_out else training).write(ended.astype(width).tobytes())


def _batches(text: Iterator[Piece]) -> Iterator[list[Piece]]:
    """`text` in lists of some `BATCH_CHARACTERS`."""
    read = 0

    def batch_of(piece: Piece) -> int:
        nonlocal read
        read += len(piece.text) + 1
        return read // BATCH_CHARACTERS

    return (list(batch) for _, batch in groupby(text, batch_of))


def _mapped(path: Path, width: Width) -> np.ndarray:
    """What a file holds, read as it is needed; a file of nothing cannot be mapped."""
    if path.stat().st_size == 0:
        return np.empty(0, width)
    return np.memmap(path, width, mode="r")

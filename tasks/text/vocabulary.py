"""What token ids stand for: bytes, or the pieces of a tokenizer of the user's."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from models.stream import Ints
from tasks.corpora import CorpusError


class Vocabulary(ABC):
    """Text to ids.

    size     ids are 0 .. size - 1
    lengths  [V] bytes of text that an id stands for; 0 for marks, which no text contains
    front    ids before the first document of a stream
    end      the id after each document
    """

    size: int
    lengths: Ints
    front: tuple[int, ...]
    end: int

    @abstractmethod
    def encode(self, texts: Sequence[str]) -> list[Ints]:
        """The ids of each of `texts`, without marks."""


class ByteVocabulary(Vocabulary):
    """UTF-8 bytes, and marks as in arXiv 2606.05175: PAD 256, BOS 257, EOS 258."""

    PAD, BOS, EOS = 256, 257, 258

    def __init__(self) -> None:
        self.size = 259
        self.lengths = np.repeat([1, 0], [256, 3]).astype(np.int64)
        self.front = (self.BOS,)
        self.end = self.EOS

    def encode(self, texts: Sequence[str]) -> list[Ints]:
        return [np.frombuffer(text.encode(), dtype=np.uint8).astype(np.int64) for text in texts]

    @staticmethod
    def decode(ids: Sequence[int]) -> str:
        """The text of `ids`, marks left out; bytes that are no UTF-8 become U+FFFD."""
        return bytes(one for one in ids if one < 256).decode(errors="replace")


class TokenizerVocabulary(Vocabulary):
    """Byte-level BPE out of a `tokenizer.json` of the `tokenizers` library; `end` is the mark after a document.

    Marks that stand in a text are taken for text. Raises CorpusError where the file is no such tokenizer.
    """

    def __init__(self, path: Path, end: str) -> None:
        from tokenizers import Tokenizer

        content = _read_tokenizer(path)
        try:
            self._tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises nothing narrower
            raise CorpusError(f"{path} is no tokenizer.json: {error}") from error
        self._tokenizer.encode_special_tokens = True
        added = {token["id"]: token for token in content.get("added_tokens", [])}
        marks = {token["content"]: index for index, token in added.items() if token["special"]}
        if end not in marks:
            raise CorpusError(f"the tokenizer {path} has no mark {end!r} to end documents with; it has {_some(marks)}")
        pieces = self._tokenizer.get_vocab(with_added_tokens=True)
        self.size = max(pieces.values()) + 1
        self.lengths = np.zeros(self.size, dtype=np.int64)
        for piece, index in pieces.items():  # a character of an ordinary piece stands for a byte
            is_added = index in added
            self.lengths[index] = len(piece.encode()) * (not added[index]["special"]) if is_added else len(piece)
        self.front = ()
        self.end = marks[end]

    def encode(self, texts: Sequence[str]) -> list[Ints]:
        encoded = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [np.asarray(one.ids, dtype=np.int64) for one in encoded]


def _read_tokenizer(path: Path) -> dict[str, Any]:
    """The JSON of a tokenizer whose pieces are bytes, so that bits a byte can be told."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        decoders = content["decoder"].get("decoders", [content["decoder"]])
        kinds = [decoder["type"] for decoder in decoders]
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise CorpusError(f"{path} is no tokenizer.json of the `tokenizers` library: {error!r}") from error
    if "ByteLevel" not in kinds:
        raise CorpusError(
            f"the tokenizer {path} is not byte-level (its decoder is {', '.join(kinds)}), so that nothing tells how "
            "many bytes a token stands for: take a byte-level one, or `tokenizer: bytes`"
        )
    result: dict[str, Any] = content
    return result


def _some(marks: dict[str, int]) -> str:
    """The first of `marks`, for messages."""
    shown = ", ".join(repr(mark) for mark in list(marks)[:5])
    return f"{shown or 'none'}{', ...' if len(marks) > 5 else ''}"

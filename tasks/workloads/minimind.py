"""The MiniMind corpus in the ids of its own tokenizer: the second language of arXiv 2606.05175."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Literal

from pydantic import Field

from tasks.catalogue import CORPORA
from tasks.corpora import CorpusError, corpus_files
from tasks.text.language import LanguageConfig, LanguageWorkload, Length
from tasks.text.source import FilesConfig, Sha256, TextPath, unchanged
from tasks.text.streams import TokenStreams, kept_streams
from tasks.text.vocabulary import TokenizerVocabulary
from tasks.workload import workload

END = "<|im_end|>"
HELD_OUT = Fraction(1, 20)


class MiniMindConfig(FilesConfig, LanguageConfig):
    """The next of 6,400 tokens of Chinese and English text (arXiv 2606.05175, MiniMind setting).

    Byte-level BPE; documents one after another, each followed by <|im_end|>; every 20th of them is held out.

    Data: https://github.com/jingyaogong/minimind. The corpus has 1.2 GB: put it into SLOTSWEEP_DATA, or have it fetched
    from huggingface.co by SLOTSWEEP_FETCH=minimind; `path` takes any other file.
    """

    name: Literal["minimind"] = "minimind"
    length: Length = 96
    path_sha256: Sha256 = None
    path: TextPath | None = Field(None, description="a .jsonl or .txt in place of MiniMind's pretrain_t2t_mini.jsonl")


@workload(MiniMindConfig)
class MiniMind(LanguageWorkload[MiniMindConfig]):
    """Windows of the corpus; ids are kept in the data cache."""

    @property
    def source(self) -> str:
        return self.config.path or "MiniMind"

    def read(self) -> tuple[TokenizerVocabulary, TokenStreams]:
        path, sha256 = self._text()
        tokenizer = CORPORA["minimind-tokenizer"]
        [(name, tokenizer_path)] = corpus_files(tokenizer).items()
        vocabulary = TokenizerVocabulary(tokenizer_path, END)
        return vocabulary, kept_streams(path, HELD_OUT, vocabulary, [sha256, str(tokenizer.files[name]), END])

    @classmethod
    def corpora(cls, config: MiniMindConfig) -> tuple[str, ...]:
        return ("minimind-tokenizer",) if config.path is not None else ("minimind", "minimind-tokenizer")

    def _text(self) -> tuple[Path, str]:
        """The file that is read, and its checksum."""
        if self.config.path is not None:
            return unchanged(self.config.path, self.config.path_sha256), str(self.config.path_sha256)
        corpus = CORPORA["minimind"]
        try:
            [(name, path)] = corpus_files(corpus).items()
        except CorpusError as error:
            raise CorpusError(f"{error}. Or take a file of your own: `path: FILE.jsonl`") from error
        return path, str(corpus.files[name])

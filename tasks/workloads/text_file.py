"""Language modelling of a text of the user's own."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from tasks.text.documents import form_of
from tasks.text.language import LanguageConfig, LanguageWorkload
from tasks.text.source import BYTES, FilesConfig, Sha256, TextPath, TokenizerPath, unchanged
from tasks.text.streams import TokenStreams, kept_streams
from tasks.text.vocabulary import ByteVocabulary, TokenizerVocabulary, Vocabulary
from tasks.workload import workload

DEFAULT_END = "<|endoftext|>"


class TextFileConfig(FilesConfig, LanguageConfig):
    """The next token of your own text, of bytes or of a byte-level BPE tokenizer.

    Each document is followed by a mark of its end; a .txt is one document for training and one held out, of a .jsonl
    every line that is not blank is a document.
    """

    files: ClassVar[tuple[str, ...]] = ("path", "tokenizer")

    name: Literal["text_file"] = "text_file"
    path_sha256: Sha256 = None
    path: TextPath
    tokenizer_sha256: Sha256 = None
    tokenizer: TokenizerPath = BYTES
    end_of_document: str = Field(
        DEFAULT_END, min_length=1, description="the tokenizer's mark that follows a document; bytes have their own"
    )
    validation_share: float = Field(
        0.05, ge=1e-6, le=0.5, description="share held out: the end of a .txt, so many records of a .jsonl"
    )

    @model_validator(mode="after")
    def _marks_ends_of_its_own(self) -> TextFileConfig:
        if self.end_of_document != DEFAULT_END and self.tokenizer == BYTES:
            raise ValueError("`end_of_document` needs a `tokenizer` that has the mark: bytes have one of their own")
        return self


@workload(TextFileConfig)
class TextFile(LanguageWorkload[TextFileConfig]):
    """Windows of the text in a file; ids are kept in the data cache."""

    @property
    def source(self) -> str:
        return self.config.path

    def more(self, *, held_out: bool) -> list[str]:
        text = "more records" if form_of(Path(self.config.path)) == ".jsonl" else "more text"
        return [f"a larger `validation_share` than {self.config.validation_share:g}", text] if held_out else [text]

    def read(self) -> tuple[Vocabulary, TokenStreams]:
        config = self.config
        vocabulary: Vocabulary = ByteVocabulary()
        made_of = [str(config.path_sha256), BYTES]
        if config.tokenizer != BYTES:
            tokenizer = unchanged(config.tokenizer, config.tokenizer_sha256)
            vocabulary = TokenizerVocabulary(tokenizer, config.end_of_document)
            made_of = [str(config.path_sha256), str(config.tokenizer_sha256), config.end_of_document]
        share = Fraction(str(config.validation_share))
        return vocabulary, kept_streams(unchanged(config.path, config.path_sha256), share, vocabulary, made_of)

"""WikiText-2 byte by byte: the language that arXiv 2606.05175 trains on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from models.stream import Ints
from tasks.catalogue import CORPORA
from tasks.corpora import CorpusError, corpus_files, open_text
from tasks.text.language import LanguageConfig, LanguageWorkload
from tasks.text.streams import TokenStreams, marked
from tasks.text.vocabulary import ByteVocabulary
from tasks.workload import workload

Part = Annotated[
    Literal["full", "first_megabyte"],
    Field(description="what is trained on: all 10.9 MB, or the first 1,000,000 bytes of it, blank lines left out"),
]


class WikiText2Config(LanguageConfig):
    """The next byte of WikiText-2 (Merity et al. 2016, arXiv 1609.07843; protocol of arXiv 2606.05175).

    Lines are stripped, empty ones dropped, the others joined by newlines; ids 0 .. 255 are bytes, 256 PAD, 257 BOS,
    258 EOS.

    Data: text of Wikipedia, CC BY-SA 3.0 and GFDL; fetched from huggingface.co if SLOTSWEEP_DATA lacks it.
    """

    name: Literal["wikitext2"] = "wikitext2"
    part: Part = "full"


@workload(WikiText2Config)
class WikiText2(LanguageWorkload[WikiText2Config]):
    """Training windows of the train split, evaluation windows of the validation split."""

    source = "WikiText-2"

    def read(self) -> tuple[ByteVocabulary, TokenStreams]:
        vocabulary = ByteVocabulary()
        training, validation = wikitext_files(self.config.part)
        return vocabulary, TokenStreams(byte_ids(training, vocabulary), byte_ids(validation, vocabulary))

    @classmethod
    def corpora(cls, config: WikiText2Config) -> tuple[str, ...]:
        return wikitext_corpora(config.part)


def wikitext_corpora(part: str) -> tuple[str, ...]:
    """The data sets that hold the files to train on and to evaluate."""
    return ("wikitext-2-first-megabyte", "wikitext-2-validation") if part == "first_megabyte" else ("wikitext-2",)


def wikitext_files(part: str) -> tuple[Path, Path]:
    """The files to train on and to evaluate. Raises CorpusError."""
    if part == "first_megabyte":
        [training] = corpus_files(CORPORA["wikitext-2-first-megabyte"]).values()
        [validation] = corpus_files(CORPORA["wikitext-2-validation"]).values()
        return training, validation
    try:
        files = corpus_files(CORPORA["wikitext-2"])
    except CorpusError as error:
        raise CorpusError(f"{error}. Or train on the beginning of it alone: `part: first_megabyte`") from error
    return files["wiki.train.raw"], files["wiki.valid.raw"]


def byte_ids(path: Path, vocabulary: ByteVocabulary) -> Ints:
    """The ids of one split, as the released code has them: BOS, the text, EOS."""
    with open_text(path) as file:
        lines = [stripped for line in file if (stripped := line.strip())]
    return marked(vocabulary, vocabulary.encode(["\n".join(lines)]))

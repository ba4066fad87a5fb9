"""WikiText-2 and MiniMind from the files that SLOTSWEEP_DATA names."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
import pytest

from models.stream import Ints
from tasks.corpora import CorpusError, open_text
from tasks.text.vocabulary import ByteVocabulary
from tasks.workloads.minimind import MiniMind, MiniMindConfig
from tasks.workloads.wikitext2 import WikiText2, WikiText2Config, byte_ids, wikitext_files

DATA = Path(os.environ.get("SLOTSWEEP_DATA") or "/nonexistent")
pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif(not (DATA / "wikitext2").is_dir(), reason="SLOTSWEEP_DATA has no wikitext2"),
]


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLOTSWEEP_HOME", str(tmp_path))


@pytest.fixture(scope="module")
def wikitext() -> WikiText2:
    return WikiText2(WikiText2Config(part="first_megabyte"))


def test_wikitext_is_bytes_between_marks(wikitext: WikiText2) -> None:
    for ids, beginning in (
        (wikitext.streams.training, " = Valkyria Chronicles III ="),
        (wikitext.streams.held_out, " = Homarus gammarus ="),
    ):
        assert (ids[0], ids[-1]) == (257, 258)
        text = bytes(ids[1:-1].astype(np.uint8)).decode()
        assert text.startswith(beginning.strip() + "\n")
        assert "\n\n" not in text
        assert all(line == line.strip() for line in text.split("\n"))
    assert (wikitext.vocabulary, wikitext.length) == (259, 128)
    _, validation = wikitext_files("first_megabyte")
    with open_text(validation) as file:
        stripped = [line.strip() for line in file]
    assert len(wikitext.streams.held_out) == len("\n".join(line for line in stripped if line).encode()) + 2


def test_the_published_evaluation_is_2048_windows(wikitext: WikiText2) -> None:
    """Unigram entropy 4.61 bits, from an English byte corpus of another kind (arXiv 2606.05175, our reading)."""

    class Uniform:
        def logits(self, ids: Ints, at: Ints | None = None) -> object:
            from torch import zeros

            return zeros(*ids.shape, 259)

    metrics = wikitext.evaluate(Uniform(), seed=0, episodes=WikiText2.default_episodes)  # type: ignore[arg-type]
    assert metrics["windows"] == 2048
    assert metrics["bits_per_byte"] == pytest.approx(math.log2(259), rel=1e-6)
    assert metrics["unigram_bits"] == pytest.approx(4.61, abs=0.02)


def test_the_whole_of_wikitext_is_asked_for_with_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    if any((DATA / "wikitext2" / f"wiki.train.raw{suffix}").is_file() for suffix in ("", ".gz")):
        training, _ = wikitext_files("full")
        assert len(byte_ids(training, ByteVocabulary())) > 10_000_000
        return
    monkeypatch.setattr("tasks.corpora.download", _no_network)
    with pytest.raises(CorpusError, match=r"wiki\.train\.raw and wiki\.valid\.raw.*`part: first_megabyte`"):
        WikiText2(WikiText2Config())


def _no_network(url: str, *_: object) -> None:
    raise OSError(f"no network for {url}")


@pytest.mark.skipif(
    any((DATA / "minimind" / f"pretrain_t2t_mini.jsonl{suffix}").is_file() for suffix in ("", ".gz")),
    reason="SLOTSWEEP_DATA has the corpus",
)
def test_minimind_is_fetched_only_where_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.corpora.download", _no_network)
    with pytest.raises(CorpusError, match=r"SLOTSWEEP_FETCH=minimind asks for it.*`path: FILE\.jsonl`"):
        MiniMind(MiniMindConfig())
    monkeypatch.setenv("SLOTSWEEP_FETCH", "other,minimind")
    with pytest.raises(CorpusError, match=r"no network for https://huggingface\.co/.*/pretrain_t2t_mini\.jsonl"):
        MiniMind(MiniMindConfig())


def test_minimind_reads_another_file_with_its_tokenizer() -> None:
    path = DATA / "minimind" / "lora_identity.jsonl"
    workload = MiniMind(MiniMindConfig(path=str(path)))
    assert (workload.vocabulary, workload.length) == (6400, 96)
    ends = [int((ids == 2).sum()) for ids in (workload.streams.training, workload.streams.held_out)]
    assert ends == [87, 4]  # 91 lines, of which the 20th, 40th, 60th and 80th
    assert workload.streams.held_out[-1] == 2
    text_bytes = workload._vocabulary.lengths[workload.streams.training.astype(int)].sum()
    assert 2.0 < text_bytes / len(workload.streams.training) < 6.0

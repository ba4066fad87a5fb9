"""Ids of texts: bytes and tokenizers, the streams that are kept of them, and windows of these."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from torch import Tensor, from_numpy, full, log

from models.stream import Ints
from tasks.corpora import CorpusError
from tasks.text import streams
from tasks.text.language import training_windows
from tasks.text.streams import kept_streams, marked
from tasks.text.vocabulary import ByteVocabulary, TokenizerVocabulary, Vocabulary
from tasks.workloads.text_file import TextFile, TextFileConfig

TWENTIETH = Fraction(1, 20)
END = "<|end|>"


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLOTSWEEP_HOME", str(tmp_path / "home"))


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    """A byte-level BPE tokenizer, trained on a few words, with one mark and one added word."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=[END], initial_alphabet=alphabet, show_progress=False)
    made.train_from_iterator(["the theory of the thing, größer und größer"] * 9, trainer)
    made.add_tokens([AddedToken("<größe>", special=False)])
    path = tmp_path / "tokenizer.json"
    made.save(str(path))
    return path


def text_file(tmp_path: Path, content: str, name: str = "a.txt", **fields: Any) -> TextFile:
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    return TextFile(TextFileConfig(path=str(path), **fields))


def records(texts: Sequence[str]) -> str:
    return "".join(json.dumps({"text": text}) + "\n" for text in texts)


class Unigram:
    """Gives every id the logarithm of its share, whatever came before."""

    def __init__(self, shares: np.ndarray) -> None:
        self._logits = log(from_numpy(shares))

    def logits(self, ids: Ints, at: Ints | None = None) -> Tensor:
        return self._logits.float().expand(*ids.shape, -1)

    def greedy(self, ids: Ints, count: int, stops: frozenset[int]) -> list[list[int]]:
        raise AssertionError("nothing is decoded here")


def test_bytes_go_there_and_back() -> None:
    vocabulary = ByteVocabulary()
    [ids] = vocabulary.encode(["né\n"])
    assert ids.tolist() == [110, 195, 169, 10]
    assert vocabulary.decode([257, *ids.tolist(), 258]) == "né\n"
    assert vocabulary.lengths[ids].sum() == 4
    assert vocabulary.lengths[256:].tolist() == [0, 0, 0]


def test_lengths_of_a_tokenizers_ids_are_bytes_of_text(tokenizer: Path) -> None:
    vocabulary = TokenizerVocabulary(tokenizer, END)
    text = f"the größer <größe> of {END}\n\n the 你好"
    [ids] = vocabulary.encode([text])
    assert vocabulary.lengths[ids].sum() == len(text.encode())
    assert len(ids) < len(text.encode())
    assert vocabulary.end not in ids  # a mark in a text is text
    assert vocabulary.lengths[vocabulary.end] == 0
    assert ids.max() < vocabulary.size == len(vocabulary.lengths)


def test_what_is_no_byte_level_tokenizer_is_refused(tmp_path: Path, tokenizer: Path) -> None:
    with pytest.raises(
        CorpusError, match=rf"has no mark '<eos>' to end documents with; it has '{END}'".replace("|", r"\|")
    ):
        TokenizerVocabulary(tokenizer, "<eos>")
    other = json.loads(tokenizer.read_text(encoding="utf-8"))
    other["decoder"] = {"type": "Metaspace", "replacement": "_", "prepend_scheme": "always", "split": True}
    path = tmp_path / "other.json"
    path.write_text(json.dumps(other))
    with pytest.raises(CorpusError, match=r"other\.json is not byte-level \(its decoder is Metaspace\)"):
        TokenizerVocabulary(path, END)
    for content in ("no JSON", "[]", '{"decoder": null}', '{"decoder": {"type": "ByteLevel"}}'):
        path.write_text(content)
        with pytest.raises(CorpusError, match=r"other\.json is no tokenizer\.json"):
            TokenizerVocabulary(path, END)


def test_documents_are_followed_by_marks() -> None:
    vocabulary = ByteVocabulary()
    assert marked(vocabulary, vocabulary.encode(["a", "b"])).tolist() == [257, 97, 258, 98, 258]
    assert marked(vocabulary, []).tolist() == [257]


def test_training_and_evaluation_are_disjoint_and_whole(tmp_path: Path) -> None:
    texts = [f"document {number:03d}" for number in range(100)]
    workload = text_file(tmp_path, records(texts), "a.jsonl", length=16)
    held_out = documents(workload.streams.held_out)
    assert held_out == texts[19::20]
    assert documents(workload.streams.training) == [text for text in texts if text not in held_out]


def documents(ids: np.ndarray) -> list[str]:
    """What stands between marks."""
    return bytes(np.where(ids < 256, ids, 0).astype(np.uint8)).decode().strip("\0").split("\0")


def test_no_evaluated_window_is_trained_on(tmp_path: Path) -> None:
    lines = "".join(f"{number:05d}\n" for number in range(3000))
    workload = text_file(tmp_path, lines, length=24)
    trained = workload.streams.training.tobytes()
    windows = [row for batch in workload.evaluation(0, 2048) for row in batch.ids]
    assert len(windows) == (len(workload.streams.held_out) - 1) // 24
    assert not any(row.astype(np.uint16).tobytes() in trained for row in windows)


def test_evaluated_windows_follow_each_other(tmp_path: Path) -> None:
    workload = text_file(tmp_path, "".join(f"{number:05d}\n" for number in range(3000)), length=24)
    batches = list(workload.evaluation(5, 20))
    assert [len(batch.ids) for batch in batches] == [16, 4]
    ids = np.concatenate([batch.ids for batch in batches]).ravel()
    targets = np.concatenate([batch.targets for batch in batches]).ravel()
    np.testing.assert_array_equal(ids, workload.streams.held_out[: 20 * 24])
    np.testing.assert_array_equal(targets, workload.streams.held_out[1 : 20 * 24 + 1])


def test_training_windows_start_uniformly_wherever_there_is_room() -> None:
    ids = np.arange(30, dtype=np.uint16)
    [batch] = training_windows(ids, 3, [(40_000, 9)])
    np.testing.assert_array_equal(batch.targets, batch.ids + 1)
    np.testing.assert_array_equal(np.diff(batch.ids, axis=1), 1)
    counts = np.bincount(batch.ids[:, 0])
    assert len(counts) == 20  # [0, N - T - 1)
    assert ((counts - 2000) ** 2 / 2000).sum() < 43.8  # chi-square of 19 degrees, 99.9%


def test_windows_are_the_same_in_batches_of_any_size() -> None:
    ids = np.arange(1000, dtype=np.uint16)
    whole = next(training_windows(ids, 3, [(12, 9)])).ids
    parts = [batch.ids for batch in training_windows(ids, 3, [(5, 9), (7, 9)])]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    assert not np.array_equal(next(training_windows(ids, 4, [(12, 9)])).ids, whole)


@pytest.mark.parametrize("kind", ["bytes", "tokenizer"])
def test_a_model_that_knows_frequencies_gets_the_unigram_entropy(tmp_path: Path, tokenizer: Path, kind: str) -> None:
    fields = {"tokenizer": str(tokenizer), "end_of_document": END} if kind == "tokenizer" else {}
    texts = [f"the theory of größer things {number}, of {number * 7919}" for number in range(400)]
    workload = text_file(tmp_path, records(texts), "a.jsonl", length=32, **fields)
    counts = 1.0 + np.bincount(workload.streams.training, minlength=workload.vocabulary)
    metrics = workload.evaluate(Unigram(counts / counts.sum()), seed=0, episodes=10**6)
    assert metrics["bits_per_byte"] == pytest.approx(metrics["unigram_bits"], rel=1e-6)
    assert metrics["perplexity"] == pytest.approx(math.exp(metrics["loss"]))
    assert metrics["windows"] == (len(workload.streams.held_out) - 1) // 32
    assert set(metrics) == set(workload.own_metrics)
    evaluated = int(metrics["windows"]) * 32
    ids = workload.streams.held_out[1 : evaluated + 1].astype(int)
    text_bytes = sum(len(text.encode()) for text in texts[19::20]) - _left_out(workload, ids)
    assert metrics["bits_per_byte"] == pytest.approx(metrics["loss"] * evaluated / math.log(2) / text_bytes)


def _left_out(workload: TextFile, evaluated: np.ndarray) -> int:
    """Bytes of text in held-out ids that are not predicted."""
    lengths = workload._vocabulary.lengths
    return int(lengths[workload.streams.held_out.astype(int)].sum() - lengths[evaluated].sum())


def test_uniform_logits_cost_the_logarithm_of_the_vocabulary(tmp_path: Path) -> None:
    workload = text_file(tmp_path, "some words\n" * 100, length=8)
    shares = full((259,), 1 / 259).double().numpy()
    metrics = workload.evaluate(Unigram(shares), seed=0, episodes=2)
    assert metrics["loss"] == pytest.approx(math.log(259))
    assert metrics["bits_per_byte"] == pytest.approx(math.log2(259))
    assert metrics["windows"] == 2


class Counting(Vocabulary):
    """Encodes like bytes, and counts how often it is asked."""

    def __init__(self) -> None:
        plain = ByteVocabulary()
        self.size, self.lengths, self.front, self.end = plain.size, plain.lengths, plain.front, plain.end
        self.asked = 0

    def encode(self, texts: Sequence[str]) -> list[Ints]:
        self.asked += 1
        return ByteVocabulary().encode(texts)


def test_ids_are_made_once_for_one_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "BATCH_CHARACTERS", 100)
    path = tmp_path / "a.jsonl"
    path.write_text(records(["some text"] * 100))
    vocabulary = Counting()
    first = kept_streams(path, TWENTIETH, vocabulary, ["a"])
    asked = vocabulary.asked
    assert asked >= 9  # text is encoded bit by bit
    again = kept_streams(path, TWENTIETH, vocabulary, ["a"])
    assert vocabulary.asked == asked
    np.testing.assert_array_equal(first.training, again.training)
    assert first.training.dtype == np.uint16
    assert first.training.tolist() == [257, *([*b"some text", 258] * 95)]
    assert first.held_out.tolist() == [257, *([*b"some text", 258] * 5)]
    for share, made_of in ((Fraction(1, 10), ["a"]), (TWENTIETH, ["b"])):
        kept_streams(path, share, vocabulary, made_of)
        assert vocabulary.asked > asked
        asked = vocabulary.asked


def test_a_bad_line_leaves_nothing_half_made(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(records(["some text"] * 40) + "{\n")
    for _ in range(2):
        with pytest.raises(CorpusError, match="line 41: not JSON"):
            kept_streams(path, TWENTIETH, ByteVocabulary(), ["a"])
    assert [one.name for one in (tmp_path / "home/data/tokens").iterdir() if one.is_dir()] == []


def test_too_little_text_is_said_with_the_cure(tmp_path: Path) -> None:
    for content, name, part, cure in (
        (
            "one line\n" * 10,
            "a.txt",
            "held-out",
            "a smaller `length` or a larger `validation_share` than 0.05 or more text",
        ),
        (records(["one text"] * 19), "a.jsonl", "held-out", "a larger `validation_share` than 0.05 or more records"),
        (records(["one text"]), "b.jsonl", "training", "a smaller `length` or more records"),
        ("", "b.txt", "training", "more text"),
    ):
        with pytest.raises(CorpusError, match=rf"{part} part of .*{name} has \d+ ids.* or more: take {cure}$"):
            text_file(tmp_path, content, name, length=32)


def test_a_config_stands_for_the_content_of_its_file(tmp_path: Path, tokenizer: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\n")
    config = TextFileConfig(path=str(path), tokenizer=str(tokenizer), end_of_document=END)
    identity = config.identity()
    assert TextFileConfig(**identity) == config
    assert TextFileConfig(path=str(path)).identity()["tokenizer_sha256"] is None
    path.write_text("other\n")
    assert TextFileConfig(path=str(path)).identity() != identity
    kept = TextFileConfig(**identity)
    assert kept == config  # what is kept of a trial needs no file
    with pytest.raises(CorpusError, match=r"a\.txt is another file than was meant: its SHA-256 is"):
        TextFile(kept)
    path.unlink()
    assert TextFileConfig(**identity) == config
    with pytest.raises(CorpusError, match=r"cannot read .*a\.txt: No such file"):
        TextFile(kept)
    path.write_text("one\n")
    tokenizer.write_text("{}")
    with pytest.raises(CorpusError, match=r"tokenizer\.json is another file than was meant"):
        TextFile(kept)


def test_relative_paths_are_those_of_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    monkeypatch.chdir(tmp_path)
    assert TextFileConfig(path="a.txt").path == str(tmp_path / "a.txt")


def test_checksums_in_capitals_are_the_same(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\n")
    found = str(TextFileConfig(path=str(path)).path_sha256)
    assert TextFileConfig(path=str(path), path_sha256=found.upper()).path_sha256 == found


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"path": "nowhere.txt"}, r"there is no file /.*nowhere\.txt"),
        ({"path": "a.csv"}, r"a\.csv is none of \.txt, \.txt\.gz, \.jsonl, \.jsonl\.gz"),
        ({"path": "."}, r"is none of"),
        ({"path": "a.txt", "tokenizer": "no.json"}, r"there is no file /.*no\.json"),
        ({"path": "a.txt", "path_sha256": "12"}, r"`12` is no SHA-256, which has 64 hex digits, 0 to 9 and a to f"),
        ({"path": "a.txt", "end_of_document": "<eos>"}, r"`end_of_document` needs a `tokenizer` that has the mark"),
        ({"path": "a.txt", "validation_share": 0.0}, r"validation_share"),
        ({}, r"path"),
    ],
)
def test_wrong_files_are_mistakes_of_the_spec(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], message: str
) -> None:
    for name in ("a.txt", "a.csv"):
        (tmp_path / name).write_text("one\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValidationError, match=message):
        TextFileConfig(**fields)

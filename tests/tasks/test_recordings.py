"""Facts of the real recordings that published numbers rest on, and the readers on small files of the same form."""

from __future__ import annotations

import csv
import hashlib
import io
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from pydantic import ValidationError

from models.mechanism import MECHANISMS
from models.stream import Floats
from tasks.catalogue import CORPORA, loghub_file
from tasks.evaluate import evaluate
from tasks.recording import hashed_classes, modal_classes, numbered, window_ends
from tasks.workloads.loghub import HEADERS, Loghub, LoghubConfig, System, second
from tasks.workloads.mimic_prescriptions import MimicPrescriptions, MimicPrescriptionsConfig
from tasks.workloads.movielens import MovieLens, MovieLensConfig
from tasks.workloads.synpuf import INPATIENT, Synpuf, SynpufConfig

Leader = Callable[[Floats, float], list[int]]
DATA = Path(os.environ.get("SLOTSWEEP_DATA") or "/nonexistent")


def needs(folder: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not (DATA / folder).is_dir(), reason=f"SLOTSWEEP_DATA has no {folder}")


def given(monkeypatch: pytest.MonkeyPatch, folder: Path, name: str, files: dict[str, str]) -> None:
    """Let `files` stand for the data set `name`."""
    corpus = CORPORA[name]
    sums: dict[str, str | None] = {file: hashlib.sha256(text.encode()).hexdigest() for file, text in files.items()}
    monkeypatch.setitem(CORPORA, name, replace(corpus, files=sums))
    monkeypatch.setenv("SLOTSWEEP_DATA", str(folder))
    (folder / corpus.folder).mkdir(parents=True, exist_ok=True)
    for file, text in files.items():
        (folder / corpus.folder / file).write_text(text, newline="")


def table(*rows: list[str], delimiter: str = ",") -> str:
    buffer = io.StringIO()
    csv.writer(buffer, delimiter=delimiter, lineterminator="\n").writerows(rows)
    return buffer.getvalue()


# Loghub

FIGURE_9 = [10, 50, 53, 58, 63, 65, 65, 74, 78, 79, 82, 86, 87, 89, 89, 90, 92, 93, 94, 100, 105, 115, 116, 118, 120]


@pytest.mark.data
@needs("loghub/BGL")
def test_bgl_in_25_windows_has_the_counts_of_figure_9() -> None:
    stream = Loghub(LoghubConfig(system="BGL", windows=25, dim=1)).stream(0, 0)
    assert [len(np.unique(stream.items[: phase.end])) for phase in stream.phases] == FIGURE_9
    working_sets = [len(phase.items) for phase in stream.phases]
    assert (min(working_sets), max(working_sets)) == (2, 45)
    assert stream.classes == 5
    assert stream.chance == pytest.approx(0.633, abs=0.0005)
    assert len(stream) == 2000


@pytest.mark.data
@pytest.mark.parametrize(
    ("system", "templates", "corrected"),
    [
        pytest.param(system, templates, corrected, marks=needs(f"loghub/{system}"))
        for system, templates, corrected in [
            ("Android", 166, 158),
            ("Apache", 6, 6),
            ("BGL", 120, 120),
            ("HDFS", 14, 14),
            ("HPC", 46, 46),
            ("Hadoop", 114, 114),
            ("HealthApp", 75, 75),
            ("Linux", 118, 118),
            ("Mac", 341, 341),
            ("OpenSSH", 27, 26),
            ("OpenStack", 43, 43),
            ("Proxifier", 8, 8),
            ("Spark", 36, 36),
            ("Thunderbird", 149, 149),
            ("Windows", 50, 50),
            ("Zookeeper", 50, 50),
        ]
    ],
)
def test_templates_of_each_system(system: str, templates: int, corrected: int) -> None:
    plain = Loghub(LoghubConfig.model_validate({"system": system, "dim": 1})).stream(0, 0)
    mended = Loghub(LoghubConfig.model_validate({"system": system, "dim": 1, "corrected": True})).stream(0, 0)
    assert (plain.distinct, mended.distinct) == (templates, corrected)
    assert len(plain) == len(mended) == Loghub.tokens(LoghubConfig())
    assert plain.lines == mended.lines
    assert plain.chance < 0.9
    timed = Loghub(LoghubConfig.model_validate({"system": system, "dim": 1, "windows": 5})).stream(0, 0)
    assert 2 <= len(timed.phases) <= 5
    assert sorted(timed.items.tolist()) == sorted(plain.items.tolist())


@pytest.mark.data
@needs("loghub/HDFS")
def test_lines_are_the_words_of_the_messages() -> None:
    stream = Loghub(LoghubConfig(dim=1)).stream(0, 0)
    assert stream.lines is not None
    assert stream.lines[0] == ("PacketResponder", "1", "for", "block", "blk_38865049064139660", "terminating")
    assert stream.classes == 6


def test_every_system_has_a_header_and_a_choice() -> None:
    assert set(get_args(System)) == set(HEADERS)
    assert len(HEADERS) == 16


LOGS = {
    "Android": ({"Date": "03-17", "Time": "16:13:38.811"}, "2000-03-17 16:13:38"),
    "Hadoop": ({"Date": "2015-10-18", "Time": "18:10:54,546"}, "2015-10-18 18:10:54"),
    "HealthApp": ({"Time": "20171224-1:2:35:789"}, "2017-12-24 01:02:35"),
    "Mac": ({"Month": "Jul", "Date": "8", "Time": "08:10:46"}, "2000-07-08 08:10:46"),
    "OpenStack": ({"Date": "2017-05-16", "Time": "00:14:47.687"}, "2017-05-16 00:14:47"),
    "Proxifier": ({"Time": "07.27 10:23:42"}, "2000-07-27 10:23:42"),
    "Windows": ({"Date": "2016-09-28", "Time": "04:30:31"}, "2016-09-28 04:30:31"),
    "Zookeeper": ({"Date": "2015-08-10", "Time": "18:12:34,004"}, "2015-08-10 18:12:34"),
}
"""Times as the systems write them that are not at hand everywhere."""


@pytest.mark.parametrize("system", sorted(LOGS))
def test_times_of_each_system(system: str) -> None:
    clock, expected = LOGS[system]
    assert datetime.fromtimestamp(second(clock, HEADERS[system]), UTC).strftime("%Y-%m-%d %H:%M:%S") == expected


def test_a_log_is_read_in_file_order_and_in_windows_by_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    columns = ["LineId", "Date", "Time", "Level", "Node", "Component", "Id", "Content", "EventId", "EventTemplate"]
    rows = [
        ["1", "2015-07-29", "00:00:10,000", "INFO", "n", "server", "1", "late  word", "E2", "late <*>"],
        ["2", "2015-07-29", "00:00:00,900", "INFO", "n", "client", "1", "first one", "E1", "first <*>"],
        ["3", "2015-07-29", "00:00:00,100", "INFO", "n", "peer", "1", "first two", "E1", "first <*>"],
        ["4", "2015-07-29", "00:00:10,000", "INFO", "n", "peer", "1", "first, three", "E1", "first <*>"],
    ]
    plain = table(columns, *rows)
    mended = table(columns, *[[*row[:8], "E7", row[9]] for row in rows])
    given(monkeypatch, tmp_path, "loghub-Zookeeper", {loghub_file("Zookeeper", False): plain})
    given(monkeypatch, tmp_path, "loghub-Zookeeper-corrected", {loghub_file("Zookeeper", True): mended})
    stream = Loghub(LoghubConfig(system="Zookeeper")).stream(0, 0)
    assert stream.items.tolist() == [1, 0, 0, 0]
    assert stream.values.tolist() == [1, 0, 0, 0]  # peer, by two lines of three, and server
    assert stream.lines == (("late", "word"), ("first", "one"), ("first", "two"), ("first,", "three"))
    assert [phase.end for phase in stream.phases] == [4]

    stream = Loghub(LoghubConfig(system="Zookeeper", windows=4)).stream(0, 0)
    assert stream.items.tolist() == [0, 0, 1, 0]
    assert stream.lines == (("first", "one"), ("first", "two"), ("late", "word"), ("first,", "three"))
    assert [(phase.end, phase.items.tolist()) for phase in stream.phases] == [(2, [0]), (4, [0, 1])]
    assert Loghub(LoghubConfig(system="Zookeeper", corrected=True)).stream(0, 0).distinct == 1


# Windows, classes


def test_windows_are_equal_spans_and_empty_ones_have_no_end() -> None:
    times = np.array([0, 1, 24, 25, 26, 99, 100])
    assert window_ends(times, 4) == [3, 5, 7]
    assert window_ends(times, 1) == window_ends(times, None) == [7]
    assert window_ends(np.array([5, 5, 5]), 9) == [3]
    assert window_ends(np.array([5]), 3) == [1]


def test_an_items_class_is_its_most_common_label() -> None:
    items = np.array([3, 3, 3, 1, 1, 2])
    assert modal_classes(items, ["b", "c", "b", "c", "a", "b"]).tolist() == [1, 1, 1, 0, 0, 1]
    assert numbered(["x", "a", "x"]).tolist() == [1, 0, 1]


def test_hashed_classes_are_even_and_the_same_everywhere() -> None:
    names = [str(number) for number in range(20_000)]
    classes = hashed_classes(names, 16)
    counts = np.bincount(classes, minlength=16)
    assert np.sum((counts - 1250) ** 2 / 1250) < 37.7  # chi² with 15 degrees of freedom, p = 0.001
    assert hashed_classes(["123456789"], 1 << 16).tolist() == [0x3926]  # the check value of CRC-32 is cbf43926


# MovieLens


@pytest.mark.data
@needs("movielens/ml-latest-small")
def test_windows_of_movielens_ask_for_the_movies_rated_in_them() -> None:
    stream = MovieLens(MovieLensConfig(windows=25, dim=1)).stream(0, 0)
    ends = [0, *(phase.end for phase in stream.phases)]
    assert ends[-1] == 100_836
    assert 20 <= len(stream.phases) <= 25
    for start, phase in zip(ends, stream.phases, strict=False):
        assert set(phase.items.tolist()) == set(stream.items[start : phase.end].tolist())
        assert len(phase.asked) == len(phase.items)


@pytest.mark.data
@needs("movielens/ml-100k")
def test_the_largest_working_set_of_ml_100k_is_the_published_worst_case_budget() -> None:
    stream = MovieLens(MovieLensConfig(dataset="ml-100k", windows=25, dim=1)).stream(0, 0)
    assert max(len(phase.items) for phase in stream.phases) == 1241


# MIMIC-IV demo


@pytest.fixture(scope="module")
def prescriptions() -> MimicPrescriptions:
    return MimicPrescriptions(MimicPrescriptionsConfig())


@pytest.mark.data
@needs("clinical/mimic_iv_demo_2.2")
def test_prescriptions_and_drugs(prescriptions: MimicPrescriptions) -> None:
    stream = prescriptions.stream(0, 0)
    assert (len(stream), stream.distinct) == (18_087, 631)
    assert stream.chance == pytest.approx(0.182, abs=0.001)
    assert max(Counter(stream.phases[0].answers.tolist()).values()) / 631 == pytest.approx(0.25, abs=0.005)


@pytest.mark.data
@needs("clinical/mimic_iv_demo_2.2")
def test_a_slot_a_drug_recalls_every_route(prescriptions: MimicPrescriptions) -> None:
    """arXiv 2607.09889, §3.1.7 and Figure 5: 628 slots, recall .99 at similarity 0.5 to 0.8."""
    similarities = (0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 0.9)
    configs = [MECHANISMS.config_class("dp_cache").model_validate({"similarity": value}) for value in similarities]
    found = {}
    for similarity, outcome in zip(similarities, evaluate(prescriptions, configs, 0, 1, "float32"), strict=True):
        assert outcome.metrics is not None, outcome.message
        found[similarity] = outcome.metrics
    for similarity in (0.5, 0.6, 0.8):
        assert found[similarity]["recall"] >= 0.99
        assert found[similarity]["slots"] == pytest.approx(631, rel=0.01)
    for similarity, ratio, recall in [(0.2, 0.12, 0.30), (0.3, 0.47, 0.575), (0.4, 0.94, 0.95), (0.9, 1.72, 0.99)]:
        assert found[similarity]["slots"] / 631 == pytest.approx(ratio, abs=0.05)
        assert found[similarity]["recall"] == pytest.approx(recall, abs=0.06)


# DE-SynPUF


@pytest.mark.data
@needs("insurance/synpuf1k_omop")
@pytest.mark.parametrize(
    ("fields", "events", "distinct"),
    [
        ({"table": "condition_era"}, 99_637, 5067),
        ({"table": "condition_era", "events": 20_000}, 20_000, 3171),
        ({"table": "drug_era"}, 56_257, 1724),
    ],
)
def test_codes_of_the_eras(fields: dict[str, object], events: int, distinct: int) -> None:
    config = SynpufConfig.model_validate({**fields, "dim": 1})
    stream = Synpuf(config).stream(0, 0)
    assert (len(stream), stream.distinct) == (events, distinct)
    assert stream.chance == pytest.approx(1 / 16, abs=0.002)


def test_eras_come_by_start_date_without_the_unknown_concept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rows = [["1", "9", "77", "2009-02-01"], ["2", "9", "0", "2008-01-01"], ["3", "8", "55", "2008-07-01"]]
    eras = table(*[[*row, "2010-01-01", "1"] for row in rows], delimiter="\t")
    given(monkeypatch, tmp_path, "synpuf1k-omop", {"condition_era.tsv": eras, "drug_era.tsv": ""})
    stream = Synpuf(SynpufConfig(classes=1000)).stream(0, 0)
    assert stream.values.tolist() == hashed_classes(["55", "77"], 1000).tolist()


def test_inpatient_diagnoses_come_claim_by_claim(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    columns = ["CLM_ID", "ADMTNG_ICD9_DGNS_CD", *(f"ICD9_DGNS_CD_{number}" for number in range(1, 11))]
    claims = table(columns, ["1", "99", "4019", "25000", *[""] * 8], ["2", "99", "V1046", *[""] * 8, "4019"])
    given(monkeypatch, tmp_path, "de-synpuf-inpatient", {INPATIENT: claims})
    config = SynpufConfig(table="inpatient")
    stream = Synpuf(config).stream(0, 0)
    assert stream.items.tolist() == [1, 0, 2, 1]
    assert len(Synpuf(SynpufConfig(table="inpatient", events=3)).stream(0, 0)) == 3
    assert Synpuf.tokens(config) == 150_000


def test_asking_for_more_events_than_there_are_is_an_error() -> None:
    with pytest.raises(ValidationError, match="drug_era has at most 56,257 events; events asks for 60,000"):
        SynpufConfig(table="drug_era", events=60_000)

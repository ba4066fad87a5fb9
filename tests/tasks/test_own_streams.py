"""Streams of a user's own files: what is read, what is said of bad files, and that long ones are read as short ones."""

from __future__ import annotations

import csv
import gzip
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

import tasks.own
from models.config import MechanismConfig
from models.mechanism import MECHANISMS
from models.stream import StreamError
from tasks.evaluate import TIMING_METRICS, Outcome, evaluate
from tasks.own import OwnWorkload
from tasks.tables import csv_table, occurrences
from tasks.tables.columns import TableError
from tasks.workload import WORKLOADS
from tests.tasks.own_files import ROWS, own_files

Write = Callable[[str, str | bytes], str]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes a file and gives its path."""
    monkeypatch.setenv("SLOTSWEEP_HOME", str(tmp_path / "home"))

    def write(name: str, content: str | bytes) -> str:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return write


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return own_files(tmp_path_factory.mktemp("own"))


def own(name: str = "csv_stream", **fields: Any) -> OwnWorkload[Any]:
    made = WORKLOADS.implementation(name)(WORKLOADS.config_class(name)(**fields))
    assert isinstance(made, OwnWorkload)
    return made


def said(name: str = "csv_stream", **fields: Any) -> str:
    """What is said of a file that cannot be read, before anything starts or as it is read."""
    with pytest.raises((ValidationError, TableError)) as caught:
        own(name, **fields)
    error = caught.value
    return str(error.errors()[0]["msg"]) if isinstance(error, ValidationError) else str(error)


TABLE = "movie,genre,when\nm1,drama,3\nm2,comedy,1\nm3,drama,2\nm1,noir,4\n"


def test_rows_are_tokens_in_the_order_of_a_column(write: Write) -> None:
    path = write("t.csv", TABLE)
    stream = own(path=path, key="movie", value="genre", order="when", dim=4, noise=0.0).stream(0, 0)
    assert stream.items.tolist() == [1, 2, 0, 0]
    assert stream.values.tolist() == [1, 0, 0, 2]
    [phase] = stream.phases
    assert (phase.items.tolist(), phase.answers.tolist()) == ([0, 1, 2], [2, 1, 0])
    assert stream.chance == pytest.approx(1 / 3)
    np.testing.assert_array_equal(stream.keys[2], stream.keys[3])
    np.testing.assert_array_equal(stream.keys, phase.queries[stream.items])


def test_the_first_value_may_be_the_answer(write: Write) -> None:
    path = write("t.csv", TABLE)
    stream = own(path=path, key="movie", value="genre", answer="first").stream(0, 0)
    assert stream.phases[0].answers.tolist() == [0, 1, 0]


def test_a_seed_draws_noise_and_no_vectors(write: Write) -> None:
    path, other = write("t.csv", TABLE), write("u.csv", "x,movie\n1,m3\n1,m1\n")
    made = own(path=path, key="movie", dim=16, noise=0.0)
    keys = made.stream(0, 0).keys
    np.testing.assert_array_equal(keys, made.stream(7, 3).keys)
    again = own(path=other, key="movie", dim=16, noise=0.0).stream(1, 0).keys
    np.testing.assert_array_equal(again, keys[[2, 0]])
    noisy = own(path=path, key="movie", dim=16, noise=0.5)
    assert not np.array_equal(noisy.stream(0, 0).keys, noisy.stream(1, 0).keys)


def test_hashed_vectors_are_uniform_on_the_sphere(write: Write) -> None:
    path = write("many.csv", "k\n" + "\n".join(map(str, range(4000))))
    keys = own(path=path, key="k", dim=8, noise=0.0).stream(0, 0).keys
    np.testing.assert_allclose(np.linalg.norm(keys, axis=1), 1.0, atol=1e-12)
    assert np.abs(keys.mean(axis=0)).max() < 4 / np.sqrt(4000 * 8)
    np.testing.assert_allclose(keys.T @ keys / 4000, np.eye(8) / 8, atol=0.012)


@pytest.mark.parametrize(
    "content",
    [
        "k;v\na;1\nb;2\n",
        "k\tv\na\t1\nb\t2",
        "\ufeffk,v\r\na,1\r\n\r\nb,2\r\n",
        'k|v\n"a"|1\nb|"2"\n',
        "k,v\na,1\nb,2\n".encode("utf-16"),
    ],
    ids=["semicolons", "tabs", "mark", "quotes", "utf-16"],
)
def test_delimiter_and_encoding_are_guessed(content: str | bytes, write: Write) -> None:
    stream = own(path=write("t.csv", content), key="k", value="v").stream(0, 0)
    assert (stream.items.tolist(), stream.values.tolist()) == ([0, 1], [0, 1])


def test_given_delimiters_and_encodings_and_packed_files_are_read(write: Write) -> None:
    path = write("t.csv.gz", gzip.compress("k:v,w\nä:1,1\nb:2,2\n".encode("latin-1")))
    stream = own(path=path, key="k", value="v,w", delimiter=":", encoding="latin-1").stream(0, 0)
    assert stream.items.tolist() == [0, 1]


BAD = [
    ("", {}, "t.csv is empty"),
    ("k,v\n", {}, "t.csv has no rows"),
    ("kk,v\na,1\n", {"key": "kz"}, "has no column `kz`; did you mean `kk`? It has `kk`, `v`"),
    ("k,k\na,1\n", {}, "has 2 columns `k`"),
    ("k,v\na,1\n\n,2\n", {}, "line 4, column `k` is empty"),
    ("k,v\na,1\nb,\n", {"value": "v"}, "line 3, column `v` is empty"),
    ("k,v\na,1\nb\n", {}, "line 3: the row ends before column `v`: it has 1 cells, and the first row names 2"),
    ("k,v\na,1\nb,2,3\n", {}, "line 3: more follows column `v`"),
    ('k,v\n"a\nb",1\nc\n', {}, "line 4: the row ends"),
    ("k,v\na,1\nb,x\n", {"order": "v"}, "line 3, column `v`: `x` is not a number"),
    ("k,v\na,x\n", {"order": "v"}, "line 2, column `v`: `x` is not a number, nor a date"),
    ("k,v\na,nan\n", {"order": "v"}, "line 2, column `v`: `nan` is not a number, nor"),
    ("k,v\na,1\nb,1_0\n", {"order": "v"}, "line 3, column `v`: `1_0` is not a number"),
    ("k,v\na,2020-01-02\nb,7 May\n", {"order": "v"}, "line 3, column `v`: `7 May` is not a date or time"),
    ("k,v\na,1\nä,2\n".encode("latin-1"), {}, "line 3, character 1: not utf-8 (invalid continuation byte); give"),
    (b"k,v\n" + b"a,1\n" * 20_000 + b"ab\x81,1\n", {"encoding": "cp1252"}, "line 20002, character 3: not cp1252"),
    ("k,v\nab,1\n".encode("utf-16") + b"\x00\xd8a\x00", {}, "line 3, character 1: not utf-16"),
    ("k,v\na,1\n".encode("utf-16-le"), {"encoding": "utf-16"}, "t.csv, line 1, character 1: not utf-16 (UTF-16 stream"),
    ("k,v\na,1\n", {"encoding": "idna"}, "t.csv: not idna"),
    ("k,v\na,1\n\xe9,2\n".encode("latin-1"), {"encoding": "ascii"}, "(ordinal not in range(128)); is that its `enc"),
    ("k\u200b,v\na,1\n", {}, "has no column `k`; did you mean `k\\u200b`? It has `k\\u200b`, `v`"),
    ('k,v\na,1\n"b\n\n,1\n', {}, "line 3: a quote opens in this row, and the file ends inside it"),
    ('k,v\n"a,1\nb,2\n', {}, "line 2: a quote opens in this row"),
    ("k,v\na,1\n" + "x" * 200_000 + ",2\n", {}, "line 3: a field of more than 131,072 characters"),
    (b"k,v\na,1\n\xff\xfe", {"encoding": "utf-8"}, "not utf-8"),
]


@pytest.mark.parametrize(("content", "fields", "message"), BAD)
def test_a_bad_file_is_told_once_with_its_place(
    content: str | bytes, fields: dict[str, Any], message: str, write: Write
) -> None:
    told = said(path=write("t.csv", content), **{"key": "k", **fields})
    assert message in told
    assert told.count("\n") == 0


def test_a_bad_packed_file_is_told(write: Write) -> None:
    assert "cannot read" in said(path=write("t.csv.gz", b"no gzip"), key="k")
    cut = gzip.compress(b"".join(b"%d,1\n" % row for row in range(50_000)).replace(b"0,1", b"k,v", 1))[:-9000]
    assert re.search(r"cannot read .*t\.csv\.gz from line \d{4,5} on: ", said(path=write("t.csv.gz", cut), key="k"))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le"])
def test_a_byte_order_mark_is_no_part_of_a_name(encoding: str, write: Write) -> None:
    path = write("t.csv", "\ufeffk,v\na,1\n".encode(encoding))
    assert len(own(path=path, key="k", encoding=encoding).stream(0, 0)) == 1


@pytest.mark.parametrize(("encoding", "cell"), [("unicode_escape", "\\ud800"), ("utf-7", "+2AA-")])
def test_what_encodings_let_through_has_a_vector(encoding: str, cell: str, write: Write) -> None:
    stream = own(path=write("t.csv", f"k\n{cell}\nb\n"), key="k", encoding=encoding).stream(0, 0)
    assert stream.items.tolist() == [0, 1]


def test_too_many_distinct_values_want_classes(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(occurrences, "MOST_CLASSES", 2)
    path = write("t.csv", TABLE)
    assert "more than 2 distinct values; give a number of `classes`" in said(path=path, key="movie", value="genre")
    assert own(path=path, key="movie", value="genre", classes=2).stream(0, 0).classes == 2


def test_options_that_contradict_each_other_are_refused(write: Write) -> None:
    path = write("t.csv", TABLE)
    vectors = write("v.csv", "k,x\nm1,1\n")
    assert "`dim` is for hashed keys" in said(path=path, key="movie", embeddings=vectors, dim=4)
    assert "there is no file" in said(path=path + ".csv", key="movie")
    for encoding in ("utf-9", "base64", "undefined"):
        assert "is no encoding of text" in said(path=path, key="movie", encoding=encoding)
    assert "part no cells" in said(path=path, key="movie", delimiter="\n")
    assert "none of .csv" in said(path=write("t.doc", TABLE), key="movie")


def test_a_changed_file_makes_other_trials(write: Write) -> None:
    config_class = WORKLOADS.config_class("csv_stream")
    path = write("t.csv", TABLE)
    before = config_class(path=path, key="movie")
    write("t.csv", TABLE + "m9,noir,9\n")
    assert config_class(path=path, key="movie").identity() != before.identity()
    with pytest.raises(RuntimeError, match="is another file than was meant"):
        WORKLOADS.implementation("csv_stream")(before)


@pytest.mark.parametrize("form", ["csv", "npz", "npy"])
def test_vectors_may_be_given(form: str, write: Write, tmp_path: Path) -> None:
    vectors = np.array([[3.0, 4.0], [0.0, 2.0], [-1.0, 0.0]])
    names = ["0", "1", "2"] if form == "npy" else ["m1", "m2", "m3"]
    path = tmp_path / f"v.{form}"
    if form == "csv":
        rows = "".join(f"{name},{x},{y}\n" for name, (x, y) in zip(names, vectors, strict=True))
        write("v.csv", "name,x,y\n" + rows)
    elif form == "npz":
        np.savez(path, keys=names, vectors=vectors.astype(np.float32))
    else:
        np.save(path, vectors)
    table = write("t.csv", f"k\n{names[2]}\n{names[0]}\n")
    stream = own(path=table, key="k", embeddings=str(path), noise=0.0).stream(0, 0)
    np.testing.assert_allclose(stream.keys, [[-1.0, 0.0], [0.6, 0.8]], atol=1e-7)
    missing = write("u.csv", f"k\n{names[0]}\nm7\n")
    assert "line 3, column `k`: `m7` has no vector" in said(path=missing, key="k", embeddings=str(path))


def test_bad_vectors_are_told(write: Write, tmp_path: Path) -> None:
    path = write("t.csv", "k\na\n")

    def told(name: str, content: str) -> str:
        return said(path=path, key="k", embeddings=write(name, content))

    assert "line 3, column `y`: `q` is not a number" in told("v.csv", "n,x,y\na,1,2\nb,3,q\n")
    assert "line 3, column `x`: inf in the vector of `b` is not finite" in told("v.csv", "n,x\na,1\nb,inf\n")
    assert "line 3, column `n`: more than one vector for `a`" in told("v.csv", "n,x\na,1\na,2\n")
    assert "line 2, column `x`: the vector of `a` is zero" in told("v.csv", "n,x,y\na,0,-0\n")
    assert "0 names and vectors of shape (0, 1)" in told("v.csv", "n,x\n")
    assert "magic string is not correct" in told("x.npy", "no array")

    def kept(**arrays: Any) -> str:
        np.savez(tmp_path / "w.npz", **arrays)
        return said(path=path, key="k", embeddings=str(tmp_path / "w.npz"))

    assert "has no array `vectors`" in kept(keys=["a"])
    assert "`vectors`, row 2, column 1: nan in" in kept(keys=["a", "b"], vectors=[[1.0], [np.nan]])
    assert "`keys`, row 2: more than one vector for `a`" in kept(keys=["a", "a"], vectors=[[1.0], [2.0]])
    np.save(tmp_path / "one.npy", np.ones((1, 2)))
    (tmp_path / "one.npy").rename(tmp_path / "one.npz")
    assert "File is not a zip file" in said(path=path, key="k", embeddings=str(tmp_path / "one.npz"))


def test_vectors_of_any_length_have_their_direction(write: Write) -> None:
    path, vectors = write("t.csv", "k\na\nb\nc\n"), write("v.csv", "n,x,y\na,3e200,4e200\nb,3e-200,4e-200\nc,3,4\n")
    keys = own(path=path, key="k", embeddings=vectors, noise=0.0).stream(0, 0).keys
    np.testing.assert_allclose(keys, [[0.6, 0.8]] * 3, rtol=1e-15)


def test_parquet_says_what_csv_says(files: dict[str, str]) -> None:
    fields: dict[str, Any] = {"key": ["user", "movie"], "value": "genre", "order": "when", "dim": 4}
    from_csv = own("csv_stream", path=files["csv"], **fields).stream(0, 0)
    from_parquet = own("parquet_stream", path=files["parquet"], **fields).stream(0, 0)
    np.testing.assert_array_equal(from_csv.keys, from_parquet.keys)
    np.testing.assert_array_equal(from_csv.values, from_parquet.values)
    short = own("parquet_stream", path=files["parquet"], events=20, **{**fields, "order": None})
    assert len(short.stream(0, 0)) == 20


NEAR = 1_700_000_000_000_000_000
NANOSECONDS = [f"2024-01-02T03:04:05.123456{part}" for part in ("789", "787", "788")]


@pytest.mark.parametrize(
    ("cells", "order"),
    [
        ([str(NEAR + 3), str(NEAR + 1), str(NEAR + 2)], [1, 2, 0]),
        ([f"{NEAR}.3", f"{NEAR}.25", "-1e3"], [2, 1, 0]),
        (["18446744073709551615", "18446744073709551614", "7"], [2, 1, 0]),
        (["0.1000000000000000002", "0.1000000000000000001", "0.1"], [2, 1, 0]),
        (NANOSECONDS, [1, 2, 0]),
        (["0001-01-02", "0001-01-01T23:59:59.999999", "9999-12-31"], [1, 0, 2]),
    ],
)
def test_an_order_is_exact(cells: list[str], order: list[int], write: Write) -> None:
    path = write("t.csv", "k,v\n" + "".join(f"{row},{cell}\n" for row, cell in enumerate(cells)))
    assert own(path=path, key="k", order="v").stream(0, 0).items.tolist() == order


def columns_in_order() -> dict[str, Any]:
    """Columns whose rows are in the order 1, 2, 0."""
    import decimal

    import pyarrow as pa

    whole = [NEAR + 3, NEAR + 1, NEAR + 2]
    near = [NEAR % 86_400_000_000_000 + plus for plus in (3, 1, 2)]
    return {
        "int64": pa.array(whole),
        "uint64": pa.array([2**64 - 1, 2**64 - 3, 2**64 - 2], pa.uint64()),
        "negative": pa.array([-(2**62), -(2**62) - 2, -(2**62) - 1]),
        "float": pa.array([0.3, 0.1, 0.2], pa.float32()),
        "timestamp": pa.array(whole, pa.timestamp("ns", "Europe/Berlin")),
        "date": pa.array([3, 1, 2], pa.date32()),
        "time": pa.array(near, pa.time64("ns")),
        "duration": pa.array(whole, pa.duration("ns")),
        "decimal": pa.array([decimal.Decimal(f"{NEAR}.00{one}") for one in (3, 1, 2)]),
        "text": pa.array([f"2024-01-02T03:04:05.00000000{one}" for one in (3, 1, 2)]).dictionary_encode(),
    }


@pytest.mark.parametrize("name", list(columns_in_order()))
def test_an_order_of_any_type_of_parquet_is_exact(name: str, tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    path = str(tmp_path / "t.parquet")
    parquet.write_table(pa.table({"k": [0, 1, 2], "v": columns_in_order()[name]}), path)
    assert own("parquet_stream", path=path, key="k", order="v").stream(0, 0).items.tolist() == [1, 2, 0]


def test_bad_parquet_is_told_with_its_place(tmp_path: Path, write: Write) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    path = str(tmp_path / "t.parquet")
    columns = {"k": ["a", None, "c"], "v": [1.0, 2.0, None], "nested": [[1], [2], [3]], "ok": [1, 2, 3]}
    columns |= {"nan": [1.0, np.nan, 2.0], "bytes": [b"a", b"b", b"\xff"]}
    parquet.write_table(pa.table(columns), path)
    assert "row 2, column `k` is null" in said("parquet_stream", path=path, key="k")
    assert "row 3, column `v` is null" in said("parquet_stream", path=path, key="ok", order="v")
    assert "row 2, column `nan` is not a number" in said("parquet_stream", path=path, key="nan")
    assert "row 2, column `nan` is not finite" in said("parquet_stream", path=path, key="ok", order="nan")
    assert "row 3, column `bytes` is not utf-8" in said("parquet_stream", path=path, key="bytes")
    assert "column `nested` is list" in said("parquet_stream", path=path, key="nested")
    assert "did you mean `ok`?" in said("parquet_stream", path=path, key="OK")
    assert "is not a Parquet file" in said("parquet_stream", path=write("u.parquet", "no"), key="k")


@pytest.fixture
def long_from_20(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams of more than 20 tokens are read in chunks, of which there are several."""
    monkeypatch.setattr(tasks.own, "LONGEST_STREAM", 20)
    monkeypatch.setattr("tasks.evaluate_long.CHUNK_TOKENS", 13)
    monkeypatch.setattr(csv_table, "BATCH_ROWS", 7)


MEMORIES: list[dict[str, Any]] = [
    {"name": "dp_cache", "tau": 0.3},
    {"name": "dp_cache", "tau": 0.5, "keep": "last"},
    {"name": "dp_cache", "tau": 0.3, "cap": 4, "decay": 0.9},
    {"name": "item_lru", "budget": 3},
    {"name": "item_lru", "budget": 8},
    {"name": "random_eviction", "budget": 9},
    {"name": "recency", "budget": 11},
    {"name": "ridge_memory"},
]


def outcomes(workload: OwnWorkload[Any], memories: list[dict[str, Any]]) -> list[Outcome]:
    configs: list[Any] = [MECHANISMS.config_class(one["name"])(**one) for one in memories]
    assert all(isinstance(config, MechanismConfig) for config in configs)
    return evaluate(workload, configs, seed=3, episodes=2, dtype="float32")


def numbers(outcome: Outcome) -> dict[str, float]:
    assert outcome.metrics is not None, outcome.message
    return {name: value for name, value in outcome.metrics.items() if name not in TIMING_METRICS}


@pytest.mark.parametrize(("order", "noise"), [(None, 0.3), ("when", 0.0)])
def test_a_long_stream_gives_the_metrics_that_it_gives_in_memory(
    order: str | None, noise: float, files: dict[str, str], write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = {"path": files["csv"], "key": "movie", "value": "genre", "dim": 8, "order": order, "noise": noise}
    in_memory = outcomes(own(**fields), MEMORIES)
    monkeypatch.setattr(tasks.own, "LONGEST_STREAM", 20)
    monkeypatch.setattr("tasks.evaluate_long.CHUNK_TOKENS", 13)
    monkeypatch.setattr(csv_table, "BATCH_ROWS", 7)
    for _ in ("made", "kept"):
        workload = own(**fields)
        with pytest.raises(StreamError, match="60 tokens is read in chunks"):
            workload.stream(0, 0)
        for short, long in zip(in_memory, outcomes(workload, MEMORIES), strict=True):
            expected = {name: value for name, value in numbers(short).items() if name != "hits"}  # not counted there
            assert numbers(long) == pytest.approx(expected, rel=1e-12)
            assert numbers(long)["tokens"] == ROWS


@pytest.mark.usefixtures("long_from_20")
def test_a_mechanism_that_needs_all_tokens_fails_alone_with_the_names_of_others(
    files: dict[str, str], write: Write
) -> None:
    workload = own(path=files["csv"], key="movie", dim=4)
    refused, done = outcomes(workload, [{"name": "knn"}, {"name": "recency", "budget": 5}])
    assert refused.reason == "user_error"
    assert "`knn` holds or compares all tokens" in refused.message
    assert "dp_cache" in refused.message
    assert numbers(done)["slots"] == 5


@pytest.mark.usefixtures("long_from_20")
def test_of_many_items_some_are_asked_for_by_seed(
    files: dict[str, str], write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks.own, "MOST_QUERIES", 5)
    workload = own(path=files["csv"], key="movie", dim=4)
    [first], [again], [other] = (workload.long_stream(seed, 0).phases for seed in (0, 0, 1))
    assert len(first.items) == len(set(first.items.tolist())) == 5
    np.testing.assert_array_equal(first.items, again.items)
    assert first.items.tolist() != other.items.tolist()


@pytest.mark.usefixtures("long_from_20")
def test_a_long_table_is_numbered_once(files: dict[str, str], write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    fields = {"path": files["csv"], "key": "movie", "dim": 4}
    own(**fields)
    monkeypatch.setattr(csv_table.CsvTable, "batches", lambda *_: pytest.fail("read again"))
    own(**fields, noise=0.1)


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-be"])
def test_lines_are_counted_however_they_end(
    end: str, encoding: str, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks.own, "LONGEST_STREAM", 20)
    path = write("t.csv", ("k" + end + f"a\u0a0a{end}" * 21).encode(encoding))
    config = WORKLOADS.config_class("csv_stream")(path=path, key="k", encoding=encoding)
    assert WORKLOADS.implementation("csv_stream").tokens(config) == 21
    assert WORKLOADS.implementation("csv_stream").is_long(config)


def test_rows_are_counted_by_lines(write: Write) -> None:
    rows = [["k"], *([str(i)] for i in range(5))]
    path = Path(write("t.csv", ""))
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    config = WORKLOADS.config_class("csv_stream")(path=str(path), key="k")
    assert WORKLOADS.implementation("csv_stream").tokens(config) == 5


LOG = """\
12:00:01 connect from 10.0.0.1:80 E1
12:00:02 connect from 10.0.0.2:99 E1

12:00:03 read /var/log/syslog E2
"""


def test_lines_of_a_log_are_tokens_with_their_words(write: Write) -> None:
    path = write("a.log", LOG)
    stream = own("log_file", path=path, dim=4, skip=1).stream(0, 0)
    assert stream.items.tolist() == [0, 0, 1]
    assert stream.lines is not None
    assert stream.lines[1] == ("connect", "from", "10.0.0.2:99", "E1")
    whole = own("log_file", path=path, dim=4).stream(0, 0)
    assert (whole.items.tolist(), len(whole.lines or ())) == ([0, 0, 1], 3)
    labelled = own("log_file", path=path, label=r"(E\d)$", events=2, classes=3).stream(0, 0)
    assert labelled.items.tolist() == [0, 0]


def test_log_parsers_read_a_log(write: Write) -> None:
    [outcome] = outcomes(own("log_file", path=write("a.log", LOG), skip=1), [{"name": "dp_parser"}])
    assert numbers(outcome)["templates"] == 2
    assert numbers(outcome)["grouping_accuracy"] == 1.0


NASTY = "\ufeffup\xa01 a\r\nup\x852\rb\n\nup\x1c3\u2028c\nup \u0661\u0662 d\n \x0b \nup 7 e".encode() + b" \xff\n"


@pytest.mark.parametrize("content", [NASTY, gzip.compress(NASTY)], ids=["plain", "gzip"])
def test_a_log_is_read_as_parse_log_reads_it(content: bytes, write: Write, tmp_path: Path) -> None:
    """A mark, blanks and digits that ASCII does not have, carriage returns, bytes that are no text, no .gz."""
    from tasks.logs.parse import parse_log

    path = write("a.log", content)
    stream = own("log_file", path=path, dim=4).stream(0, 0)
    assert stream.lines is not None
    config: Any = MECHANISMS.config_class("drain_parser")(similarity=0.5, mask_numbers=True)
    parse_log(Path(path), tmp_path, config)
    with (tmp_path / "templates.csv").open(encoding="utf-8", newline="") as file:
        templates = {row["template_id"]: row["template"] for row in csv.DictReader(file)}
    with (tmp_path / "assignments.csv").open(encoding="utf-8", newline="") as file:
        texts = [templates[row["template_id"]] for row in csv.DictReader(file)]
    assert [len(words) for words in stream.lines] == [len(text.split(" ")) for text in texts if text]
    [outcome] = outcomes(
        own("log_file", path=path, dim=4, noise=0.0),
        [{"name": "drain_parser", "similarity": 0.5, "mask_numbers": True}],
    )
    assert numbers(outcome)["templates"] == len(templates) - 1  # that of blank lines


def test_a_log_of_another_encoding_is_read(write: Write) -> None:
    path = write("a.log", "\ufeffup é 1\nup é 2\n".encode("utf-16-be"))
    for encoding in ("utf-16", "utf-16-be"):
        lines = own("log_file", path=path, dim=4, encoding=encoding).stream(0, 0).lines
        assert lines == (("up", "é", "1"), ("up", "é", "2"))
    assert "is UTF-16: `iconv" in said("log_file", path=path)
    unmarked = write("b.log", "up 1\n".encode("utf-16-le"))
    assert "b.log is not utf-16 (UTF-16 stream" in said("log_file", path=unmarked, encoding="utf-16")


def test_what_is_wrong_with_a_log_is_told(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write("a.log", LOG)
    assert "`skip: 5` leaves nothing of any line; the longest has 5" in said("log_file", path=path, skip=5)
    windows = write("w.log", LOG.replace("\n", "\r\n"))
    assert len(own("log_file", path=windows, label=r"(E\d)$").stream(0, 0)) == 3
    monkeypatch.setattr("tasks.logs.source.LONGEST_LINE", 1 << 20)
    assert "has a line of more than 1 MiB" in said("log_file", path=write("l.log", b"a" * (3 << 19)))
    assert "line 4: `label` finds nothing in `12:00:03 read" in said("log_file", path=path, label="connect")
    assert "no regular expression" in said("log_file", path=path, label="(")
    assert "has 2 groups" in said("log_file", path=path, label="(a)(b)")
    assert "has no rows" in said("log_file", path=write("b.log", "\n \n"))
    assert own("log_file", path=write("c.log", b"caf\xe9 1\ncaf\xe9 2\n")).stream(0, 0).items.tolist() == [0, 0]


@pytest.mark.usefixtures("long_from_20")
def test_a_long_log_is_read_in_chunks(files: dict[str, str], write: Write) -> None:
    [refused, done] = outcomes(
        own("log_file", path=files["log"], dim=4), [{"name": "dp_parser"}, {"name": "dp_cache", "tau": 0.3}]
    )
    assert "`dp_parser` holds or compares all tokens" in refused.message
    assert numbers(done)["tokens"] == ROWS


GROWTH = """
import resource, sys
from models.mechanism import MECHANISMS
from tasks.evaluate import evaluate
from tasks.workload import WORKLOADS

config_class, implementation = WORKLOADS.config_class("csv_stream"), WORKLOADS.implementation("csv_stream")
memories = [MECHANISMS.config_class(name)(tau=0.4, **f) for name, f in (("dp_cache", {}), ("item_lru", {"budget": 50}))]


def peak(events):
    config = config_class(path=sys.argv[1], key="item", value="value", dim=64, events=events)
    outcomes = evaluate(implementation(config), memories, 0, 1, "float32")
    assert [outcome.metrics["tokens"] for outcome in outcomes] == [events] * 2
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


shorter = peak(70_000)
print((peak(200_000) - shorter) / 1024)
"""


@pytest.mark.slow
def test_a_longer_stream_takes_no_more_memory(write: Write) -> None:
    items = np.random.default_rng(0).integers(200, size=200_000)
    path = write("rows.csv", "item,value\n" + "".join(f"i{item},v{item % 7}\n" for item in items))
    ran = subprocess.run([sys.executable, "-c", GROWTH, path], check=True, capture_output=True, text=True)
    assert float(ran.stdout) < 20.0  # MiB; the keys of the 130,000 tokens more take 63 MiB in float64

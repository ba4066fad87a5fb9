"""Data sets are found, fetched once, and never used unverified. The network is a server on this machine."""

from __future__ import annotations

import gzip
import hashlib
import http.server
import io
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar

import pytest

from tasks import corpora, download
from tasks.catalogue import CORPORA, Archive, Corpus, Files
from tasks.corpora import CorpusError, corpus_files, open_content

FILES = {"a.csv": b"1,2\n" * 5000, "b.csv": b"caf\xc3\xa9\n"}


def zipped(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(f"tiny-1/{name}", content)
        archive.writestr("tiny-1/unused.txt", b"not asked for")
    return buffer.getvalue()


ARCHIVE = zipped(FILES)


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class Server(http.server.ThreadingHTTPServer):
    """Serves what `answers` say, one after another, the last of them for ever, and counts how often it was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: list[Callable[[http.server.BaseHTTPRequestHandler], None]] = []
        self.asked = 0
        self.paths: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/tiny-1.zip"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version: ClassVar[str] = "HTTP/1.1"

    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, Server)
        answer = server.answers[min(server.asked, len(server.answers) - 1)]
        server.asked += 1
        server.paths.append(self.path)
        answer(self)
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Keep quiet."""


def body(content: bytes, declared: int | None = None) -> Callable[[http.server.BaseHTTPRequestHandler], None]:
    def answer(request: http.server.BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Length", str(len(content) if declared is None else declared))
        request.end_headers()
        request.wfile.write(content)

    return answer


def status(code: int) -> Callable[[http.server.BaseHTTPRequestHandler], None]:
    return lambda request: request.send_error(code)


def silence(request: http.server.BaseHTTPRequestHandler) -> None:
    threading.Event().wait(0.6)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Server]:
    monkeypatch.delenv("SLOTSWEEP_DATA", raising=False)
    monkeypatch.setenv("SLOTSWEEP_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(download, "FIRST_WAIT_SECONDS", 0.01)
    with Server() as server:
        server.answers = [body(ARCHIVE)]
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def corpus(url: str, *, archive: bytes = ARCHIVE, limit_bytes: int = 1 << 20) -> Corpus:
    return Corpus(
        name="tiny",
        source=Archive(url, sha256(archive), "tiny-1/"),
        limit_bytes=limit_bytes,
        folder="group/tiny",
        files={name: sha256(content) for name, content in FILES.items()},
        terms="none",
    )


def put(folder: Path, files: dict[str, bytes]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)


def contents(paths: dict[str, Path]) -> dict[str, bytes]:
    return {name: path.read_bytes() for name, path in paths.items()}


def left_over(home: Path) -> set[str]:
    """What lies in the cache beside the corpus and its lock."""
    group = home / "data" / "group"
    return {path.name for path in group.iterdir()} - {"tiny", ".tiny.lock"}


def test_files_are_fetched_once_and_kept(server: Server, tmp_path: Path) -> None:
    paths = corpus_files(corpus(server.url))
    assert contents(paths) == FILES
    assert {path.parent for path in paths.values()} == {tmp_path / "home" / "data" / "group" / "tiny"}
    corpus_files(corpus(server.url))
    assert server.asked == 1
    assert left_over(tmp_path / "home") == set()


def test_a_given_folder_comes_first(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "given" / "group" / "tiny", FILES)
    monkeypatch.setenv("SLOTSWEEP_DATA", str(tmp_path / "given"))
    paths = corpus_files(corpus(server.url))
    assert {path.parent for path in paths.values()} == {tmp_path / "given" / "group" / "tiny"}
    assert server.asked == 0
    assert not (tmp_path / "home").exists()


def test_a_given_folder_without_the_files_is_passed_over(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "given" / "group" / "tiny", {"a.csv": FILES["a.csv"]})
    monkeypatch.setenv("SLOTSWEEP_DATA", str(tmp_path / "given"))
    assert contents(corpus_files(corpus(server.url))) == FILES
    assert server.asked == 1


def test_an_altered_file_in_a_given_folder_is_refused_and_left_alone(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "given" / "group" / "tiny"
    put(folder, {**FILES, "b.csv": b"edited"})
    monkeypatch.setenv("SLOTSWEEP_DATA", str(tmp_path / "given"))
    with pytest.raises(CorpusError, match=rf"{folder}/b.csv is not the file of tiny.*Take it from {server.url}"):
        corpus_files(corpus(server.url))
    assert (folder / "b.csv").read_bytes() == b"edited"
    assert server.asked == 0


def test_an_altered_file_in_the_cache_is_fetched_again(server: Server) -> None:
    paths = corpus_files(corpus(server.url))
    paths["a.csv"].write_bytes(b"half a fi")
    assert contents(corpus_files(corpus(server.url))) == FILES
    assert server.asked == 2


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        pytest.param(body(zipped({"a.csv": b"other"})), "altered on the way or by its publisher", id="wrong checksum"),
        pytest.param(body(b"<html>not a zip"), "altered on the way", id="a web page instead"),
        pytest.param(status(404), "the server answered 404", id="404"),
        pytest.param(status(403), "the server answered 403", id="403"),
        pytest.param(body(ARCHIVE + bytes(1 << 20)), "larger than the 1048576 bytes", id="too large"),
    ],
)
def test_what_a_second_attempt_cannot_help_is_tried_once(
    server: Server, tmp_path: Path, answer: Callable[[http.server.BaseHTTPRequestHandler], None], reason: str
) -> None:
    server.answers = [answer]
    with pytest.raises(CorpusError, match=reason) as caught:
        corpus_files(corpus(server.url))
    message = str(caught.value)
    assert server.url in message
    assert "SLOTSWEEP_DATA=FOLDER" in message
    assert "put a.csv and b.csv into FOLDER/group/tiny/" in message
    assert server.asked == 1
    assert left_over(tmp_path / "home") == set()
    assert not list((tmp_path / "home" / "data" / "group" / "tiny").iterdir())


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(body(ARCHIVE[:100], declared=len(ARCHIVE)), id="broken off"),
        pytest.param(status(503), id="503"),
        pytest.param(status(429), id="429"),
        pytest.param(silence, id="silence"),
    ],
)
def test_what_may_pass_is_tried_again(
    server: Server, monkeypatch: pytest.MonkeyPatch, failure: Callable[[http.server.BaseHTTPRequestHandler], None]
) -> None:
    monkeypatch.setattr(download, "STALL_SECONDS", 0.3)
    server.answers = [failure, failure, body(ARCHIVE)]
    assert contents(corpus_files(corpus(server.url))) == FILES
    assert server.asked == 3


def test_a_broken_transfer_ends_in_an_error_that_says_how_far_it_came(server: Server, tmp_path: Path) -> None:
    server.answers = [body(ARCHIVE[:100], declared=len(ARCHIVE))]
    with pytest.raises(CorpusError, match=rf"broke off after 100 of {len(ARCHIVE)} bytes"):
        corpus_files(corpus(server.url))
    assert server.asked == download.ATTEMPTS
    assert left_over(tmp_path / "home") == set()


def test_a_server_that_drips_is_given_up(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def drip(request: http.server.BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Length", "1000")
        request.end_headers()
        for _ in range(20):
            request.wfile.write(b"x")
            request.wfile.flush()
            threading.Event().wait(0.02)

    monkeypatch.setattr(download, "DEADLINE_SECONDS", 0.1)
    monkeypatch.setattr(download, "ATTEMPTS", 1)
    monkeypatch.setattr(download, "SLOWEST_BYTES_PER_SECOND", 1e12)
    server.answers = [drip]
    with pytest.raises(CorpusError, match=r"not complete after 0 s, in which \d+ bytes came"):
        corpus_files(corpus(server.url))


def test_a_large_file_has_the_time_that_it_takes(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """1.2 GB in 600 s would take 16 megabits a second."""
    assert download.deadline_seconds(CORPORA["minimind"].limit_bytes) > 1.2e9 / 125_000
    monkeypatch.setattr(download, "DEADLINE_SECONDS", 0.0)
    assert contents(corpus_files(corpus(server.url))) == FILES


def test_no_network_is_one_clear_message(monkeypatch: pytest.MonkeyPatch, server: Server, tmp_path: Path) -> None:
    with Server() as gone:
        url = gone.url
    with pytest.raises(
        CorpusError, match=r"cannot fetch tiny from http://127\.0\.0\.1.*refused.*Without network"
    ) as caught:
        corpus_files(corpus(url))
    assert str(tmp_path / "home" / "data" / "group" / "tiny") in str(caught.value)


def test_an_unwritable_cache_is_one_clear_message(
    monkeypatch: pytest.MonkeyPatch, server: Server, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("SLOTSWEEP_HOME", str(tmp_path / "file"))
    with pytest.raises(CorpusError, match="Not a directory"):
        corpus_files(corpus(server.url))


def test_an_archive_whose_members_differ_is_refused(server: Server) -> None:
    other = zipped({**FILES, "b.csv": b"changed"})
    server.answers = [body(other)]
    with pytest.raises(CorpusError, match=r"b\.csv has another SHA-256"):
        corpus_files(corpus(server.url, archive=other))


def slow_body(request: http.server.BaseHTTPRequestHandler) -> None:
    threading.Event().wait(0.2)
    body(ARCHIVE)(request)


def test_threads_fetch_once(server: Server) -> None:
    server.answers = [slow_body]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(corpus_files, [corpus(server.url)] * 8))
    assert all(contents(paths) == FILES for paths in found)
    assert server.asked == 1


def test_processes_fetch_once(server: Server) -> None:
    server.answers = [slow_body]
    known = corpus(server.url)
    program = (
        f"from tasks.catalogue import *\nfrom tasks.corpora import corpus_files\nprint(len(corpus_files({known!r})))"
    )
    processes = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) for _ in range(4)]
    assert [process.communicate(timeout=180)[0] for process in processes] == [b"2\n"] * 4
    assert server.asked == 1


def test_a_fetch_that_never_ends_elsewhere_is_not_waited_for_forever(
    server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from filelock import FileLock

    monkeypatch.setattr(corpora, "LOCK_SECONDS", 0.05)
    monkeypatch.setattr(corpora, "SLOWEST_BYTES_PER_SECOND", 1e12)
    (tmp_path / "home" / "data" / "group").mkdir(parents=True)
    with (
        FileLock(tmp_path / "home" / "data" / "group" / ".tiny.lock"),
        pytest.raises(CorpusError, match="another process has been fetching it"),
    ):
        corpus_files(corpus(server.url))


def served_singly(server: Server, paths: dict[str, str], files: dict[str, str | None]) -> Corpus:
    return Corpus(
        name="tiny",
        source=Files(server.url.rsplit("/", 1)[0] + "/", paths),
        limit_bytes=1 << 20,
        folder="group/tiny",
        files=files,
        terms="none",
    )


def test_files_served_one_by_one_are_unpacked_checked_and_kept(server: Server, tmp_path: Path) -> None:
    server.answers = [body(FILES["a.csv"]), body(gzip.compress(FILES["b.csv"]))]
    sums: dict[str, str | None] = {name: sha256(content) for name, content in FILES.items()}
    known = served_singly(server, {"a.csv": "a.csv", "b.csv": "deep/b.csv.gz"}, sums)
    assert contents(corpus_files(known)) == FILES
    corpus_files(known)
    assert server.paths == ["/a.csv", "/deep/b.csv.gz"]
    assert left_over(tmp_path / "home") == set()


@pytest.mark.parametrize(
    ("packed", "reason"),
    [
        pytest.param(gzip.compress(b"another"), "altered on the way", id="wrong checksum"),
        pytest.param(b"no gzip", "Not a gzipped file", id="not packed"),
        pytest.param(gzip.compress(FILES["a.csv"])[:-9], "ended before", id="cut short"),
        pytest.param(gzip.compress(bytes(2 << 20)), "larger than the 1048576 bytes", id="a bomb"),
    ],
)
def test_a_packed_file_that_is_wrong_is_refused(server: Server, tmp_path: Path, packed: bytes, reason: str) -> None:
    server.answers = [body(packed)]
    known = served_singly(server, {"a.csv": "a.csv.gz"}, {"a.csv": sha256(FILES["a.csv"])})
    with pytest.raises(CorpusError, match=reason) as caught:
        corpus_files(known)
    assert "get that and put a.csv into FOLDER/group/tiny/" in str(caught.value)
    assert f"{known.source.url}a.csv.gz: " in str(caught.value)
    assert not (tmp_path / "home" / "data" / "group" / "tiny" / "a.csv").exists()


def test_a_given_file_may_be_packed(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "given" / "group" / "tiny"
    put(folder, {"a.csv": FILES["a.csv"], "b.csv.gz": gzip.compress(FILES["b.csv"])})
    monkeypatch.setenv("SLOTSWEEP_DATA", str(tmp_path / "given"))
    paths = corpus_files(corpus(server.url))
    assert {name: open_content(path).read() for name, path in paths.items()} == FILES
    put(folder, {"b.csv.gz": gzip.compress(b"edited")})
    with pytest.raises(CorpusError, match=r"b\.csv\.gz is not the file of tiny"):
        corpus_files(corpus(server.url))
    put(folder, {"b.csv.gz": gzip.compress(FILES["b.csv"])[:-9]})
    with pytest.raises(CorpusError, match=r"b\.csv\.gz cannot be unpacked"):
        corpus_files(corpus(server.url))
    assert server.asked == 0


def test_without_a_published_checksum_the_first_use_decides(
    server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.answers = [body(b"first"), body(b"second"), body(b"first")]
    known = served_singly(server, {"a.csv": "a.csv"}, {"a.csv": None})
    paths = corpus_files(known)
    sums = tmp_path / "home" / "data" / "group" / "tiny" / "SHA256SUMS"
    assert sums.read_text() == f"{sha256(b'first')}  a.csv\n"
    assert sha256(b"first") in caplog.text
    corpus_files(known)
    assert server.asked == 1

    paths["a.csv"].write_bytes(b"altered")
    with pytest.raises(CorpusError, match=f"as when first used .*remove its line from {sums}"):
        corpus_files(known)
    assert corpus_files(known)["a.csv"].read_bytes() == b"first"
    assert server.asked == 3
    assert len(caplog.records) == 1


def test_a_given_file_without_a_published_checksum_is_remembered(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "given" / "group" / "tiny"
    put(folder, {"a.csv": b"mine"})
    monkeypatch.setenv("SLOTSWEEP_DATA", str(tmp_path / "given"))
    known = served_singly(server, {"a.csv": "a.csv"}, {"a.csv": None})
    assert corpus_files(known)["a.csv"] == folder / "a.csv"
    assert corpus_files(known)["a.csv"].read_bytes() == b"mine"
    put(folder, {"a.csv": b"other"})
    with pytest.raises(CorpusError, match="as when first used"):
        corpus_files(known)
    (tmp_path / "home" / "data" / "group" / "tiny" / "SHA256SUMS").unlink()
    assert corpus_files(known)["a.csv"].read_bytes() == b"other"
    assert server.asked == 0


def test_the_default_cache_is_below_the_working_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SLOTSWEEP_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    assert corpora.data_cache() == tmp_path / ".slotsweep" / "data"


@pytest.mark.parametrize("name", sorted(CORPORA))
def test_every_corpus_is_fully_described(name: str) -> None:
    known = CORPORA[name]
    assert known.source.url.startswith("https://")
    assert known.terms
    archive = known.source.sha256 if isinstance(known.source, Archive) else None
    for checksum in (archive, *known.files.values()):
        assert checksum is None or len(bytes.fromhex(checksum)) == 32
    if isinstance(known.source, Files):
        assert set(known.source.paths) == set(known.files)

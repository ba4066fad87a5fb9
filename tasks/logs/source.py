"""Text of a log as blocks of whole lines in UTF-8: from a file, plain or gzip, or from standard input."""

from __future__ import annotations

import gzip
import io
import re
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

BLOCK_BYTES = 1 << 18
LONGEST_LINE = 1 << 24
STDIN = Path("-")
GZIP_SIGN = b"\x1f\x8b"
UTF_8_SIGN = b"\xef\xbb\xbf"
UTF_16_SIGNS = (b"\xff\xfe", b"\xfe\xff")
MARK = "\ufeff"
PACKED = {
    "bzip2": rb"BZh[1-9]1AY&SY",
    "xz": rb"\xfd7zXZ\x00",
    "zip": rb"PK\x03\x04",
    "zstd": rb"\x28\xb5\x2f\xfd",
}
"""How files that other programs pack begin, as regular expressions."""


class LogError(ValueError):
    """A log cannot be read as asked."""


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """The bytes of `path`, unpacked, from the first on and once more after `seek(0)`; standard input for `-`.

    Raises LogError if there is no such file.
    """
    with _raw(path) as raw:
        packed = raw.read(len(GZIP_SIGN)) == GZIP_SIGN
        raw.seek(0)
        if not packed:
            yield raw
            return
        with gzip.GzipFile(fileobj=raw) as unpacked:
            yield cast("BinaryIO", unpacked)


@contextmanager
def _raw(path: Path) -> Iterator[BinaryIO]:
    if path == STDIN:
        if sys.stdin is None:
            raise LogError("standard input is closed: name a file, or give it a log")
        with _kept(sys.stdin.buffer) as kept:
            yield kept
        return
    try:
        file = path.open("rb")
    except OSError as error:
        raise LogError(f"{path}: {error.strerror or error}") from error
    with file:
        if file.seekable():
            yield file
        else:
            with _kept(file) as kept:
                yield kept


@contextmanager
def _kept(file: BinaryIO) -> Iterator[BinaryIO]:
    """The bytes of a pipe: what is read twice has to lie somewhere, and memory may be too small."""
    with tempfile.TemporaryFile() as kept:
        shutil.copyfileobj(file, kept)
        kept.seek(0)
        yield cast("BinaryIO", kept)


class Source:
    """Lines of `file`; `pattern` has a group `content` that says which part of a line counts.

    replaced: lines with bytes that are no UTF-8, in whose places U+FFFD stands; unmatched: lines, taken whole, that
    `pattern` does not match. Both as of the last reading. Text of another `encoding` is made UTF-8 as it is read.
    """

    def __init__(
        self, file: BinaryIO, name: str, pattern: re.Pattern[str] | None = None, encoding: str = "utf-8"
    ) -> None:
        self.file = file
        self.name = name
        self.pattern = pattern
        self.encoding = encoding
        self.replaced = self.unmatched = 0

    def blocks(self) -> Iterator[bytes]:
        """All lines from the first on, in blocks, each line with a newline behind it. Raises LogError."""
        self.replaced = self.unmatched = 0
        self.file.seek(0)
        for block in self._whole_lines():
            text = self._repaired(block)
            yield text if self.pattern is None else self._contents(text, self.pattern)

    def _whole_lines(self) -> Iterator[bytes]:
        rest = b""
        for chunk in self._chunks():
            cut = chunk.rfind(b"\n") + 1
            if cut:
                yield rest + chunk[:cut]
                rest = chunk[cut:]
            else:
                rest += chunk
            if len(rest) > LONGEST_LINE:
                raise LogError(f"{self.name} has a line of more than {LONGEST_LINE >> 20} MiB: is it a log?")
        if rest:
            yield rest + b"\n"

    def _chunks(self) -> Iterator[bytes]:
        try:
            if self.encoding != "utf-8":
                yield from self._recoded()
                return
            first = self.file.read(BLOCK_BYTES)
            self._check_text(first)
            yield first.removeprefix(UTF_8_SIGN)
            while chunk := self.file.read(BLOCK_BYTES):
                yield chunk
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise LogError(f"{self.name} begins as gzip and cannot be unpacked: {error}") from error
        except OSError as error:
            raise LogError(f"{self.name}: {error.strerror or error}") from error

    def _recoded(self) -> Iterator[bytes]:
        """The text as UTF-8, without a byte order mark. What is none becomes U+FFFD, and a lone surrogate a `?`."""
        text = io.TextIOWrapper(cast("io.BufferedReader", self.file), self.encoding, "replace", newline="")
        try:
            yield text.read(BLOCK_BYTES).removeprefix(MARK).encode("utf-8", "replace")
            while chunk := text.read(BLOCK_BYTES):
                yield chunk.encode("utf-8", "replace")
        except UnicodeError as error:
            raise LogError(f"{self.name} is not {self.encoding} ({error}); is that its encoding?") from error
        finally:
            text.detach()

    def _check_text(self, first: bytes) -> None:
        """Raises LogError where the file begins as what is no text in UTF-8."""
        packed = next((form for form, sign in PACKED.items() if re.match(sign, first)), None)
        if packed is not None:
            raise LogError(f"{self.name} is packed by {packed}: unpack it, or pack it by gzip")
        if first.startswith(UTF_16_SIGNS) or first.count(0) > len(first) // 4:
            raise LogError(
                f"{self.name} is UTF-16{'' if first.startswith(UTF_16_SIGNS) else ', or no text'}: "
                "`iconv -f UTF-16 -t UTF-8` makes it readable, and `encoding: utf-16` where a workload reads it"
            )

    def _repaired(self, block: bytes) -> bytes:
        try:
            block.decode()
        except UnicodeDecodeError:
            lines = [line.decode(errors="replace").encode() for line in block.split(b"\n")]
            self.replaced += sum(one != other for one, other in zip(lines, block.split(b"\n"), strict=True))
            return b"\n".join(lines)
        return block

    def _contents(self, text: bytes, pattern: re.Pattern[str]) -> bytes:
        made = io.StringIO(newline="")
        for line in text.decode().replace("\r\n", "\n").split("\n")[:-1]:
            match = pattern.match(line)
            content = None if match is None else match["content"]
            self.unmatched += content is None
            made.write(line if content is None else content)
            made.write("\n")
        return made.getvalue().encode()

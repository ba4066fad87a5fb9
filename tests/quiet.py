"""Code that must not warn."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def warnings_fail() -> Iterator[None]:
    """Warnings are errors here, but for what other tests left open: the collector comes upon that at any time."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ResourceWarning)
        yield

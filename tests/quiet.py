"""Code that must not warn."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def warnings_fail() -> Iterator[None]:
    """Warnings are errors here. What other tests left open is collected before, and warned of in vain."""
    gc.collect()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield

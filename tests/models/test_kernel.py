"""Kernels compile late, once, and anew when a part of them changes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from models.kernel import Kernel, kernel

OFFSET = 3


@kernel
def part(x: int) -> int:
    return x + OFFSET


@kernel
def other_part(x: int) -> int:
    return x - OFFSET


@kernel
def whole(x: int) -> int:
    return 2 * part(x)


def test_kernels_call_each_other() -> None:
    assert whole(4) == 14
    assert Kernel.compiled(whole) is Kernel.compiled(whole)


def test_knowing_every_mechanism_imports_no_compiler() -> None:
    script = (
        "import sys; from models.mechanism import MECHANISMS; assert MECHANISMS.names(); "
        "sys.exit(any(name in sys.modules for name in ('numba', 'scipy', 'torch', 'pandas')))"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=Path(__file__).parents[2])


def test_a_kernel_is_read_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from numba import config

    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    first, second = Kernel(whole.function), Kernel(whole.function)
    assert first(1) == second(1) == 8
    assert len(first.compiled().stats.cache_hits) == 0
    assert len(second.compiled().stats.cache_hits) == 1


@pytest.mark.parametrize(("name", "value"), [("part", other_part), ("OFFSET", 4)])
def test_a_cached_kernel_is_not_used_once_a_part_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: object
) -> None:
    from numba import config

    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    for fresh in ("part", "other_part", "whole"):
        monkeypatch.setitem(globals(), fresh, Kernel(globals()[fresh].function))
    before = globals()["whole"](1)
    monkeypatch.setitem(globals(), name, value)
    for fresh in ("part", "whole"):
        monkeypatch.setitem(globals(), fresh, Kernel(globals()[fresh].function))
    assert globals()["whole"](1) != before

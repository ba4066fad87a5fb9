"""Where numba keeps compiled kernels."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from orchestrator.settings import private_folder


def use_kernel_cache(folder: Path) -> None:
    """Keep compiled kernels in `folder`, in this process and those it starts."""
    private_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    os.environ["NUMBA_CACHE_DIR"] = str(folder)
    if "numba" in sys.modules:
        from numba.core import config

        config.CACHE_DIR = str(folder)

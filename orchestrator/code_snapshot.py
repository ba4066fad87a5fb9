"""The code a sweep runs, pinned: editing files does not change a sweep that is running.

Workers get the packages they need as one archive and unpack it into a folder named by its hash, which is put first on
their path. That also keeps a `models/` or `tasks/` in somebody's working directory from being imported instead.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.siblings import ROOT

WORKER_PACKAGES = ("models", "tasks", "workers")
EPOCH = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class CodeSnapshot:
    """An archive of source files and its hash.

    commit, dirty   of the git checkout that it was taken from, where it was: the same files may be of several commits
    """

    digest: str
    archive: bytes
    commit: str | None = field(default=None, compare=False)
    dirty: bool | None = field(default=None, compare=False)

    def unpack(self, parent: Path) -> Path:
        """The folder under `parent` with the files, unpacked now unless it is there already."""
        return unpack_code(self.archive, self.digest, str(parent))


def take_snapshot(plugins: Sequence[str] = ()) -> CodeSnapshot:
    """The worker packages as they are now, with those of `plugins` that are files (modules are installed anyway)."""
    files = {
        str(path.relative_to(ROOT)): path
        for package in WORKER_PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
    }
    files |= {Path(plugin).name: Path(plugin) for plugin in plugins if is_file(plugin)}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, path in files.items():
            archive.writestr(zipfile.ZipInfo(name, EPOCH), path.read_bytes())
    content = buffer.getvalue()
    return CodeSnapshot(hashlib.sha256(content).hexdigest()[:16], content)


def is_file(plugin: str) -> bool:
    """Whether a plug-in is given as a file rather than as a module's name."""
    return plugin.endswith(".py")


def module_name(plugin: str) -> str:
    """The module name of a plug-in, under which workers import it from the snapshot."""
    return Path(plugin).stem if is_file(plugin) else plugin


def unpack_code(archive: bytes, digest: str, parent: str) -> Path:
    """Unpack `archive` to `parent`/`digest`, once, safely against others doing the same at the same time.

    Sent to workers by value, so it uses nothing but the standard library.
    """
    import io
    import os
    import tempfile
    import zipfile
    from pathlib import Path

    folder = Path(parent) / digest
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f"{digest}-", dir=folder.parent))
        zipfile.ZipFile(io.BytesIO(archive)).extractall(scratch)
        try:
            os.rename(scratch, folder)
        except OSError:  # another process was faster
            import shutil

            shutil.rmtree(scratch)
    return folder

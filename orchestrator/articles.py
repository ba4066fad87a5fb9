"""Writing the article of a suite that asks a question: its newest sweeps, and what they say together."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.errors import ExecutorError, RequestError
from orchestrator.machines import planned
from orchestrator.newest import GONE, newest_sweep
from orchestrator.reporting import relative_link, report_input
from orchestrator.requests import SpecFile, existing_store, is_spec, member_files, spec_files, spec_path
from orchestrator.spec import SpecError, Suite, read_spec, read_suite
from orchestrator.store.states import SweepState
from tasks.article import Article, Part

if TYPE_CHECKING:
    from collections.abc import Sequence

    from orchestrator.settings import Settings
    from orchestrator.store.records import SweepRow
    from orchestrator.store.store import Store


UNFIT = re.compile(r"[^\w.-]+")
"""What of a suite's name is not for the name of a folder."""


@dataclass(frozen=True)
class Written:
    """An article, and specs of its suite of which there is no sweep."""

    path: Path
    missing: tuple[str, ...]


def names_suite(name: str) -> bool:
    """Whether `name` is a suite's, and no sweep's."""
    return is_spec(name) and read_suite(spec_path(name)) is not None


def write_article(settings: Settings, name: str, folder: Path | None) -> Written:
    """Write what the newest sweeps of the suite `name` say into `folder` (None: one of its own under SLOTSWEEP_HOME).

    Nothing is computed. Raises RequestError for a suite that asks nothing, and where it has no sweep at all.
    """
    suite = read_suite(spec_path(name))
    if suite is None or not suite.question:
        raise RequestError(
            f"an article answers a question, and the suite `{name}` asks none: add `question: ...` to it, or name a "
            "sweep"
        )
    folder = folder or settings.report_folder(f"article-{UNFIT.sub('-', suite.name).strip('.-')}")
    article = _article(existing_store(settings), settings, suite, name, folder)
    if not article.parts:
        raise RequestError(f"no sweep of `{name}` has been submitted here: `slotsweep run {name}` runs them")
    from dashboards.article import render_article

    return Written(render_article(article, folder), article.missing)


def _article(store: Store, settings: Settings, suite: Suite, name: str, folder: Path) -> Article:
    sweeps, path = store.sweeps(), spec_path(name)
    ablations = {file.path.resolve() for one in suite.ablations for file in member_files(path, one)}
    parts, missing = [], []
    for file in spec_files(name):
        part = _part(store, settings, sweeps, file, file.path.resolve() in ablations, folder)
        if part is None:
            missing.append(file.name)
        else:
            parts.append(part)
    return Article(
        name=suite.name,
        question=suite.question,
        description=suite.description,
        limits=suite.limits,
        parts=tuple(parts),
        missing=tuple(missing),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        reproduce=(f"slotsweep run {shlex.quote(name)}", f"slotsweep report {shlex.quote(name)}"),
    )


def _part(
    store: Store, settings: Settings, sweeps: Sequence[SweepRow], file: SpecFile, ablation: bool, folder: Path
) -> Part | None:
    """The newest sweep of the spec in `file` that has ended well, or else any; None where there is none."""
    try:
        plan = planned(read_spec(file.path), settings)
        found = newest_sweep(store, sweeps, plan, GONE) or newest_sweep(store, sweeps, plan, [SweepState.CANCELLED])
    except (SpecError, RequestError, ExecutorError):  # its data are gone, or the cluster whose machine it names
        found = None
    if found is None:
        return None
    row, seeds = found
    return Part(
        spec=file.name,
        about=_about(row.spec_text),
        ablation=ablation,
        report=report_input(store, row),
        link="" if row.report is None else relative_link(row.report, folder),
        remark=f"computed {seeds}" if seeds else "",
    )


def _about(spec: str) -> str:
    """The comment that a spec begins with, as text."""
    lines = []
    for line in spec.splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#").strip())
    return " ".join(filter(None, lines))

"""What the artist's process draws: asked on stdin, a JSON line each, until that ends; answered on stdout."""

from __future__ import annotations

import base64
import io
import json
import logging
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from orchestrator.client.base import Comparing
from orchestrator.client.local import LocalClient
from orchestrator.errors import NotThereError, RequestError, StoreError
from orchestrator.settings import Settings
from orchestrator.store.store import Store

if TYPE_CHECKING:
    from rich.console import RenderableType

NICENESS = 5


@dataclass(frozen=True)
class Desk:
    """What there is to draw from."""

    settings: Settings
    store: Store


Draw = Callable[..., str]
"""Takes a desk and texts; gives HTML."""


def chart(desk: Desk, sweep: str) -> str:
    """The main chart of a sweep, as its results are now."""
    from dashboards.pages.live_chart import live_chart
    from orchestrator.reporting import summary_of

    return live_chart(summary_of(desk.store, desk.store.sweep(sweep)))


def report(desk: Desk, sweep: str) -> str:
    """The path of a sweep's report, drawn now."""
    from orchestrator.reporting import write_own_report

    path, _ = write_own_report(desk.store, desk.store.sweep(sweep), desk.settings)
    desk.store.set_report(sweep, str(path))
    return str(path)


def comparison(desk: Desk, by: str, *sweeps: str) -> str:
    """What the devices or machines of one sweep, or two sweeps, made of the same trials; by: empty, device, machine."""
    from dashboards.pages.comparison import comparison_part
    from orchestrator.compare import By, compare_sweeps, sections_of

    chosen: By | None = "device" if by == "device" else "machine" if by == "machine" else None
    compared = compare_sweeps(desk.store, [desk.store.sweep(sweep) for sweep in sweeps], chosen)
    return comparison_part(sections_of(compared), "-".join(sweeps))


def certificate(desk: Desk, paper: str) -> str:
    """What the sweeps that are there say of a paper's claims."""
    from dashboards.pages.claims import certificate_part
    from orchestrator.claims import find_measurements, judge_paper, known_paper

    known = known_paper(paper)
    measurements = find_measurements(desk.store, desk.settings, known, submit=False)
    judged = judge_paper(desk.store, known, measurements, desk.settings.home, None)
    return certificate_part(judged, {name: f"/sweeps/{sweep}" for name, sweep in measurements.sweeps.items()})


def mlflow(desk: Desk, sweep: str, name: str) -> str:
    """Addresses of the run of a sweep (its id, its name) and of its trials, one a line."""
    from orchestrator.mlflow_links import run_link

    link = run_link(desk.settings, name, sweep)
    if link is None:
        raise NotThereError(f"MLflow has not heard of sweep {sweep} yet")
    return f"{link.run}\n{link.trials}"


def summary(desk: Desk, sweep: str, width: str) -> str:
    """What a sweep says so far, as text of so many columns."""
    from dashboards.terminal import summary_tables
    from orchestrator.reporting import summary_of

    return _as_text(summary_tables(summary_of(desk.store, desk.store.sweep(sweep))), int(width))


def compared(desk: Desk, asked: str, width: str) -> str:
    """A comparison (`orchestrator.client.base.Comparing` as JSON), as JSON."""
    told = LocalClient(desk.settings).compare(TypeAdapter(Comparing).validate_json(asked))
    tree = {
        "sweeps": told.sweeps,
        "agree": told.agree,
        "comparisons": told.records,
        "rows": told.rows,
        "tables": _as_text(told.tables, int(width)),
    }
    return json.dumps(tree, ensure_ascii=False)


def comparison_files(desk: Desk, asked: str) -> str:
    """A page of the comparison and the files beside it: a zip, in base 64."""
    from orchestrator.service.routes.reports import zipped

    with tempfile.TemporaryDirectory(prefix="slotsweep-comparison-") as folder:
        LocalClient(desk.settings).comparison_page(TypeAdapter(Comparing).validate_json(asked), Path(folder))
        return base64.b64encode(zipped(Path(folder))).decode()


def judged(desk: Desk, paper: str) -> str:
    """`orchestrator.service.routes.claims.Judged` as JSON."""
    from orchestrator.claims import find_measurements, judge_paper, known_paper
    from orchestrator.service.routes.claims import Judged

    known = known_paper(paper)
    measurements = find_measurements(desk.store, desk.settings, known, submit=False)
    certificate = judge_paper(desk.store, known, measurements, desk.settings.home, None)
    reports = {name: f"/sweeps/{measurements.sweeps[name]}/report/" for name in certificate.reports}
    return Judged(measurements=measurements, certificate=replace(certificate, reports=reports)).model_dump_json()


def _as_text(renderable: RenderableType, width: int) -> str:
    from rich.console import Console

    console = Console(file=io.StringIO(), width=width, highlight=False, markup=False, emoji=False)
    with console.capture() as captured:
        console.print(renderable)
    return captured.get()


DRAWINGS: Mapping[str, Draw] = {
    "chart": chart,
    "report": report,
    "comparison": comparison,
    "certificate": certificate,
    "compared": compared,
    "comparison_files": comparison_files,
    "judged": judged,
    "summary": summary,
    "mlflow": mlflow,
}


def main() -> None:
    """Draw until nobody asks any more."""
    os.nice(NICENESS)
    logging.basicConfig(level=logging.WARNING)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever a library prints is no answer
    settings = Settings.read()
    desk = Desk(settings, Store.open(settings.database_url))
    for line in sys.stdin.buffer:
        name, *arguments = json.loads(line)
        answers.write(json.dumps(_drawn(DRAWINGS[name], desk, arguments)).encode() + b"\n")
        answers.flush()


def _drawn(draw: Draw, desk: Desk, arguments: list[str]) -> tuple[str | None, str | None]:
    """HTML, or why there is none."""
    try:
        return draw(desk, *arguments), None
    except (RequestError, StoreError) as error:
        return None, str(error)
    except Exception:
        logging.exception("%s of %s could not be drawn", draw.__name__, ", ".join(arguments))
        return None, "this cannot be drawn; the service's log says why"


if __name__ == "__main__":
    main()

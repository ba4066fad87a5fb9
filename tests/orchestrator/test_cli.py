"""The command line as a user meets it: real processes, the JSON contract, exit codes."""

from __future__ import annotations

import csv
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from orchestrator.settings import Settings
from tests.orchestrator.conftest import SLOTSWEEP
from tests.orchestrator.specs import FAILING_PLUGIN, SMALL, write_small


def test_a_spec_becomes_results_and_a_report(slotsweep, tmp_path: Path) -> None:
    ran = slotsweep("run", str(write_small(tmp_path)), "--executor", "inline", "--json")
    assert ran.code == 0, ran.err
    answer = ran.json
    assert {k: answer[k] for k in ("trials", "done", "failed", "reused")} == {
        "trials": 24, "done": 24, "failed": 0, "reused": 0,
    }  # fmt: skip
    assert set(answer) == {"sweep", "trials", "done", "failed", "reused", "seconds", "report"}
    report = Path(answer["report"])
    assert report.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert (report.parent / "spec.yaml").read_text() == SMALL

    rows = json.loads(slotsweep("results", answer["sweep"], "--format", "json").out)
    assert len(rows) == 24
    first = rows[0]
    leading = ["sweep", "trial", "key", "kind", "state", "reason", "attempts", "reused", "seed", "device", "worker"]
    assert list(first)[: len(leading)] == leading
    assert first["workload.name"] == "associative_recall"
    assert first["mechanism.name"] == "full_attention"
    assert first["metrics.recall_all"] == 1.0
    assert first["hw.cpu_model"]
    dp_cache = next(row for row in rows if row["mechanism.name"] == "dp_cache")
    assert (dp_cache["mechanism.tau"], dp_cache["mechanism.similarity"]) == (0.5, 0.5)

    parsed = list(csv.DictReader(slotsweep("results", answer["sweep"], "--format", "csv").out.splitlines()))
    assert [row["key"] for row in parsed] == [row["key"] for row in rows]
    out = tmp_path / "rows.parquet"
    assert slotsweep("results", answer["sweep"], "--format", "parquet", "--out", str(out)).code == 0
    import pandas

    frame = pandas.read_parquet(out)
    assert list(frame["metrics.recall"]) == [row["metrics.recall"] for row in rows]

    table = slotsweep("results", "last")
    assert table.code == 0
    assert "dp_cache" in table.out
    [status] = slotsweep("status", answer["sweep"], "--json").json
    assert (status["state"], status["done"], status["report"]) == ("done", 24, str(report))
    assert answer["sweep"] in slotsweep("status").out


def test_the_second_run_computes_nothing_and_no_cache_computes_the_same_again(slotsweep, tmp_path: Path) -> None:
    spec = str(write_small(tmp_path))
    runs = [
        slotsweep("run", spec, "--executor", "inline", "--json", *extra)
        for extra in ((), (), ("--no-cache",), ("--set", "seeds=5"))
    ]
    assert [ran.code for ran in runs] == [0, 0, 0, 0], [ran.err for ran in runs]
    assert [ran.json["reused"] for ran in runs] == [0, 24, 0, 24]
    assert "24 of 24 reused" in runs[1].err
    rows = [json.loads(slotsweep("results", ran.json["sweep"], "--format", "json").out) for ran in runs]
    timed = ("metrics.build_us_per_token", "metrics.read_us_per_query")
    metrics = [
        {row["key"]: {k: v for k, v in row.items() if k.startswith("metrics.") and k not in timed} for row in some}
        for some in rows
    ]
    assert metrics[0] == metrics[1] == metrics[2]
    assert {key: metrics[3][key] for key in metrics[0]} == metrics[0]
    assert {row["generation"] for row in rows[2]} == {2}


def test_submit_prints_only_the_id_and_run_executes_it(slotsweep, tmp_path: Path) -> None:
    submitted = slotsweep("submit", str(write_small(tmp_path)))
    assert submitted.code == 0
    identity = submitted.out.strip()
    assert submitted.out == f"{identity}\n"
    assert slotsweep("status", identity, "--json").json[0]["state"] == "queued"
    ran = slotsweep("run", identity[:6], "--executor", "inline", "--json")
    assert (ran.code, ran.json["sweep"], ran.json["done"]) == (0, identity, 24)


def test_each_kind_of_failure_has_its_reason_and_the_rest_carry_on(slotsweep, tmp_path: Path) -> None:
    (tmp_path / "faulty_memory.py").write_text(FAILING_PLUGIN)
    (tmp_path / "spec.yaml").write_text(
        SMALL.replace("seeds: 4", "seeds: 2\nplugins: [faulty_memory.py]").replace(
            "  - {name: full_attention}",
            "  - {name: full_attention}\n  - {name: faulty, fault: {values: [raise, nan, memory, none]}}",
        )
    )
    ran = slotsweep("run", "spec.yaml", "--executor", "inline", "--json")
    assert ran.code == 1, ran.err
    assert (ran.json["done"], ran.json["failed"]) == (14, 6)
    rows = json.loads(slotsweep("results", ran.json["sweep"], "--format", "json").out)
    reasons = {row["mechanism.fault"]: row["reason"] for row in rows if row["mechanism.name"] == "faulty"}
    assert reasons == {"raise": "user_error", "nan": "not_a_number", "memory": "out_of_memory", "none": None}
    [message] = {row["message"] for row in rows if row.get("mechanism.fault") == "raise"}
    assert "ValueError: told to fail" in message
    again = slotsweep("run", "spec.yaml", "--executor", "inline", "--json")
    assert (again.code, again.json["reused"]) == (1, 14)


def test_errors_are_told_in_one_message_without_a_stack_trace(slotsweep, tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text(SMALL.replace("similarity", "tua").replace("budget", "bugdet"))
    ran = slotsweep("run", str(bad))
    assert ran.code == 2
    assert "bad.yaml:6:" in ran.err
    assert "bad.yaml:7:" in ran.err
    assert "did you mean `budget`" in ran.err
    for arguments, code, said in [
        (("run", "missing.yaml"), 2, "missing.yaml"),
        (("run", "no-such-sweep"), 2, "ready-made"),
        (("results", "zzz"), 2, "no sweep yet"),
        (("status", "last"), 2, "no sweep yet"),
        (("init", str(bad)), 2, "exists already"),
        (("list", "colours"), 2, "mechanisms"),
    ]:
        ran = slotsweep(*arguments)
        assert (ran.code, said in ran.err) == (code, True), (arguments, ran)
        assert "Traceback" not in ran.err
    assert slotsweep("status").out == slotsweep("status", "--json").out.replace("[]\n", "") == ""
    slotsweep("submit", "quick-start")
    ran = slotsweep("results", "zzz")
    assert (ran.code, "no sweep `zzz`" in ran.err) == (2, True)
    for arguments, said in [
        (("run", "quick-start", "--executor", "inline"), "/dev/null/home"),
        (("status",), "no sweep yet"),
        (("init", "/dev/null/x.yaml"), "/dev/null/x.yaml: Not a directory"),
    ]:
        ran = slotsweep(*arguments, SLOTSWEEP_HOME="/dev/null/home")
        assert said in ran.err, ran
        assert "Traceback" not in ran.err
    for uri in ("foo://bar", "file:///tmp/mlruns", "sqlite:///one.db"):
        ran = slotsweep(
            "run", "quick-start", "--json", SLOTSWEEP_TRACKING_URI=uri, SLOTSWEEP_DATABASE_URL="sqlite:///one.db"
        )
        assert (ran.code, "SLOTSWEEP_TRACKING_URI" in ran.err, ran.out) == (2, True, ""), ran
    ran = slotsweep("status", SLOTSWEEP_DATABASE_URL="postgresql://nobody@127.0.0.1:1/none?connect_timeout=2")
    assert (ran.code, "cannot open the database" in ran.err) == (3, True)


def test_validate_reports_as_json_too(slotsweep, tmp_path: Path) -> None:
    spec = write_small(tmp_path)
    assert slotsweep("validate", str(spec), "--json").json == {"valid": True, "errors": [], "trials": 24}
    spec.write_text(SMALL.replace("seeds: 4", "seeds: 0"))
    ran = slotsweep("validate", str(spec), "--json")
    assert ran.code == 2
    [error] = ran.json["errors"]
    assert error["line"] == 8


def test_validate_says_where_there_are_fewer_combinations_than_proposals(slotsweep, tmp_path: Path) -> None:
    spec = tmp_path / "grid.yaml"
    spec.write_text(
        "name: x\nkind: tuning\nworkload: {name: zipf_recall}\nmechanisms: [{name: dp_cache}, {name: h2o}]\n"
        "search: {dp_cache.tau: {low: 0.2, high: 0.6, step: 0.1}, dp_cache.keep: {choices: [first, last]},\n"
        "         h2o.budget: {low: 1, high: 30}}\n"
        "objectives: {recall: maximize}\nsampler: [grid, random]\ntrials: 20\nseeds: 6\n",
        encoding="utf-8",
    )
    said = slotsweep("validate", str(spec)).err.splitlines()
    assert said == ["dp_cache, grid: there are 10 combinations, so that grid makes no more proposals than that"]
    assert slotsweep("validate", str(spec), "--set", "trials=10").err == ""


def test_validate_says_how_many_studies_and_proposals_there_are(slotsweep, tmp_path: Path) -> None:
    spec = str(tmp_path / "tune.yaml")
    slotsweep("init", spec, "--kind", "tuning")
    assert "ok, 1 study of 40 proposals, at most 420 trials" in slotsweep("validate", spec).out
    counts = slotsweep("validate", spec, "--set", "repeats=3", "--json").json
    assert (counts["studies"], counts["proposals"], counts["trials"]) == (3, 120, 1260)
    (tmp_path / "two.yaml").write_text("suite: [tune.yaml, again.yaml]\n", encoding="utf-8")
    (tmp_path / "again.yaml").write_text(Path(spec).read_text(encoding="utf-8").replace("name: ", "name: again-", 1))
    assert "ok, 2 sweeps, 2 studies of 40 proposals, at" in slotsweep("validate", str(tmp_path / "two.yaml")).out


def test_plan_counts_and_says_what_it_does_not_know(slotsweep, tmp_path: Path) -> None:
    spec = str(write_small(tmp_path))
    plan = slotsweep("plan", spec, "--json").json
    assert {k: plan[k] for k in ("trials", "unique", "reused", "batches")} == {
        "trials": 24, "unique": 24, "reused": 0, "batches": 1,
    }  # fmt: skip
    assert plan["estimate"]["hours"] is None
    assert "unknown: no finished trial here yet of dp_cache" in plan["estimate"]["basis"]
    assert slotsweep("run", spec, "--executor", "inline").code == 0
    plan = slotsweep("plan", spec, "--set", "seeds=8", "--json").json
    assert (plan["trials"], plan["reused"]) == (48, 24)
    assert 0 < plan["estimate"]["hours"] < 1


def test_plan_tells_of_data_that_are_not_here(slotsweep, tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(
        "name: read\nkind: training\nworkload: [{name: minimind}, {name: wikitext2, length: {values: [32, 64]}}]\n"
        "mechanisms: [{name: transformer, steps: 1}]\nseeds: 1\n"
    )
    told = slotsweep("plan", "spec.yaml", SLOTSWEEP_DATA="")
    assert told.code == 0
    data = [line.split(maxsplit=1)[1] for line in told.out.splitlines() if line.startswith("  data ")]
    assert (
        "minimind is not here: with up to 1.3 GB it is fetched only where SLOTSWEEP_FETCH=minimind asks for it" in data
    )
    assert sum(line.startswith("wikitext-2 is not here: it will be fetched from https://") for line in data) == 1
    assert slotsweep("plan", "spec.yaml", "--json", SLOTSWEEP_DATA="").json["absent"] == data
    assert "  data " not in slotsweep("plan", "quick-start").out


@pytest.mark.parametrize("what", ["mechanisms", "workloads", "kinds"])
def test_lists_say_what_each_thing_is_in_a_whole_sentence(slotsweep, what: str) -> None:
    for entry in slotsweep("list", what, "--json").json:
        assert entry["summary"].endswith("."), entry
        assert entry["summary"].count("(") == entry["summary"].count(")"), entry


def test_every_ready_made_spec_plans(slotsweep, slotsweep_here) -> None:
    names = [entry["name"] for entry in slotsweep("list", "specs", "--json").json]
    assert "quick-start" in names
    for name in names:
        assert slotsweep_here("plan", name, "--json").json["trials"] > 0


def test_lists_and_schema(slotsweep) -> None:
    mechanisms = slotsweep("list", "mechanisms", "--json").json
    assert {"dp_cache", "h2o", "optimal"} <= {entry["name"] for entry in mechanisms}
    assert all(entry["summary"] and all(f["description"] for f in entry["fields"]) for entry in mechanisms)
    assert "novelty threshold" in slotsweep("list", "mechanisms").out
    assert "movielens" in slotsweep("list", "workloads").out
    assert json.loads(slotsweep("schema").out)["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_init_writes_a_spec_that_plans(slotsweep, tmp_path: Path) -> None:
    assert slotsweep("init", "first.yaml").code == 0
    assert slotsweep("plan", "first.yaml", "--json").json["trials"] > 0


NEEDED = "import typer, ruamel.yaml, numpy; from pydantic import BaseModel, TypeAdapter"
"""All that a light command may load of others, and the yardstick for what it takes itself."""

USUAL = 0.16
"""Seconds: on a machine that takes longer to load `NEEDED`, half a second is not promised."""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """As after an installation: Python keeps what it compiled, whatever this environment says."""
    return {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(tmp_path_factory.mktemp("compiled"))}


def _seconds(command: list[str], environment: dict[str, str]) -> float:
    """What a command takes; its time on the processor where other work takes turns with it there."""
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env={**os.environ, **environment}, stdout=subprocess.DEVNULL, check=True, timeout=300)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return min(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


@pytest.mark.alone
@pytest.mark.parametrize(
    ("arguments", "times"), [(("--help",), 0.6), (("validate", "quick-start"), 3.2), (("plan", "quick-start"), 3.2)]
)
def test_light_commands_answer_in_half_a_second_and_import_nothing_heavy(
    settings: Settings, compiled: dict[str, str], arguments: tuple[str, ...], times: float
) -> None:
    heavy = ("ray", "mlflow", "torch", "optuna", "numba", "scipy", "matplotlib", "pandas", "plotly", "sqlalchemy")
    code = (
        "import sys; from orchestrator.cli.app import app; app(standalone_mode=False); "
        f"print([name for name in {heavy} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, *arguments], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.stderr.strip().endswith("[]"), done.stderr
    command, needed = [*SLOTSWEEP, *arguments], [sys.executable, "-P", "-c", NEEDED]
    _seconds(command, compiled), _seconds(needed, compiled)
    ours: list[float] = []
    yardstick: list[float] = []

    def quick() -> bool:
        return min(ours) < times * min(yardstick) and (min(ours) < 0.5 or min(yardstick) > USUAL)

    while len(ours) < 3 or (len(ours) < 15 and not quick()):
        ours.append(_seconds(command, compiled))
        yardstick.append(_seconds(needed, compiled))
    assert quick(), (ours, yardstick)


def test_a_reader_that_stops_reading_is_no_error(slotsweep, tmp_path: Path) -> None:
    slotsweep("run", str(write_small(tmp_path)), "--executor", "inline")
    command = (
        f"{' '.join(repr(part) if ' ' in part else part for part in SLOTSWEEP)} results last --format csv | head -1"
    )
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("sweep,trial,key")
    assert "Traceback" not in done.stderr


def test_names_are_shown_as_they_are(slotsweep, tmp_path: Path) -> None:
    """Square brackets are no markup."""
    name = "[red]x[/red] [/nope] é 🎉"
    (tmp_path / "spec.yaml").write_text(SMALL.replace("name: small", f"name: {name!r}"))
    ran = slotsweep("run", "spec.yaml", "--executor", "inline")
    assert ran.code == 0, ran.err
    assert name in slotsweep("status").out
    terminal = subprocess.run(
        ["script", "-qec", f"{' '.join(map(repr, SLOTSWEEP))} run spec.yaml --executor inline --no-cache", "/dev/null"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert terminal.returncode == 0, terminal.stdout
    assert "[/nope]" in terminal.stdout


def test_a_plug_in_that_takes_a_name_of_ours_is_at_fault(slotsweep, tmp_path: Path) -> None:
    source = Path(__file__).parents[2] / "models" / "mechanisms" / "recency.py"
    (tmp_path / "my_recency.py").write_text(source.read_text())
    (tmp_path / "spec.yaml").write_text(SMALL + "plugins: [my_recency.py]\n")
    ran = slotsweep("validate", "spec.yaml")
    assert ran.code == 2
    assert "spec.yaml:10:11" in ran.err
    assert "my_recency.py" in ran.err
    assert "`recency`" in ran.err
    assert "Traceback" not in ran.err

"""`slotsweep claims`: judged by what has been measured and nothing else; the certificate and the JSON contract."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator.settings import Settings
from tests.orchestrator.specs import SMALL

CLOSED = "http://127.0.0.1:9"
"""A proxy that nobody answers at: no network."""

FIELDS = {"id", "where", "published", "measured", "interval", "n", "test", "verdict", "reason", "sweep"}


def verdicts(tree: dict[str, Any], prefix: str) -> dict[str, str]:
    return {claim["id"]: claim["verdict"] for claim in tree["claims"] if claim["id"].startswith(prefix)}


def test_nothing_is_judged_that_has_not_been_measured(slotsweep, settings: Settings) -> None:
    ran = slotsweep("claims", "dpcache", "--no-run", "--json")
    assert ran.code == 0, ran.err
    assert ran.json["paper"] == "dpcache"
    assert len(ran.json["claims"]) >= 60
    assert {claim["verdict"] for claim in ran.json["claims"]} == {"not measured", "not measurable here"}
    for claim in ran.json["claims"]:
        assert claim.keys() >= FIELDS
        assert claim["measured"] is None
        assert claim["reason"]
    assert slotsweep("status", "--json").json == []
    folder = settings.home / "claims" / "dpcache"
    assert {path.name for path in folder.iterdir()} >= {"certificate.html", "certificate.md", "certificate.json"}


@pytest.mark.slow
def test_a_sweep_that_ran_decides_its_claims(slotsweep, tmp_path: Path) -> None:
    ran = slotsweep("run", "dpcache/table-1", "--executor", "inline", "--json")
    assert ran.json["done"] == ran.json["trials"], ran.err
    judged = slotsweep("claims", "dpcache", "--no-run", "--json", "--out", str(tmp_path / "here"))
    table = verdicts(judged.json, "table-1/")
    assert set(table.values()) <= {"holds", "differs", "holds only if", "not measured"}
    assert table["table-1/dp-recall"] == "holds"
    assert table["table-1/dp-slots"] == "holds"
    assert table["table-1/recency-recall"] == "holds"
    assert set(verdicts(judged.json, "table-7/").values()) == {"not measured"}
    saved = json.loads((tmp_path / "here" / "certificate.json").read_text(encoding="utf-8"))
    assert [claim["verdict"] for claim in saved["claims"]] == [claim["verdict"] for claim in judged.json["claims"]]
    page = (tmp_path / "here" / "certificate.html").read_text(encoding="utf-8")
    assert f"../.slotsweep/reports/{ran.json['sweep']}/report.html" in page or ran.json["sweep"] in page


def test_another_setting_of_the_same_spec_decides_nothing(slotsweep) -> None:
    """A sweep with fewer seeds has the spec's name, and not its trials."""
    assert (
        slotsweep("run", "dpcache/table-1", "--executor", "inline", "--set", "seeds=2", "--set", "episodes=3").code == 0
    )
    judged = slotsweep("claims", "dpcache", "--no-run", "--json")
    assert set(verdicts(judged.json, "table-1/").values()) <= {"not measured", "not measurable here"}


def test_a_missing_data_set_costs_its_own_claims_alone(slotsweep, settings: Settings, tmp_path: Path) -> None:
    """Specs whose data cannot be had are left out, and their claims say what is missing; the others are judged."""
    (tmp_path / "suite.yaml").write_text("suite: [dpcache/log-parsing, dpcache/figure-9, small.yaml]", encoding="utf-8")
    (tmp_path / "small.yaml").write_text(SMALL, encoding="utf-8")
    nowhere = {"SLOTSWEEP_DATA": str(tmp_path / "nothing"), "http_proxy": CLOSED, "https_proxy": CLOSED}
    ran = slotsweep("run", "suite.yaml", "--executor", "inline", "--json", **nowhere)
    assert (ran.code, ran.json["done"]) == (1, 24), ran.err
    assert "left out dpcache/log-parsing: cannot fetch" in ran.err
    assert set(ran.json["left_out"]) == {"dpcache/log-parsing", "dpcache/figure-9"}
    assert ran.json["left_out"]["dpcache/log-parsing"].startswith("cannot fetch")


def test_a_folder_that_cannot_be_is_refused_before_anything_is_measured(slotsweep, tmp_path: Path) -> None:
    (tmp_path / "afile").write_text("", encoding="utf-8")
    ran = slotsweep("claims", "dpcache", "--out", "afile/below")
    assert ran.code == 2
    assert "no certificate can be written" in ran.err


def test_an_unknown_paper_is_refused_with_those_there_are(slotsweep) -> None:
    ran = slotsweep("claims", "dp-cache", "--no-run")
    assert ran.code == 2
    assert "papers: dpcache, triple-latent" in ran.err

"""The article of a suite: written from the store, of what is there, and honest about what is not."""

from __future__ import annotations

from pathlib import Path

from tests.orchestrator.specs import SMALL

SUITE = """\
name: which
question: Which memory recalls more?
description: Two of them, in small.
suite: [small.yaml, models.yaml, never.yaml]
ablations: [models.yaml]
limits: [Streams are short.]
"""

MODELS = """\
# Models beside memories.
# In small.

name: models
kind: training
workload: {name: mqar, pairs: 2, length: 16, vocabulary: 32}
mechanisms: [{name: transformer, width: 8, layers: 1, heads: 2, steps: 2}, {name: dp_cache}]
seeds: 2
episodes: 20
"""


def write(folder: Path) -> None:
    (folder / "small.yaml").write_text(SMALL, encoding="utf-8")
    (folder / "models.yaml").write_text(MODELS, encoding="utf-8")
    (folder / "never.yaml").write_text(SMALL.replace("name: small", "name: never"), encoding="utf-8")
    (folder / "suite.yaml").write_text(SUITE, encoding="utf-8")


def test_an_article_says_what_the_sweeps_of_a_suite_found(slotsweep, tmp_path: Path) -> None:
    write(tmp_path)
    refused = slotsweep("report", "suite.yaml")
    assert (refused.code, len(refused.err.splitlines())) == (2, 1)
    small = slotsweep("run", "small.yaml", "--executor", "inline", "--json").json
    assert slotsweep("run", "models.yaml", "--set", "seeds=3", "--executor", "inline").code == 0
    written = slotsweep("report", "suite.yaml", "--json").json
    assert written["missing"] == ["never.yaml"]
    page = Path(written["report"])
    text, html = page.with_suffix(".md").read_text(encoding="utf-8"), page.read_text(encoding="utf-8")
    assert html.startswith("<!doctype html>")
    headings = [line for line in text.splitlines() if line.startswith(("# ", "## ", "### "))]
    assert headings == [
        "# Which memory recalls more?", "## In short", "## Set-up", "## Results", "### small", "## Ablations",
        "### models", "## Limits", "## How to reproduce",
    ]  # fmt: skip
    assert "Two of them, in small." in text
    assert "30 of 30 trials in 2 sweeps have a result" in text
    assert "Models beside memories. In small." in text
    assert "Highest recall: " in text
    assert "computed from 3 seeds (0, 1, 2) instead of 2 seeds (0, 1)" in text
    for limit in ("Streams are short.", "Not run, or given up: never.yaml."):
        assert limit in text
        assert limit in html
    assert f'href="../{small["sweep"]}/report.html"' in html
    assert "slotsweep run suite.yaml\nslotsweep report suite.yaml" in text


def test_names_of_suites_stay_in_their_folder_and_ablations_may_be_suites(slotsweep, tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "inner.yaml").write_text("suite: [small.yaml]\n", encoding="utf-8")
    odd = 'name: "../../x y"\nquestion: What?\nsuite: [inner.yaml]\nablations: [inner.yaml]\n'
    (tmp_path / "my suite.yaml").write_text(odd, encoding="utf-8")
    assert slotsweep("run", "small.yaml", "--executor", "inline").code == 0
    page = Path(slotsweep("report", "my suite.yaml", "--json").json["report"])
    assert page.parent.name == "article-x-y"
    text = page.with_suffix(".md").read_text(encoding="utf-8")
    assert "## Results" not in text
    assert "## Ablations\n\n### small" in text
    assert "slotsweep run 'my suite.yaml'" in text
    assert "Nothing has been measured yet" not in page.read_text(encoding="utf-8")


def test_a_suite_without_a_question_has_no_article(slotsweep, tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "suite.yaml").write_text("suite: [small.yaml]\n", encoding="utf-8")
    refused = slotsweep("report", "suite.yaml")
    assert refused.code == 2
    assert "add `question: ...` to it" in refused.err


def test_articles_are_written_where_the_store_is(slotsweep, tmp_path: Path) -> None:
    write(tmp_path)
    refused = slotsweep("report", "suite.yaml", SLOTSWEEP_SERVER="http://127.0.0.1:1")
    assert refused.code == 2
    assert "unset SLOTSWEEP_SERVER first" in refused.err

"""Claims: every published number and statement of a paper as data, and verdicts computed from the rows of sweeps."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

from tasks.certificate import AblationJudgement, Judgement, Verdict
from tasks.claims.claim import Claim, Paper
from tasks.claims.verdict import judge

__all__ = ["PAPERS", "AblationJudgement", "Claim", "Judgement", "Paper", "Verdict", "judge", "read_claims", "sweeps_of"]

PAPERS = tuple(
    sorted(
        entry.name.removesuffix(".yaml") for entry in files("tasks.claims").iterdir() if entry.name.endswith(".yaml")
    )
)
"""Papers whose claims are known: one YAML file each beside this one."""


def read_claims(paper: str) -> Paper:
    """The claims of a paper in PAPERS. Raises ValueError for another one."""
    from ruamel.yaml import YAML

    if paper not in PAPERS:
        raise ValueError(f"no claims are known of a paper `{paper}`; papers: {', '.join(PAPERS)}")
    text = files("tasks.claims").joinpath(f"{paper}.yaml").read_text(encoding="utf-8")
    return Paper.model_validate({"name": paper, **YAML(typ="safe", pure=True).load(text)})


def sweeps_of(claims: Sequence[Claim], *, everywhere: bool = True) -> list[str]:
    """Ready-made specs that measure `claims`, in order of need.

    everywhere: only those that any machine can run. Otherwise also those of claims that name something missing, whose
    rows are judged if there are any.
    """
    names: dict[str, None] = {}
    for claim in claims:
        if claim.sweep is not None and (claim.missing is None or not everywhere):
            names[claim.sweep] = None
        if claim.ablation is not None:
            names[claim.ablation.sweep] = None
    return list(names)

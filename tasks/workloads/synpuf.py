"""DE-SynPUF: streams of diagnoses and drugs from synthetic Medicare claims."""

from __future__ import annotations

import csv
from typing import Literal

import numpy as np
from pydantic import Field, model_validator

from tasks.catalogue import CORPORA
from tasks.corpora import corpus_files, open_text
from tasks.recording import RecordedConfig, RecordedWorkload, Recording, hashed_classes, numbered
from tasks.workload import workload

EVENTS = {"condition_era": 99_637, "drug_era": 56_257, "inpatient": 667_730}
"""Most tokens of each table: eras with a known concept; ten diagnoses for each of 66,773 inpatient claims."""

DEFAULT_EVENTS = {**EVENTS, "inpatient": 150_000}

INPATIENT = "DE1_0_2008_to_2010_Inpatient_Claims_Sample_1.csv"
DIAGNOSES = tuple(f"ICD9_DGNS_CD_{number}" for number in range(1, 11))


class SynpufConfig(RecordedConfig):
    """Diagnoses or drugs in Medicare claims of 2008-2010, an item a code (arXiv 2607.09889, §3.1.7).

    The paper reads 150,000 inpatient diagnoses, 3,981 distinct.

    inpatient: every ICD-9 diagnosis of the claims of sample 1, claims in file order, diagnoses 1 to 10 of each.
    condition_era, drug_era: eras of 1,000 persons in OMOP form by start date (an era merges repeats within 30 days, so
    codes return less often); eras without a known concept are left out.

    The codes come without labels: the class of an item is a hash of its code.

    Data: CMS 2008-2010 Data Entrepreneurs' Synthetic Public Use File, public domain; fetched from cms.gov (inpatient)
    or raw.githubusercontent.com (OMOP) if SLOTSWEEP_DATA lacks it.
    """

    name: Literal["synpuf"] = "synpuf"
    table: Literal["condition_era", "drug_era", "inpatient"] = Field("condition_era", description="which events")
    events: int | None = Field(
        None, ge=1, description="tokens: the first so many; by default all eras, or 150,000 inpatient diagnoses"
    )
    classes: int = Field(16, ge=1, description="hashed classes")

    @model_validator(mode="after")
    def _enough_events(self) -> SynpufConfig:
        if self.events is not None and self.events > EVENTS[self.table]:
            raise ValueError(f"{self.table} has at most {EVENTS[self.table]:,} events; events asks for {self.events:,}")
        return self


@workload(SynpufConfig)
class Synpuf(RecordedWorkload[SynpufConfig]):
    """Recall the hashed class of the codes claimed."""

    def read(self) -> Recording:
        table = self.config.table
        codes = read_diagnoses() if table == "inpatient" else read_eras(table)
        codes = codes[: self.tokens(self.config)]
        return Recording(numbered(codes), hashed_classes(codes, self.config.classes), [len(codes)])

    @classmethod
    def corpora(cls, config: SynpufConfig) -> tuple[str, ...]:
        return ("de-synpuf-inpatient" if config.table == "inpatient" else "synpuf1k-omop",)

    @classmethod
    def tokens(cls, config: SynpufConfig) -> int:
        return config.events or DEFAULT_EVENTS[config.table]


def read_eras(table: str) -> list[str]:
    """Concepts of the eras in `table` by start date, ties in file order, without the unknown concept 0."""
    with open_text(corpus_files(CORPORA["synpuf1k-omop"])[f"{table}.tsv"]) as file:
        eras = [(concept, start) for _, _, concept, start, *_ in csv.reader(file, delimiter="\t") if concept != "0"]
    order = np.argsort([start for _, start in eras], kind="stable")
    return [eras[i][0] for i in order]


def read_diagnoses() -> list[str]:
    """ICD-9 codes of the inpatient claims, in file order."""
    with open_text(corpus_files(CORPORA["de-synpuf-inpatient"])[INPATIENT]) as file:
        return [row[field] for row in csv.DictReader(file) for field in DIAGNOSES if row[field]]

"""MIMIC-IV demo: recall the route of every drug prescribed to 100 patients."""

from __future__ import annotations

import csv
from typing import Literal

from tasks.catalogue import CORPORA
from tasks.corpora import corpus_files, open_text
from tasks.recording import RecordedConfig, RecordedWorkload, Recording, modal_classes, numbered
from tasks.workload import workload

PRESCRIPTIONS = 18_087


class MimicPrescriptionsConfig(RecordedConfig):
    """Prescriptions in file order, an item a drug, its class its commonest route (arXiv 2607.09889, §3.1.7).

    There are 18,087 events, 631 distinct drugs. A drug's route varies between prescriptions; its modal route, which
    0.865 of them name, is a label without conflict. Each patient's dates are shifted by years of their own: there is no
    order in time across patients.

    Data: Johnson et al. 2023, MIMIC-IV Clinical Database Demo 2.2, doi:10.13026/dp1f-ex47, ODbL 1.0; fetched from
    physionet.org if SLOTSWEEP_DATA lacks it.
    """

    name: Literal["mimic_prescriptions"] = "mimic_prescriptions"


@workload(MimicPrescriptionsConfig)
class MimicPrescriptions(RecordedWorkload[MimicPrescriptionsConfig]):
    """Recall the route of the drugs prescribed."""

    def read(self) -> Recording:
        with open_text(corpus_files(CORPORA["mimic-iv-demo"])["prescriptions.csv"]) as file:
            rows = list(csv.DictReader(file))
        items = numbered([row["drug"] for row in rows])
        return Recording(items, modal_classes(items, [row["route"] for row in rows]), [len(rows)])

    @classmethod
    def corpora(cls, config: MimicPrescriptionsConfig) -> tuple[str, ...]:
        return ("mimic-iv-demo",)

    @classmethod
    def tokens(cls, config: MimicPrescriptionsConfig) -> int:
        return PRESCRIPTIONS

"""Every bad spec under `bad/` gives the report beside it.

After a deliberate change of wording, write the reports anew and read the difference before committing it:

    SLOTSWEEP_WRITE_REPORTS=1 pytest tests/orchestrator/spec/test_bad_specs.py && git diff tests/orchestrator/spec/bad
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orchestrator.spec import SpecError, read_spec

BAD = Path(__file__).parent / "bad"
SPECS = sorted(path.stem for path in BAD.glob("*.yaml"))


@pytest.mark.usefixtures("fixed_registries")
@pytest.mark.parametrize("name", SPECS)
def test_report(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(BAD)
    with pytest.raises(SpecError) as caught:
        read_spec(Path(f"{name}.yaml"))
    report = caught.value.render() + "\n"
    expected = BAD / f"{name}.txt"
    if os.environ.get("SLOTSWEEP_WRITE_REPORTS"):
        expected.write_text(report, encoding="utf-8")
        pytest.skip("report written, not compared")
    assert report == expected.read_text(encoding="utf-8")


def test_every_report_belongs_to_a_spec() -> None:
    assert sorted(path.stem for path in BAD.glob("*.txt")) == SPECS
    assert len(SPECS) >= 40

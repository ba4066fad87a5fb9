"""Optuna's own plots on one page."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.tuner.live import Told
from orchestrator.tuner.mirror import MirroredStudy, MirroredTrial
from orchestrator.tuner.plots import MOST_PAIRED, study_figures, study_in_memory, write_study_page
from tasks.search import Goal, Parameter, Params
from tests.quiet import warnings_fail

TAU = Parameter("mechanism.tau", "float", 0.05, 0.95)
KEEP = Parameter("mechanism.keep", "categorical", choices=("first", "last"))
ETA = Parameter("mechanism.eta", "float", 0.0, 1.0, step=0.25, when=(("mechanism.keep", ("last",)),))
ONE, TWO = Goal({"recall": "maximize"}), Goal({"recall": "maximize", "bytes": "minimize"})
START = 1_760_000_000_000


def study(
    goal: Goal, parameters: tuple[Parameter, ...], count: int, feasible: bool = True, by_step: bool = False
) -> MirroredStudy:
    trials = []
    for number in range(count):
        params: Params = {}
        for index, one in enumerate(parameters):
            if one.is_active(params):
                grid = one.grid()
                share = (number * (index + 2) * 0.37) % 1
                params[one.name] = grid[int(share * len(grid))] if grid else one.number(0.05 + 0.9 * share)
        told = Told(
            [params[parameters[0].name], 100.0 - number][: len(goal.objectives)], {"slots": -1.0 if feasible else 1.0}
        )
        steps = {0: 0.1, 1: 0.2} if by_step else {}
        trials.append(
            MirroredTrial(number, params, Told() if number == 3 else told, START + number, START + number + 9, steps)
        )
    return MirroredStudy("dp_cache", goal, parameters, trials)


@pytest.fixture(autouse=True)
def no_warnings(capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    with warnings_fail():
        yield
    assert capfd.readouterr().err == ""


def test_one_objective() -> None:
    found = study_figures(study_in_memory(study(ONE, (TAU, KEEP, ETA), 24, by_step=True)))
    expected = ["History", "Importances", "Slices", "Contours", "Ranks", "Parallel coordinates", "Intermediate values"]
    assert list(found) == [*expected, "Timeline"]
    history = next(iter(found["History"].data))
    assert len(history.x) == 23
    assert found["History"].layout.yaxis.title.text == "recall"


def test_several_objectives_state_their_reference_point() -> None:
    found = study_figures(study_in_memory(study(TWO, (TAU, KEEP), 24)))
    assert list(found)[:3] == ["Pareto front", "Hypervolume history", "Importances of recall"]
    assert {"Slices of recall", "Contours of bytes"} <= set(found)
    title = found["Hypervolume history"].layout.title.text
    assert title.startswith("Hypervolume beyond the reference point: recall ")
    assert "bytes 102.3" in title  # 100 - 23 to 100, and a tenth of that beyond
    volumes = found["Hypervolume history"].data[0].y
    assert 0 < volumes[0] <= volumes[-1] < math.inf


def test_what_optuna_cannot_draw_is_left_out() -> None:
    assert study_figures(study_in_memory(study(ONE, (TAU,), 0))) == {}
    single = study_figures(study_in_memory(study(ONE, (TAU,), 12)))
    assert "Slices" in single
    assert not {"Contours", "Ranks", "Parallel coordinates"} & set(single)
    lonely = study_figures(study_in_memory(study(ONE, (TAU, KEEP), 1)))
    assert "History" in lonely
    assert "Importances" not in lonely
    infeasible = study_figures(study_in_memory(study(TWO, (TAU, KEEP), 12, feasible=False)))
    assert "Hypervolume history" not in infeasible


def test_only_the_most_important_parameters_are_paired() -> None:
    many = tuple(Parameter(f"mechanism.p{index}", "float", 0.0, 1.0) for index in range(7))
    found = study_figures(study_in_memory(study(ONE, many, 30)))
    assert len([axis for axis in found["Contours"].layout if axis.startswith("xaxis")]) == MOST_PAIRED**2
    assert "mechanism.p0" in str(found["Contours"].layout)


def test_plots_of_pairs_say_how_many_proposals_they_show() -> None:
    figures = study_figures(study_in_memory(study(ONE, (TAU, KEEP), 305)))
    assert {"Contours, 300 of 304 proposals", "Ranks, 300 of 304 proposals"} < set(figures)
    assert len(figures["History"].data[0].x) == 304


def test_the_page_holds_all_it_needs_once(tmp_path: Path) -> None:
    figures = study_figures(study_in_memory(study(ONE, (TAU, KEEP), 12)))
    path = tmp_path / "deep" / "study.html"
    write_study_page(figures, path, "dp_cache <tuned>")
    text = path.read_text(encoding="utf-8")
    assert text.count("plotly.js v") == 1
    assert "<h1>dp_cache &lt;tuned&gt;</h1>" in text
    assert text.count("<section>") == len(figures)
    assert 'src="http' not in text
    assert len(text) < 8e6

"""`--set path=value`."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator.spec import SpecError, read_spec

pytestmark = pytest.mark.usefixtures("fixed_registries")

TEXT = """\
name: x
kind: frontier
workload: {name: associative_recall, items: 64}
mechanisms:
  - {name: full_attention}
  - {name: h2o, budget: &b {values: [16, 32]}}
  - {name: dp_cache}
  - {name: dp_cache, tau: 0.3}
seeds: 10
"""


@pytest.mark.parametrize(
    ("override", "path", "expected"),
    [
        ("seeds=3", "seeds", (0, 1, 2)),
        ("seeds={count: 2, base: 5}", "seeds", (5, 6)),
        ("episodes = 12", "episodes", 12),
        ("episodes=", "episodes", None),
        ("description=a = b", "description", "a = b"),
        ('description="3"', "description", "3"),
        ("device=[cpu, mps]", "device", ("cpu", "mps")),
    ],
)
def test_keys_at_the_top(override: str, path: str, expected: Any) -> None:
    spec = read_spec(TEXT, [override])
    assert getattr(spec, path) == expected
    assert spec.overrides == (override,)


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("seeds=2", (7, 19)),
        ("seeds=3", (7, 19, 1)),
        ("seeds=6", (7, 19, 1, 0, 2, 3)),
        ("seeds=[4, 5]", (4, 5)),
        ("seeds={count: 2}", (0, 1)),
    ],
)
def test_a_number_of_seeds_takes_the_first_of_those_listed(override: str, expected: tuple[int, ...]) -> None:
    assert read_spec(TEXT.replace("seeds: 10", "seeds: [7, 19, 1]"), [override]).seeds == expected


@pytest.mark.parametrize("wrong", ["seeds=0", "seeds=true", "seeds=99999999999999999999"])
def test_what_is_no_number_of_seeds_stays_an_error(wrong: str) -> None:
    with pytest.raises(SpecError):
        read_spec(TEXT.replace("seeds: 10", "seeds: [7, 19, 1]"), [wrong])


@pytest.mark.parametrize(
    ("override", "budgets"),
    [
        ("mechanisms.1.budget=64", [64]),
        ("mechanisms.h2o.budget=64", [64]),
        ("mechanisms.h2o.budget={values: [1, 2, 3]}", [1, 2, 3]),
        ("mechanisms.h2o.budget.values=[4, 5]", [4, 5]),
        ("mechanisms.h2o.budget.values.0=8", [8, 32]),
        ("mechanisms.h2o={name: h2o, budget: 7}", [7]),
        ("mechanisms=[{name: h2o, budget: 9}]", [9]),
    ],
)
def test_paths_into_lists(override: str, budgets: list[int]) -> None:
    configs = read_spec(TEXT, [override]).mechanism_configs()
    assert [config.identity()["budget"] for config in configs if config.name == "h2o"] == budgets


def test_a_field_is_added_and_a_problem_of_the_file_replaced() -> None:
    spec = read_spec(TEXT.replace("seeds: 10", "seeds: 0"), ["workload.noise=0.5", "seeds=2", "seeds=4"])
    assert [config.identity()["noise"] for config in spec.workloads()] == [0.5]
    assert spec.seeds == (0, 1, 2, 3)


def test_an_alias_is_not_changed_with_its_anchor() -> None:
    text = TEXT.replace("{name: dp_cache}", "{name: h2o, window: 1, budget: *b}")
    spec = read_spec(text, ["mechanisms.1.budget.values=[64]"])
    assert [c.identity()["budget"] for c in spec.mechanism_configs() if c.name == "h2o"] == [64, 16, 32]


@pytest.mark.parametrize(
    ("override", "report"),
    [
        (
            "workload.itmes=128",
            "--set workload.itmes=128:1:10: `associative_recall` has no field `itmes`\n"
            "    1 | workload.itmes=128\n"
            "      |          ^\n"
            "  expected one of drift, items, noise, repeats, shuffled\n"
            "  did you mean `items`?",
        ),
        (
            "workload.items=many",
            "--set workload.items=many:1:16: `items` is the text `many`\n"
            "    1 | workload.items=many\n"
            "      |                ^\n"
            "  expected a whole number of at least 1",
        ),
        (
            "mechanisms.h20.budget=64",
            "--set mechanisms.h20.budget=64:1:12: `mechanisms` has no entry `h20`\n"
            "    1 | mechanisms.h20.budget=64\n"
            "      |            ^\n"
            "  expected a number from 0 to 3, or one of full_attention, h2o, dp_cache\n"
            "  did you mean `h2o`?",
        ),
        (
            "mechanisms.dp_cache.tau=0.1",
            "--set mechanisms.dp_cache.tau=0.1:1:12: several entries are named `dp_cache`\n"
            "    1 | mechanisms.dp_cache.tau=0.1\n"
            "      |            ^\n"
            "  expected one of their numbers: 2, 3",
        ),
        (
            "mechanisms.4.tau=0.1",
            "--set mechanisms.4.tau=0.1:1:12: `mechanisms` has no entry 4\n"
            "    1 | mechanisms.4.tau=0.1\n"
            "      |            ^\n"
            "  expected 0 to 3",
        ),
        (
            "worklaod.items=3",
            "--set worklaod.items=3:1:1: the spec has no `worklaod`\n"
            "    1 | worklaod.items=3\n"
            "      | ^\n"
            "  expected one of name, kind, workload, mechanisms, seeds\n"
            "  did you mean `workload`?",
        ),
        (
            "sede=3",
            "--set sede=3:1:1: unknown key `sede`\n"
            "    1 | sede=3\n"
            "      | ^\n"
            "  expected one of name, kind, description, workload, mechanisms, seeds, episodes, device, accelerator, "
            "dtype, plugins, priority, on_failure, timeout, retries\n"
            "  did you mean `seeds`?",
        ),
        (
            "seeds.count=3",
            "--set seeds.count=3:1:7: `seeds` is `10` and has no `count` in it\n"
            "    1 | seeds.count=3\n"
            "      |       ^\n"
            "  expected seeds=value",
        ),
        (
            "seeds",
            "--set seeds:1:1: no `=` in this override\n"
            "    1 | seeds\n"
            "      | ^\n"
            "  expected path=value, such as seeds=3",
        ),
        (
            "+workload.noise=0.5",
            "--set +workload.noise=0.5:1:1: `+` is not part of a path\n"
            "    1 | +workload.noise=0.5\n"
            "      | ^\n"
            "  expected path=value, such as seeds=3\n"
            "  a key that is not there is added",
        ),
        (
            "workload..noise=0.5",
            "--set workload..noise=0.5:1:10: an empty name in the path `workload..noise`\n"
            "    1 | workload..noise=0.5\n"
            "      |          ^\n"
            "  expected names with single dots between",
        ),
        (
            "seeds=[1, 2",
            "--set seeds=[1, 2:1:7: this `[` is never closed\n    1 | seeds=[1, 2\n      |       ^\n  expected `]`",
        ),
    ],
)
def test_what_is_wrong_names_the_override(override: str, report: str) -> None:
    with pytest.raises(SpecError) as caught:
        read_spec(TEXT, [override])
    assert caught.value.render() == f"{report}\n\n1 problem in the spec"


def test_problems_of_the_file_come_first_then_those_of_overrides_in_their_order() -> None:
    with pytest.raises(SpecError) as caught:
        read_spec(TEXT.replace("items: 64", "items: -1"), ["seeds=0", "workload.repeats=0", "nowhere.at=1"])
    assert [problem.place.source.name for problem in caught.value.problems] == [
        "<text>",
        "--set seeds=0",
        "--set workload.repeats=0",
        "--set nowhere.at=1",
    ]

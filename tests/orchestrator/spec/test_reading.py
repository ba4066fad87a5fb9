"""Reading specs as users write them: from files and text, with the mechanisms that exist."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.errors import RequestError
from orchestrator.spec import Spec, SpecError, canonical, from_canonical, read_spec, read_suite, starter_spec
from orchestrator.spec.files import LARGEST

HOUSE = Path(__file__).parents[3]
READY_MADE = [path for path in sorted((HOUSE / "tasks" / "specs").glob("**/*.yaml")) if read_suite(path) is None]

SKETCH = """\
name: recall-frontier
kind: frontier            # one job type
workload: {name: associative_recall, items: 64, repeats: 4, classes: 16, dim: 32, noise: 0.3}
mechanisms:
  - {name: full_attention}
  - {name: dp_cache, tau: {linspace: [0.1, 0.8, 8]}}
  - {name: h2o, budget: {values: [16, 24, 32, 48, 64, 96, 128, 192, 256]}}
seeds: 10
episodes: 300
device: any
"""


def problems(text: str) -> list[str]:
    with pytest.raises(SpecError) as caught:
        read_spec(text)
    return [f"{one.place.line}:{one.place.column}: {one.wrong}" for one in caught.value.problems]


def test_the_sketch_of_the_design() -> None:
    spec = read_spec(SKETCH)
    assert (spec.name, spec.kind, spec.episodes, spec.dtype) == ("recall-frontier", "frontier", 300, "float32")
    assert (spec.device, spec.devices) == ("any", ("any",))
    assert spec.seeds == tuple(range(10))
    assert [workload.identity()["items"] for workload in spec.workloads()] == [64]
    assert [mechanism.name for mechanism in spec.mechanism_configs()] == ["full_attention"] + ["dp_cache"] * 8 + [
        "h2o"
    ] * 9
    assert (spec.cells, spec.trials) == (18, 180)
    assert (spec.text, spec.path, spec.overrides) == (SKETCH, None, ())


def test_a_key_misspelt_three_levels_deep() -> None:
    text = SKETCH.replace("tau: {linspace", "tua: {linspace")
    with pytest.raises(SpecError) as caught:
        read_spec(text)
    assert "<text>:6:22: `dp_cache` has no field `tua`\n" in caught.value.render()
    assert "did you mean `tau`?" in caught.value.render()


def test_tau_and_similarity_together_are_an_error_once() -> None:
    text = SKETCH.replace("dp_cache, tau", "dp_cache, similarity: 0.6, tau")
    assert problems(text) == [
        "6:5: `mechanisms.1`: `tau` and `similarity` = 1 - tau are one threshold: give one of them (at tau = 0.1)"
    ]


@pytest.mark.parametrize(
    ("seeds", "expected"),
    [
        ("3", (0, 1, 2)),
        ("{count: 2, base: 7}", (7, 8)),
        ("{count: 1}", (0,)),
        ("[5, 3, 9223372036854775807]", (5, 3, 2**63 - 1)),
    ],
)
def test_seeds(seeds: str, expected: tuple[int, ...]) -> None:
    assert read_spec(SKETCH.replace("seeds: 10", f"seeds: {seeds}")).seeds == expected


def test_several_devices_and_workloads() -> None:
    text = SKETCH.replace("device: any", "device: [cpu, cuda]\ndtype: bfloat16").replace(
        "workload: {", "workload:\n  - {name: zipf_recall, items: 50}\n  - {"
    )
    spec = read_spec(text)
    assert (spec.device, spec.devices, spec.dtype) == (("cpu", "cuda"), ("cpu", "cuda"), "bfloat16")
    assert [workload.name for workload in spec.workloads()] == ["zipf_recall", "associative_recall"]
    assert spec.cells == 2 * 18 * 2


def test_anchors_and_aliases() -> None:
    text = """
name: x
kind: frontier
workload: {name: associative_recall}
mechanisms:
  - {name: h2o, budget: &budgets {values: [16, 32]}}
  - {name: recency, budget: *budgets}
seeds: 1
"""
    assert [config.identity()["budget"] for config in read_spec(text).mechanism_configs()] == [16, 32, 16, 32]


@pytest.mark.parametrize("change", ["", "\ufeff", "windows"])
def test_a_path_with_spaces_and_more_than_ascii(tmp_path: Path, change: str) -> None:
    path = tmp_path / "meine Läufe 測定.yaml"
    text = SKETCH.replace("recall-frontier", "Erinnerung für 測定")
    text = text.replace("\n", "\r\n") if change == "windows" else change + text
    path.write_bytes(text.encode())
    for source in (path, str(path)):
        spec = read_spec(source)
        assert (spec.name, spec.path) == ("Erinnerung für 測定", str(path))
    broken = tmp_path / "ein Fehler.yaml"
    broken.write_text("seeds: 0\n", encoding="utf-8")
    with pytest.raises(SpecError) as caught:
        read_spec(broken)
    assert f"{broken}:1:8: `seeds` is `0`\n" in caught.value.render()


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    large = tmp_path / "large.yaml"
    large.write_bytes(b"#" * (LARGEST + 1))
    for path, words in (
        (tmp_path / "missing.yaml", "there is no such file"),
        (large / "inside.yaml", "there is no such file"),
        (tmp_path, "this is a directory"),
        (large, f"the file has more than {LARGEST} bytes"),
    ):
        with pytest.raises(SpecError) as caught:
            read_spec(path)
        assert caught.value.render().startswith(f"{path}:1:1: {words}\n")


def test_problems_as_json() -> None:
    with pytest.raises(SpecError) as caught:
        read_spec(SKETCH.replace("seeds: 10", "sedes: 10").replace("items", "itmes"))
    tree = json.loads(json.dumps(caught.value.as_json()))
    assert [(one["file"], one["line"], one["column"]) for one in tree] == [("<text>", 3, 38), ("<text>", 8, 1)]
    assert tree[0]["message"] == "`associative_recall` has no field `itmes`"
    assert tree[0]["hint"] == "did you mean `items`?"
    assert tree[1]["text"] == "sedes: 10"


def test_an_error_travels_between_processes() -> None:
    with pytest.raises(SpecError) as caught:
        read_spec("name: x\n")
    copy = pickle.loads(pickle.dumps(caught.value))
    assert copy.render() == caught.value.render()


@pytest.mark.parametrize(
    "overrides", [(), ("seeds={count: 3, base: 7}", "device=[cpu, mps]", "workload.noise=0.30000000000000004")]
)
def test_a_saved_spec_needs_no_file(overrides: tuple[str, ...]) -> None:
    spec = read_spec(SKETCH, overrides)
    saved = json.dumps(canonical(spec), sort_keys=True)
    rebuilt = from_canonical(json.loads(saved))
    assert rebuilt == spec
    assert list(rebuilt.mechanism_configs()) == list(spec.mechanism_configs())
    assert list(rebuilt.workloads()) == list(spec.workloads())


def test_a_saved_spec_with_a_mechanism_from_elsewhere() -> None:
    tree = canonical(read_spec(SKETCH))
    tree["mechanisms"][0]["fixed"]["name"] = "from_elsewhere"
    with pytest.raises(SpecError, match="mechanism `from_elsewhere` is not installed here"):
        from_canonical(tree)


def test_a_saved_spec_with_a_field_that_is_gone() -> None:
    tree = canonical(read_spec(SKETCH))
    tree["mechanisms"][0]["fixed"]["former"] = 1
    name = tree["mechanisms"][0]["fixed"]["name"]
    with pytest.raises(
        SpecError, match=f"(?s)mechanism `{name}` has no `former` in this version.*submit its spec again"
    ):
        from_canonical(tree)


def test_the_starter_is_valid_and_explains_itself() -> None:
    text = starter_spec("frontier")
    spec = read_spec(text)
    assert isinstance(spec, Spec)
    assert spec.trials == 130
    assert all(word in text for word in ("values", "linspace", "logspace", "range", "seeds", "episodes", "device"))
    with pytest.raises(RequestError, match="no starter of kind `schooling`"):
        starter_spec("schooling")


@pytest.mark.parametrize("path", READY_MADE, ids=lambda path: path.stem)
def test_ready_made_specs(path: Path) -> None:
    assert read_spec(path).trials > 0


def test_reading_loads_nothing_heavy() -> None:
    code = (
        "import sys; from orchestrator.spec import read_spec, starter_spec; read_spec(starter_spec('frontier'));"
        "print(sorted({'numba', 'scipy', 'ray', 'torch', 'mlflow', 'optuna', 'pandas', 'matplotlib', 'sqlalchemy'}"
        " & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("model", ["H100", "M3-Max", "RTX 4090", "GeForce-RTX-4090"])
def test_a_gpu_is_named_as_people_or_ray_do(model: str) -> None:
    for device in ("cuda", "mps", "[cpu, cuda]"):
        text = SKETCH.replace("device: any", f"device: {device}\naccelerator: {model}")
        assert read_spec(text).policy.accelerator == model

"""The compose files: valid, complete, without secrets, and about files, services and variables that there are."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ruamel.yaml import YAML

from tests.docker.compose_file import (
    COMPOSE,
    FOLDER,
    LAN,
    ROOT,
    VARIABLE,
    MissingVariableError,
    example,
    fill,
    over,
    read,
    texts,
    variables,
)

README = (ROOT / "README.md").read_text(encoding="utf-8")
SECRETS = (
    "POSTGRES_PASSWORD",
    "SLOTSWEEP_DB_PASSWORD",
    "OPTUNA_DB_PASSWORD",
    "MLFLOW_DB_PASSWORD",
    "MLFLOW_ADMIN_PASSWORD",
    "MLFLOW_SECRET_KEY",
    "RAY_AUTH_TOKEN",
    "GRAFANA_ADMIN_PASSWORD",
    "PROMETHEUS_TOKEN",
)
WATCH = {
    "GRAFANA_ADMIN_PASSWORD": ("grafana", "/run.sh"),
    "PROMETHEUS_TOKEN": ("prometheus", "/bin/prometheus"),
}
"""Secrets of the profile `watch`: whose, and what its image starts."""

GIVEN = {**example(), **{name: f"secret-of-{name.lower()}" for name in SECRETS}, "LAN_ADDRESS": "192.0.2.7"}
OURS = ("mlflow", "ray-head", "worker", "worker-cuda", "service")
PUBLISHED = {"service", "mlflow", "grafana"}

STACK: dict[str, Any] = fill(read(COMPOSE), GIVEN)
SERVICES: dict[str, dict[str, Any]] = STACK["services"]


def lan(**more: str) -> dict[str, Any]:
    """Both files together, with `more` in .env."""
    given = {**GIVEN, **more}
    found: dict[str, Any] = over(fill(read(COMPOSE), given), fill(read(LAN), given))
    return found


WITH_LAN = lan()


def mistakes(tree: Any) -> list[str]:
    """What the Compose Specification's own JSON schema has to say."""
    found = files("check_jsonschema.builtin_schemas.vendor").joinpath("compose-spec.json")
    schema = json.loads(found.read_text(encoding="utf-8"))
    return [error.message for error in jsonschema.validators.validator_for(schema)(schema).iter_errors(tree)]


@pytest.mark.parametrize("path", [COMPOSE, LAN], ids=lambda path: path.name)
def test_files_keep_to_the_compose_specification(path: Path) -> None:
    for tree in (read(path), fill(read(path), GIVEN)):
        assert mistakes(tree) == []
        name = next(iter(tree["services"]))
        assert mistakes(over(tree, {"services": {name: {"comand": "x"}}})), "the schema refuses what is wrong"


def test_the_files_together_keep_to_it_too() -> None:
    assert mistakes(WITH_LAN) == []
    host = [name for name, one in WITH_LAN["services"].items() if one.get("network_mode") == "host"]
    assert {"ray-head", "worker", "worker-cuda", "service"} <= set(host)
    assert not any(WITH_LAN["services"][name].get("ports") for name in host), "the host's network publishes nothing"


def test_every_variable_is_documented_and_none_in_vain() -> None:
    asked = variables(read(COMPOSE)) | variables(read(LAN))
    assert asked == set(example())


def test_defaults_are_the_same_in_the_example() -> None:
    text = COMPOSE.read_text(encoding="utf-8") + LAN.read_text(encoding="utf-8")
    defaults = set(re.findall(r"\$\{(\w+):-([^}]*)\}", text))
    assert len(dict(defaults)) == len(defaults), "each variable has one default"
    assert {name: example()[name] for name, _ in defaults} == dict(defaults)


def test_without_secrets_nothing_starts() -> None:
    for name in SECRETS:
        assert example()[name] == "", "an example is no secret"
    for name in set(SECRETS) - set(WATCH):
        with pytest.raises(MissingVariableError, match=name):
            fill(read(COMPOSE), {**GIVEN, name: ""})
    assert STACK["secrets"]["ray_token"] == {"environment": "RAY_AUTH_TOKEN"}


@pytest.mark.parametrize(("variable", "service", "program"), [(name, *one) for name, one in WATCH.items()])
def test_what_watches_starts_with_its_secret_only(tmp_path: Path, variable: str, service: str, program: str) -> None:
    """Its profile may be off, so Compose cannot ask for the secret: the container does, as it starts."""
    [source] = SERVICES[service]["secrets"]
    assert STACK["secrets"][source] == {"environment": variable}
    secret, started = tmp_path / "secret", tmp_path / "started"
    started.write_text(f"#!/bin/sh\necho $# > {tmp_path}/arguments\n")
    started.chmod(0o755)
    here = {f"/run/secrets/{source}": str(secret), program: str(started)}
    words = [*SERVICES[service]["entrypoint"], *SERVICES[service].get("command", [])]
    for path, ours in here.items():
        words = [word.replace(path, ours) for word in words]
    for told in (None, ""):
        if told is not None:
            secret.write_text(told)
        refused = subprocess.run(words, capture_output=True, text=True)
        assert (refused.returncode, refused.stderr.strip()) == (1, f"{variable} is missing, see .env.example")
    secret.write_text("told")
    assert subprocess.run(words).returncode == 0
    assert int((tmp_path / "arguments").read_text()) == len(SERVICES[service].get("command", []))


def test_no_secret_stands_in_a_file() -> None:
    """What is named like a secret is a variable or the path of a file, and no address has a password of its own."""
    named = re.compile(r"(?i)\b\w*(?:password|secret|token)\w*(?:: |=)(?P<value>[^ {\[][^\n]*)")
    for path in [*FOLDER.glob("*.yaml"), *FOLDER.glob("grafana/*.yaml"), *FOLDER.glob("postgres/*.sql")]:
        text = re.sub(r"(?m)^\s*(#|--).*", "", path.read_text(encoding="utf-8"))
        for match in named.finditer(VARIABLE.sub("FILLED", text)):
            assert match["value"].startswith(("FILLED", "/run/secrets/")), f"{path.name}: {match[0]}"
        assert not re.search(r"://\w+:(?!FILLED)[^@/\s]+@", VARIABLE.sub("FILLED", text)), path.name


def test_secrets_are_in_nothing_but_what_needs_them() -> None:
    assert "RAY_AUTH_TOKEN" not in " ".join(texts(read(COMPOSE)["services"]))
    for name in ("worker", "worker-cuda"):
        assert not any("secret-of" in text for text in texts(SERVICES[name])), "trials see no password"
    for one in SERVICES.values():
        assert not any("secret-of" in word for word in one.get("command", [])), "everybody sees command lines"


def test_images_are_pinned() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    for name, one in SERVICES.items():
        tag = one["image"].partition(":")[2]
        if name in OURS:
            assert tag == f"{version}-{'cuda' if name == 'worker-cuda' else 'cpu'}"
            assert tag.endswith(one["build"]["args"]["VARIANT"])
        else:
            assert re.match(r"v?\d+\.\d+", tag), one["image"]


def test_only_what_people_use_is_published_and_on_loopback() -> None:
    assert {name for name, one in SERVICES.items() if "ports" in one} == PUBLISHED
    assert all(port.startswith("127.0.0.1:") for one in SERVICES.values() for port in one.get("ports", []))


def test_services_wait_for_what_they_need_and_come_back() -> None:
    for name, one in SERVICES.items():
        assert one["restart"] == "unless-stopped"
        assert one["healthcheck"]["test"][0] == "CMD"
        for other, how in one.get("depends_on", {}).items():
            assert how == {"condition": "service_healthy"}
            assert other in SERVICES
            assert not set(SERVICES[other].get("profiles", [])) - set(one.get("profiles", [])), name
    assert set(SERVICES["service"]["depends_on"]) == {"postgres", "mlflow", "ray-head"}


def test_ours_have_no_rights_beyond_a_user() -> None:
    for name in OURS:
        assert SERVICES[name]["cap_drop"] == ["ALL"]
        assert SERVICES[name]["security_opt"] == ["no-new-privileges:true"]
        assert not {"privileged", "user", "cap_add", "pid", "devices"} & set(SERVICES[name])


def test_the_head_has_nothing_to_compute_on() -> None:
    for services in (SERVICES, WITH_LAN["services"]):
        assert {"--num-cpus=0", "--num-gpus=0"} <= set(services["ray-head"]["command"])


def test_profiles_are_opt_in() -> None:
    profiles = {name: one["profiles"] for name, one in SERVICES.items() if "profiles" in one}
    assert profiles == {"worker-cuda": ["cuda"], "prometheus": ["watch"], "grafana": ["watch"]}


def test_what_is_mounted_is_there() -> None:
    for one in WITH_LAN["services"].values():
        for volume in one.get("volumes", []):
            source = volume.split(":")[0]
            if source == GIVEN["DATA_FOLDER"]:
                continue
            if source.startswith("."):
                assert (FOLDER / source).is_file(), source
                assert volume.endswith(":ro")
            else:
                assert source in STACK["volumes"]
        assert set(one.get("secrets", [])) <= set(STACK["secrets"])
        assert {config["source"] for config in one.get("configs", [])} <= set(STACK["configs"])


def test_prometheus_asks_the_service_as_the_board_and_the_alerts_expect() -> None:
    config = read(FOLDER / "prometheus.yaml")
    [job] = config["scrape_configs"]
    assert job["job_name"] == "slotsweep"
    for tree in (STACK, WITH_LAN, lan(SERVICE_PORT="9000")):
        port = tree["services"]["service"]["command"][-1]
        assert prometheus_targets(tree) == [f"service:{port}"]
    secret = job["authorization"]["credentials_file"].removeprefix("/run/secrets/")
    assert SERVICES["prometheus"]["secrets"] == [secret]
    targets = {volume.split(":")[1] for volume in SERVICES["prometheus"]["volumes"]}
    assert set(config["rule_files"]) <= targets
    rules = (ROOT / "dashboards" / "grafana" / "alerts.yaml").read_text(encoding="utf-8")
    assert set(re.findall(r'job="([^"]+)"', rules)) == {job["job_name"]}


def prometheus_targets(tree: dict[str, Any]) -> list[str]:
    """What Prometheus asks, as it finds it in its container."""
    [[path]] = [one["files"] for one in read(FOLDER / "prometheus.yaml")["scrape_configs"][0]["file_sd_configs"]]
    [source] = [one["source"] for one in tree["services"]["prometheus"]["configs"] if one["target"] == path]
    [group] = YAML(typ="safe", pure=True).load(tree["configs"][source]["content"])
    found: list[str] = group["targets"]
    return found


def test_with_another_address_everything_is_found_there() -> None:
    """Of what is in the machine's own network: MLflow's port is published at that address, and at no other."""
    tree = lan(BIND_ADDRESS="192.0.2.8", SERVICE_PORT="9000", MLFLOW_PORT="5001", GRAFANA_PORT="3001", MLFLOW_HOSTS="x")
    services = tree["services"]
    assert services["mlflow"]["ports"] == ["192.0.2.8:5001:5000"]
    assert services["service"]["environment"]["SLOTSWEEP_TRACKING_URI"] == "http://mlflow:5001"
    assert services["mlflow"]["environment"]["MLFLOW_SERVER_ALLOWED_HOSTS"].startswith("mlflow:*,")
    assert services["service"]["extra_hosts"] == ["mlflow:192.0.2.8"]
    assert services["service"]["command"][1:] == ["--host", "192.0.2.8", "--port", "9000"]
    assert "http://192.0.2.8:9000/health" in services["service"]["healthcheck"]["test"]
    assert services["prometheus"]["extra_hosts"] == ["service:192.0.2.8"]
    grafana = services["grafana"]["environment"]
    assert (grafana["GF_SERVER_HTTP_ADDR"], grafana["GF_SERVER_HTTP_PORT"]) == ("192.0.2.8", "3001")
    assert "http://192.0.2.8:3001/api/health" in services["grafana"]["healthcheck"]["test"]


def test_grafana_has_prometheus_and_the_board() -> None:
    targets = {volume.split(":")[1] for volume in SERVICES["grafana"]["volumes"]}
    [source] = read(FOLDER / "grafana" / "datasources.yaml")["datasources"]
    assert source["url"] == "http://prometheus:9090"
    assert source["type"] == "prometheus"
    [provider] = read(FOLDER / "grafana" / "boards.yaml")["providers"]
    assert f"{provider['options']['path']}/slotsweep.json" in targets


def compose_commands() -> list[str]:
    """Commands of the README that run Compose."""
    return re.findall(r"^docker compose [^#\n]+", README, re.MULTILINE)


def test_the_readme_names_services_profiles_and_files_that_there_are() -> None:
    commands = compose_commands()
    assert any(" up " in command for command in commands)
    for command in commands:
        for name in re.findall(r"(?:exec|logs -f|restart) ([\w-]+)|--scale ([\w-]+)=", command):
            assert "".join(name) in SERVICES, command
        for profile in re.findall(r"--profile (\w+)", command):
            assert any(profile in one.get("profiles", []) for one in SERVICES.values()), command
        for path in re.findall(r"-f (\S+)", command):
            assert (FOLDER / path).is_file() or path == "service", command

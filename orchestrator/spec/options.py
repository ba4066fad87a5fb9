"""The keys at the top of a spec that belong to one job type: the fields of its config."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from models.config import Config
from orchestrator.spec.validation import validate
from tasks.kind import KINDS, KindConfig


def option_names(config_class: type[Config]) -> list[str]:
    """The keys that a job type has beside those of every spec."""
    return [name for name in config_class.model_fields if name != "name"]


def kinds_with(key: str) -> list[str]:
    """The job types whose specs have `key` at the top."""
    return [name for name, config_class, _ in KINDS if key in option_names(config_class)]


def all_option_names() -> list[str]:
    """Every key that belongs to one job type or another."""
    return list(dict.fromkeys(key for _, config_class, _ in KINDS for key in option_names(config_class)))


def options_of(kind: str, fields: Mapping[str, Any]) -> KindConfig | None:
    """The options of a spec of `kind`, from its keys at the top; None where the job type has none.

    Raises pydantic's ValidationError.
    """
    config_class = KINDS.config_class(kind)
    names = option_names(config_class)
    if not names:
        return None
    options = validate(config_class, {"name": kind, **{key: fields[key] for key in names if key in fields}})
    assert isinstance(options, KindConfig)
    return options
